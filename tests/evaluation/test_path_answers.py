from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from completion import Case, random_case, slow_scores

from relcode.errors import NotFinite
from relcode.evaluation.path_answers import beam_search, composed_scores


def slow_chances(case: Case, h: int, s: int) -> dict[int, float]:
    """Return p(e | h, s) for the trained entities e."""
    score, seen = slow_scores(case)[s][h], [e for e in range(case.dataset.num_entities) if case.dataset.seen_E[e]]
    total = sum(math.exp(score[e]) for e in seen)
    return {e: math.exp(score[e]) / total for e in seen}


def slow_walks(case: Case, h: int, path: tuple[int, ...]) -> dict[int, dict[tuple[int, ...], float]]:
    """Return for each end the chance of every walk there, by the entities between."""
    found: dict[int, dict[tuple[int, ...], float]] = {}
    seen = [e for e in range(case.dataset.num_entities) if case.dataset.seen_E[e]]
    for stops in itertools.product(seen, repeat=len(path)):
        chance, start = 1.0, h
        for s, stop in zip(path, stops, strict=True):
            chance *= slow_chances(case, start, s)[stop]
            start = stop
        found.setdefault(stops[-1], {})[stops[:-1]] = chance
    return found


@pytest.mark.parametrize("path", [(1,), (0, 5), (4, 1), (2, 2)])
def test_a_beam_of_all_entities_sums_up_all_walks(path: tuple[int, ...]) -> None:
    case = random_case(1, E=9)
    ends = beam_search(case.scorer, torch.tensor([3]), torch.tensor([path]), width=100)
    expected = slow_walks(case, 3, path)
    for end, walks in expected.items():
        assert math.exp(float(ends.log_BE[0, end])) == pytest.approx(sum(walks.values()), rel=1e-4)
        likeliest = max(walks, key=lambda between: walks[between])
        assert tuple(ends.between(0, end)) == likeliest
        assert math.exp(float(ends.best_BE[0, end])) == pytest.approx(walks[likeliest], rel=1e-4)
    unseen = [e for e in range(case.dataset.num_entities) if not case.dataset.seen_E[e]]
    assert unseen and all(float(ends.log_BE[0, e]) == -math.inf for e in unseen)


def test_a_narrow_beam_goes_through_the_best_entities_only() -> None:
    case = random_case(2, E=9)
    path = (0, 4, 1)
    first = slow_chances(case, 1, path[0])
    kept = sorted(first, key=lambda e: -first[e])[:2]
    second: dict[int, float] = {}
    for m in kept:
        for e, chance in slow_chances(case, m, path[1]).items():
            second[e] = second.get(e, 0) + first[m] * chance
    kept = sorted(second, key=lambda e: -second[e])[:2]
    ends = beam_search(case.scorer, torch.tensor([1]), torch.tensor([path]), width=2)
    for end in first:
        expected = sum(second[m] * slow_chances(case, m, path[2])[end] for m in kept)
        assert math.exp(float(ends.log_BE[0, end])) == pytest.approx(expected, rel=1e-4)
        assert len(ends.between(0, end)) == 2 and ends.between(0, end)[1] in kept


def test_questions_with_paths_of_their_own_go_together() -> None:
    case = random_case(3)
    head_B, path_BL = torch.tensor([0, 4, 4, 7]), torch.tensor([[0, 1], [5, 2], [0, 0], [3, 4]])
    together = beam_search(case.scorer, head_B, path_BL, width=3)
    composed_BE = composed_scores(case.scorer, head_B, path_BL)
    for row in range(4):
        alone = beam_search(case.scorer, head_B[row : row + 1], path_BL[row : row + 1], width=3)
        assert torch.allclose(together.log_BE[row], alone.log_BE[0], atol=1e-5)
        first, second = (case.scorer.matrix_SDD[s] for s in path_BL[row].tolist())
        # First r1, then r2: not the other way round, which gives other numbers.
        expected_E = case.scorer.head_ED[head_B[row]] @ first @ second @ case.scorer.tail_ED.T
        assert torch.allclose(composed_BE[row], expected_E, atol=1e-4)
    assert not torch.allclose(case.scorer.matrix_SDD[0] @ case.scorer.matrix_SDD[1], case.scorer.matrix_SDD[1] @ case.scorer.matrix_SDD[0])


def test_a_diverged_model_does_not_answer() -> None:
    case = random_case()
    broken = replace(case.scorer, head_ED=case.scorer.head_ED * float("nan"))
    for answer in (composed_scores, beam_search):
        with pytest.raises(NotFinite):
            answer(broken, torch.tensor([0]), torch.tensor([[0, 1]]))
