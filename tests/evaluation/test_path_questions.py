from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from completion import random_case

from relcode.errors import DataError, SettingError
from relcode.evaluation.path_questions import PathQuestions, draw_questions, evaluate_paths, rank_questions
from relcode.graph.dataset import Dataset, dataset_from_facts


def slow_reached(facts: list[list[int]], R: int, head: int, path: list[int]) -> set[int]:
    ends = {head}
    for s in path:
        ends = {t for h, r, t in facts if r == s and h in ends} | {h for h, r, t in facts if r + R == s and t in ends}
    return ends


def facts_of(data: Dataset, *splits: str) -> list[list[int]]:
    return [fact for split in splits for fact in data.split(split).tolist()]


@pytest.mark.parametrize("length", [2, 3])
def test_every_answer_needs_a_held_out_fact(family: Dataset, length: int) -> None:
    R = family.num_relations
    questions = draw_questions(family, "test", length, 150, torch.Generator().manual_seed(0))
    assert len(questions) == 150
    for head, path, gold in zip(questions.head_B.tolist(), questions.path_BL.tolist(), questions.gold_B.tolist(), strict=True):
        assert gold in slow_reached(facts_of(family, "train", "valid", "test"), R, head, path)
        assert gold not in slow_reached(facts_of(family, "train", "valid"), R, head, path)
        assert gold != head and len(path) == length
        assert all((a + R) % (2 * R) != b for a, b in pairwise(path))
    grandparent = family.relations.index("grandparent")  # the only relation that is held out
    places = {path.index(s) for path in questions.path_BL.tolist() for s in (grandparent, grandparent + R) if s in path}
    assert places == set(range(length))


def test_questions_are_distinct_bounded_and_the_same_for_a_seed(family: Dataset) -> None:
    tables = []
    for seed in (0, 0, 1):
        questions = draw_questions(family, "valid", 2, 60, torch.Generator().manual_seed(seed))
        table = torch.cat([questions.head_B[:, None], questions.path_BL, questions.gold_B[:, None]], dim=1)
        assert len(table.unique(dim=0)) == len(table) <= 60
        tables.append(table.tolist())
    assert tables[0] == tables[1] != tables[2]


@pytest.mark.parametrize("way", ["composed", "beam"])
def test_ranks_agree_with_a_loop(way: str) -> None:
    case = random_case(4)
    data, R = case.dataset, case.dataset.num_relations
    questions = draw_questions(data, "test", 2, 40, torch.Generator().manual_seed(0))
    assert len(questions) > 5
    scorer = case.scorer.with_unseen_zero()
    found = rank_questions(scorer, questions, case.known, way, width=100).tolist()
    every = facts_of(data, "train", "valid", "test")
    p_SEE = (scorer.head_ED @ scorer.matrix_SDD @ scorer.tail_ED.T).masked_fill(~data.seen_E, -torch.inf).softmax(dim=2).double()
    for row, (head, path, gold) in enumerate(zip(questions.head_B, questions.path_BL.tolist(), questions.gold_B.tolist(), strict=True)):
        first, second = path
        composed_E = scorer.head_ED[head] @ scorer.matrix_SDD[first] @ scorer.matrix_SDD[second] @ scorer.tail_ED.T
        score = (composed_E if way == "composed" else p_SEE[first][head] @ p_SEE[second]).tolist()
        rivals = [e for e in range(data.num_entities) if e not in slow_reached(every, R, int(head), path)]
        same = sum(abs(score[e] - score[gold]) < 1e-9 for e in rivals)
        assert found[row] == pytest.approx(1 + sum(score[e] > score[gold] + 1e-9 for e in rivals) + same / 2)


def test_the_report_has_a_row_for_each_length_and_way(family: Dataset) -> None:
    case = random_case()
    E, D = family.num_entities, 4
    generator = torch.Generator().manual_seed(0)
    scorer = type(case.scorer)(*(torch.randn(E, D, generator=generator) for _ in range(2)), torch.randn(12, D, D, generator=generator), family.seen_E)
    report = evaluate_paths(scorer, family, count=30, seed=3, width=4)
    assert [(row.length, row.way, row.n) for row in report.rows] == [(2, "composed", 30), (2, "beam", 30), (3, "composed", 30), (3, "beam", 30)]
    tree = report.to_json()
    assert tree["seed"] == 3 and set(tree["paths"][0]) == {"length", "way", "n", "mrr", "hits@1", "hits@3", "hits@10"}
    assert all(0 < row.mrr <= 1 for row in report.rows)


def test_no_questions_are_no_ranks() -> None:
    case = random_case()
    none = torch.empty(0, dtype=torch.int64)
    assert rank_questions(case.scorer, PathQuestions(none, none.reshape(0, 2), none), case.known, "beam").tolist() == []
    # The only held-out fact is stated by train from the other end too, so no answer needs it.
    data = dataset_from_facts({"train": [("a", "r", "b"), ("b", "r", "a")], "test": [("a", "s", "a")]})
    assert len(draw_questions(data, "test", 2, 5, torch.Generator().manual_seed(0))) <= 5


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"split": "train"}, SettingError, "train is not held out"),
        ({"count": 0}, SettingError, "1 to 100,000 questions"),
        ({"count": 10**9}, SettingError, "1 to 100,000 questions"),
        ({"width": 0}, SettingError, "a beam of 1 to 1,024"),
        ({"split": "nonsense"}, SettingError, "unknown split"),
    ],
)
def test_bad_wishes_are_refused(options: dict[str, object], kind: type[Exception], text: str) -> None:
    case = random_case()
    with pytest.raises(kind, match=text):
        evaluate_paths(case.scorer, case.dataset, **options)  # type: ignore[arg-type]


def test_data_without_the_split_are_refused() -> None:
    data = dataset_from_facts([("a", "r", "b")])
    case = random_case()
    with pytest.raises(DataError, match="no facts in its test split"):
        evaluate_paths(case.scorer, data)
