"""Which facts of its two entities carry a belief, and what becomes of it without them.

For the question (h, R, ?) with the answer t, rivals being the trained entities that are not known answers,

    log-odds = u_h M_R v_t − ln Σ_rivals exp(u_h M_R v_y)        likelihood = 1/(1 + exp(−log-odds))

``Inquiry.falls`` estimates for every fact of h or t how far the log-odds fall where it is left out and the two vectors are fitted again;
``Inquiry.outcome`` leaves out whole sets of facts, fits, and measures. The fact asked about is never among those fitted. All is
``relcode.analysis.refit``; compare outcomes with each other, not with the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from relcode.analysis.refit import EntityProblem, Refitter
from relcode.errors import NotFinite
from relcode.graph.known import KnownAnswers
from relcode.ops.diagonal import times
from relcode.ops.precision import full_precision


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """What the model says of the fact after each of A fits: score, filtered rank (realistic), log-odds; float64 [A], on the CPU."""

    score_A: Tensor
    rank_A: Tensor
    log_odds_A: Tensor

    @property
    def likelihood_A(self) -> Tensor:
        """Return 1/(1 + exp(−log-odds))."""
        return torch.sigmoid(self.log_odds_A)


@dataclass(frozen=True, eq=False)
class Inquiry:
    """One fact (head, directed relation, tail), both of whose entities were trained, and the fits of its two vectors."""

    refitter: Refitter
    known: KnownAnswers
    head: int
    relation: int
    tail: int

    @property
    def _named(self) -> tuple[int, int, int]:
        """Return the fact as it is stored."""
        R = self.refitter.scorer.num_relations
        return (self.head, self.relation, self.tail) if self.relation < R else (self.tail, self.relation - R, self.head)

    @cached_property
    def head_problem(self) -> EntityProblem:
        """The fit of u_h."""
        return self.refitter.problem(self.head, True, self._named)

    @cached_property
    def tail_problem(self) -> EntityProblem:
        """The fit of v_t."""
        return self.refitter.problem(self.tail, False, self._named)

    @cached_property
    def _rivals_E(self) -> Tensor:
        """The entities that are not known answers, nor the tail; bool [E]."""
        rival_E = torch.ones_like(self.refitter.scorer.seen_E)
        rival_E[self.known.of(self.head, self.relation).to(rival_E.device)] = False
        rival_E[self.tail] = False
        return rival_E

    def _scores(self, head_AD: Tensor, tail_AD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of the tail [A] and of all entities [A, E] by vectors that were fitted."""
        scorer = self.refitter.scorer
        with full_precision():
            query_AD = times(head_AD, scorer.matrix_SDD[self.relation])
            score_AE = query_AD @ scorer.tail_ED.T
            if self.refitter.shared:
                score_AE[:, self.head] = (query_AD * head_AD).sum(dim=1)  # the head itself, as an answer, has the new vector too
            score_A = (query_AD * tail_AD).sum(dim=1)
        if not bool(score_A.isfinite().all()):
            raise NotFinite("scores are NaN or infinite: the model has diverged and cannot explain itself")
        return score_A, score_AE

    @cached_property
    def _fitted(self) -> tuple[Tensor, Tensor]:
        """The two vectors fitted on all facts but the one asked about; [D] each."""
        nothing = [torch.empty(0, dtype=torch.int64)]
        return self.head_problem.fit(self.head_problem.keep(nothing))[0], self.tail_problem.fit(self.tail_problem.keep(nothing))[0]

    def falls(self) -> tuple[Tensor, Tensor]:
        """Return the positions of the facts of h or t and how far the log-odds would fall without each, the farthest first; on the CPU."""
        scorer = self.refitter.scorer
        head_D, tail_D = self._fitted
        _, score_1E = self._scores(head_D[None], tail_D[None])
        rival_E = (self._rivals_E & scorer.seen_E).nonzero().squeeze(1)
        rivals_D = score_1E[0, rival_E].softmax(dim=0) @ scorer.tail_ED[rival_E]
        matrix_DD = scorer.matrix_SDD[self.relation]
        of_head_F = self.head_problem.influence(head_D, times(tail_D - rivals_D, matrix_DD, back=True)).cpu()
        of_tail_F = self.tail_problem.influence(tail_D, times(head_D, matrix_DD)).cpu()
        row_X, place_F = torch.cat([self.head_problem.row_F, self.tail_problem.row_F]).unique(return_inverse=True)
        fall_X = torch.zeros(len(row_X), dtype=of_head_F.dtype).index_add_(0, place_F, torch.cat([of_head_F, of_tail_F]))
        order_X = fall_X.argsort(descending=True, stable=True)
        return row_X[order_X], fall_X[order_X].double()

    def outcome(self, removed: Sequence[Tensor]) -> Outcome:
        """Fit again without each of A sets of facts (positions), and measure."""
        head_AD, tail_AD = (problem.fit(problem.keep(list(removed))) for problem in (self.head_problem, self.tail_problem))
        return self._measured(head_AD, tail_AD)

    def as_trained(self) -> Outcome:
        """Measure with the vectors that the model has, before anything is fitted again; A is 1."""
        scorer = self.refitter.scorer
        return self._measured(scorer.head_ED[self.head][None], scorer.tail_ED[self.tail][None])

    def _measured(self, head_AD: Tensor, tail_AD: Tensor) -> Outcome:
        """Score and rank the tail by vectors given."""
        score_A, score_AE = self._scores(head_AD, tail_AD)
        rival_AE = score_AE[:, self._rivals_E]
        rank_A = 1 + (rival_AE > score_A[:, None]).sum(dim=1) + (rival_AE == score_A[:, None]).sum(dim=1) / 2
        log_odds_A = score_A - score_AE[:, self._rivals_E & self.refitter.scorer.seen_E].logsumexp(dim=1)
        return Outcome(score_A.double().cpu(), rank_A.double().cpu(), log_odds_A.double().cpu())

    def random_removal(self, removed_X: Tensor, generator: torch.Generator) -> Tensor:
        """Draw as many facts of h, and as many others of t, as ``removed_X`` has of each; positions, all facts of the entity alike likely."""
        of_head_X, of_tail_X = self.head_problem.row_F, self.tail_problem.row_F
        drawn = []
        for pool_X in (of_head_X, of_tail_X[~torch.isin(of_tail_X, of_head_X)]):
            number = int(torch.isin(removed_X, pool_X).sum())
            drawn.append(pool_X[torch.randperm(len(pool_X), generator=generator)[:number]])
        return torch.cat(drawn)
