"""The pairs of a relation that are most probable, found in blocks of bounded memory.

Pairs are put in the order of their *worth*: their evidence, shifted where a question has an answer already and for entities of another type
(``analysis/calibration.py`` tells by how much; by nothing where there is no calibration):

    worth(h, r, t) = evidence(h, r, t) + [h has a tail] · shift_h + [t has a head] · shift_t + [h or t of another type] · shift_other

With a = [u_h M_r, v_h, −Z(h, r) + 2·shift_h(h), 1] and b = [v_t, u_t M_r⁻¹, 1, −Z(t, r⁻¹) + 2·shift_t(t)], twice the worth of candidates of the
right type is the one product a · b. So a block of pairs is one product, and its rows are looked at only where their largest entry reaches the best
found so far. Pairs of another type come after them (``analysis/any_pairs.py``).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from relcode.analysis.any_pairs import AnyPairs
from relcode.analysis.candidates import Candidates
from relcode.analysis.evidence import BLOCK_NUMBERS, check_totals, log_share, log_sum_exp, log_totals
from relcode.analysis.found_pairs import NEVER, Best, Pairs, Search, Shifts, order
from relcode.graph.known import KnownAnswers
from relcode.model.score import Scorer
from relcode.ops.precision import full_precision, rough_type

LOWEST = -1e30  # of what is not struck out
FIRST_TAILS = 64  # whose own question is asked first, where heads are given; then twice as many


class PairFinder:
    """Finds pairs relation after relation, with one model and one set of known answers."""

    def __init__(self, scorer: Scorer, candidates: Candidates, known: KnownAnswers, block_numbers: int | None = None) -> None:
        """Take what all searches share; ``block_numbers`` bounds the scores held at a time, of which there are up to four kinds."""
        self.scorer, self.candidates, self.known = scorer, candidates, known.to(scorer.device)
        self.block_numbers = BLOCK_NUMBERS.get(scorer.device.type, BLOCK_NUMBERS["cpu"]) if block_numbers is None else max(1, block_numbers)
        self.seen_X = scorer.seen_E.nonzero().squeeze(1).cpu()
        self.rough = rough_type(scorer.device.type)  # what the first look at pairs of any type is multiplied in; tests say what

    def best(self, search: Search) -> Pairs:
        """Return the pairs looked for, by falling worth; of equals the lower head, then the lower tail comes first."""
        with torch.inference_mode(), full_precision():
            return self._described(search, self._search(search))

    def pairs_in(self, search: Search) -> int:
        """Return how many pairs are looked at, known ones included: what a search costs."""
        head_H, tail_T = self.sides(search)
        return len(head_H) * len(tail_T)

    def sides(self, search: Search) -> tuple[Tensor, Tensor]:
        """Return the heads and tails to be joined."""
        sides = []
        for wanted, typed in ((search.heads, self.candidates.heads), (search.tails, self.candidates.tails)):
            side = self.seen_X if search.any_type else typed(search.relation)
            sides.append(side if wanted is None else side[torch.isin(side, wanted)])
        return sides[0], sides[1]

    def asked(self, entity_X: Tensor, relation: int) -> Tensor:
        """Tell for each entity whether (entity, relation, ?) has a known answer; bool, on the entities' device."""
        entity_X = entity_X.to(self.scorer.device)
        row_Y, _ = self.known.pairs(entity_X, torch.full_like(entity_X, relation))
        return torch.bincount(row_Y, minlength=len(entity_X)) > 0

    def places(self, tail_T: Tensor) -> Tensor:
        """Return the column of each entity in a block whose columns are these tails, -1 where it has none; [E]."""
        place_E = torch.full((self.scorer.num_entities,), -1, device=self.scorer.device)
        place_E[tail_T] = torch.arange(len(tail_T), device=self.scorer.device)
        return place_E

    def leave_out(self, worth_BT: Tensor, head_B: Tensor, relation: int, place_E: Tensor) -> None:
        """Strike out known pairs, and an entity with itself where training facts do not have that."""
        row_X, entity_X = self.known.pairs(head_B, torch.full_like(head_B, relation))
        if not bool(self.candidates.loops_R[relation % self.candidates.num_relations]):
            row_X = torch.cat([row_X, torch.arange(len(head_B), device=head_B.device)])
            entity_X = torch.cat([entity_X, head_B])
        column_X = place_E[entity_X]
        worth_BT[row_X[column_X >= 0], column_X[column_X >= 0]] = NEVER

    def _search(self, search: Search) -> Best:
        best = Best.none(search, self.scorer.device)
        if not len(self.candidates.heads(search.relation)) or search.top < 1:
            return best
        if search.heads is not None or search.tails is not None:
            return self._search_few(search, best)
        best = _Block(self, replace(search, any_type=False)).take(best)
        # Entities of other types come second: what was found already is the threshold that nearly all of them miss. Since evidence is at most 0,
        # a relation whose best pairs are better than the shifts allow needs no look at them at all.
        shifts = search.shifts
        if not search.any_type or best.least > 2 * (shifts.other + max(0.0, shifts.head) + max(0.0, shifts.tail)):
            return best
        return AnyPairs(self, search).take(best)

    def _search_few(self, search: Search, best: Best) -> Best:
        """Search where heads or tails are given; where only tails are, by the inverse relation."""
        if not all(map(len, self.sides(search))):
            return best
        if search.heads is not None:
            return FewHeads(self, search).take(best)
        shifts = Shifts(search.shifts.tail, search.shifts.head, search.shifts.other)
        turned = replace(search, relation=self.candidates.inverse(search.relation), heads=search.tails, tails=None, shifts=shifts)
        found = FewHeads(self, turned).take(best)
        return replace(found, head_X=found.tail_X, tail_X=found.head_X)

    def _described(self, search: Search, best: Best) -> Pairs:
        """Put pairs in order and say what there is to say about them."""
        relation, inverse = search.relation, self.candidates.inverse(search.relation)
        order_X = order(best.head_X, best.tail_X, best.worth_X)
        head_X, tail_X, worth_X = best.head_X[order_X], best.tail_X[order_X], best.worth_X[order_X]
        asked = self.asked(head_X, relation).cpu(), self.asked(tail_X, inverse).cpu()
        head_X, tail_X = head_X.cpu(), tail_X.cpu()
        other_X = ~(torch.isin(head_X, self.candidates.heads(relation)) & torch.isin(tail_X, self.candidates.tails(relation)))
        shift_X = asked[0] * search.shifts.head + asked[1] * search.shifts.tail + other_X * search.shifts.other
        score_X = self.scorer.score_facts(torch.stack([head_X, torch.full_like(head_X, relation), tail_X], dim=1)).cpu()
        return Pairs(head_X, tail_X, worth_X.cpu() / 2 - shift_X, score_X, *asked, other_X)


