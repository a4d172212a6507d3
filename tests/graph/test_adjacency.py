from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from relcode.graph.adjacency import Adjacency
from relcode.graph.dataset import Dataset


def edges(adjacency: Adjacency, entity: int) -> list[tuple[int, int]]:
    start, end = adjacency.offset_E1[entity : entity + 2].tolist()
    return list(zip(adjacency.relation_N[start:end].tolist(), adjacency.tail_N[start:end].tolist(), strict=True))


def test_by_hand() -> None:
    # 0 -0-> 1, 0 -1-> 2, 1 -1-> 1 (a loop leaves 1 twice: forward and inverse); 3 has no edge
    adjacency = Adjacency.build(torch.tensor([[0, 0, 1], [0, 1, 2], [1, 1, 1]]), 4, 2)
    assert adjacency.offset_E1.tolist() == [0, 2, 5, 6, 6]
    assert adjacency.degree_E.tolist() == [2, 3, 1, 0]
    assert adjacency.head_N.tolist() == [0, 0, 1, 1, 1, 2]
    assert edges(adjacency, 0) == [(0, 1), (1, 2)]
    assert edges(adjacency, 1) == [(1, 1), (2, 0), (3, 1)]
    assert edges(adjacency, 2) == [(3, 0)]
    assert edges(adjacency, 3) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), max_size=40, unique=True))
def test_every_fact_is_two_edges_and_there_are_no_others(facts: list[tuple[int, int, int]]) -> None:
    adjacency = Adjacency.build(torch.tensor(facts, dtype=torch.int64).reshape(-1, 3), 6, 3)
    expected = sorted([(h, r, t) for h, r, t in facts] + [(t, r + 3, h) for h, r, t in facts])
    assert sorted((e, r, t) for e in range(6) for r, t in edges(adjacency, e)) == expected
    assert adjacency.degree_E.sum() == 2 * len(facts)
    assert all(part.dtype == torch.int64 for part in (adjacency.offset_E1, adjacency.relation_N, adjacency.tail_N, adjacency.degree_E))


def test_no_facts_and_moving(family: Dataset) -> None:
    empty = Adjacency.build(torch.empty((0, 3), dtype=torch.int64), 3, 2)
    assert empty.degree_E.tolist() == [0, 0, 0]
    adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
    assert torch.equal(adjacency.to("cpu").tail_N, adjacency.tail_N)
    assert adjacency.to("cpu").num_relations == family.num_relations
