"""Is an explanation needed? Remove its facts, fit the vectors of h and t again on what is left, everything else frozen, and look at the rank.

One objective serves every recipe, since it asks nothing of scores but their order and scale: the likelihood of an entity's facts by the softmax over
all trained entities, and the Gaussian that the trained vectors look like as a prior. With x a directed edge and w the vector that is fitted,

    as a head    Σ_(e,s,x) [ w M_s v_x − ln Σ_y exp(w M_s v_y) ]
    as a tail    Σ_(x,s,e) [ q w − ln(exp(q w) + Z_q) ] − Σ_(y,r,z), z ≠ e  ln(exp(q w) + Z_q)        q = u_x M_s, Z_q = Σ_y≠e exp(q v_y)
    prior        − ρ/2 ‖w − w̄‖²          w̄ the mean of the trained vectors

ρ is chosen so that vectors fitted to all of their entities' facts come out as far from w̄ as the trained ones are (``Refitter``). Where a model has
two vectors for an entity, u_h is fitted as a head and v_t as a tail; where it has one, the vectors of h and of t are each fitted in both roles at
once. y goes over the entity's own answers and a fixed sample of the others, (y,r,z) over a fixed sample of the training edges, each weighing as many
as it stands for. The problem is concave, with one solution wherever the search starts (Newton's steps, halved until they help): the trained vector,
from which it does, leaves no trace of what was removed.

Near the solution ŵ, with H the curvature there, leaving out a fact f moves it by −H⁻¹ ∇ℓ_f, so whatever a fact is good for can be read off:

    fall of g(ŵ) where f is left out  ≈  ∇g · H⁻¹ · ∇ℓ_f                  (Cook and Weisberg 1982; Koh and Liang 2017)

Deleting facts without fitting again would change nothing and prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from relcode.graph.facts import directed
from relcode.model.score import Scorer, relation_queries
from relcode.ops.diagonal import times, transpose
from relcode.ops.precision import full_precision

NOISE_ENTITIES = 1024  # more other entities than these are represented by as many, drawn once; likewise more answers
NOISE_EDGES = 4096
NEWTON_STEPS = 40
HALVINGS = 12
CLOSE = 1e-5  # a Newton step that can gain no more than this, in nats, is the last
ROUNDING = 8.0  # and so is one that can gain no more than so many units in the last place of the value
BLOCK_NUMBERS = 2**25  # of scores held at a time
SEED = 0
CALIBRATED = 6  # entities whose fits set ρ, of at most MOST_FACTS facts
MOST_FACTS = 50
RIDGES = (2.0, 0.5, 0.125, 0.03125)  # tried, in units of one over the mean variance of a coordinate


def sample(number_X: Tensor, most: int) -> Tensor:
    """Return the numbers, or ``most`` of them drawn by a fixed seed, so that every fit has the same noise."""
    if len(number_X) <= most:
        return number_X
    return number_X[torch.randperm(len(number_X), generator=torch.Generator().manual_seed(SEED))[:most].to(number_X.device)]


def spread(vector_ED: Tensor, seen_E: Tensor) -> tuple[Tensor, float]:
    """Return the mean of the trained vectors and one over the mean variance of their coordinates."""
    vector_XD = vector_ED[seen_E]
    variance = float((vector_XD - vector_XD.mean(dim=0)).square().mean())
    return vector_XD.mean(dim=0), 1 / max(variance, 1e-12)


def shares_vectors(scorer: Scorer) -> bool:
    """Tell whether an entity has one vector, as a head and as a tail."""
    return torch.equal(scorer.head_ED, scorer.tail_ED)


def no_traces(chance: Tensor) -> Tensor:
    """Return chances with 0 for those below 1e-20: products with numbers too small for the normal form take the CPU a hundred times as long."""
    return torch.nn.functional.threshold(chance, 1e-20, 0)


@dataclass(frozen=True, eq=False)
class HeadRole:
    """The likelihood of the edges (e, s, x) that leave an entity: T relations with Y candidates each, of which some are the X answers."""

    gold_XD: Tensor  # M_s v_x
    relation_X: Tensor  # which of the T
    fact_X: Tensor  # which of the entity's facts the edge is
    matrix_TDD: Tensor
    candidate_YD: Tensor
    log_weight_Y: Tensor  # how many entities each stands for

    def _chances(self, w_AD: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln Σ_y exp(w M_t v_y), [A, T], and the softmax, [A, T, Y]."""
        score_ATY = times(w_AD, self.matrix_TDD).transpose(0, 1) @ self.candidate_YD.T + self.log_weight_Y
        total_AT = score_ATY.logsumexp(dim=2)
        return total_AT, no_traces((score_ATY - total_AT[..., None]).exp())

    def _per_relation(self, keep_AF: Tensor) -> Tensor:
        """Return how many edges of each relation are kept; [A, T]."""
        count_AT = keep_AF.new_zeros((len(keep_AF), len(self.matrix_TDD)))
        return count_AT.index_add_(1, self.relation_X, keep_AF[:, self.fact_X])

    def value(self, w_AD: Tensor, keep_AF: Tensor) -> Tensor:
        """Return the log-likelihood of the edges kept; [A]."""
        gold_A = ((w_AD @ self.gold_XD.T) * keep_AF[:, self.fact_X]).sum(dim=1)
        return gold_A - (self._per_relation(keep_AF) * self._chances(w_AD)[0]).sum(dim=1)

    def curve(self, w_AD: Tensor, keep_AF: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradient [A, D] and curvature (minus the matrix of second derivatives) [A, D, D]."""
        _, chance_ATY = self._chances(w_AD)
        count_AT = self._per_relation(keep_AF)
        mean_ATD = times((chance_ATY @ self.candidate_YD).transpose(0, 1), self.matrix_TDD, back=True).transpose(0, 1)
        gradient_AD = keep_AF[:, self.fact_X] @ self.gold_XD - (count_AT[..., None] * mean_ATD).sum(dim=1)
        curvature_ADD = torch.zeros((*w_AD.shape, w_AD.shape[1]), dtype=w_AD.dtype, device=w_AD.device)
        for relation, matrix_DD in enumerate(self.matrix_TDD):  # one at a time: T·Y vectors of size D would be many
            image_YD = times(self.candidate_YD, matrix_DD, back=True)
            weight_AY = count_AT[:, relation, None] * chance_ATY[:, relation]
            curvature_ADD += (weight_AY[..., None] * image_YD).transpose(1, 2) @ image_YD
        curvature_ADD -= torch.einsum("at,atd,ate->ade", count_AT, mean_ATD, mean_ATD)
        return gradient_AD, curvature_ADD

    def gradients(self, w_D: Tensor, facts: int) -> Tensor:
        """Return the gradient of each fact's own likelihood; [F, D]."""
        _, chance_1TY = self._chances(w_D[None])
        mean_TD = times((chance_1TY @ self.candidate_YD)[0][:, None], self.matrix_TDD, back=True)[:, 0]
        return w_D.new_zeros((facts, len(w_D))).index_add_(0, self.fact_X, self.gold_XD - mean_TD[self.relation_X])


@dataclass(frozen=True, eq=False)
class TailRole:
    """The likelihood of the edges (x, s, e) that end in an entity, and of the Y others, in which it is one of the wrong answers."""

    gold_XD: Tensor  # q = u_x M_s
    log_rest_X: Tensor  # ln Z_q
    fact_X: Tensor
    noise_YD: Tensor
    log_rest_Y: Tensor
    weight: float  # edges that each of the Y stands for

    def value(self, w_AD: Tensor, keep_AF: Tensor) -> Tensor:
        """Return the log-likelihood of the edges kept and of the others; [A]."""
        gold_AX, noise_AY = w_AD @ self.gold_XD.T, w_AD @ self.noise_YD.T
        gold_A = (keep_AF[:, self.fact_X] * (gold_AX - torch.logaddexp(gold_AX, self.log_rest_X))).sum(dim=1)
        return gold_A - self.weight * torch.logaddexp(noise_AY - self.log_rest_Y, torch.zeros_like(noise_AY)).sum(dim=1)

    def curve(self, w_AD: Tensor, keep_AF: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradient [A, D] and curvature [A, D, D]."""
        gold_AX = no_traces(torch.sigmoid(w_AD @ self.gold_XD.T - self.log_rest_X))
        noise_AY = no_traces(torch.sigmoid(w_AD @ self.noise_YD.T - self.log_rest_Y))
        keep_AX = keep_AF[:, self.fact_X]
        gradient_AD = (keep_AX * (1 - gold_AX)) @ self.gold_XD - self.weight * noise_AY @ self.noise_YD
        gold_weight_AX, noise_weight_AY = keep_AX * gold_AX * (1 - gold_AX), self.weight * noise_AY * (1 - noise_AY)
        curvature = [
            (gold_X[:, None] * self.gold_XD).T @ self.gold_XD + (noise_Y[:, None] * self.noise_YD).T @ self.noise_YD
            for gold_X, noise_Y in zip(gold_weight_AX, noise_weight_AY, strict=True)
        ]
        return gradient_AD, torch.stack(curvature)

    def gradients(self, w_D: Tensor, facts: int) -> Tensor:
        """Return the gradient of each fact's own likelihood; [F, D]."""
        pull_X = 1 - torch.sigmoid(self.gold_XD @ w_D - self.log_rest_X)
        return w_D.new_zeros((facts, len(w_D))).index_add_(0, self.fact_X, pull_X[:, None] * self.gold_XD)


@dataclass(frozen=True, eq=False)
class EntityProblem:
    """The fit of one vector: its roles, its F facts (``row_F``, positions among the facts), and the prior."""

    row_F: Tensor
    roles: tuple[HeadRole | TailRole, ...]
    mean_D: Tensor
    ridge_A: Tensor  # ρ, one for all arms or one for each
    start_D: Tensor

    def keep(self, removed: list[Tensor]) -> Tensor:
        """Return for each set of removed positions which facts are kept, 1 or 0; [A, F]."""
        kept = [~torch.isin(self.row_F, removed_X) for removed_X in removed]
        return torch.stack(kept).to(self.mean_D)

    def value(self, w_AD: Tensor, keep_AF: Tensor) -> Tensor:
        """Return what is maximised; [A]."""
        penalty_A = self.ridge_A / 2 * (w_AD - self.mean_D).square().sum(dim=1)
        return torch.stack([role.value(w_AD, keep_AF) for role in self.roles]).sum(dim=0) - penalty_A

    def curve(self, w_AD: Tensor, keep_AF: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient [A, D] and the curvature [A, D, D] of what is maximised."""
        gradient_AD = -self.ridge_A[:, None] * (w_AD - self.mean_D)
        curvature_ADD = self.ridge_A[:, None, None] * torch.eye(w_AD.shape[1], dtype=w_AD.dtype, device=w_AD.device).repeat(len(w_AD), 1, 1)
        for role in self.roles:
            some_AD, some_ADD = role.curve(w_AD, keep_AF)
            gradient_AD, curvature_ADD = gradient_AD + some_AD, curvature_ADD + some_ADD
        return gradient_AD, curvature_ADD

    @full_precision()
    def fit(self, keep_AF: Tensor) -> Tensor:
        """Return the solution for each set of facts kept; [A, D]."""
        w_AD = self.start_D.repeat(len(keep_AF), 1)
        value_A = self.value(w_AD, keep_AF)
        for _ in range(NEWTON_STEPS):
            gradient_AD, curvature_ADD = self.curve(w_AD, keep_AF)
            step_AD = torch.linalg.solve(curvature_ADD, gradient_AD)
            # What is gained is a small difference of large sums: below their rounding nothing can be told.
            slack_A = CLOSE + ROUNDING * torch.finfo(value_A.dtype).eps * value_A.abs()
            if not bool(((step_AD * gradient_AD).sum(dim=1) > slack_A).any()):  # NaN too ends it: whoever scores with such a vector says so
                break
            w_AD, value_A = self._climb(w_AD, step_AD, value_A - slack_A, keep_AF)
        return w_AD

    def _climb(self, w_AD: Tensor, step_AD: Tensor, least_A: Tensor, keep_AF: Tensor) -> tuple[Tensor, Tensor]:
        """Go a step, halved for each arm until the value is at least ``least_A``; an arm that no step helps stays."""
        for _ in range(HALVINGS):
            new_A = self.value(w_AD + step_AD, keep_AF)
            worse_A = ~(new_A >= least_A)
            if not bool(worse_A.any()):
                return w_AD + step_AD, new_A
            step_AD = torch.where(worse_A[:, None], step_AD / 2, step_AD)
        step_AD = torch.where(worse_A[:, None], 0, step_AD)
        return w_AD + step_AD, self.value(w_AD + step_AD, keep_AF)

    @full_precision()
    def influence(self, w_D: Tensor, target_D: Tensor) -> Tensor:
        """Return for each fact how far g falls where it is left out, ∇g · H⁻¹ · ∇ℓ_f, with ∇g given and w the solution with all facts; [F]."""
        keep_1F = w_D.new_ones((1, len(self.row_F)))
        _, curvature_1DD = self.curve(w_D[None], keep_1F)
        reach_D = torch.linalg.solve(curvature_1DD[0], target_D)
        gradient_FD = torch.stack([role.gradients(w_D, len(self.row_F)) for role in self.roles]).sum(dim=0)
        return gradient_FD @ reach_D


@dataclass(frozen=True, eq=False)
class Refitter:
    """Makes the problems of fitting entities again, over facts that may change from question to question; everything lies on the scorer's device."""

    scorer: Scorer
    facts_N3: Tensor  # training facts, on the CPU

    @cached_property
    def shared(self) -> bool:
        """Tell whether an entity has one vector for both roles."""
        return shares_vectors(self.scorer)

    @cached_property
    def _priors(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return mean and ρ of head vectors and of tail vectors; they are the same where vectors are shared."""
        of_tails = self._calibrated(as_head=False)
        return (of_tails if self.shared else self._calibrated(as_head=True)), of_tails

    def _calibrated(self, as_head: bool) -> tuple[Tensor, Tensor]:
        """Return the mean of the trained vectors, and ρ such that fitted ones lie as far from it as trained ones: between the RIDGES, log by log."""
        scorer = self.scorer
        vector_ED = scorer.head_ED if as_head else scorer.tail_ED
        mean_D, unit = spread(vector_ED, scorer.seen_E)
        ridge_A = unit * mean_D.new_tensor(RIDGES)
        count_E = torch.bincount(self.facts_N3[:, [0, 2]].flatten(), minlength=scorer.num_entities)
        far_A, trained = torch.zeros_like(ridge_A), 0.0
        for entity in sample(((count_E > 1) & (count_E <= MOST_FACTS)).nonzero().squeeze(1), CALIBRATED).tolist():
            row_F = self.rows(entity)
            problem = EntityProblem(row_F, self._roles(entity, row_F, as_head), mean_D, ridge_A, vector_ED[entity])
            w_AD = problem.fit(mean_D.new_ones((len(ridge_A), len(row_F))))
            far_A += (w_AD - mean_D).square().sum(dim=1)
            trained += float((vector_ED[entity] - mean_D).square().sum())
        if not trained:
            return mean_D, ridge_A[1:2]
        # The farther the lower ρ: find the two neighbours between which the trained distance lies.
        far = (far_A.log() - far_A.new_tensor(trained).log()).tolist()
        for place in range(len(far) - 1):
            if far[place + 1] >= 0:
                part = min(1.0, max(0.0, -far[place] / max(far[place + 1] - far[place], 1e-12)))
                return mean_D, (ridge_A[place].log() * (1 - part) + ridge_A[place + 1].log() * part).exp()[None]
        return mean_D, ridge_A[-1:]

    @cached_property
    def _noise(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tails of a fixed sample of all directed edges, their queries q, and ln Σ_y exp(q v_y) over all trained entities."""
        edge_Y3 = sample(directed(self.facts_N3, self.scorer.num_relations), NOISE_EDGES)
        query_YD = self.scorer.queries(edge_Y3[:, 0], edge_Y3[:, 1])
        return edge_Y3[:, 2].to(self.scorer.device), query_YD, self._log_total(query_YD)

    def _log_total(self, query_XD: Tensor) -> Tensor:
        """Return ln Σ_y exp(q v_y) over the trained entities, in blocks; [X]."""
        tail_ED = self.scorer.tail_ED[self.scorer.seen_E]
        rows = max(1, BLOCK_NUMBERS // max(1, len(tail_ED)))
        with full_precision():
            parts = [(part_XD @ tail_ED.T).logsumexp(dim=1) for part_XD in query_XD.split(rows)]
        return torch.cat(parts) if parts else query_XD.new_empty(0)

    def _log_rest(self, query_XD: Tensor, log_total_X: Tensor, entity: int) -> Tensor:
        """Return ln Z_q = ln Σ_y≠e exp(q v_y)."""
        own_X = query_XD @ self.scorer.tail_ED[entity]
        least = torch.finfo(query_XD.dtype).eps * 8  # where an entity has nearly the whole sum, the rest of it is lost in rounding
        return log_total_X + torch.log1p(-(own_X - log_total_X).exp()).clamp_min(torch.log(log_total_X.new_tensor(least)))

    def rows(self, entity: int, without: tuple[int, int, int] | None = None) -> Tensor:
        """Return the positions of the facts that hold an entity, but for the fact (head, relation as named, tail) given."""
        holds_N = (self.facts_N3[:, 0] == entity) | (self.facts_N3[:, 2] == entity)
        if without is not None:
            holds_N &= (self.facts_N3 != self.facts_N3.new_tensor(without)).any(dim=1)
        return holds_N.nonzero().squeeze(1)

    def problem(self, entity: int, as_head: bool, without: tuple[int, int, int] | None = None) -> EntityProblem:
        """Return the fit of u_e (``as_head``) or of v_e to the facts of an entity but one; of its one vector where it has one."""
        row_F = self.rows(entity, without)
        mean_D, ridge_1 = self._priors[0 if as_head else 1]
        start_D = (self.scorer.head_ED if as_head else self.scorer.tail_ED)[entity]
        return EntityProblem(row_F, self._roles(entity, row_F, as_head), mean_D, ridge_1, start_D)

    def _roles(self, entity: int, row_F: Tensor, as_head: bool) -> tuple[HeadRole | TailRole, ...]:
        """Return the roles in which an entity's vector is fitted."""
        edge_X3 = directed(self.facts_N3[row_F], self.scorer.num_relations)
        number_X = torch.arange(len(row_F)).repeat(2)
        roles: list[HeadRole | TailRole] = []
        if as_head or self.shared:
            leaves_X = edge_X3[:, 0] == entity
            roles.append(self._head_role(edge_X3[leaves_X], number_X[leaves_X]))
        if self.shared or not as_head:
            ends_X = edge_X3[:, 2] == entity
            roles.append(self._tail_role(entity, edge_X3[ends_X], number_X[ends_X]))
        return tuple(roles)

    def _head_role(self, edge_X3: Tensor, number_X: Tensor) -> HeadRole:
        """Gather the edges that leave an entity."""
        scorer, device = self.scorer, self.scorer.device
        relation_T, place_X = edge_X3[:, 1].unique(return_inverse=True)
        tail_X, matrix_TDD = edge_X3[:, 2].to(device), scorer.matrix_SDD[relation_T.to(device)]
        is_answer_E = torch.zeros_like(scorer.seen_E)
        is_answer_E[tail_X] = True
        chosen, weights = [], []
        for among_E in (is_answer_E & scorer.seen_E, scorer.seen_E & ~is_answer_E):
            some_Z = among_E.nonzero().squeeze(1)
            chosen.append(sample(some_Z, NOISE_ENTITIES))
            weights.append(torch.full_like(chosen[-1], len(some_Z), dtype=scorer.dtype) / max(1, len(chosen[-1])))
        gold_XD = relation_queries(scorer.tail_ED[tail_X], transpose(matrix_TDD), place_X)
        candidate_YD = scorer.tail_ED[torch.cat(chosen)]
        return HeadRole(gold_XD, place_X.to(device), number_X.to(device), matrix_TDD, candidate_YD, torch.cat(weights).log())

    def _tail_role(self, entity: int, edge_X3: Tensor, number_X: Tensor) -> TailRole:
        """Gather the edges that end in an entity, and the sample of those that do not."""
        scorer = self.scorer
        gold_XD = scorer.queries(edge_X3[:, 0], edge_X3[:, 1])
        tail_Y, query_YD, log_total_Y = self._noise
        others_Y = tail_Y != entity
        noise_YD, log_total_Y = query_YD[others_Y], log_total_Y[others_Y]
        others = 2 * len(self.facts_N3) - len(edge_X3)
        return TailRole(
            gold_XD=gold_XD,
            log_rest_X=self._log_rest(gold_XD, self._log_total(gold_XD), entity),
            fact_X=number_X.to(scorer.device),
            noise_YD=noise_YD,
            log_rest_Y=self._log_rest(noise_YD, log_total_Y, entity),
            weight=others / max(1, len(noise_YD)),
        )
