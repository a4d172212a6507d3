"""The most likely facts that are in no split, over a whole knowledge base, in bounded memory.

Scores of different questions cannot be compared, shares of the answers can. A fact is as likely as both its questions find it:

    likelihood(h, r, t) = √( p(t | h, r) · p(h | t, ^r) )        p(t | h, r) = exp(u_h M_r v_t) / Σ_e exp(u_h M_r v_e)

Candidates of a relation are pairs of an entity that is its head in some training fact and one that is its tail. A relation with one answer for
each head gives its share to that answer, so a head that is answered already yields nothing likely. The likelihood is not calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.explore.asking import check_finite
from relcode.explore.model import Model

BLOCK_NUMBERS = 2**22  # scores held at a time: 16 MB


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact that no split holds: its names, score u·M·v, and likelihood (the geometric mean of its shares of both questions' answers)."""

    head: str
    relation: str
    tail: str
    score: float
    likelihood: float


def new_facts(model: Model, count: int = 10, most_of_one: int = 2) -> list[NewFact]:
    """Return the ``count`` most likely new facts, at most ``most_of_one`` of each relation, so that one relation does not fill the list."""
    found: list[tuple[float, float, int, int, int]] = []
    for relation in torch.unique(model.dataset.train[:, 1]).tolist():
        found += _best_of(model, relation, most_of_one)
    entities, relations = model.dataset.entities, model.dataset.relations
    best = sorted(found, key=lambda one: (-one[0], one[2:]))[:count]
    return [NewFact(entities[h], relations[r], entities[t], score, likelihood) for likelihood, score, h, r, t in best]


@torch.inference_mode()
def _best_of(model: Model, relation: int, count: int) -> list[tuple[float, float, int, int, int]]:
    """Return (likelihood, score, head, relation, tail) of the best new facts of one relation; of a fact and its mirror the better one."""
    train_N3 = model.dataset.train[model.dataset.train[:, 1] == relation]
    head_H, tail_T = train_N3[:, 0].unique(), train_N3[:, 2].unique()
    backwards = relation + model.dataset.num_relations
    column_E = torch.full((model.dataset.num_entities,), -1)
    column_E[tail_T] = torch.arange(len(tail_T))
    total_T = _log_totals(model, tail_T, backwards)
    query_TD = model.scorer.path_queries(tail_T, (backwards,))
    found: list[tuple[float, float, int, int, int]] = []
    rows = max(1, BLOCK_NUMBERS // model.dataset.num_entities)
    for head_B in head_H.split(rows):
        query_BD = model.scorer.path_queries(head_B, (relation,))
        score_BE = model.scorer.scores(query_BD)
        check_finite(score_BE)
        score_BT = score_BE[:, tail_T.to(score_BE.device)]
        back_BT = (query_TD @ model.scorer.tail_ED[head_B.to(score_BE.device)].T).T - total_T
        likelihood_BT = (score_BT - score_BE.logsumexp(dim=1, keepdim=True) + back_BT).div(2).exp()
        row_X, entity_X = model.known.pairs(head_B, torch.full_like(head_B, relation))
        is_column_X = column_E[entity_X] >= 0
        likelihood_BT[row_X[is_column_X], column_E[entity_X[is_column_X]]] = 0
        likelihood_BT[head_B.to(score_BE.device)[:, None] == tail_T.to(score_BE.device)] = 0
        value_X, place_X = likelihood_BT.flatten().topk(min(2 * count, likelihood_BT.numel()))
        for value, place in zip(value_X.tolist(), place_X.tolist(), strict=True):
            row, column = divmod(place, len(tail_T))
            if value > 0:
                found.append((value, float(score_BT[row, column]), int(head_B[row]), relation, int(tail_T[column])))
    return _without_mirrors(found)[:count]


def _log_totals(model: Model, head_H: Tensor, relation: int) -> Tensor:
    """Return ln Σ_e exp(u_h M_r v_e) for each head; [H]."""
    rows = max(1, BLOCK_NUMBERS // model.dataset.num_entities)
    return torch.cat([model.scorer.scores(model.scorer.path_queries(head_B, (relation,))).logsumexp(dim=1) for head_B in head_H.split(rows)])


def _without_mirrors(found: list[tuple[float, float, int, int, int]]) -> list[tuple[float, float, int, int, int]]:
    """Return the facts best first, without (t, r, h) where (h, r, t) came before: of a symmetric relation they are one fact."""
    kept: dict[frozenset[int], tuple[float, float, int, int, int]] = {}
    for one in sorted(found, key=lambda one: (-one[0], one[2:])):
        kept.setdefault(frozenset((one[2], one[4])), one)
    return list(kept.values())
