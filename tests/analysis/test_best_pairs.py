from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from completion import Case, random_case, slow_best, slow_evidence, slow_score

from relcode.analysis.any_pairs import _bounding
from relcode.analysis.best_pairs import PairFinder
from relcode.analysis.candidates import Candidates
from relcode.analysis.found_pairs import Search, Shifts
from relcode.errors import NotFinite

SHIFTS = Shifts(head=-0.7, tail=0.4, other=-0.5)


def check(case: Case, search: Search, block_numbers: int | None = None, rough: torch.dtype | None = None) -> int:
    """Compare one search with the loops; return how many pairs there are."""
    expected = [one for one in slow_best(case, search) if one[0] >= search.least][: search.top]
    finder = case.finder(block_numbers)
    finder.rough = rough
    found = finder.best(search)
    assert list(zip(found.head_X.tolist(), found.tail_X.tolist(), strict=True)) == [one[1:] for one in expected]
    for place, (_, head, tail) in enumerate(expected):
        assert float(found.evidence_X[place]) == pytest.approx(slow_evidence(case, head, search.relation, tail), abs=1e-4)
        assert float(found.score_X[place]) == pytest.approx(slow_score(case.scorer, head, search.relation, tail), abs=1e-4)
    return len(expected)


@pytest.mark.parametrize("any_type", [False, True])
@pytest.mark.parametrize("shifts", [Shifts(), SHIFTS], ids=["plain", "shifted"])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_agree_with_loops_over_all_pairs(seed: int, shifts: Shifts, any_type: bool) -> None:
    case = random_case(seed)
    for relation in range(case.dataset.num_directed):
        everything = Search(relation=relation, top=1000, any_type=any_type, shifts=shifts)
        count = check(case, everything)
        assert count > 5
        for block_numbers in (1, 30):
            check(case, replace(everything, top=5), block_numbers)


def test_other_types_that_cannot_be_among_the_best_are_not_looked_at() -> None:
    case = random_case(1)
    for other in (-0.5, -2.0, -50.0):
        for relation in range(case.dataset.num_relations):
            search = Search(relation=relation, top=4, any_type=True, shifts=replace(SHIFTS, other=other))
            check(case, search)
            check(case, replace(search, top=1000))  # with fewer of the right type than wanted, the others come whatever their shift


@pytest.mark.parametrize("shifts", [Shifts(), SHIFTS, Shifts(head=0.9, tail=-1.3, other=-2.0)], ids=["plain", "shifted", "lifted"])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_a_rough_first_look_changes_nothing(shifts: Shifts, size: float) -> None:
    case = random_case(4)
    case = replace(case, scorer=replace(case.scorer, matrix_SDD=size * case.scorer.matrix_SDD))  # large scores: what rounding takes is large too
    for relation in range(case.dataset.num_directed):
        search = Search(relation=relation, top=6, any_type=True, shifts=shifts)
        for block_numbers in (None, 1, 30):
            check(case, search, block_numbers, torch.bfloat16)
            check(case, search, block_numbers, None)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32], ids=str)
def test_bounds_are_never_below_and_hardly_above(kind: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    query_XD, tail_XD = (size * torch.randn(500, 256, generator=generator) for size in (3.0, 0.1))
    query_XD[0], tail_XD[0] = 3 + 3 * 2**-8, 3 + 3 * 2**-8  # every one of these is rounded down in bfloat16
    bias_X = 40 * torch.randn(500, generator=generator)
    asked_XY, answer_XY = _bounding(query_XD, bias_X, tail_XD, kind)
    exact_XX = query_XD.double() @ tail_XD.double().T + bias_X[:, None]
    above_XX = asked_XY.double() @ answer_XY.double().T - exact_XX
    assert float(above_XX.min()) >= -1e-4
    norm_XX = query_XD.norm(dim=1)[:, None] * tail_XD.norm(dim=1)
    assert float((above_XX / norm_XX).max()) < (0.02 if kind == torch.bfloat16 else 1e-4)


def test_a_part_and_a_least_worth() -> None:
    case = random_case(1)
    for any_type in (False, True):
        whole = Search(relation=1, top=1000, any_type=any_type, shifts=SHIFTS)
        middle = slow_best(case, whole)[8][0] + 1e-4
        assert 0 < check(case, replace(whole, least=middle)) <= 8
        for block_numbers in (None, 10):
            check(case, replace(whole, heads=torch.tensor([2, 5, 13])), block_numbers)
            check(case, replace(whole, tails=torch.tensor([0, 3])), block_numbers)
        check(case, replace(whole, heads=torch.tensor([13]), top=3))  # never trained


def test_equals_come_by_number_whatever_the_blocks() -> None:
    case = random_case(2)
    flat = replace(case, scorer=replace(case.scorer, head_ED=torch.zeros_like(case.scorer.head_ED)))
    names = []
    for block_numbers in (1, 7, 40, None):
        found = flat.finder(block_numbers).best(Search(relation=1, top=10))
        names.append(list(zip(found.head_X.tolist(), found.tail_X.tolist(), strict=True)))
    assert names[0] == sorted(names[0]) and names == [names[0]] * 4


def test_what_there_is_to_say_about_pairs() -> None:
    case = random_case(3)
    R = case.dataset.num_relations
    found = case.finder().best(Search(relation=0, top=50, any_type=True))
    facts = torch.cat([case.dataset.split(name) for name in ("train", "valid", "test")]).tolist()
    for place, (head, tail) in enumerate(zip(found.head_X.tolist(), found.tail_X.tolist(), strict=True)):
        assert bool(found.head_asked_X[place]) == any(h == head and r == 0 for h, r, _ in facts)
        assert bool(found.tail_asked_X[place]) == any(t == tail and r == 0 for _, r, t in facts)
        typed = head in case.candidates.heads(0).tolist() and tail in case.candidates.heads(R).tolist()
        assert bool(found.other_X[place]) == (not typed)
    assert 0 < int(found.other_X.sum()) < len(found)


def test_edges() -> None:
    case = random_case()
    assert len(case.finder().best(Search(relation=0, top=0))) == 0
    none = Candidates.of(torch.empty((0, 3), dtype=torch.int64), case.dataset.num_entities, case.dataset.num_relations)
    finder = PairFinder(case.scorer, none, case.known)
    for any_type in (False, True):
        assert len(finder.best(Search(relation=0, top=3, any_type=any_type))) == 0
    assert len(case.finder().best(Search(relation=0, top=3, least=float("inf")))) == 0
    assert case.finder().pairs_in(Search(relation=0, top=1)) == len(case.candidates.heads(0)) * len(case.candidates.tails(0))
    with pytest.raises(ValueError, match="cannot be preferred"):
        Shifts(other=0.1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("block_numbers", [1, None])
def test_a_diverged_model_suggests_nothing(value: float, block_numbers: int | None) -> None:
    case = random_case()
    broken = replace(case, scorer=replace(case.scorer, matrix_SDD=case.scorer.matrix_SDD * value))
    with pytest.raises(NotFinite, match="diverged"):
        broken.finder(block_numbers).best(Search(relation=0, top=3))
