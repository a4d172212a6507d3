"""What is looked for among the pairs of a relation, what is found, and the best so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Shifts:
    """What is added to the evidence of a pair whose head has a tail already, whose tail has a head already, and that is of another type (≤ 0)."""

    head: float = 0.0
    tail: float = 0.0
    other: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what the bound from above does not allow."""
        if self.other > 0:
            raise ValueError(f"entities of another type cannot be preferred: their shift is {self.other}")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a relation, the worthiest first: entity numbers, evidence, score u_h M_r v_t, and whether they are of another type; on the CPU.

    ``head_asked_X`` tells whether the head has a known tail already, ``tail_asked_X`` whether the tail has a known head.
    """

    head_X: Tensor
    tail_X: Tensor
    evidence_X: Tensor
    score_X: Tensor
    head_asked_X: Tensor
    tail_asked_X: Tensor
    other_X: Tensor

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.head_X)


@dataclass(frozen=True, eq=False)
class Search:
    """What is looked for: the ``top`` pairs of ``relation`` whose worth is at least ``least``, among ``heads`` × ``tails`` where these are given.

    With ``any_type`` every trained entity is a candidate; otherwise those that look like the relation's heads and tails. Known pairs, and an entity
    with itself unless training facts have that, are left out.
    """

    relation: int  # directed
    top: int
    least: float = NEVER
    any_type: bool = False
    heads: Tensor | None = None
    tails: Tensor | None = None
    shifts: Shifts = Shifts()


@dataclass(frozen=True, eq=False)
class Best:
    """The best pairs so far, in no order, twice their worth, and twice the worth that a further one must reach."""

    head_X: Tensor
    tail_X: Tensor
    worth_X: Tensor
    least: float
    top: int

    @classmethod
    def none(cls, search: Search, device: torch.device) -> Best:
        """Return none yet, for a search."""
        no_pair = torch.empty(0, dtype=torch.int64, device=device)
        return cls(no_pair, no_pair, torch.empty(0, device=device), 2 * search.least, search.top)

    def with_pairs(self, head_X: Tensor, tail_X: Tensor, worth_X: Tensor) -> Best:
        """Return the best of these and of some more; the threshold rises where there are enough."""
        head_X, tail_X, worth_X = torch.cat([self.head_X, head_X]), torch.cat([self.tail_X, tail_X]), torch.cat([self.worth_X, worth_X])
        if len(worth_X) > self.top:
            kept_X = order(head_X, tail_X, worth_X)[: self.top]
            head_X, tail_X, worth_X = head_X[kept_X], tail_X[kept_X], worth_X[kept_X]
        least = max(self.least, float(worth_X.min())) if len(worth_X) == self.top else self.least
        return replace(self, head_X=head_X, tail_X=tail_X, worth_X=worth_X, least=least)


def order(head_X: Tensor, tail_X: Tensor, worth_X: Tensor) -> Tensor:
    """Return the places of pairs by falling worth, of equals the lower head, then the lower tail: so blocks may come in any order."""
    if not len(head_X):
        return head_X
    by_name_X = (head_X * (int(tail_X.max()) + 1) + tail_X).argsort(stable=True)
    return by_name_X[worth_X[by_name_X].argsort(descending=True, stable=True)]
