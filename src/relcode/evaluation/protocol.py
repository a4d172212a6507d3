"""The two named rules of ranking: what counts as a candidate, how ties are counted, and what is done about entities never trained.

``realistic`` (the default)
    The rank is the mean of the optimistic and the pessimistic one. Candidates are all entities of any split. An entity never trained has the zero
    vector, as head, gold answer and candidate alike.

``paper`` (Takahashi et al. 2018, appendix on out-of-vocabulary entities; ties and candidates as in the released program)
    The rank is the optimistic one, 1 + the number strictly better. A head never trained is replaced by the entity most often seen as a head of the
    same directed relation in train (the lowest number among equals; where train has no fact of the relation the head keeps the zero vector). A gold
    answer never trained is scored with the zero vector. Candidates are the entities seen in training, and the gold answer itself. The released
    program replaces an untrained gold answer as well, which the paper does not say and we do not do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.errors import SettingError
from relcode.graph.facts import directed


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A named rule of ranking."""

    name: str
    optimistic: bool  # ties: rank 1 + number strictly better; else the mean of that and the pessimistic rank
    trained_candidates: bool  # only entities seen in training (and the gold answer) are candidates; else all entities
    replace_heads: bool  # a head never trained is replaced by the most frequent head of its relation; else it has the zero vector


REALISTIC = Protocol(name="realistic", optimistic=False, trained_candidates=False, replace_heads=False)
PAPER = Protocol(name="paper", optimistic=True, trained_candidates=True, replace_heads=True)
PROTOCOLS = {protocol.name: protocol for protocol in (REALISTIC, PAPER)}


def protocol_named(protocol: str | Protocol) -> Protocol:
    """Return the protocol of that name; a protocol is returned as it is."""
    if isinstance(protocol, Protocol):
        return protocol
    if protocol not in PROTOCOLS:
        raise SettingError(f"unknown protocol {protocol!r}: known are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[protocol]


def most_frequent_heads(train_N3: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """Return for each directed relation the entity most often its head in train: argmax_h |{t : (h, s, t) known}|, the lowest h among equals; [S].

    -1 where train has no fact of the relation.
    """
    head_N, relation_N, _ = directed(train_N3, num_relations).unbind(1)
    pair_X, count_X = torch.unique(relation_N * num_entities + head_N, return_counts=True)
    pair_X = pair_X[count_X.argsort(descending=True, stable=True)]  # pairs came sorted, so among equal counts the lowest head stays first
    relation_X = pair_X // num_entities
    order_X = relation_X.argsort(stable=True)
    relation_X, pair_X = relation_X[order_X], pair_X[order_X]
    leads_X = torch.ones_like(relation_X, dtype=torch.bool)
    leads_X[1:] = relation_X[1:] != relation_X[:-1]
    head_S = torch.full((2 * num_relations,), -1, dtype=torch.int64)
    head_S[relation_X[leads_X]] = pair_X[leads_X] % num_entities
    return head_S


def replace_unseen(head_N: Tensor, relation_N: Tensor, seen_E: Tensor, frequent_S: Tensor) -> Tensor:
    """Return the heads with each one never trained replaced by the most frequent head of its directed relation, where there is one."""
    substitute_N = frequent_S[relation_N]
    return torch.where(~seen_E[head_N] & (substitute_N >= 0), substitute_N, head_N)
