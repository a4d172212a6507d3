from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from evaluation.slow import random_kb, random_scorer

from relcode.evaluation.baseline import most_frequent_answers
from relcode.evaluation.ranking import rank_facts
from relcode.evaluation.report import evaluate
from relcode.graph.dataset import dataset_from_facts
from relcode.model.score import Scorer


def test_ranks_worked_by_hand() -> None:
    # Answers of r in train: x three times, y once; of its inverse: a, b, c, d once each. Entities: a b c d x y.
    train = [("a", "r", "x"), ("b", "r", "x"), ("c", "r", "x"), ("d", "r", "y")]
    dataset = dataset_from_facts({"train": train, "test": [("a", "r", "y"), ("d", "r", "x")]})
    baseline = most_frequent_answers(dataset)
    ranks = rank_facts(baseline, dataset, dataset.test)
    # (a, r, ?): x is known, y (1) beats a b c d (0): rank 1. (d, r, ?): x is first.
    # (y, r⁻¹, ?): a and d known; a (1) ties with b, c (1): rank 1 to 3. (x, r⁻¹, ?): a, b, c known; d (1) before x, y (0): rank 1.
    assert ranks.optimistic_N.tolist() == [1, 1, 1, 1]
    assert ranks.pessimistic_N.tolist() == [1, 1, 3, 1]
    assert ranks.score_N.tolist() == [1, 3, 1, 1]


@pytest.mark.parametrize("memory", [None, 700])
@pytest.mark.parametrize("protocol", ["realistic", "paper"])
def test_it_is_ranked_as_a_model_with_the_same_scores_would_be(protocol: str, memory: int | None) -> None:
    # A bilinear model that scores by counts: every head vector is all ones, M_s keeps number s alone and v_t holds t's counts.
    dataset = random_kb()
    E, S, R = dataset.num_entities, dataset.num_directed, dataset.num_relations
    count_ES = torch.zeros(E, S)
    for head, relation, tail in dataset.train.tolist():
        count_ES[tail, relation] += 1
        count_ES[head, relation + R] += 1
    twin = Scorer(torch.ones(E, S), count_ES, torch.diag_embed(torch.eye(S)), torch.ones(E, dtype=torch.bool))
    twin = replace(twin, seen_E=dataset.seen_E)
    known_heads = dataset.test[dataset.seen_E[dataset.test[:, 0]] & dataset.seen_E[dataset.test[:, 2]]]
    dataset = replace(dataset, test=known_heads)  # a head never trained asks nothing in the twin, but its relation in the baseline
    first = evaluate(most_frequent_answers(dataset), dataset, protocol=protocol, memory_bytes=memory)
    second = evaluate(twin, dataset, protocol=protocol)
    assert first.to_json() == second.to_json()


def test_it_beats_a_random_model() -> None:
    facts = [(f"p{i:02}", "born_in", "city0" if i % 3 else f"city{i % 5}") for i in range(60)]
    dataset = dataset_from_facts({"train": facts[:50], "test": facts[50:]})
    assert evaluate(most_frequent_answers(dataset), dataset).tail.mrr > 2 * evaluate(random_scorer(dataset), dataset).tail.mrr
