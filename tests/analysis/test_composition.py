from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from relcode.analysis.composition import (
    NOTHING_LEFT_OUT,
    composition_ranks,
    cosine_blocks,
    evaluate_compositions,
    join_sizes,
    joined_pairs,
    nearest,
    target_ranks,
)
from relcode.errors import NotFinite
from relcode.graph.compositions import FILTERS, Composition, PairIndex, path_keys
from relcode.graph.compositions.pairs import steps
from relcode.graph.dataset import Dataset
from relcode.graph.vocab import Vocab

D = 8
NAMES = Vocab(["a", "b", "ab", "ba", "other"], "relation")
R = len(NAMES)
A, B, AB, BA, OTHER = range(R)


def rotations(count: int, size: int = D, seed: int = 0) -> Tensor:
    """Return random orthogonal matrices, which do not commute."""
    return torch.linalg.qr(torch.randn(count, size, size, generator=torch.Generator().manual_seed(seed)))[0]


@pytest.fixture
def matrices() -> Tensor:
    """Matrices of a, b, ab = a·b, ba = b·a, other, and their inverses, which for rotations are the transposes."""
    a, b, other = rotations(3)
    named = torch.stack([a, b, a @ b, b @ a, other])
    return torch.cat([named, named.transpose(1, 2)])


def triple(first: int, second: int, third: int) -> Tensor:
    return torch.tensor([[first, second, third]])


def test_known_compositions_rank_first_in_their_own_order(matrices: Tensor) -> None:
    # r1/r2 is first r1, then r2: M_1 M_2. With the orders confused ab and ba would change places.
    for first, second, third, other in [(A, B, AB, BA), (B, A, BA, AB)]:
        rank, cosine = composition_ranks(matrices, triple(first, second, third))
        assert rank.item() == 1 and cosine.item() == pytest.approx(1, abs=1e-5)
        assert composition_ranks(matrices, triple(first, second, other))[0].item() > 1


def test_inverses_compose_in_the_other_order(matrices: Tensor) -> None:
    for first, second, third in [(B + R, A + R, AB + R), (AB, B + R, A), (A + R, AB, B), (A + R, B + R, BA + R)]:
        assert composition_ranks(matrices, triple(first, second, third))[0].item() == 1
    assert composition_ranks(matrices, triple(A + R, B + R, AB + R))[0].item() > 1


