"""The best pairs among all entities, whatever their type: two rough products for a block of pairs, and the exact worth of the few that may matter.

As both shares of answers are at most 1, twice the worth of a pair of another type (``analysis/best_pairs.py``) is at most

    min(0, u_h M_r v_t − Z(h, r)) + min(0, u_t M_r⁻¹ v_h − Z(t, r⁻¹)) + 2 · (shift_h + shift_t + shift_other)

The two products may be rough: with numbers rounded by a share u of their size, q · v is off by at most
(2u + u²) |q| |v| (Cauchy and Schwarz), and that is put on top, as one more number in each vector. So processors that multiply bfloat16 (u = 2⁻⁸)
three times as fast may do so, and the pairs found are the same: what reaches the threshold is worked out again, in full, pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from relcode.analysis.evidence import log_share, log_totals
from relcode.analysis.found_pairs import NEVER, Best, Search

if TYPE_CHECKING:
    from relcode.analysis.best_pairs import PairFinder

ROUNDING = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53}  # u: the largest error of a number, as a share of it
FIRST_PART = 32  # of a block's heads that are looked at first
FLOAT_SUMS = 2.0**-24  # rounding of the sums, which are kept in float32 or better


class AnyPairs:
    """All pairs of trained entities of one relation, but those of the right type, a block of heads at a time."""

    def __init__(self, finder: PairFinder, search: Search) -> None:
        """Take the entities, their queries in both directions, and what each adds to its pairs."""
        self.finder, self.search, self.scorer = finder, search, finder.scorer
        candidates, shifts, relation = finder.candidates, search.shifts, search.relation
        inverse = candidates.inverse(relation)
        self.entity_X = finder.seen_X.to(self.scorer.device)
        self.place_E = finder.places(self.entity_X)
        self.tail_XD = self.scorer.tail_ED[self.entity_X]
        self.asks = [self._asked(directed) for directed in (relation, inverse)]  # there, from heads to tails, and back
        self.typed = [torch.isin(self.entity_X, one.to(self.scorer.device)) for one in (candidates.heads(relation), candidates.tails(relation))]
        self.kind = finder.rough or self.scorer.dtype
        self.shift_H = finder.asked(self.entity_X, relation) * (2 * shifts.head) + 2 * shifts.other
        self.shift_T = finder.asked(self.entity_X, inverse) * (2 * shifts.tail)

    def _asked(self, relation: int) -> tuple[Tensor, Tensor]:
        """Return the query of every entity by a directed relation, and its total Z."""
        total_X = log_totals(self.scorer, self.finder.candidates, self.entity_X, relation, self.finder.block_numbers)
        return self.scorer.path_queries(self.entity_X, (relation,)), total_X

    def take(self, best: Best) -> Best:
        """Look at all pairs."""
        kind = self.kind
        (there_HD, total_H), (back_TD, total_T) = self.asks
        asked_HX, tail_TX = _bounding(there_HD, self.shift_H - total_H, self.tail_XD, kind)
        asked_TX, tail_HX = _bounding(back_TD, self.shift_T - total_T, self.tail_XD, kind)
        top_H, top_T = _rounded_up(self.shift_H, kind), _rounded_up(self.shift_T, kind)
        most_T = float(self.shift_T.max().clamp_min(0))
        for part in self._parts():
            row_B = torch.arange(part.start, part.stop, device=self.scorer.device)
            there_BT = asked_HX[row_B] @ tail_TX.T
            bound_BT = torch.minimum(there_BT, top_H[row_B, None])
            near_Y = (bound_BT.amax(dim=1).float() + most_T >= self._least(best)).nonzero().squeeze(1)
            if not len(near_Y):
                continue
            if len(near_Y) < len(row_B):  # one question alone rules the other heads out
                row_B, there_BT, bound_BT = row_B[near_Y], there_BT[near_Y], bound_BT[near_Y]
            back_BT = tail_HX[row_B] @ asked_TX.T
            bound_BT += torch.minimum(back_BT, top_T)
            best = self._look(bound_BT, there_BT, back_BT, row_B, best)
        return best

    def _parts(self) -> Iterator[slice]:
        """Go through blocks of heads. The first are small: without a threshold every pair of a block is looked at, and they bring one."""
        most, low = max(1, self.finder.block_numbers // len(self.entity_X)), 0
        rows = max(1, most // FIRST_PART)
        while low < len(self.entity_X):
            yield slice(low, min(low + rows, len(self.entity_X)))
            low, rows = low + rows, min(most, 2 * rows)

    def _least(self, best: Best) -> float:
        """Return what a bound must reach: twice the least worth, less what rounding of a sum and its parts may take from it."""
        if best.least == NEVER:
            return NEVER
        lifts = sum(max(0.0, 2 * shift) for shift in (self.search.shifts.head, self.search.shifts.tail))
        return best.least - 4 * ROUNDING[self.kind] * (abs(best.least) + 2 * lifts)

    def _look(self, bound_BT: Tensor, there_BT: Tensor, back_BT: Tensor, row_B: Tensor, best: Best) -> Best:
        """Add what a block of pairs brings: the exact worth of those whose bound reaches the threshold, the highest bounds first."""
        self.finder.leave_out(bound_BT, self.entity_X[row_B], self.search.relation, self.place_E)
        least = self._least(best)
        most_B = bound_BT.amax(dim=1)
        near_Y = ((most_B >= least) & (most_B > NEVER)).nonzero().squeeze(1)
        bound_YT = bound_BT[near_Y] if len(near_Y) < len(row_B) else bound_BT
        at_X, tail_X = ((bound_YT >= least) & (bound_YT > NEVER)).nonzero().unbind(1)
        at_X = near_Y[at_X]
        head_X = row_B[at_X]
        bound_X = self._tight(there_BT[at_X, tail_X].to(self.scorer.dtype), back_BT[at_X, tail_X].to(self.scorer.dtype), head_X, tail_X)
        while True:
            near_X = (bound_X >= self._least(best)).nonzero().squeeze(1)
            head_X, tail_X, bound_X = head_X[near_X], tail_X[near_X], bound_X[near_X]
            if not len(bound_X):
                return best
            share = min(len(bound_X), max(64, self.finder.block_numbers // self.scorer.head_ED.shape[1]))
            first_S = bound_X.topk(share).indices
            best = self._exact(head_X[first_S], tail_X[first_S], best)
            bound_X.index_fill_(0, first_S, torch.nan)  # which is never as large as anything

    def _tight(self, there_X: Tensor, back_X: Tensor, head_X: Tensor, tail_X: Tensor) -> Tensor:
        """Return a bound for pairs from their rough products that knows of types: an answer of another type has the share σ(s − Z), not e^(s − Z)."""
        bound_X = torch.zeros_like(there_X)
        sides = ((there_X, self.shift_H[head_X], self.typed[1][tail_X]), (back_X, self.shift_T[tail_X], self.typed[0][head_X]))
        for rough_X, shift_X, typed_X in sides:
            odds_X = rough_X + 2 * ROUNDING[self.kind] * rough_X.abs() - shift_X
            bound_X += torch.where(typed_X, odds_X.clamp_max(0), torch.nn.functional.logsigmoid(odds_X)) + shift_X
        return bound_X

    def _exact(self, head_X: Tensor, tail_X: Tensor, best: Best) -> Best:
        """Add the pairs of some heads and tails, given by their places, that are of another type and worthy enough."""
        (there_HD, total_H), (back_TD, total_T) = self.asks
        head_typed_X, tail_typed_X = self.typed[0][head_X], self.typed[1][tail_X]
        there_X = (there_HD[head_X] * self.tail_XD[tail_X]).sum(dim=1)
        back_X = (back_TD[tail_X] * self.tail_XD[head_X]).sum(dim=1)
        worth_X = log_share(there_X, total_H[head_X], tail_typed_X) + log_share(back_X, total_T[tail_X], head_typed_X)
        worth_X += self.shift_H[head_X] + self.shift_T[tail_X]
        kept_X = (worth_X >= best.least) & ~(head_typed_X & tail_typed_X)
        return best.with_pairs(self.entity_X[head_X[kept_X]], self.entity_X[tail_X[kept_X]], worth_X[kept_X])


def _bounding(query_XD: Tensor, bias_X: Tensor, tail_XD: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return vectors of a type whose products are at least q · v + bias, and hardly more; one for each query, one for each tail.

    The bias is the sum of three numbers, each the rounding error of those before it, so that hardly any of it is lost.
    """
    parts, left_X = [], bias_X
    for _ in range(3):
        parts.append(left_X.to(kind))
        left_X = left_X - parts[-1].to(bias_X.dtype)
    u = 0.0 if kind == query_XD.dtype else ROUNDING[kind]
    error_X = (2 * u + u * u + (query_XD.shape[1] + 8) * FLOAT_SUMS) * query_XD.norm(dim=1)
    one_X = torch.ones_like(bias_X, dtype=kind)
    left = [*parts, _rounded_up(error_X, kind)]
    right = [one_X, one_X, one_X, _rounded_up(tail_XD.norm(dim=1), kind)]
    return torch.cat([query_XD.to(kind), torch.stack(left, 1)], 1), torch.cat([tail_XD.to(kind), torch.stack(right, 1)], 1)


def _rounded_up(number_X: Tensor, kind: torch.dtype) -> Tensor:
    """Return numbers in a type, none smaller than it was."""
    return (number_X + 2 * ROUNDING[kind] * number_X.abs()).to(kind)
