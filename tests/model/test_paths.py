from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from walked import Prefix, Walk, batch_of, chained, prefixes_of, random_walks, tiled

import relcode.model.paths as paths_module
from relcode.model.paths import NceRule, PathGradients, path_gradients
from relcode.ops.tiles import CpuTiles, GatheredTiles, PlainTiles
from relcode.sampling.batches import Level, PathBatch

ENTITIES, DIRECTED, D, DRAWS = 5, 4, 3, 4
RULE = NceRule(noises=3)


class Case:
    """A batch of walks with the vectors of every row, all in float64 and all different; nothing about it is symmetric."""

    def __init__(
        self, walks: list[Walk] | PathBatch, width: int = 3, empty_tiles: int = 0, seed: int = 0, size: float = 1.0, shared_by_all: bool = False
    ) -> None:
        generator = torch.Generator().manual_seed(seed)

        def gaussian(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64) * size

        self.batch = tiled(walks, width, empty_tiles) if isinstance(walks, PathBatch) else batch_of(walks, width, empty_tiles)
        self.matrix_SDD = gaussian(DIRECTED, D, D)
        self.head_TWD = gaussian(*self.batch.levels[0].source_TW.shape, D)
        self.tails = [gaussian(*level.tail_TW.shape, D) for level in self.batch.levels]
        self.noises = [gaussian(1 if shared_by_all else len(level.relation_T), DRAWS, D) for level in self.batch.levels]

    def gradients(self, rule: NceRule = RULE) -> PathGradients:
        return path_gradients(self.batch.levels, self.head_TWD, self.tails, self.noises, self.matrix_SDD, rule)

    def matrix_gradient(self, rule: NceRule = RULE) -> Tensor:
        """Return what the outer products add to the matrices, at rate 1."""
        found = self.gradients(rule)
        before = self.matrix_SDD.clone()
        for level in found.levels:
            level.tiles.add_outer_(level.before_TWD, level.pull_TWD, torch.ones(DIRECTED, dtype=torch.float64))
        change = self.matrix_SDD - before
        self.matrix_SDD = before
        return change


class Oracle:
    """Every prefix of every walk scored on its own, by plain loops, and differentiated by autograd."""

    def __init__(self, case: Case, rule: NceRule) -> None:
        scale = math.sqrt(D) / case.matrix_SDD.flatten(1).norm(dim=1)[:, None, None] if rule.normalise else 1.0
        self.matrix_SDD = (case.matrix_SDD * scale).requires_grad_()  # in force: nothing flows through the norm
        self.head_TWD = case.head_TWD.clone().requires_grad_()
        self.tails = [tail.clone().requires_grad_() for tail in case.tails]
        self.noises = [noise.clone().requires_grad_() for noise in case.noises]
        self.loss, through_chosen = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for path in prefixes_of(case.batch):
            self.loss = self.loss + self.path_loss(path, rule.noises, only=None)
            through_chosen = through_chosen + self.path_loss(path, rule.noises, only=path.chosen)
        leaves = [self.head_TWD, self.matrix_SDD, *self.tails, *self.noises]
        head, matrix, *rest = torch.autograd.grad(-self.loss, leaves, retain_graph=True)
        self.head_gradient, self.matrix_gradient = head, matrix
        self.tail_gradients, self.noise_gradients = rest[: len(self.tails)], rest[len(self.tails) :]
        if rule.one_matrix:
            (self.matrix_gradient,) = torch.autograd.grad(-through_chosen, [self.matrix_SDD])

    def path_loss(self, path: Prefix, k: int, only: int | None) -> Tensor:
        """−ln s/(k+s) − (k/K) Σ ln k/(k+s*) of one prefix; with ``only``, its other matrices are constants."""

        def row_of(way: Prefix) -> Tensor:
            t, w = way.rows[0]
            row = self.head_TWD[t, w]
            for place, relation in enumerate(way.relations):
                matrix = self.matrix_SDD[relation]
                row = row @ (matrix if only in (None, place) else matrix.detach())
            return row

        (t, w), depth = path.rows[-1], len(path.relations) - 1
        s = torch.exp(row_of(path) @ self.tails[depth][t, w])
        loss = -torch.log(s / (k + s))
        for noise in self.noises[depth][path.weighed.rows[-1][0] if len(self.noises[depth]) > 1 else 0]:
            loss = loss - k / DRAWS * torch.log(k / (k + torch.exp(row_of(path.weighed) @ noise)))
        return loss


