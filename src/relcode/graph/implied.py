"""Facts that other facts of the same two entities imply: (h, s, t) gives (h, r, t) where s and r nearly always go together.

    confidence(s ⇒ r) = |C(s) ∩ C(r)| / (|C(s)| + 1),   C(·) the pairs joined

The rule s ⇒ r holds where both s ⇒ r and r ⇒ s are confident: the two then say nearly the same. They are directed relations, so inverse ones
(hyponym, hypernym), symmetric ones (spouse) and near copies are all of this form. (Rules one way alone, from a special case to a general one, imply
many more facts, wrong ones among them.) A fact that several rules imply is as sure as noisy-or makes it, 1 − Π(1 − confidence). Only training
facts are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.errors import DataError
from relcode.graph.facts import LARGEST_KEY, directed

LEAST_SUPPORT = 3  # pairs that both relations join
MOST_PARTNERS = 64  # a pair joined by more relations than this says little about any two of them, and is left out of the count


@dataclass(frozen=True, slots=True)
class Implications:
    """Rules s ⇒ r between directed relations, ordered by s."""

    body_X: Tensor
    head_X: Tensor
    confidence_X: Tensor


@dataclass(frozen=True, slots=True)
class ImpliedFacts:
    """Directed facts that are not in the KB but implied by it, and how sure each is."""

    facts_N3: Tensor
    confidence_N: Tensor


def implications(facts_N3: Tensor, num_entities: int, num_relations: int, least: float) -> Implications:
    """Return all rules s ⇒ r, s ≠ r, of at least that confidence in both directions."""
    S = 2 * num_relations
    directed_N3 = directed(facts_N3, num_relations)
    count_S = torch.bincount(directed_N3[:, 1], minlength=S)
    pair_N, order_N = torch.sort(directed_N3[:, 0] * num_entities + directed_N3[:, 2])
    relation_N = directed_N3[order_N, 1]
    _, group_N, size_G = torch.unique_consecutive(pair_N, return_inverse=True, return_counts=True)
    size_N = size_G[group_N]
    several_N = (size_N > 1) & (size_N <= MOST_PARTNERS)
    first_N = (size_G.cumsum(0) - size_G)[group_N]
    body_M, partner_M = _each_with_partners(torch.arange(len(pair_N))[several_N], first_N[several_N], size_N[several_N])
    key_X, shared_X = torch.unique(relation_N[body_M] * S + relation_N[partner_M], return_counts=True)
    body_X, head_X = key_X // S, key_X % S
    confidence_X = shared_X / (count_S[body_X] + 1)
    sure_X = torch.minimum(confidence_X, shared_X / (count_S[head_X] + 1)) >= least
    kept_X = (body_X != head_X) & (shared_X >= LEAST_SUPPORT) & sure_X
    return Implications(body_X[kept_X], head_X[kept_X], confidence_X[kept_X])


def _each_with_partners(member_N: Tensor, first_N: Tensor, size_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return every member beside each of the ``size`` places that begin at ``first``."""
    member_M = torch.repeat_interleave(member_N, size_N)
    within_M = torch.arange(len(member_M)) - torch.repeat_interleave(size_N.cumsum(0) - size_N, size_N)
    return member_M, torch.repeat_interleave(first_N, size_N) + within_M


def implied_facts(facts_N3: Tensor, num_entities: int, num_relations: int, least: float) -> ImpliedFacts:
    """Return the directed facts that rules of at least that confidence imply and that are not known; with each, its inverse."""
    S = 2 * num_relations
    if num_entities * num_entities * S > LARGEST_KEY:
        raise DataError(f"{num_entities:,} entities and {num_relations:,} relations are too many to look for implied facts: set softmax.implied=none")
    rules = implications(facts_N3, num_entities, num_relations, least)
    head_N, relation_N, tail_N = directed(facts_N3, num_relations).unbind(1)
    number_S = torch.bincount(rules.body_X, minlength=S)
    fact_M, rule_M = _each_with_partners(torch.arange(len(head_N)), (number_S.cumsum(0) - number_S)[relation_N], number_S[relation_N])
    key_M = (head_N[fact_M] * S + rules.head_X[rule_M]) * num_entities + tail_N[fact_M]
    new_M = ~torch.isin(key_M, (head_N * S + relation_N) * num_entities + tail_N)
    key_X, which_M = torch.unique(key_M[new_M], return_inverse=True)
    doubt_X = torch.zeros(len(key_X), dtype=torch.float64)
    doubt_X.index_add_(0, which_M, torch.log1p(-rules.confidence_X[rule_M[new_M]].double()))
    question_X = key_X // num_entities
    facts_X3 = torch.stack([question_X // S, question_X % S, key_X % num_entities], dim=1)
    return ImpliedFacts(facts_X3, -torch.expm1(doubt_X))
