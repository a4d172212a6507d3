"""Known answers: for a query (head, directed relation), every tail that some split gives."""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.errors import DataError
from relcode.graph.facts import directed, unique_facts


class KnownAnswers:
    """The set {t : (h, r, t) is a fact} for every head h and directed relation r, 0 ≤ r < S = 2R; r + R asks the inverse.

    Queries that have an answer are sorted by key h·S + r in ``key_Q``; the answers of query number q are
    ``tail_N[offset_Q1[q] : offset_Q1[q + 1]]``, sorted and distinct. Tensors only, so it moves to any device.
    """

    __slots__ = ("key_Q", "num_entities", "num_relations", "offset_Q1", "tail_N")

    def __init__(self, facts_N3: Tensor, num_entities: int, num_relations: int) -> None:
        """Index facts (head, relation, tail) with 0 ≤ relation < R, of one split or of several put together; inverses are added here."""
        self.num_entities, self.num_relations = num_entities, num_relations
        _check_ranges(facts_N3, num_entities, num_relations)
        edge_N3 = unique_facts(directed(facts_N3, num_relations), num_entities, 2 * num_relations)
        key_N = edge_N3[:, 0] * (2 * num_relations) + edge_N3[:, 1]
        self.key_Q, count_Q = torch.unique_consecutive(key_N, return_counts=True)
        self.offset_Q1 = torch.cat([count_Q.new_zeros(1), count_Q.cumsum(0)])
        self.tail_N = edge_N3[:, 2].contiguous()

    def of(self, head: int, relation: int) -> Tensor:
        """Return the known tails of one query, sorted; int64, empty where nothing is known."""
        if not (0 <= head < self.num_entities and 0 <= relation < 2 * self.num_relations):
            raise IndexError(f"query ({head}, {relation}) is outside {self.num_entities} entities and {2 * self.num_relations} directed relations")
        key = head * 2 * self.num_relations + relation
        place = int(torch.searchsorted(self.key_Q, key)) if len(self.key_Q) else 0
        if place == len(self.key_Q) or int(self.key_Q[place]) != key:
            return self.tail_N[:0]
        first, last = self.offset_Q1[place : place + 2].tolist()
        return self.tail_N[first:last]

    def pairs(self, head_B: Tensor, relation_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return every known answer of every query, flattened: (row_X, entity_X), where row is the query's place in the batch.

        Rows do not fall and a row's entities rise. No loop over queries: one search in the sorted keys, then counting. Numbers must be in range;
        that is not checked here, as a GPU would have to wait for the answer.
        """
        key_B = head_B * (2 * self.num_relations) + relation_B
        if len(self.key_Q) == 0:
            return key_B.new_empty(0), key_B.new_empty(0)
        place_B = torch.searchsorted(self.key_Q, key_B).clamp_(max=len(self.key_Q) - 1)
        start_B = self.offset_Q1[place_B]
        count_B = torch.where(self.key_Q[place_B] == key_B, self.offset_Q1[place_B + 1] - start_B, 0)
        row_X = torch.repeat_interleave(count_B)
        # Answer number i of the whole list is number i - (answers of earlier rows) of its own row.
        shift_B = start_B - (count_B.cumsum(0) - count_B)
        entity_X = self.tail_N[torch.arange(len(row_X), device=key_B.device) + shift_B[row_X]]
        return row_X, entity_X

    def to(self, device: torch.device | str) -> KnownAnswers:
        """Return the same answers on another device."""
        moved = object.__new__(KnownAnswers)
        moved.num_entities, moved.num_relations = self.num_entities, self.num_relations
        moved.key_Q, moved.offset_Q1, moved.tail_N = self.key_Q.to(device), self.offset_Q1.to(device), self.tail_N.to(device)
        return moved


def _check_ranges(facts_N3: Tensor, num_entities: int, num_relations: int) -> None:
    """Refuse numbers outside the vocabularies, which would silently land in another query's answers."""
    if not len(facts_N3):
        return
    limits = facts_N3.new_tensor([num_entities, num_relations, num_entities])
    if bool(((facts_N3 < 0) | (facts_N3 >= limits)).any()):
        raise DataError(f"a fact holds a number outside {num_entities} entities and {num_relations} relations")