def assert_agrees(case: Case, rule: NceRule) -> None:
    found, oracle = case.gradients(rule), Oracle(case, rule)
    close = {"rtol": 1e-9, "atol": 1e-11}
    assert found.loss.item() == pytest.approx(oracle.loss.item(), rel=1e-10)
    assert torch.allclose(found.head_TWD * case.batch.levels[0].weight_TW[..., None], oracle.head_gradient, **close)
    assert len(found.levels) == len(case.batch.levels)
    for level, tail, noise in zip(found.levels, oracle.tail_gradients, oracle.noise_gradients, strict=True):
        assert torch.allclose(level.tail_TWD, tail, **close)
        assert torch.allclose(level.noise_GKD, noise, **close)
    assert torch.allclose(case.matrix_gradient(rule), oracle.matrix_gradient, **close)


def all_triples() -> list[Walk]:
    """Every (head, directed relation, tail) there is: facts and their inverses alike."""
    return [Walk(h, ((r, t, True),)) for h in range(ENTITIES) for r in range(DIRECTED) for t in range(ENTITIES)]


def test_one_fact_worked_by_hand() -> None:
    # u = (1, 2), M = [[0, 1], [3, 0]], v = (5, 7)/37: u M = (6, 1), x = 1. One noise v* = 0: x* = 0. k = 1.
    case = Case([Walk(0, ((0, 0, True),))], width=1)
    case.head_TWD = torch.tensor([[[1.0, 2.0]]], dtype=torch.float64)
    case.matrix_SDD = torch.tensor([[[0.0, 1.0], [3.0, 0.0]]], dtype=torch.float64)
    v = torch.tensor([5.0, 7.0], dtype=torch.float64) / 37
    case.tails, case.noises = [v[None, None]], [torch.zeros(1, 1, 2, dtype=torch.float64)]
    found = case.gradients(NceRule(noises=1, normalise=False))
    pull, push = 1 / (1 + math.e), -0.5
    assert found.loss.item() == pytest.approx(math.log(1 + math.exp(-1)) + math.log(2))
    assert found.levels[0].tail_TWD.flatten().tolist() == pytest.approx([6 * pull, pull])
    assert found.levels[0].noise_GKD.flatten().tolist() == pytest.approx([6 * push, push])
    assert found.head_TWD.flatten().tolist() == pytest.approx([pull * 7 / 37, pull * 15 / 37])  # v Mᵀ = (7, 15)/37
    outer = torch.einsum("twd,twe->de", found.levels[0].before_TWD, found.levels[0].pull_TWD)
    assert outer.flatten().tolist() == pytest.approx([pull * 5 / 37, pull * 7 / 37, pull * 10 / 37, pull * 14 / 37])


def test_the_second_step_of_a_path_starts_where_the_first_one_ended() -> None:
    # e1 M1 = e2 and e2 M2 = e3: the path r1/r2 from e1 scores 1 with e3; in the other order it would score 0.
    case = Case([Walk(0, ((0, 1, True), (1, 2, False)))], width=1)
    case.matrix_SDD = torch.zeros(2, 3, 3, dtype=torch.float64)
    case.matrix_SDD[0, 0, 1] = case.matrix_SDD[1, 1, 2] = 1
    basis = torch.eye(3, dtype=torch.float64)
    case.head_TWD, case.tails = basis[0][None, None], [torch.zeros(1, 1, 3, dtype=torch.float64), basis[2][None, None]]
    case.noises = [torch.zeros(1, 1, 3, dtype=torch.float64)] * 2
    found = case.gradients(NceRule(noises=1, normalise=False))
    assert found.loss.item() == pytest.approx(2 * math.log(2) + math.log(1 + math.exp(-1)) + math.log(2))
    assert found.levels[1].tail_TWD.flatten().tolist() == pytest.approx([0, 0, 1 / (1 + math.e)])
    assert found.head_TWD.flatten().tolist() == pytest.approx([1 / (1 + math.e), 0, 0])


