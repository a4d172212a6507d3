from __future__ import annotations

import json

import pytest
import torch
from evaluation.slow import random_kb, random_scorer, slow_ranks

from relcode.errors import DataError, NotFinite, SettingError
from relcode.evaluation.protocol import PAPER
from relcode.evaluation.ranking import known_answers
from relcode.evaluation.report import evaluate
from relcode.graph.dataset import dataset_from_facts

METRICS = {"mr", "mrr", "hits@1", "hits@3", "hits@10", "n", "unseen", "amri", "ties"}


@pytest.mark.parametrize("protocol", ["realistic", "paper"])
def test_the_figures_are_those_of_the_loop(protocol: str) -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset, whole=True)
    slow = slow_ranks(scorer, dataset, paper=protocol == "paper")
    ranks = [rank.optimistic() if protocol == "paper" else (rank.optimistic() + rank.pessimistic()) / 2 for rank in slow]
    seen = [bool(dataset.seen_E[head] and dataset.seen_E[tail]) for head, _, tail in dataset.test.tolist()]
    report = evaluate(scorer, dataset, protocol=protocol)
    half = len(ranks) // 2
    rows = [
        (report.both, ranks),
        (report.tail, ranks[:half]),
        (report.head, ranks[half:]),
        (report.seen_only, [rank for rank, kept in zip(ranks, seen + seen, strict=True) if kept]),
    ]
    for metrics, expected in rows:
        assert metrics.n == len(expected)
        assert metrics.mr == pytest.approx(sum(expected) / len(expected))
        assert metrics.mrr == pytest.approx(sum(1 / rank for rank in expected) / len(expected))
        for most in (1, 3, 10):
            assert metrics.hits[most] == pytest.approx(sum(rank <= most for rank in expected) / len(expected))
    assert report.both.unseen == report.head.unseen == report.tail.unseen == seen.count(False) > 0
    assert report.seen_only.unseen == 0


def test_directions_and_relations_add_up() -> None:
    dataset = random_kb()
    report = evaluate(random_scorer(dataset), dataset)
    both, head, tail = report.both, report.head, report.tail
    assert head.n + tail.n == both.n == 2 * len(dataset.test)
    assert head.n * head.mrr + tail.n * tail.mrr == pytest.approx(both.n * both.mrr)
    relations = report.per_relation()
    assert set(relations) == {dataset.relations[r] for r in dataset.test[:, 1].tolist()}
    for direction in ("both", "head", "tail"):
        parts = [getattr(part, direction) for part in relations.values()]
        whole = getattr(report, direction)
        assert sum(part.n for part in parts) == whole.n
        assert sum(part.unseen for part in parts) == whole.unseen
        assert sum(part.n * part.mr for part in parts) == pytest.approx(whole.n * whole.mr)
        assert sum(part.n * part.mrr for part in parts) == pytest.approx(whole.n * whole.mrr)
        assert sum(part.n * part.hits[10] for part in parts) == pytest.approx(whole.n * whole.hits[10])
    for name, part in relations.items():
        assert part.tail.n == int((dataset.test[:, 1] == dataset.relations.index(name)).sum())


def test_the_json_has_the_keys_that_others_read() -> None:
    dataset = random_kb()
    report = evaluate(random_scorer(dataset), dataset, split="valid", protocol=PAPER)
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert set(plain) == METRICS | {"protocol", "split", "head", "tail", "seen_only"}
    assert (plain["protocol"], plain["split"]) == ("paper", "valid")
    assert all(set(plain[part]) == METRICS for part in ("head", "tail", "seen_only"))
    assert set(plain["ties"]) == {"mr_optimistic", "mr_pessimistic", "mrr_optimistic", "mrr_pessimistic"}
    assert 0 <= plain["hits@10"] <= 1
    relations = report.to_json(relations=True)["relations"]
    assert isinstance(relations, dict) and set(relations) == set(report.per_relation())
    assert set(relations["r0"]) == METRICS | {"head", "tail"}


def test_known_answers_given_are_used_and_unseen_vectors_are_not() -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset)
    expected = evaluate(scorer, dataset)
    scorer.tail_ED[~dataset.seen_E] = float("nan")
    assert evaluate(scorer, dataset, known=known_answers(dataset)).to_json() == expected.to_json()


def test_a_split_whose_facts_all_hold_unseen_entities() -> None:
    dataset = dataset_from_facts({"train": [("a", "r", "b")], "test": [("c", "r", "d")]})
    report = evaluate(random_scorer(dataset), dataset)
    assert report.seen_only.n == 0 and report.to_json()["seen_only"]["mr"] is None  # type: ignore[index]
    assert report.both.mr == 2.5  # all four candidates tie at 0


def test_mistakes_get_one_clear_line() -> None:
    dataset = dataset_from_facts({"train": [("a", "r", "b")], "test": [("b", "r", "a")]}, name="tiny")
    scorer = random_scorer(dataset)
    with pytest.raises(DataError, match=r"tiny has no facts in its valid split.*it has facts in: train, test"):
        evaluate(scorer, dataset, split="valid")
    with pytest.raises(SettingError, match=r"'dev'.*train, valid, test"):
        evaluate(scorer, dataset, split="dev")
    with pytest.raises(SettingError, match=r"'best'.*realistic, paper"):
        evaluate(scorer, dataset, protocol="best")
    with pytest.raises(SettingError, match="memory"):
        evaluate(scorer, dataset, memory_bytes=0)
    scorer.matrix_SDD.fill_(torch.nan)
    with pytest.raises(NotFinite):
        evaluate(scorer, dataset)
