from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relcode.errors import DataError
from relcode.graph.split import spare_facts, split_facts


def ring(size: int, relations: int) -> torch.Tensor:
    """Every entity points at its next ones, a relation for each distance."""
    return torch.tensor([[i, r, (i + r + 1) % size] for i in range(size) for r in range(relations)])


def test_a_large_graph_is_split_90_5_5() -> None:
    facts = ring(200, 5)
    splits = split_facts(facts, 200, 5)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [900, 50, 50]


def test_the_seed_alone_decides() -> None:
    facts = ring(50, 4)
    first, second, other = split_facts(facts, 50, 4, seed=1), split_facts(facts, 50, 4, seed=1), split_facts(facts, 50, 4, seed=2)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["test"], other["test"])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=120, unique=True))
def test_nothing_is_lost_and_train_keeps_every_entity_and_relation(rows: list[tuple[int, int, int]]) -> None:
    facts = torch.tensor(rows)
    try:
        splits = split_facts(facts, 10, 4)
    except DataError as error:
        assert "can be spared" in str(error)
        return
    assert sorted(rows) == sorted(tuple(row) for split in splits.values() for row in split.tolist())
    assert len(splits["valid"]) >= 1 and len(splits["test"]) >= 1
    assert 0 <= len(splits["test"]) - len(splits["valid"]) <= 1
    assert len(splits["valid"]) <= max(1, round(0.05 * len(rows)))
    assert set(splits["train"][:, [0, 2]].flatten().tolist()) == set(facts[:, [0, 2]].flatten().tolist())
    assert set(splits["train"][:, 1].tolist()) == set(facts[:, 1].tolist())


def test_a_loop_is_not_spared_when_it_is_all_there_is_of_an_entity() -> None:
    # Entity 0 occurs in one fact only, as head and tail: two mentions, but one fact.
    facts = torch.tensor([[0, 0, 0], *[[i, 0, j] for i in range(1, 7) for j in range(1, 7)]])
    for seed in range(50):
        assert [0, 0, 0] in split_facts(facts, 7, 1, seed=seed)["train"].tolist()


def test_a_chain_cannot_be_split() -> None:
    facts = torch.tensor([[2 * i, i, 2 * i + 1] for i in range(30)])
    with pytest.raises(DataError, match="give train, valid and test as three files"):
        split_facts(facts, 60, 30)


def one_by_one(facts: list[list[int]], order: list[int], most: int) -> list[int]:
    """Take facts one after the other, each if all its names occur in another that is not taken."""
    taken: list[int] = []
    for position in order:
        rest = [fact for place, fact in enumerate(facts) if place not in taken and place != position]
        head, relation, tail = facts[position]
        names = {entity for h, _, t in rest for entity in (h, t)}
        if len(taken) < most and {head, tail} <= names and relation in {r for _, r, _ in rest}:
            taken.append(position)
    return taken


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 7)), min_size=1, max_size=40, unique=True),
    st.integers(0, 9),
    st.integers(1, 20),
    st.integers(1, 12),
)
def test_facts_are_spared_as_if_one_by_one(rows: list[tuple[int, int, int]], seed: int, most: int, at_a_time: int) -> None:
    facts = torch.tensor(rows)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relcode.graph.split.AT_A_TIME", at_a_time)
        found = spare_facts(facts, order, most, 8, 3).tolist()
    assert found == one_by_one([list(row) for row in rows], order.tolist(), most)
