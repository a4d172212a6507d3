from __future__ import annotations

import math

import pytest
import torch

from relcode.evaluation.metrics import (
    Metrics,
    TieSpread,
    adjusted_mean_rank_index,
    expected_mean_rank,
    hits_at,
    mean_rank,
    mean_reciprocal_rank,
)
from relcode.evaluation.protocol import PAPER, REALISTIC
from relcode.evaluation.ranking import Ranks


def make_ranks(optimistic: list[int], pessimistic: list[int], candidates: int = 9) -> Ranks:
    """Return the ranks of tail queries, then as many head queries, of facts whose first holds an unseen entity."""
    n = len(optimistic)
    whole = torch.zeros(n, dtype=torch.int64)
    inverse = torch.arange(n) >= n // 2
    unseen = (torch.arange(n) % max(n // 2, 1)) == 0
    return Ranks(
        torch.tensor(optimistic, dtype=torch.int64),
        torch.tensor(pessimistic, dtype=torch.int64),
        torch.full((n,), candidates),
        whole.float(),
        whole,
        whole,
        inverse,
        unseen & (n > 0),
    )


def test_metrics_worked_by_hand() -> None:
    rank = torch.tensor([1.0, 2.0, 4.0, 1.5])
    assert mean_rank(rank) == 8.5 / 4
    assert mean_reciprocal_rank(rank) == pytest.approx((1 + 1 / 2 + 1 / 4 + 2 / 3) / 4)
    assert [hits_at(rank, most) for most in (1, 3, 10)] == [0.25, 0.75, 1.0]
    # 9 candidates each: chance gives (9 + 1)/2 = 5, so AMRI = 1 - (2.125 - 1)/(5 - 1).
    assert expected_mean_rank(torch.tensor([9, 9, 9, 9])) == 5
    assert adjusted_mean_rank_index(rank, torch.tensor([9, 9, 9, 9])) == 1 - 1.125 / 4


def test_adjusted_mean_rank_index_is_one_for_perfect_and_zero_for_chance() -> None:
    candidates = torch.tensor([3, 11, 101])
    assert adjusted_mean_rank_index(torch.ones(3), candidates) == 1
    assert adjusted_mean_rank_index((candidates + 1) / 2, candidates) == pytest.approx(0)
    assert adjusted_mean_rank_index(candidates, candidates) == pytest.approx(-1)
    assert math.isnan(adjusted_mean_rank_index(torch.ones(2), torch.tensor([1, 1])))


def test_ties_are_counted_as_the_protocol_says() -> None:
    ranks = make_ranks([1, 2, 1, 10], [3, 2, 1, 12])
    realistic, paper = Metrics.of(ranks, REALISTIC), Metrics.of(ranks, PAPER)
    assert (realistic.mr, paper.mr) == ((2 + 2 + 1 + 11) / 4, 14 / 4)
    assert (realistic.hits[10], paper.hits[10]) == (0.75, 1.0)
    assert realistic.mrr == pytest.approx((1 / 2 + 1 / 2 + 1 + 1 / 11) / 4)
    assert realistic.ties == paper.ties == TieSpread.of(ranks)
    assert (realistic.ties.mr_optimistic, realistic.ties.mr_pessimistic) == (14 / 4, 18 / 4)
    assert realistic.ties.mrr_optimistic == pytest.approx((1 + 1 / 2 + 1 + 1 / 10) / 4)
    assert realistic.ties.mrr_pessimistic == pytest.approx((1 / 3 + 1 / 2 + 1 + 1 / 12) / 4)
    assert realistic.amri == 1 - 3 / 4


def test_queries_and_facts_are_counted() -> None:
    ranks = make_ranks([1, 1, 1, 1, 1, 1], [1] * 6)
    assert (Metrics.of(ranks, REALISTIC).n, Metrics.of(ranks, REALISTIC).unseen) == (6, 1)
    heads = Metrics.of(ranks.select(ranks.inverse_N), REALISTIC)
    assert (heads.n, heads.unseen) == (3, 1)


def test_no_queries_give_null_rather_than_a_figure() -> None:
    empty = Metrics.of(make_ranks([], []), REALISTIC).to_json()
    assert empty["n"] == 0 and empty["unseen"] == 0
    assert all(empty[key] is None for key in ("mr", "mrr", "hits@1", "hits@3", "hits@10", "amri"))