def test_noises_behind_another_relation_worked_by_hand() -> None:
    # e1 M1 = e2, e2 M2 = e3, e2 M3 = e1. The walk r1/r2 from e1 to e3 updates M1 and has its noise e1 behind r1/r3: both score 1. k = 1.
    case = Case([Walk(0, ((0, 1, True), (1, 2, False)))], width=1)
    first, second = case.batch.levels
    both = torch.tensor([[1.0], [0.0]])
    source = torch.zeros(2, 1, dtype=torch.long)
    case.batch = PathBatch((first, Level(torch.tensor([1, 2]), source, source, weight_TW=both, chosen_TW=0 * both, noise_TW=1 - both)))
    case.matrix_SDD = torch.zeros(3, 3, 3, dtype=torch.float64)
    case.matrix_SDD[0, 0, 1] = case.matrix_SDD[1, 1, 2] = case.matrix_SDD[2, 1, 0] = 1
    basis, none = torch.eye(3, dtype=torch.float64), torch.zeros(1, 1, 3, dtype=torch.float64)
    case.head_TWD, case.tails, case.noises = basis[0][None, None], [none, basis[[2, 2], None]], [none, basis[[0, 0], None]]
    found = case.gradients(NceRule(noises=1, normalise=False, one_matrix=True))
    pull, push = 1 / (1 + math.e), -math.e / (1 + math.e)
    assert found.loss.item() == pytest.approx(2 * math.log(2) + math.log(1 + math.exp(-1)) + math.log(1 + math.e))
    assert found.levels[1].tail_TWD.flatten().tolist() == pytest.approx([0, 0, pull, 0, 0, 0])  # at e2 M2 = e3; the chain has no tail
    assert found.levels[1].noise_GKD.flatten().tolist() == pytest.approx([0, 0, 0, push, 0, 0])  # at e2 M3 = e1; the walk has no noise
    assert found.head_TWD.flatten().tolist() == pytest.approx([pull + push, 0, 0])
    assert found.levels[0].pull_TWD.flatten().tolist() == pytest.approx([0, pull + push, 0])
    assert found.levels[1].pull_TWD.abs().max() == 0


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("width", [1, 4, 7])
def test_all_triples_in_both_directions_agree_with_the_loop(normalise: bool, width: int) -> None:
    assert_agrees(Case(all_triples(), width), replace(RULE, normalise=normalise))


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("one_matrix", [True, False])
@pytest.mark.parametrize("longest", [2, 4])
def test_every_prefix_of_every_walk_agrees_with_the_loop(normalise: bool, one_matrix: bool, longest: int) -> None:
    for seed in range(3):
        case = Case(random_walks(14, ENTITIES, DIRECTED, longest, seed), seed=seed)
        assert_agrees(case, NceRule(noises=2, normalise=normalise, one_matrix=one_matrix))