class _Block:
    """All pairs of the right type of one search, a block of heads at a time."""

    def __init__(self, finder: PairFinder, search: Search) -> None:
        self.finder, self.search, self.scorer = finder, search, finder.scorer
        self.inverse = finder.candidates.inverse(search.relation)
        head_H, tail_T = finder.sides(search)
        self.head_H, self.tail_T = head_H.to(self.scorer.device), tail_T.to(self.scorer.device)
        self.place_E = finder.places(self.tail_T)

    def take(self, best: Best) -> Best:
        """Look at all pairs."""
        if not len(self.head_H) or not len(self.tail_T):
            return best
        self.query_HD = self.scorer.path_queries(self.head_H, (self.search.relation,))
        self.query_TD = self.scorer.path_queries(self.tail_T, (self.inverse,))
        self.as_tail_HD, self.as_tail_TD = self.scorer.tail_ED[self.head_H], self.scorer.tail_ED[self.tail_T]
        self._shift()
        if len(self.head_H) * len(self.tail_T) <= self.finder.block_numbers:
            return self._look(self._all_at_once(), slice(0, len(self.head_H)), best)
        self.total_H = self._totals(self.head_H, self.search.relation)
        self.total_T = self._totals(self.tail_T, self.inverse)
        bias_H1, bias_T1 = (self.shift_H - self.total_H)[:, None], (self.shift_T - self.total_T)[:, None]
        left_HX = torch.cat([self.query_HD, self.as_tail_HD, bias_H1, torch.ones_like(bias_H1)], dim=1)
        right_TX = torch.cat([self.as_tail_TD, self.query_TD, torch.ones_like(bias_T1), bias_T1], dim=1)
        rows = max(1, self.finder.block_numbers // len(self.tail_T))
        for low in range(0, len(self.head_H), rows):
            part = slice(low, low + rows)
            best = self._look(left_HX[part] @ right_TX.T, part, best)
        return best

    def _all_at_once(self) -> Tensor:
        """Return twice the worth of every pair where all fit in memory: the scores that the totals sum up are those that are wanted."""
        there_HT, back_HT = self.query_HD @ self.as_tail_TD.T, self.as_tail_HD @ self.query_TD.T
        total_H, total_T = log_sum_exp(there_HT.clone(), 1), log_sum_exp(back_HT.clone(), 0)
        check_totals(torch.cat([total_H, total_T]))
        return there_HT.add_(back_HT).add_((self.shift_H - total_H)[:, None]).add_(self.shift_T - total_T)

    def _totals(self, entity_X: Tensor, relation: int) -> Tensor:
        """Return Z of every entity as the head of a directed relation."""
        return log_totals(self.scorer, self.finder.candidates, entity_X, relation, self.finder.block_numbers)

    def _shift(self) -> None:
        """Work out what each head and each tail adds to twice the evidence of its pairs."""
        shifts = self.search.shifts
        self.shift_H = self.finder.asked(self.head_H, self.search.relation) * (2 * shifts.head)
        self.shift_T = self.finder.asked(self.tail_T, self.inverse) * (2 * shifts.tail)

    def _look(self, worth_BT: Tensor, part: slice, best: Best) -> Best:
        """Add what a block of pairs brings."""
        head_B = self.head_H[part]
        self.finder.leave_out(worth_BT, head_B, self.search.relation, self.place_E)
        largest_B = worth_BT.amax(dim=1)
        least = best.least
        if len(best.worth_X) < best.top <= len(largest_B):
            least = max(least, float(largest_B.topk(best.top).values[-1]))  # as many pairs as wanted reach this, one in each of these rows
        row_Y = ((largest_B >= least) & (largest_B > NEVER)).nonzero().squeeze(1)
        if not len(row_Y):
            return best
        worth_YT = worth_BT[row_Y]
        at_X, column_X = ((worth_YT >= least) & (worth_YT > NEVER)).nonzero().unbind(1)
        return best.with_pairs(head_B[row_Y[at_X]], self.tail_T[column_X], worth_YT[at_X, column_X])


class FewHeads:
    """The pairs of some heads. As ln share(h | t, r⁻¹) ≤ 0, what is known without it bounds a pair's worth from above:

        2 · worth ≤ ln share(t | h, r) + 2 · shifts

    so tails are taken by falling bound, and the totals Z(t, r⁻¹), which are nearly all of the work, are needed for the first few alone.
    """

    def __init__(self, finder: PairFinder, search: Search) -> None:
        """Take heads and tails, and what is known of tails before any of them is looked at."""
        self.finder, self.search, self.scorer, self.relation = finder, search, finder.scorer, search.relation
        device, candidates = finder.scorer.device, finder.candidates
        self.inverse = candidates.inverse(search.relation)
        self.head_H, self.tail_T = (side.to(device) for side in finder.sides(search))
        self.typed_H = torch.isin(self.head_H, candidates.heads(search.relation).to(device))
        self.typed_T = torch.isin(self.tail_T, candidates.tails(search.relation).to(device))
        self.place_E = finder.places(self.tail_T)
        self.shift_T = finder.asked(self.tail_T, self.inverse) * (2 * search.shifts.tail)
        self.total_T = torch.full((len(self.tail_T),), torch.nan, device=device)  # filled as they are needed

    def take(self, best: Best) -> Best:
        """Look at all pairs that may be among the best."""
        if not len(self.head_H) or not len(self.tail_T):
            return best
        rows = max(1, self.finder.block_numbers // len(self.tail_T))
        for low in range(0, len(self.head_H), rows):
            part = slice(low, low + rows)
            bound_BT = self._bounds(part)
            order_T = bound_BT.amax(dim=0).argsort(descending=True, stable=True)
            start, width = 0, FIRST_TAILS
            while start < len(order_T) and float(bound_BT[:, order_T[start]].max()) >= max(best.least, LOWEST):
                column_C = order_T[start : start + width]
                best = self._columns(bound_BT[:, column_C], part, column_C, best)
                start, width = start + width, 2 * width
        return best

    def _bounds(self, part: slice) -> Tensor:
        """Return what is known of twice the worth of pairs before the tails' own question is asked; [B, T]."""
        head_B, shifts = self.head_H[part], self.search.shifts
        total_B = log_totals(self.scorer, self.finder.candidates, head_B, self.relation, self.finder.block_numbers)
        query_BD = self.scorer.path_queries(head_B, (self.relation,))
        bound_BT = log_share(query_BD @ self.scorer.tail_ED[self.tail_T].T, total_B[:, None], self.typed_T)
        bound_BT += (self.finder.asked(head_B, self.relation) * (2 * shifts.head))[:, None] + self.shift_T
        bound_BT += ~(self.typed_H[part][:, None] & self.typed_T) * (2 * shifts.other)
        self.finder.leave_out(bound_BT, head_B, self.relation, self.place_E)
        return bound_BT

    def _columns(self, bound_BC: Tensor, part: slice, column_C: Tensor, best: Best) -> Best:
        """Add what the pairs with some tails bring."""
        new_N = column_C[self.total_T[column_C].isnan()]
        self.total_T[new_N] = log_totals(self.scorer, self.finder.candidates, self.tail_T[new_N], self.inverse, self.finder.block_numbers)
        tail_C, head_B = self.tail_T[column_C], self.head_H[part]
        back_BC = self.scorer.tail_ED[head_B] @ self.scorer.path_queries(tail_C, (self.inverse,)).T
        worth_BC = bound_BC + log_share(back_BC, self.total_T[column_C], self.typed_H[part][:, None])
        row_X, place_X = ((worth_BC >= best.least) & (worth_BC > NEVER)).nonzero().unbind(1)
        return best.with_pairs(head_B[row_X], tail_C[place_X], worth_BC[row_X, place_X])
