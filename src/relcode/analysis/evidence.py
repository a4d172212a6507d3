"""How strongly both questions of a fact speak for it, in a form that can be compared between facts.

A fact (h, r, t) answers two questions, (h, r, ?) and (t, r⁻¹, ?), whose scores are on scales of their own. Each is turned into its share of the
answers among candidates of the right type (``analysis/candidates.py``), and the two are combined as their geometric mean:

    Z(h, r) = ln Σ_{e ∈ tails(r)} exp u_h M_r v_e        ln share(t | h, r) = s − ln(exp Z + [t ∉ tails(r)] exp s),   s = u_h M_r v_t
    evidence(h, r, t) = ½ ( ln share(t | h, r) + ln share(h | t, r⁻¹) )

so a log-softmax over the candidates, to which an answer of another type is added. Evidence is at most 0.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import torch
from torch import Tensor

from relcode.analysis.candidates import Candidates
from relcode.errors import NotFinite
from relcode.model.score import Scorer
from relcode.ops.precision import full_precision

BLOCK_NUMBERS = {"cpu": 2**22, "cuda": 2**27}  # scores held at a time, where no bound on memory says otherwise: 16 MB, which caches like; 512 MB
KEPT_BYTES = 2**27  # of candidates' vectors, by whoever answers many questions


def log_sum_exp(score_BC: Tensor, dim: int = 1) -> Tensor:
    """Return ln Σ exp s over a dimension, overwriting the scores; several times faster on CPU than torch's own, which keeps them."""
    largest = score_BC.amax(dim=dim, keepdim=True)
    return score_BC.sub_(largest).exp_().sum(dim=dim).log_().add_(largest.squeeze(dim))


def log_totals(scorer: Scorer, candidates: Candidates, head_H: Tensor, relation: int, block_numbers: int = BLOCK_NUMBERS["cpu"]) -> Tensor:
    """Return Z(h, s) for each head and one directed relation; float32 [H] on the scorer's device. ``NotFinite`` where a score is not a number."""
    tail_TD = scorer.tail_ED[candidates.tails(relation).to(scorer.device)]
    if not len(tail_TD):
        return torch.full((len(head_H),), -torch.inf, device=scorer.device)
    rows = max(1, block_numbers // len(tail_TD))
    with full_precision():
        parts = [log_sum_exp(scorer.path_queries(head_B, (relation,)) @ tail_TD.T) for head_B in head_H.split(rows)]
    total_H = torch.cat([tail_TD.new_empty(0), *parts])
    check_totals(total_H)
    return total_H


class TailVectors:
    """The vectors of each directed relation's candidate tails, gathered once and kept within a bound: who asks many questions asks for them again.

    Gathering them takes longer than their products with a few queries. Those asked for longest ago go first. Threads may share one.
    """

    def __init__(self, scorer: Scorer, candidates: Candidates, most_bytes: int = KEPT_BYTES) -> None:
        """Keep nothing yet."""
        self.scorer, self.candidates, self.most_bytes = scorer, candidates, most_bytes
        self._kept: OrderedDict[int, Tensor] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()
        self._totals: OrderedDict[int, Tensor] = OrderedDict()

    def of(self, relation: int) -> Tensor:
        """Return the vectors of the candidate tails of a directed relation; [T, D]."""
        with self._lock:
            if relation in self._kept:
                self._kept.move_to_end(relation)
                return self._kept[relation]
        tail_TD = self.scorer.tail_ED[self.candidates.tails(relation).to(self.scorer.device)]
        with self._lock:
            if relation not in self._kept:
                self._kept[relation] = tail_TD
                self._bytes += tail_TD.nbytes
            while self._bytes > self.most_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return tail_TD

    def totals(self, entity_X: Tensor, query_XD: Tensor, relation: int) -> Tensor:
        """Return Z of entities whose queries by one directed relation are given; what was summed up once is kept, as answers come again and again."""
        with self._lock:
            if relation not in self._totals:
                self._totals[relation] = torch.full((self.scorer.num_entities,), torch.nan, device=self.scorer.device)
                while len(self._totals) > max(1, self.most_bytes // (16 * self.scorer.num_entities)):  # a quarter of the bound
                    self._totals.popitem(last=False)
            self._totals.move_to_end(relation)
            total_E = self._totals[relation]
        total_X = total_E[entity_X]
        new_N = total_X.isnan().nonzero().squeeze(1)
        if len(new_N):
            total_X[new_N] = self.log_totals(query_XD[new_N], relation)
            total_E[entity_X] = total_X
        return total_X

    def log_totals(self, query_BD: Tensor, relation: int) -> Tensor:
        """Return Z of a few queries u_h M_s by one directed relation s; [B]."""
        tail_TD = self.of(relation)
        if not len(tail_TD):
            return torch.full((len(query_BD),), -torch.inf, device=self.scorer.device)
        with full_precision():
            total_B = log_sum_exp(query_BD @ tail_TD.T)
        check_totals(total_B)
        return total_B


def check_totals(total_X: Tensor) -> None:
    """Raise ``NotFinite`` where a total is not a number."""
    if not bool(total_X.isfinite().all()):
        raise NotFinite("scores are NaN or infinite: the model has diverged and cannot answer")


def log_share(score_X: Tensor, total_X: Tensor, within_X: Tensor) -> Tensor:
    """Return ln share of answers with scores s among candidates with total Z; ``within`` is true where the answer is itself a candidate."""
    odds_X = score_X - total_X
    return torch.where(within_X, odds_X, torch.nn.functional.logsigmoid(odds_X))  # s − ln(e^Z + e^s) = ln σ(s − Z)


def fact_evidence(scorer: Scorer, candidates: Candidates, facts_N3: Tensor, block_numbers: int = BLOCK_NUMBERS["cpu"]) -> Tensor:
    """Return the evidence of each fact, whose relation may be directed; float32 [N] on the CPU.

    Minus infinity where no training fact has the relation. Facts with an entity never trained get a number that means nothing: leave them out.
    """
    evidence_N = torch.empty(len(facts_N3))
    facts_N3 = facts_N3.cpu()
    for relation in facts_N3[:, 1].unique().tolist():
        row_X = (facts_N3[:, 1] == relation).nonzero().squeeze(1)
        evidence_N[row_X] = _pair_evidence(scorer, candidates, relation, facts_N3[row_X, 0], facts_N3[row_X, 2], block_numbers)
    return evidence_N


def _pair_evidence(scorer: Scorer, candidates: Candidates, relation: int, head_X: Tensor, tail_X: Tensor, block_numbers: int) -> Tensor:
    """Return the evidence of pairs of one directed relation."""
    if not len(candidates.heads(relation)):
        return torch.full((len(head_X),), -torch.inf)
    found_X = torch.zeros(len(head_X), device=scorer.device)
    for asked_X, answer_X, directed in ((head_X, tail_X, relation), (tail_X, head_X, candidates.inverse(relation))):
        one_H, place_X = asked_X.unique(return_inverse=True)
        total_H = log_totals(scorer, candidates, one_H, directed, block_numbers)
        query_HD = scorer.path_queries(one_H, (directed,))
        place_X = place_X.to(scorer.device)
        score_X = (query_HD[place_X] * scorer.tail_ED[answer_X.to(scorer.device)]).sum(dim=1)
        within_X = torch.isin(answer_X, candidates.tails(directed)).to(scorer.device)
        found_X += log_share(score_X, total_H[place_X], within_X) / 2
    return found_X.cpu()
