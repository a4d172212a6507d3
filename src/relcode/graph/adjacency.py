"""Adjacency: the directed edges that leave each entity, for walks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.graph.facts import directed


@dataclass(frozen=True, eq=False, slots=True)
class Adjacency:
    """Directed edges sorted by head (compressed rows): those of entity e are offset_E1[e] … offset_E1[e+1]-1.

    A fact (h, r, t) is two edges, (h, r, t) and (t, r+R, h), so N is twice the number of facts. ``relation_N`` and ``tail_N`` tell where it leads.
    """

    offset_E1: Tensor
    relation_N: Tensor
    tail_N: Tensor
    num_relations: int

    @classmethod
    def build(cls, facts_N3: Tensor, num_entities: int, num_relations: int) -> Adjacency:
        """Sort the facts and their inverses by head; edges of one head keep the order of the facts, forward ones first."""
        edge_N3 = directed(facts_N3, num_relations)
        order_N = torch.argsort(edge_N3[:, 0], stable=True)
        degree_E = torch.bincount(edge_N3[:, 0], minlength=num_entities)
        offset_E1 = torch.cat([degree_E.new_zeros(1), degree_E.cumsum(0)])
        return cls(offset_E1, edge_N3[order_N, 1], edge_N3[order_N, 2], num_relations)

    @property
    def degree_E(self) -> Tensor:
        """How many directed edges leave each entity; int64 [E]."""
        return self.offset_E1.diff()

    @property
    def head_N(self) -> Tensor:
        """The entity that each edge leaves; int64 [N]."""
        return torch.repeat_interleave(self.degree_E)

    def to(self, device: torch.device | str) -> Adjacency:
        """Return the same edges on another device."""
        return Adjacency(self.offset_E1.to(device), self.relation_N.to(device), self.tail_N.to(device), self.num_relations)