def test_cosines_are_those_of_a_plain_loop() -> None:
    matrix_SDD = torch.randn(6, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pair_X2 = torch.cartesian_prod(torch.arange(6), torch.arange(6))
    cosine_XS = torch.cat([block for _, block in cosine_blocks(matrix_SDD, pair_X2)])
    for (first, second), row in zip(pair_X2.tolist(), cosine_XS.tolist(), strict=True):
        product = matrix_SDD[first].numpy() @ matrix_SDD[second].numpy()
        for third in range(6):
            target = matrix_SDD[third].numpy()
            expected = (product * target).sum() / math.sqrt((product**2).sum() * (target**2).sum())
            assert row[third] == pytest.approx(expected, abs=1e-12)


def test_blocks_do_not_matter(matrices: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    pair_X2 = torch.cartesian_prod(torch.arange(2 * R), torch.arange(2 * R))
    whole = nearest(matrices, pair_X2, 3)
    monkeypatch.setattr("relcode.analysis.composition.BLOCK_NUMBERS", 3 * D * D)
    blocks = [part for part, _ in cosine_blocks(matrices, pair_X2)]
    assert blocks[0] == slice(0, 3) and blocks[-1].stop == len(pair_X2)
    torch.testing.assert_close(nearest(matrices, pair_X2, 3).cosine_XT, whole.cosine_XT)


def test_where_relations_are_more_than_a_matrix_has_numbers_their_cosines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix_SDD = torch.randn(20, D, 2, generator=torch.Generator().manual_seed(0))  # of blocks of 2: 16 numbers each, and 20 cosines
    monkeypatch.setattr("relcode.analysis.composition.BLOCK_NUMBERS", 64)
    found = [cosine_BS for _, cosine_BS in cosine_blocks(matrix_SDD, torch.cartesian_prod(torch.arange(2), torch.arange(4)))]
    assert [cosine_BS.shape for cosine_BS in found] == [(3, 20), (3, 20), (2, 20)]


def test_the_size_of_a_matrix_does_not_matter(matrices: Tensor) -> None:
    scaled = matrices * torch.linspace(1e-3, 1e3, 2 * R)[:, None, None]
    found, expected = (composition_ranks(each, triple(A, B, AB))[1] for each in (scaled, matrices))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # float32 cosines, whatever the order a processor adds in


def test_ties_count_half_and_zero_matrices_are_nobodys_neighbours(matrices: Tensor) -> None:
    assert target_ranks(torch.tensor([[0.5, 0.5, 0.9, 0.5]]), torch.tensor([1])).tolist() == [1 + 1 + 2 / 2]
    assert target_ranks(torch.tensor([[0.1, 0.2]]), torch.tensor([0])).tolist() == [2]
    # Every matrix zero: all tie, and the rank is the middle one, not the first.
    assert composition_ranks(torch.zeros(2 * R, D, D), triple(A, B, AB))[0].item() == (2 * R + 1) / 2


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_matrix_that_is_not_finite_is_an_error_never_a_rank(matrices: Tensor, bad: float) -> None:
    matrices[OTHER, 0, 0] = bad
    with pytest.raises(NotFinite):
        composition_ranks(matrices, triple(A, B, AB))


def test_report_by_hand(matrices: Tensor) -> None:
    compositions = [Composition(A, B, AB, 50, 60, 70), Composition(B, A, BA, 50, 60, 70)]
    report = evaluate_compositions(matrices, compositions, torch.Generator().manual_seed(0), draws=50)
    assert (report.mr, report.mrr) == (1, 1)
    assert report.chance_mr == 5.5
    assert report.chance_mrr == pytest.approx(sum(1 / n for n in range(1, 11)) / 10)
    assert report.random_mr > 2  # a random M_2 is the right one a tenth of the time
    assert report.random_rank_WN.shape == (50, 2)
    tree = report.to_json()
    assert tree["n"] == 2 and tree["draws"] == 50 and tree["mr"] == 1
    assert report.table(NAMES)["r3"].to_pylist() == ["ab", "ba"]


def test_the_random_baseline_is_its_own_loop() -> None:
    matrices = torch.randn(2 * R, D, D, generator=torch.Generator().manual_seed(2))  # rotations tie, up to rounding
    compositions = [Composition(A, B, AB, 1, 1, 1), Composition(AB, B + R, A, 1, 1, 1)]
    report = evaluate_compositions(matrices, compositions, torch.Generator().manual_seed(3), draws=2)
    stream = torch.Generator().manual_seed(3)
    for row in range(2):
        drawn = torch.randint(2 * R, (2,), generator=stream).tolist()
        for place, (one, second) in enumerate(zip(compositions, drawn, strict=True)):
            assert report.random_rank_WN[row, place] == composition_ranks(matrices, triple(one.r1, second, one.r3))[0].item()


def test_an_empty_list_has_no_figures(matrices: Tensor) -> None:
    report = evaluate_compositions(matrices, [], torch.Generator())
    assert math.isnan(report.mr) and report.to_json()["mrr"] is None
    assert report.table(NAMES).num_rows == 0


def test_nearest_leaves_out_what_the_filter_drops(matrices: Tensor) -> None:
    pair_X2 = torch.tensor([[AB, B + R]])  # ab/^b is a; the others that matter are ab and ^b themselves, and their inverses
    assert nearest(matrices, pair_X2, 1).relation_XT.tolist() == [[A]]
    for name, dropped in [("all", set()), ("not-same", {AB, B + R}), ("not-inverse", {AB, B, AB + R, B + R})]:
        found = nearest(matrices, pair_X2, 2 * R, FILTERS[name])
        listed = [number for number in found.relation_XT[0].tolist() if number >= 0]
        assert set(listed) == set(range(2 * R)) - dropped
        assert found.left_out == FILTERS[name].drops
        assert found.table(NAMES).num_rows == len(listed)
    alone = frozenset({OTHER, OTHER + R})
    assert OTHER not in nearest(matrices, pair_X2, 2 * R, FILTERS["paper"], alone).relation_XT[0].tolist()
    assert OTHER in nearest(matrices, pair_X2, 2 * R, NOTHING_LEFT_OUT, alone).relation_XT[0].tolist()


def test_nearest_of_no_pairs(matrices: Tensor) -> None:
    found = nearest(matrices, torch.empty((0, 2), dtype=torch.int64), 3)
    assert found.relation_XT.shape == (0, 3) and found.table(NAMES).num_rows == 0


def test_joins_are_those_of_the_graph(family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relcode.analysis.composition.ENTITY_BLOCK", 7)
    index = PairIndex.build(family.train, family.num_entities, family.num_relations)
    sizes = join_sizes(index)
    for first in range(index.num_directed):
        for second in range(index.num_directed):
            assert sizes[first, second] == steps(index, first, second).rows
    pairs = {tuple(pair) for pair in joined_pairs(index).tolist()}
    for first, second in np.ndindex(index.num_directed, index.num_directed):
        assert ((first, second) in pairs) == (len(path_keys(index, first, second)) > 0 and second != index.inverse(first))
    assert {tuple(pair) for pair in joined_pairs(index, 60).tolist()} == {pair for pair in pairs if sizes[pair] >= 60}
