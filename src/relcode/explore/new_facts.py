"""The most likely facts that are in no split, over a whole knowledge base, in bounded memory.

Scores of different questions cannot be compared, shares of the answers can. A fact is as likely as both its questions find it:

    likelihood(h, r, t) = √( p(t | h, r) · p(h | t, ^r) )        p(t | h, r) = exp(u_h M_r v_t) / Σ_e exp(u_h M_r v_e)

Candidates of a relation are pairs of an entity that is its head in some training fact and one that is its tail. But where nearly every head has one
tail (a country its continent), those that have one are not asked again: asked are the entities like them that have none. Likewise for tails. The
likelihood is not calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.explore.asking import check_finite
from relcode.explore.model import Model
from relcode.graph.facts import directed

BLOCK_NUMBERS = 2**22  # scores held at a time: 16 MB
ONE_ANSWER = 1.05  # a relation with at most this many answers for a question, on average, is taken to have one
ALIKE = 0.9  # an entity is like the heads of a relation if it has every directed relation that this part of them have

Found = tuple[float, float, int, int, int]  # likelihood, score, head, relation, tail


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
    askers = _Askers.of(model)
    found = [one for relation in model.dataset.train[:, 1].unique().tolist() for one in _best_of(model, relation, askers, most_of_one)]
    entities, relations = model.dataset.entities, model.dataset.relations
    best = sorted(found, key=lambda one: (-one[0], one[2:]))[:count]
    return [NewFact(entities[h], relations[r], entities[t], score, likelihood) for likelihood, score, h, r, t in best]


def _best_of(model: Model, relation: int, askers: _Askers, count: int) -> list[Found]:
    """Return the best new facts of one relation; of a fact and its mirror the better one."""
    backwards = relation + model.dataset.num_relations
    head_H, tail_T = askers.open_heads(relation), askers.open_heads(backwards)
    if not len(head_H) or not len(tail_T):
        return []
    total_H, total_T = _log_totals(model, head_H, relation), _log_totals(model, tail_T, backwards)
    back_query_TD = model.scorer.path_queries(tail_T, (backwards,))
    found: list[Found] = []
    rows = max(1, BLOCK_NUMBERS // len(tail_T))
    for head_B, total_B in zip(head_H.split(rows), total_H.split(rows), strict=True):
        score_BT = model.scorer.path_queries(head_B, (relation,)) @ model.scorer.tail_ED[tail_T.to(model.scorer.device)].T
        back_BT = model.scorer.tail_ED[head_B.to(model.scorer.device)] @ back_query_TD.T
        likelihood_BT = ((score_BT - total_B[:, None] + back_BT - total_T) / 2).exp()
        likelihood_BT[_taken(model, head_B, relation, tail_T).to(model.scorer.device)] = 0
        value_X, place_X = likelihood_BT.flatten().topk(min(2 * count, likelihood_BT.numel()))
        for value, place in zip(value_X.tolist(), place_X.tolist(), strict=True):
            row, column = divmod(place, len(tail_T))
            if value > 0:
                found.append((value, float(score_BT[row, column]), int(head_B[row]), relation, int(tail_T[column])))
    return _without_mirrors(found)[:count]


@dataclass(frozen=True, eq=False)
class _Askers:
    """Which entities are heads of which directed relation; S blocks of sorted, distinct heads."""

    trained: tuple[Tensor, ...]  # in train
    answered: tuple[Tensor, ...]  # in any split
    one_answer_S: Tensor  # whether a head has (nearly always) one tail
    num_entities: int

    @classmethod
    def of(cls, model: Model) -> _Askers:
        """Count the heads of a model's data."""
        data = model.dataset
        train_N3, known_N3 = (directed(facts, data.num_relations) for facts in (data.train, torch.cat([data.train, data.valid, data.test])))
        trained, answered = (_heads_by_relation(facts, data.num_entities, data.num_directed) for facts in (train_N3, known_N3))
        size_S = torch.bincount(known_N3[:, 1], minlength=data.num_directed)
        one_answer_S = size_S <= ONE_ANSWER * torch.tensor([len(heads) for heads in answered])
        return cls(trained, answered, one_answer_S, data.num_entities)

    def open_heads(self, relation: int) -> Tensor:
        """Return the heads whose question is open: those of train, or, where each has one answer, those like them that have none."""
        if not self.one_answer_S[relation]:
            return self.trained[relation]
        is_head_E = torch.zeros(self.num_entities, dtype=torch.bool)
        is_head_E[self.trained[relation]] = True
        needed = ALIKE * len(self.trained[relation])
        common = [heads for other, heads in enumerate(self.trained) if other != relation and int(is_head_E[heads].sum()) >= needed]
        if not common:
            return self.trained[relation][:0]
        has_E = torch.bincount(torch.cat(common), minlength=self.num_entities) == len(common)
        has_E[self.answered[relation]] = False
        return has_E.nonzero().squeeze(1)


def _heads_by_relation(facts_N3: Tensor, num_entities: int, num_directed: int) -> tuple[Tensor, ...]:
    """Return the distinct heads of each directed relation, sorted."""
    key_X = torch.unique(facts_N3[:, 1] * num_entities + facts_N3[:, 0])
    size_S = torch.bincount(key_X // num_entities, minlength=num_directed)
    heads: tuple[Tensor, ...] = (key_X % num_entities).split(size_S.tolist())
    return heads


def _log_totals(model: Model, head_H: Tensor, relation: int) -> Tensor:
    """Return ln Σ_e exp(u_h M_r v_e) for each head; [H]."""
    totals = []
    for head_B in head_H.split(max(1, BLOCK_NUMBERS // model.dataset.num_entities)):
        score_BE = model.scorer.scores(model.scorer.path_queries(head_B, (relation,)))
        check_finite(score_BE)
        totals.append(score_BE.logsumexp(dim=1))
    return torch.cat(totals)


def _taken(model: Model, head_B: Tensor, relation: int, tail_T: Tensor) -> Tensor:
    """Tell for each pair of a head and a (sorted) tail whether it is known, or one entity twice; bool [B, T]."""
    taken_BT = head_B[:, None] == tail_T
    row_X, entity_X = model.known.pairs(head_B, torch.full_like(head_B, relation))
    column_X = torch.searchsorted(tail_T, entity_X).clamp_max(len(tail_T) - 1)
    here_X = tail_T[column_X] == entity_X
    taken_BT[row_X[here_X], column_X[here_X]] = True
    return taken_BT


def _without_mirrors(found: list[Found]) -> list[Found]:
    """Return the facts best first, without (t, r, h) where (h, r, t) came before: of a symmetric relation they are one fact."""
    kept: dict[frozenset[int], Found] = {}
    for one in sorted(found, key=lambda one: (-one[0], one[2:])):
        kept.setdefault(frozenset((one[2], one[4])), one)
    return list(kept.values())
