"""Is an explanation needed? Remove its facts, fit the vectors of h and t again on what is left, everything else frozen, and look at the rank.

Fitted are u_h on the directed edges (h, s, x) that leave h and v_t on the edges (x, s, t) that end in t, each by the noise-contrastive objective of
training in expectation, with a Gaussian prior in place of the falling rate:

    u_h   max  Σ_(h,s,x) [ ln σ(u M_s v_x − ln k) + (k/E) Σ_e ln σ(ln k − u M_s v_e) ]                 − ρ/2 ‖u − ū‖²
    v_t   max  Σ_(x,s,t) ln σ(u_x M_s v − ln k) + (k/E) Σ_(y,r,z) ln σ(ln k − u_y M_r v)               − ρ/2 ‖v − v̄‖²

e over the E trained entities, (y, r, z) over all directed training edges (a fixed sample where they are many, weighing as much). 1/ρ is the mean
variance of a coordinate among the trained vectors of that kind and ū, v̄ is their mean. Both problems are concave, so each has one solution; all arms
start from the mean vector, and none from the trained vector, which remembers what was removed. The fact asked about is left out of every arm, and the
arm that removes nothing is fitted like the others: compare arms with each other, not with the run. Deleting facts without fitting again would
change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from relcode.graph.facts import directed
from relcode.model.score import Scorer

NOISE_ENTITIES = 1024  # more entities than these are represented by as many, drawn once
NOISE_EDGES = 4096
ITERATIONS = 200
SEED = 0


def fit(gold_XD: Tensor, noise_YD: Tensor, weight_Y: Tensor, noises: int, mean_D: Tensor, ridge: float) -> Tensor:
    """Return w that maximises Σ_X ln σ(g·w − ln k) + Σ_Y weight ln σ(ln k − n·w) − ρ/2 ‖w − mean‖², from w = mean; float64 [D]."""
    gold_XD, noise_YD, weight_Y, mean_D = (value.detach().double() for value in (gold_XD, noise_YD, weight_Y, mean_D))
    log_k = math.log(noises)
    w_D = mean_D.clone().requires_grad_()
    search = torch.optim.LBFGS(
        [w_D], max_iter=ITERATIONS, history_size=20, tolerance_grad=1e-7, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        search.zero_grad()
        value = -logsigmoid(gold_XD @ w_D - log_k).sum() - (weight_Y * logsigmoid(log_k - noise_YD @ w_D)).sum()
        value = value + ridge / 2 * (w_D - mean_D).square().sum()
        value.backward()
        return value

    search.step(loss)
    return w_D.detach()


def prior(vector_ED: Tensor, seen_E: Tensor) -> tuple[Tensor, float]:
    """Return the mean of the trained vectors and ρ, one over the mean variance of their coordinates."""
    vector_XD = vector_ED[seen_E].double()
    variance = float((vector_XD - vector_XD.mean(dim=0)).square().mean())
    return vector_XD.mean(dim=0), 1 / max(variance, 1e-12)


@dataclass(frozen=True, eq=False)
class Refitter:
    """Fits u_h and v_t of one question again on any subset of the facts; ``scorer`` holds the vectors as training uses them (heads not unit)."""

    scorer: Scorer
    facts_N3: Tensor  # training facts without the one asked about
    head: int
    tail: int
    noises: int

    def rows(self, entity: int) -> Tensor:
        """Return the positions of the facts that hold an entity; int64."""
        return ((self.facts_N3[:, 0] == entity) | (self.facts_N3[:, 2] == entity)).nonzero().squeeze(1)

    def refit(self, removed_X: Tensor) -> tuple[Tensor, Tensor]:
        """Return u_h and v_t, fitted without the facts at these positions; [D] each, in the scorer's numbers."""
        kept_N = torch.ones(len(self.facts_N3), dtype=torch.bool)
        kept_N[removed_X] = False
        rows_X = torch.cat([self.rows(self.head), self.rows(self.tail)]).unique()
        edge_X3 = directed(self.facts_N3[rows_X[kept_N[rows_X]]], self.scorer.num_relations)
        return self._head_vector(edge_X3[edge_X3[:, 0] == self.head]), self._tail_vector(edge_X3[edge_X3[:, 2] == self.tail])

    def _head_vector(self, edge_X3: Tensor) -> Tensor:
        """Fit u_h on the edges that leave h."""
        scorer = self.scorer
        entity_Y = _sample(scorer.seen_E.cpu().nonzero().squeeze(1), NOISE_ENTITIES)
        relation_T, count_T = edge_X3[:, 1].unique(return_counts=True)
        noise_TD = [scorer.tail_ED[entity_Y] @ scorer.matrix_SDD[relation].T for relation in relation_T.tolist()]
        weight_Y = (count_T.double() * self.noises / max(len(entity_Y), 1)).repeat_interleave(len(entity_Y))
        gold_XD = torch.stack([scorer.matrix_SDD[s] @ scorer.tail_ED[x] for _, s, x in edge_X3.tolist()] or [scorer.tail_ED.new_zeros(self._dim)])
        mean_D, ridge = prior(scorer.head_ED, scorer.seen_E)
        noise_YD = torch.cat([scorer.tail_ED.new_empty((0, self._dim)), *noise_TD])
        return fit(gold_XD[: len(edge_X3)], noise_YD, weight_Y.to(scorer.device), self.noises, mean_D, ridge).to(scorer.dtype)

    def _tail_vector(self, edge_X3: Tensor) -> Tensor:
        """Fit v_t on the edges that end in t."""
        scorer = self.scorer
        all_N3 = directed(self.facts_N3, scorer.num_relations)
        noise_Y3 = all_N3[_sample(torch.arange(len(all_N3)), NOISE_EDGES)]
        weight = self.noises * len(all_N3) / (int(scorer.seen_E.sum()) * max(len(noise_Y3), 1))
        noise_YD = scorer.queries(noise_Y3[:, 0], noise_Y3[:, 1])
        mean_D, ridge = prior(scorer.tail_ED, scorer.seen_E)
        gold_XD = scorer.queries(edge_X3[:, 0], edge_X3[:, 1])
        return fit(gold_XD, noise_YD, noise_YD.new_full((len(noise_YD),), weight), self.noises, mean_D, ridge).to(scorer.dtype)

    @property
    def _dim(self) -> int:
        """Return d."""
        return self.scorer.head_ED.shape[1]


def random_removal(refitter: Refitter, removed_X: Tensor, generator: torch.Generator) -> Tensor:
    """Draw as many facts of h, and as many others of t, as ``removed_X`` has of each; positions, all facts of the entity alike likely."""
    of_head_X = refitter.rows(refitter.head)
    of_tail_X = refitter.rows(refitter.tail)
    of_tail_X = of_tail_X[~torch.isin(of_tail_X, of_head_X)]
    drawn = []
    for pool_X in (of_head_X, of_tail_X):
        number = int(torch.isin(removed_X, pool_X).sum())
        drawn.append(pool_X[torch.randperm(len(pool_X), generator=generator)[:number]])
    return torch.cat(drawn)


def _sample(number_X: Tensor, most: int) -> Tensor:
    """Return the numbers, or ``most`` of them drawn by a fixed seed, so that every arm has the same noise."""
    if len(number_X) <= most:
        return number_X
    return number_X[torch.randperm(len(number_X), generator=torch.Generator().manual_seed(SEED))[:most]]
