"""Metrics: functions of ranks only.

    MR = mean of rank        MRR = mean of 1/rank        Hits@k = share of queries with rank ≤ k
    AMRI = 1 - (MR - 1) / (E[MR] - 1)       adjusted mean rank index (Berrendorf et al. 2020): 1 is perfect, 0 as good as chance

E[MR] is the mean rank of random scores: (n + 1)/2 for a query with n candidates. Every function gives NaN where there is no query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from relcode.evaluation.protocol import Protocol
from relcode.evaluation.ranking import Ranks

HITS = (1, 3, 10)


def mean_rank(rank_N: Tensor) -> float:
    """Return MR, the mean of the ranks."""
    return float(rank_N.double().mean())


def mean_reciprocal_rank(rank_N: Tensor) -> float:
    """Return MRR, the mean of 1/rank; ranks that are halves (ties) count as such."""
    return float(rank_N.double().reciprocal().mean())


def hits_at(rank_N: Tensor, most: int) -> float:
    """Return Hits@k, the share of ranks that are k or better."""
    return float((rank_N <= most).double().mean())


def expected_mean_rank(candidate_N: Tensor) -> float:
    """Return E[MR], the mean rank that random scores would give: the mean of (n + 1)/2."""
    return float((candidate_N.double() + 1).mean() / 2)


def adjusted_mean_rank_index(rank_N: Tensor, candidate_N: Tensor) -> float:
    """Return AMRI; NaN where the gold answer never had a rival, since chance is then as good as perfect."""
    chance = expected_mean_rank(candidate_N) - 1
    return 1 - (mean_rank(rank_N) - 1) / chance if chance > 0 else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class TieSpread:
    """The two ends between which MR and MRR lie, as all ties are counted for or against the gold answer."""

    mr_optimistic: float
    mr_pessimistic: float
    mrr_optimistic: float
    mrr_pessimistic: float

    @classmethod
    def of(cls, ranks: Ranks) -> TieSpread:
        """Measure the spread."""
        return cls(
            mr_optimistic=mean_rank(ranks.optimistic_N),
            mr_pessimistic=mean_rank(ranks.pessimistic_N),
            mrr_optimistic=mean_reciprocal_rank(ranks.optimistic_N),
            mrr_pessimistic=mean_reciprocal_rank(ranks.pessimistic_N),
        )

    def to_json(self) -> dict[str, float | None]:
        """Return plain values, null for what is not defined."""
        return {name: _plain(getattr(self, name)) for name in ("mr_optimistic", "mr_pessimistic", "mrr_optimistic", "mrr_pessimistic")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """All metrics of a set of queries.

    ``n`` counts queries: two for each fact, one where only heads or only tails were asked for. ``unseen`` counts facts, those of these queries that
    hold an entity never trained. Hits are fractions.
    """

    n: int
    unseen: int
    mr: float
    mrr: float
    hits: dict[int, float]
    amri: float
    ties: TieSpread

    @classmethod
    def of(cls, ranks: Ranks, protocol: Protocol) -> Metrics:
        """Measure the queries by the protocol's rule for ties."""
        rank_N = ranks.rank_N(protocol)
        unseen_heads = int((ranks.unseen_N & ranks.inverse_N).sum())
        unseen_tails = int((ranks.unseen_N & ~ranks.inverse_N).sum())
        return cls(
            n=len(ranks),
            unseen=max(unseen_heads, unseen_tails),
            mr=mean_rank(rank_N),
            mrr=mean_reciprocal_rank(rank_N),
            hits={most: hits_at(rank_N, most) for most in HITS},
            amri=adjusted_mean_rank_index(rank_N, ranks.candidate_N),
            ties=TieSpread.of(ranks),
        )

    def to_json(self) -> dict[str, object]:
        """Return plain values: mr, mrr, hits@1, hits@3, hits@10, n, unseen, amri, ties; null for what is not defined."""
        hits = {f"hits@{most}": _plain(share) for most, share in self.hits.items()}
        rest = {"n": self.n, "unseen": self.unseen, "amri": _plain(self.amri), "ties": self.ties.to_json()}
        return {"mr": _plain(self.mr), "mrr": _plain(self.mrr), **hits, **rest}


def _plain(value: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value
