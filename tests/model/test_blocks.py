"""Gradients block by block against those of all rows at once."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from walked import Walk, batch_of, chained, random_walks, tiled

import relcode.model.blocks as blocks_module
from relcode.model.blocks import block_gradients, blocks_of
from relcode.model.paths import NceRule, PathGradients, path_gradients
from relcode.ops.room import Room
from relcode.sampling.batches import PathBatch

ENTITIES, DIRECTED, D, DRAWS = 6, 5, 3, 4
RULE = NceRule(noises=3, curves=False)


def covered(rows: int, groups: int) -> list[tuple[int, int]]:
    """Return each row with the group it is scored against, as the blocks have them."""
    each = rows // groups
    found = []
    for block in blocks_of(rows, groups):
        here, there = range(rows)[block.rows], range(groups)[block.groups]
        assert len(there) == 1 or len(here) == each * len(there)
        found += [(row, there[0] if len(there) == 1 else there[place // each]) for place, row in enumerate(here)]
    return found


@pytest.mark.parametrize(
    ("rows", "groups"), [(1, 1), (8, 2), (512, 1), (513, 1), (1300, 1), (2048, 2), (2100, 3), (1024, 16), (1030, 103), (4096, 64)]
)
def test_every_row_is_in_one_block_with_its_own_noises(rows: int, groups: int) -> None:
    assert covered(rows, groups) == [(row, row // (rows // groups)) for row in range(rows)]
    assert [block.place for block in blocks_of(rows, groups)] == list(range(len(blocks_of(rows, groups))))
    assert max(block.rows.stop - block.rows.start for block in blocks_of(rows, groups)) <= blocks_module.BLOCK


def test_no_rows_make_no_block() -> None:
    assert blocks_of(0, 1) == blocks_of(0, 4) == []


class Case:
    """Walks over tables of vectors, with noises for every tile or for all rows; float64, and nothing is symmetric."""

    def __init__(self, walks: list[Walk] | PathBatch, width: int = 3, empty_tiles: int = 1, by_tile: bool = True) -> None:
        generator = torch.Generator().manual_seed(5)

        def gaussian(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.batch = tiled(walks, width, empty_tiles) if isinstance(walks, PathBatch) else batch_of(walks, width, empty_tiles)
        for level in self.batch.levels:
            for name in ("weight_TW", "chosen_TW", "noise_TW"):
                object.__setattr__(level, name, getattr(level, name).double())
        self.head_ED, self.tail_ED, self.matrix_SDD = gaussian(ENTITIES, D), gaussian(ENTITIES, D), gaussian(DIRECTED, D, D)
        groups = [len(level.relation_T) if by_tile else 1 for level in self.batch.levels]
        self.noises = [torch.randint(ENTITIES, (count, DRAWS), generator=generator) for count in groups]

    def plain(self, rule: NceRule) -> PathGradients:
        levels = self.batch.levels
        tails, others = [self.tail_ED[level.tail_TW] for level in levels], [self.tail_ED[noise_GK] for noise_GK in self.noises]
        return path_gradients(levels, self.head_ED[levels[0].source_TW], tails, others, self.matrix_SDD, rule)

    def fast(self, rule: NceRule, room: Room | None = None) -> PathGradients:
        return block_gradients(self.batch.levels, self.head_ED, self.tail_ED, self.noises, self.matrix_SDD, rule, room or Room())


def tensors(found: PathGradients) -> list[Tensor]:
    each = [(level.before_TWD, level.pull_TWD, level.tail_TWD, level.noise_GKD) for level in found.levels]
    return [found.loss, found.head_TWD, *(tensor for level in each for tensor in level)]


def assert_same(found: PathGradients, expected: PathGradients) -> None:
    for one, other in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(one, other)


SINGLE = [Walk(h, ((r, t, True),)) for h in range(ENTITIES) for r in range(DIRECTED) for t in range(ENTITIES)]
RULES = {
    "as the recipes": RULE,
    "one matrix": replace(RULE, one_matrix=True),
    "limits": replace(RULE, one_matrix=True, saturation=1.0, factor_limit=0.7),
    "not normalised": replace(RULE, normalise=False),
}


@pytest.mark.parametrize("by_tile", [True, False])
@pytest.mark.parametrize("block", [2, 7, 512])
@pytest.mark.parametrize("rule", RULES)
def test_walks_agree_with_the_plain_version(rule: str, block: int, by_tile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK", block)
    case = Case(random_walks(30, ENTITIES, DIRECTED, 4, seed=2), by_tile=by_tile)
    assert_same(case.fast(RULES[rule]), case.plain(RULES[rule]))


@pytest.mark.parametrize("by_tile", [True, False])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_noises_behind_random_relations_agree_with_the_plain_version(rule: str, width: int, by_tile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK", 7)
    case = Case(chained(ENTITIES, DIRECTED - 1, seed=2), width, by_tile=by_tile)
    assert any(not torch.equal(level.noise_TW, level.weight_TW) for level in case.batch.levels)
    assert_same(case.fast(RULES[rule]), case.plain(RULES[rule]))


@pytest.mark.parametrize("width", [1, 4])
def test_all_triples_agree_with_the_plain_version(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK", 16)
    case = Case(SINGLE, width=width, by_tile=False)
    assert_same(case.fast(RULE), case.plain(RULE))


def test_room_of_another_batch_leaves_nothing_behind() -> None:
    room, rule = Room(), replace(RULE, one_matrix=True)
    Case(random_walks(40, ENTITIES, DIRECTED, 4, seed=3)).fast(rule, room)
    case = Case(random_walks(9, ENTITIES, DIRECTED, 3, seed=4))
    assert_same(case.fast(rule, room), case.plain(rule))


def test_rows_that_come_from_one_row_add_up() -> None:
    case = Case([Walk(0, ((1, 2, True), (3, 4, True))), Walk(0, ((1, 2, True), (0, 5, False)))], width=2, empty_tiles=0)
    case.batch.levels[1].source_TW.zero_()  # both second steps grow from the first row
    rule = replace(RULE, one_matrix=True)
    assert_same(case.fast(rule), case.plain(rule))


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK", 4)
    case, before, results = Case(random_walks(60, ENTITIES, DIRECTED, 4, seed=6)), torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(tensors(case.fast(replace(RULE, one_matrix=True))))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for result in results[1:] for one, other in zip(results[0], result, strict=True))


@pytest.mark.parametrize("size", [1e9, math.nan])
def test_large_and_missing_numbers_reach_the_loss_as_in_the_plain_version(size: float) -> None:
    case = Case(SINGLE, by_tile=False)
    case.head_ED[0] = size
    assert case.fast(RULE).loss.item() == pytest.approx(case.plain(RULE).loss.item(), nan_ok=True)
