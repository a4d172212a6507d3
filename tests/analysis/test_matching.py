from __future__ import annotations

import itertools
import sys

import pytest
import torch

from relcode.analysis.codes import RelationCodes, codes_of
from relcode.analysis.matching import best_matching, column_cosines, match_codes
from relcode.errors import MissingExtra, RelcodeError
from relcode.graph.vocab import Vocab

NAMES = Vocab([f"r{number:02}" for number in range(20)], "relation")


def sparse_codes(seed: int = 0, dimensions: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(40, dimensions, generator=generator) * (torch.rand(40, dimensions, generator=generator) < 0.3)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def test_permuted_dimensions_are_found_again() -> None:
    code_SC = sparse_codes()
    order = [3, 0, 5, 1, 4, 2]
    match = match_codes(codes_of(code_SC, NAMES), codes_of(code_SC[:, order], NAMES), generator(), shuffles=50)
    assert [order[b - 1] for b in match.dimension_b] == [a - 1 for a in match.dimension_a]
    assert match.agreement == pytest.approx(1)
    assert match.relation_agreement == pytest.approx(float(code_SC.any(dim=1).double().mean()))
    assert match.chance_mean < 0.7 and match.p_value == pytest.approx(1 / 51)
    assert match.table().num_rows == 6


def test_unrelated_codes_agree_as_chance_does() -> None:
    match = match_codes(codes_of(sparse_codes(1), NAMES), codes_of(sparse_codes(2), NAMES), generator())
    assert abs(match.agreement - match.chance_mean) < 3 * match.chance_std
    assert match.p_value > 0.01


def test_the_matching_is_the_best_of_all() -> None:
    a_XC, b_XC = sparse_codes(3, 5).double(), sparse_codes(4, 5).double()
    similarity_CC = column_cosines(a_XC, b_XC)
    best = max(sum(similarity_CC[i, j].item() for i, j in enumerate(order)) for order in itertools.permutations(range(5)))
    assert similarity_CC[best_matching(similarity_CC)].sum().item() == pytest.approx(best)


def test_relations_are_matched_by_name_not_by_place() -> None:
    code_SC = sparse_codes()
    order = torch.randperm(20, generator=generator())
    moved = Vocab([NAMES[number] for number in order.tolist()], "relation")
    shuffled = codes_of(code_SC[torch.cat([order, order + 20])], moved)
    assert match_codes(codes_of(code_SC, NAMES), shuffled, generator(), shuffles=2).agreement == pytest.approx(1)


def test_runs_with_codes_of_different_sizes() -> None:
    code_SC = sparse_codes()
    match = match_codes(codes_of(code_SC, NAMES), codes_of(code_SC[:, :4], NAMES), generator(), shuffles=2)
    assert match.dimension_a == match.dimension_b == (1, 2, 3, 4)
    assert match.same_dominant < 1


def test_a_dimension_nobody_uses_agrees_with_nothing() -> None:
    code_SC = sparse_codes()
    code_SC[:, 0] = 0
    match = match_codes(codes_of(code_SC, NAMES), codes_of(code_SC, NAMES), generator(), shuffles=2)
    assert match.similarity[0] == 0 and min(match.similarity[1:]) == pytest.approx(1)


def test_same_seed_same_figures() -> None:
    def once() -> RelationCodes:
        return codes_of(sparse_codes(5), NAMES)

    left, right = (match_codes(once(), codes_of(sparse_codes(6), NAMES), generator(), 20) for _ in range(2))
    assert (left.chance_mean, left.p_value) == (right.chance_mean, right.p_value)


def test_runs_without_common_relations_are_refused() -> None:
    with pytest.raises(RelcodeError, match="same data"):
        match_codes(codes_of(sparse_codes()[:2], Vocab(["a"])), codes_of(sparse_codes()[:2], Vocab(["b"])), generator())


def test_a_missing_scipy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtra, match=r"relcode\[analysis\]"):
        best_matching(torch.eye(2))
