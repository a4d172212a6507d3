"""Which entities a relation's heads and tails look like: the limit on candidates when facts are suggested.

Being a head of a directed relation s (a tail is a head of the inverse) is called the *role* s. An entity is a candidate for the role s if it has it
in a training fact, or has another role s' whose holders often have s too:

    candidates(s) = ∪ { holders(s') : |holders(s') ∩ holders(s)| ≥ share · |holders(s')| }        holders(s) = { h : (h, s, ·) in train }

So a city with no known country is a candidate for city_country, since it has a time zone as cities have, and most things with a city's time zone
have a country. With share = 1/4, 96 % of FB15k-237's held-out facts join candidates, which are 0.4 % of all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from relcode.graph.facts import directed

SHARE = 0.25  # of the holders of another role that must have the role too
BLOCK_NUMBERS = 2**24  # of the table of roles by entities held at a time


@dataclass(frozen=True, eq=False)
class Candidates:
    """The holders of each role, and which roles make their holders candidates for which.

    ``once_S`` is 1 where every head of the directed relation has one tail, 1/n where they have n on average, 0 where it has no facts.
    ``holder_X[offset_S1[s] : offset_S1[s + 1]]`` are the holders of role s, sorted; ``admits_SS[s, s']`` tells whether holders of s' are candidates
    for s; ``loops_R`` whether a training fact joins an entity with itself by the relation.
    """

    holder_X: Tensor
    offset_S1: Tensor
    admits_SS: Tensor
    loops_R: Tensor
    once_S: Tensor
    num_entities: int
    num_relations: int
    _heads: dict[int, Tensor] = field(default_factory=dict, repr=False)  # found already

    @classmethod
    def of(cls, train_N3: Tensor, num_entities: int, num_relations: int, share: float = SHARE) -> Candidates:
        """Read the roles off the training facts; inverses are added here."""
        edge_N3 = directed(train_N3, num_relations)
        key_X = torch.unique(edge_N3[:, 1] * num_entities + edge_N3[:, 0])
        holder_X, role_X = key_X % max(num_entities, 1), key_X // max(num_entities, 1)
        size_S = torch.bincount(role_X, minlength=2 * num_relations)
        offset_S1 = torch.cat([size_S.new_zeros(1), size_S.cumsum(0)])
        both_SS = _held_together(holder_X, role_X, num_entities, 2 * num_relations)
        admits_SS = (both_SS >= share * size_S) & (both_SS > 0)
        loops_R = torch.zeros(num_relations, dtype=torch.bool)
        loops_R[train_N3[train_N3[:, 0] == train_N3[:, 2], 1]] = True
        once_S = size_S / torch.bincount(edge_N3[:, 1], minlength=2 * num_relations).clamp_min(1)
        return cls(holder_X, offset_S1, admits_SS, loops_R, once_S, num_entities, num_relations)

    def inverse(self, relation: int) -> int:
        """Return the inverse of a directed relation."""
        return (relation + self.num_relations) % (2 * self.num_relations)

    def heads(self, relation: int) -> Tensor:
        """Return the candidates for the heads of a directed relation, sorted; none where no training fact has it."""
        if relation in self._heads:
            return self._heads[relation]
        admitted = self.admits_SS[relation].nonzero().squeeze(1).tolist()
        is_head_E = torch.zeros(self.num_entities, dtype=torch.bool)  # marking them takes a tenth of the time of sorting them
        for first, last in zip(self.offset_S1[admitted].tolist(), self.offset_S1[[s + 1 for s in admitted]].tolist(), strict=True):
            is_head_E[self.holder_X[first:last]] = True
        self._heads[relation] = is_head_E.nonzero().squeeze(1)
        return self._heads[relation]

    def are_heads(self, entity_X: Tensor, relation: int) -> Tensor:
        """Tell for each entity whether it is a candidate for the heads of a directed relation; bool [X]."""
        head_H = self.heads(relation)
        if not len(head_H):
            return torch.zeros(len(entity_X), dtype=torch.bool)
        return head_H[torch.searchsorted(head_H, entity_X).clamp_(max=len(head_H) - 1)] == entity_X

    def tails(self, relation: int) -> Tensor:
        """Return the candidates for its tails, sorted: the heads of its inverse."""
        return self.heads(self.inverse(relation))


def _held_together(holder_X: Tensor, role_X: Tensor, num_entities: int, num_roles: int) -> Tensor:
    """Return for each pair of roles how many entities have both; float64 [S, S]. Entities are taken in blocks, so that the table of roles fits."""
    both_SS = torch.zeros(num_roles, num_roles, dtype=torch.float64)
    order_X = holder_X.argsort(stable=True)
    holder_X, role_X = holder_X[order_X], role_X[order_X]
    width = max(1, BLOCK_NUMBERS // max(num_roles, 1))
    for low in range(0, num_entities, width):
        first, last = torch.searchsorted(holder_X, torch.tensor([low, low + width])).tolist()
        table_SE = torch.zeros(num_roles, min(width, num_entities - low))
        table_SE[role_X[first:last], holder_X[first:last] - low] = 1
        both_SS += (table_SE @ table_SE.T).double()
    return both_SS
