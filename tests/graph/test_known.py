from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relcode.errors import DataError
from relcode.graph.dataset import Dataset
from relcode.graph.known import KnownAnswers

E, R = 6, 3
FACTS = st.lists(st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), max_size=40)


def tensor(facts: list[tuple[int, int, int]]) -> torch.Tensor:
    return torch.tensor(facts, dtype=torch.int64).reshape(-1, 3)


def slow_answers(facts: list[tuple[int, int, int]], head: int, relation: int) -> list[int]:
    """The definition, in plain loops."""
    if relation < R:
        return sorted({t for h, r, t in facts if (h, r) == (head, relation)})
    return sorted({h for h, r, t in facts if (t, r + R) == (head, relation)})


def test_by_hand() -> None:
    known = KnownAnswers(tensor([(0, 1, 2), (0, 1, 1), (3, 1, 2), (0, 1, 2), (4, 0, 4)]), E, R)
    assert known.of(0, 1).tolist() == [1, 2]
    assert known.of(2, 1 + R).tolist() == [0, 3]
    assert known.of(4, 0).tolist() == known.of(4, R).tolist() == [4]
    assert known.of(2, 1).tolist() == []
    rows, entities = known.pairs(torch.tensor([5, 0, 2, 0]), torch.tensor([0, 1, 4, 1]))
    assert rows.tolist() == [1, 1, 2, 2, 3, 3]
    assert entities.tolist() == [1, 2, 0, 3, 1, 2]


@given(FACTS)
def test_every_query_agrees_with_loops(facts: list[tuple[int, int, int]]) -> None:
    known = KnownAnswers(tensor(facts), E, R)
    queries = [(head, relation) for head in range(E) for relation in range(2 * R)]
    expected = [(row, answer) for row, query in enumerate(queries) for answer in slow_answers(facts, *query)]
    head, relation = torch.tensor(queries).unbind(1)
    rows, entities = known.pairs(head, relation)
    assert list(zip(rows.tolist(), entities.tolist(), strict=True)) == expected
    for head_number, relation_number in queries[::7]:
        assert known.of(head_number, relation_number).tolist() == slow_answers(facts, head_number, relation_number)


def test_the_order_of_queries_and_repeats_do_not_matter(family: Dataset) -> None:
    known = KnownAnswers(torch.cat([family.train, family.valid, family.test]), family.num_entities, family.num_relations)
    batch = family.test[torch.tensor([3, 1, 3, 0])]
    rows, entities = known.pairs(batch[:, 0], batch[:, 1])
    for row, (head, relation, tail) in enumerate(batch.tolist()):
        assert entities[rows == row].tolist() == known.of(head, relation).tolist()
        assert tail in known.of(head, relation).tolist()
        assert len(known.of(head, relation)) == 4  # everyone of the last two generations has four grandparents


def test_nothing_known_and_nothing_asked() -> None:
    empty = torch.empty(0, dtype=torch.int64)
    nothing = KnownAnswers(tensor([]), E, R)
    assert nothing.of(0, 0).shape == (0,)
    for known in (nothing, KnownAnswers(tensor([(0, 0, 1)]), E, R)):
        rows, entities = known.pairs(empty, empty)
        assert rows.shape == entities.shape == (0,)
        assert rows.dtype == entities.dtype == torch.int64


@pytest.mark.parametrize("fact", [(E, 0, 0), (0, R, 0), (0, 0, E), (-1, 0, 0), (0, -1, 0)])
def test_numbers_outside_are_refused(fact: tuple[int, int, int]) -> None:
    with pytest.raises(DataError, match="outside 6 entities and 3 relations"):
        KnownAnswers(tensor([(0, 0, 0), fact]), E, R)


@pytest.mark.parametrize("query", [(0, 2 * R), (E, 0), (-1, 0), (0, -1)])
def test_queries_outside_are_refused(query: tuple[int, int]) -> None:
    with pytest.raises(IndexError, match="outside"):
        KnownAnswers(tensor([(0, 0, 0)]), E, R).of(*query)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_it_moves_to_another_device(device: str, family: Dataset) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    here = KnownAnswers(family.train, family.num_entities, family.num_relations)
    there = here.to(device)
    head, relation = family.train[:, 0], family.train[:, 1]
    for mine, moved in zip(here.pairs(head, relation), there.pairs(head.to(device), relation.to(device)), strict=True):
        assert moved.device.type == device
        assert torch.equal(mine, moved.cpu())
    assert torch.equal(here.of(0, 0), there.of(0, 0).cpu())
