"""Implied facts: hand-worked rules, a slow oracle over all pairs, edges, and what they are worth on benchmarks."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from relcode.errors import DataError
from relcode.graph import implied
from relcode.graph.dataset import load_dataset
from relcode.graph.facts import directed
from relcode.graph.implied import implications, implied_facts

Triples = set[tuple[int, int, int]]


def facts(triples: Triples) -> Tensor:
    return torch.tensor(sorted(triples), dtype=torch.int64).reshape(-1, 3)


def test_a_symmetric_relation_by_hand() -> None:
    # Nine couples are known both ways, one only one way: 18 of the 19 pairs of `spouse` are pairs of its inverse too.
    known = {(2 * i, 0, 2 * i + 1) for i in range(10)} | {(2 * i + 1, 0, 2 * i) for i in range(9)}
    rules = implications(facts(known), 20, 1, 0.7)
    assert list(zip(rules.body_X.tolist(), rules.head_X.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert rules.confidence_X.tolist() == pytest.approx([18 / 20, 18 / 20])
    found = implied_facts(facts(known), 20, 1, 0.7)
    assert found.facts_N3.tolist() == [[18, 1, 19], [19, 0, 18]]  # 19 is married to 18, and so the other way round
    assert found.confidence_N.tolist() == pytest.approx([0.9, 0.9])


def test_a_special_case_does_not_imply_back() -> None:
    # Every pair of relation 0 is one of relation 1, which has many more: rules need both directions.
    known = {(i, 0, i + 50) for i in range(10)} | {(i, 1, i + 50) for i in range(9)} | {(i, 1, i + 50) for i in range(20, 50)}
    assert not len(implied_facts(facts(known), 100, 2, 0.7).facts_N3)


def slow(known: Triples, relations: int, least: float) -> dict[tuple[int, int, int], float]:
    """Every rule and every fact, one by one."""
    both = known | {(t, r + relations, h) for h, r, t in known}
    pairs = {s: {(h, t) for h, r, t in both if r == s} for s in range(2 * relations)}
    partners = {pair: sum(pair in each for each in pairs.values()) for each in pairs.values() for pair in each}
    doubt: dict[tuple[int, int, int], float] = {}
    for s in pairs:
        for r in pairs:
            shared = len([pair for pair in pairs[s] & pairs[r] if partners[pair] <= implied.MOST_PARTNERS])
            confidence = shared / (len(pairs[s]) + 1)
            if s == r or shared < implied.LEAST_SUPPORT or min(confidence, shared / (len(pairs[r]) + 1)) < least:
                continue
            for h, t in pairs[s] - pairs[r]:
                doubt[h, r, t] = doubt.get((h, r, t), 1.0) * (1 - confidence)
    return {fact: 1 - left for fact, left in doubt.items()}


@pytest.mark.parametrize("seed", range(8))
def test_all_of_a_random_kb(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implied, "MOST_PARTNERS", 5)
    chance = random.Random(seed)
    pairs = [(chance.randrange(12), chance.randrange(12)) for _ in range(30)]
    known = {(h, r, t) for h, t in pairs for r in range(4) if chance.random() < 0.7} | {(t, 1, h) for h, t in pairs if chance.random() < 0.8}
    expected = slow(known, 4, 0.3)
    found = implied_facts(facts(known), 12, 4, 0.3)
    assert expected
    assert {tuple(fact): pytest.approx(sure) for fact, sure in zip(found.facts_N3.tolist(), found.confidence_N.tolist(), strict=True)} == expected


def test_a_kb_without_facts_implies_none() -> None:
    assert implied_facts(torch.zeros(0, 3, dtype=torch.int64), 5, 2, 0.7).facts_N3.shape == (0, 3)


def test_numbers_that_would_overflow_are_refused() -> None:
    with pytest.raises(DataError, match=r"softmax\.implied=none"):
        implied_facts(torch.tensor([[0, 0, 1]]), 1 << 31, 1000, 0.7)


@pytest.mark.parametrize(("name", "least_true", "least_covered"), [("wn18", 0.99, 0.9), ("wn18rr", 0.99, 0.3), ("fb15k", 0.99, 0.7)])
def test_on_a_benchmark(name: str, least_true: float, least_covered: float, benchmark: Callable[[str], Path]) -> None:
    dataset = load_dataset(benchmark(name))
    found = implied_facts(dataset.train, dataset.num_entities, dataset.num_relations, 0.7)
    rest = {tuple(fact) for fact in directed(torch.cat([dataset.valid, dataset.test]), dataset.num_relations).tolist()}
    true = [tuple(fact) in rest for fact in found.facts_N3.tolist()]
    assert sum(true) / len(true) >= least_true
    assert sum(true) / len(rest) >= least_covered
