from __future__ import annotations

import pytest
import torch
from small_model import FACTS, small_model

from relcode.errors import NotFinite, SettingError
from relcode.explore.asking import best_entities, check_top, entity_scores, joined_by, reached, relation_scores

NOTHING = torch.empty(0, dtype=torch.int64)


def test_the_best_entities_are_those_with_the_largest_products_with_the_query() -> None:
    # q = u_a M_r = (1, 2): a 5, b 11, c -1; d was never trained and is no candidate.
    scorer = small_model().scorer
    assert best_entities(scorer, entity_scores(scorer, torch.tensor([1.0, 2.0])), NOTHING, 10, False) == ([1, 0, 2], [11.0, 5.0, -1.0])
    assert best_entities(scorer, entity_scores(scorer, torch.tensor([1.0, 2.0])), NOTHING, 2, False) == ([1, 0], [11.0, 5.0])


def test_known_answers_are_left_out_only_when_new_ones_are_asked_for() -> None:
    scorer, known = small_model().scorer, torch.tensor([1])
    assert best_entities(scorer, entity_scores(scorer, torch.tensor([1.0, 2.0])), known, 10, True)[0] == [0, 2]
    assert best_entities(scorer, entity_scores(scorer, torch.tensor([1.0, 2.0])), known, 10, False)[0] == [1, 0, 2]


def test_of_equal_scores_the_lower_number_comes_first() -> None:
    assert best_entities(small_model().scorer, torch.zeros(4), NOTHING, 10, False) == ([0, 1, 2], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_an_error(bad: float) -> None:
    with pytest.raises(NotFinite):
        entity_scores(small_model().scorer, torch.tensor([bad, 0.0]))


def test_relation_scores_agree_with_a_loop_over_everything() -> None:
    scorer = small_model().scorer
    for head in range(4):
        for tail in range(4):
            expected = [float(scorer.head_ED[head] @ scorer.matrix_SDD[s] @ scorer.tail_ED[tail]) for s in range(4)]
            assert relation_scores(scorer, head, tail).tolist() == pytest.approx(expected)


def test_reached_follows_known_facts_of_all_splits() -> None:
    model = small_model()
    assert reached(model.known, 0, (0,)).tolist() == [0, 1]  # a r b in train, a r a in valid
    assert reached(model.known, 0, (0, 1)).tolist() == [2]  # a r b s c
    assert reached(model.known, 0, (0, 0)).tolist() == [0, 1]  # a r a r {a, b}
    assert reached(model.known, 1, (0,)).tolist() == []
    assert reached(model.known, 1, (0, 1)).tolist() == []


def test_joined_by_says_which_directed_relations_are_known() -> None:
    model = small_model()
    numbers = {"r": 0, "s": 1}
    names = model.dataset.entities.names
    facts = {(h, numbers[r], t) for split in FACTS.values() for h, r, t in split}
    for head in range(4):
        for tail in range(4):
            h, t = names[head], names[tail]
            expected = [(h, 0, t) in facts, (h, 1, t) in facts, (t, 0, h) in facts, (t, 1, h) in facts]
            assert joined_by(model.known, head, tail, 4).tolist() == expected


@pytest.mark.parametrize("top", [0, -3])
def test_at_least_one_answer_is_asked_for(top: int) -> None:
    with pytest.raises(SettingError, match=f"top cannot be {top}"):
        check_top(top)