@pytest.mark.parametrize("tiles", [CpuTiles, PlainTiles, GatheredTiles])
@pytest.mark.parametrize("shared_by_all", [True, False])
@pytest.mark.parametrize("width", [1, 3])
def test_noises_behind_random_relations_agree_with_the_loop(
    width: int, shared_by_all: bool, tiles: type[PlainTiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths_module, "tiles_of", lambda matrix_SDD, relation_T, scale_S, width: tiles(matrix_SDD, relation_T, scale_S))
    for seed in (0, 1, 3):
        case = Case(chained(ENTITIES, DIRECTED, seed), width, empty_tiles=1, seed=seed, shared_by_all=shared_by_all)
        lengths = {len(path.relations) - path.chosen for path in prefixes_of(case.batch) if path.chain}
        assert lengths == {2, 3, 4}  # up to three random relations follow each other
        for normalise in (True, False):
            assert_agrees(case, replace(RULE, one_matrix=True, normalise=normalise))


@pytest.mark.parametrize("one_matrix", [True, False])
def test_noises_that_all_rows_share_agree_with_the_loop(one_matrix: bool) -> None:
    walks = random_walks(14, ENTITIES, DIRECTED, 3, seed=9)
    assert_agrees(Case(walks, empty_tiles=1, shared_by_all=True), replace(RULE, one_matrix=one_matrix))


@pytest.mark.parametrize("one_matrix", [True, False])
def test_a_relation_that_comes_twice_in_a_path(one_matrix: bool) -> None:
    steps = ((1, 0, True), (1, 2, False), (1, 1, True), (1, 3, False))
    assert_agrees(Case([Walk(0, steps), Walk(0, steps)]), replace(RULE, one_matrix=one_matrix))


@pytest.mark.parametrize("one_matrix", [True, False])
def test_empty_tiles_and_padding_change_nothing(one_matrix: bool) -> None:
    walks = random_walks(7, ENTITIES, DIRECTED, 3, seed=4)
    case = Case(walks, width=5, empty_tiles=2)
    rule = replace(RULE, one_matrix=one_matrix)
    assert_agrees(case, rule)
    found = case.gradients(rule)
    for level, gradients in zip(case.batch.levels, found.levels, strict=True):
        padding = level.weight_TW == 0
        assert padding.any()
        assert gradients.pull_TWD[padding].abs().max() == 0
        assert gradients.tail_TWD[padding].abs().max() == 0
        assert gradients.noise_GKD[padding.all(1)].abs().max() == 0  # here each tile has noises of its own


@pytest.mark.parametrize("marks", [(1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)])
def test_only_chosen_matrices_are_pulled(marks: tuple[int, ...]) -> None:
    case = Case([Walk(0, tuple((place, 1, bool(mark)) for place, mark in enumerate(marks)))], width=1)
    change = case.matrix_gradient(replace(RULE, one_matrix=True))
    assert [bool(change[place].abs().max() > 0) for place in range(3)] == [bool(mark) for mark in marks]
    assert change[3].abs().max() == 0
    assert all(case.matrix_gradient(RULE)[place].abs().max() > 0 for place in range(3))


def test_which_matrix_is_chosen_does_not_touch_vectors() -> None:
    case = Case(random_walks(9, ENTITIES, DIRECTED, 3, seed=1))
    one, every = case.gradients(replace(RULE, one_matrix=True)), case.gradients(RULE)
    assert torch.equal(one.head_TWD, every.head_TWD)
    assert torch.equal(one.loss, every.loss)
    for left, right in zip(one.levels, every.levels, strict=True):
        assert torch.equal(left.tail_TWD, right.tail_TWD)
        assert torch.equal(left.noise_GKD, right.noise_GKD)


@pytest.mark.parametrize("walks", [all_triples()[::9], random_walks(5, ENTITIES, DIRECTED, 3, seed=2), chained(ENTITIES, DIRECTED, 3, edges=9)])
def test_gradients_by_finite_differences(walks: list[Walk] | PathBatch) -> None:
    """The slopes of the function's own loss; where matrices are normalised, the norm is held constant by handing over the matrices in force."""
    case, rule, step = Case(walks), replace(RULE, normalise=False), 1e-6
    used = (case.batch.levels[0].weight_TW > 0)[..., None].expand_as(case.head_TWD).flatten()

    def slopes(value: Tensor) -> Tensor:
        found = torch.empty(value.numel(), dtype=torch.float64)
        for place in range(value.numel()):
            kept = value.view(-1)[place].item()
            value.view(-1)[place] = kept + step
            up = case.gradients(rule).loss.item()
            value.view(-1)[place] = kept - step
            found[place] = -(up - case.gradients(rule).loss.item()) / (2 * step)
            value.view(-1)[place] = kept
        return found

    close = {"rtol": 1e-5, "atol": 1e-7}
    found = case.gradients(rule)
    assert torch.allclose(found.head_TWD.flatten()[used], slopes(case.head_TWD)[used], **close)
    for tail, noise, level in zip(case.tails, case.noises, found.levels, strict=True):
        assert torch.allclose(level.tail_TWD.flatten(), slopes(tail), **close)
        assert torch.allclose(level.noise_GKD.flatten(), slopes(noise), **close)
    gradient_SDD = case.matrix_gradient(rule)
    assert torch.allclose(gradient_SDD.flatten(), slopes(case.matrix_SDD), **close)
    case.matrix_SDD *= math.sqrt(D) / case.matrix_SDD.flatten(1).norm(dim=1)[:, None, None]
    assert torch.allclose(case.matrix_gradient(RULE), case.matrix_gradient(rule), **close)


def test_normalised_gradients_do_not_feel_the_size_of_what_is_stored() -> None:
    case = Case(random_walks(9, ENTITIES, DIRECTED, 3, seed=3))
    change, head = case.matrix_gradient(), case.gradients().head_TWD
    case.matrix_SDD = case.matrix_SDD * 7
    assert torch.allclose(case.matrix_gradient(), change)
    assert torch.allclose(case.gradients().head_TWD, head)
    unlike = replace(RULE, normalise=False)
    assert not torch.allclose(case.gradients(unlike).head_TWD, head)


def test_factors_of_a_matrix_update_are_limited_and_nothing_else_is() -> None:
    case = Case(random_walks(12, ENTITIES, DIRECTED, 3, seed=5), size=2.0)
    for one_matrix in (True, False):
        free = case.gradients(replace(RULE, one_matrix=one_matrix))
        tight = case.gradients(replace(RULE, one_matrix=one_matrix, factor_limit=1.5))
        assert torch.equal(free.head_TWD, tight.head_TWD)
        for loose, bound in zip(free.levels, tight.levels, strict=True):
            assert torch.equal(loose.tail_TWD, bound.tail_TWD)
            assert torch.equal(loose.noise_GKD, bound.noise_GKD)
            for name in ("before_TWD", "pull_TWD"):
                long, short = getattr(loose, name), getattr(bound, name)
                norm = long.norm(dim=-1, keepdim=True)
                assert (norm > 1.5).any()
                assert torch.allclose(short, torch.where(norm > 1.5, long * 1.5 / norm.clamp_min(1e-30), long))


def test_a_saturated_fact_pulls_nothing() -> None:
    case = Case([Walk(0, ((0, 0, True),))], width=1)
    case.head_TWD = torch.tensor([[[10.0, 0.0, 0.0]]], dtype=torch.float64)
    case.matrix_SDD[0] = torch.eye(3)
    case.tails = [torch.tensor([[[10.0, 0.0, 0.0]]], dtype=torch.float64)]
    case.noises = [torch.tensor([[[-10.0, 0.0, 0.0]]], dtype=torch.float64)]
    found = case.gradients(replace(RULE, saturation=6.0))
    assert found.head_TWD.abs().max() == 0 and found.levels[0].tail_TWD.abs().max() == 0 and found.levels[0].noise_GKD.abs().max() == 0
    assert case.gradients().levels[0].tail_TWD.abs().max() > 0


@pytest.mark.parametrize("size", [1e9, -1e9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_scores_give_finite_gradients(size: float, dtype: torch.dtype) -> None:
    case = Case(random_walks(6, ENTITIES, DIRECTED, 3, seed=6))
    case.head_TWD = case.head_TWD * size
    case.head_TWD, case.matrix_SDD = case.head_TWD.to(dtype), case.matrix_SDD.to(dtype)
    case.tails, case.noises = [tail.to(dtype) for tail in case.tails], [noise.to(dtype) for noise in case.noises]
    found = case.gradients(NceRule(noises=3, saturation=6.0, factor_limit=8.0, one_matrix=True))
    assert torch.isfinite(found.loss) and torch.isfinite(found.head_TWD).all()
    for level in found.levels:
        for value in (level.before_TWD, level.pull_TWD, level.tail_TWD, level.noise_GKD):
            assert torch.isfinite(value).all()
            assert value.dtype == dtype
        assert level.before_TWD.norm(dim=-1).max() <= 8.001


@pytest.mark.parametrize("place", ["head", "tail", "noise", "matrix"])
def test_a_nan_reaches_the_loss(place: str) -> None:
    case = Case(random_walks(4, ENTITIES, DIRECTED, 2, seed=7), width=2)
    path = prefixes_of(case.batch)[0]
    t, w = path.rows[0]
    rows = {"head": case.head_TWD[t, w], "tail": case.tails[0][t, w], "noise": case.noises[0][t, 0], "matrix": case.matrix_SDD[path.relations[0], 0]}
    rows[place].fill_(math.nan)
    assert not torch.isfinite(case.gradients(replace(RULE, saturation=6.0, factor_limit=8.0)).loss)


@pytest.mark.parametrize("version", [PlainTiles, GatheredTiles])
@pytest.mark.parametrize("one_matrix", [True, False])
def test_all_versions_of_the_products_agree(version: type[PlainTiles], one_matrix: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case, rule = Case(random_walks(20, ENTITIES, DIRECTED, 3, seed=8)), replace(RULE, one_matrix=one_matrix)
    fast, fast_change = case.gradients(rule), case.matrix_gradient(rule)
    monkeypatch.setattr(paths_module, "tiles_of", lambda matrix_SDD, relation_T, scale_S, width: version(matrix_SDD, relation_T, scale_S))
    plain, plain_change = case.gradients(rule), case.matrix_gradient(rule)
    assert type(plain.levels[0].tiles) is version is not type(fast.levels[0].tiles)
    assert torch.allclose(plain_change, fast_change)
    assert torch.allclose(plain.head_TWD, fast.head_TWD)
    assert plain.loss.item() == pytest.approx(fast.loss.item())
