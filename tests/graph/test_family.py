from __future__ import annotations

import torch
from family import family_dataset, family_facts

from relcode.graph.dataset import Dataset


def pairs(dataset: Dataset, relation: str, splits: str = "train valid test") -> set[tuple[int, int]]:
    number = dataset.relations.index(relation)
    return {(h, t) for split in splits.split() for h, r, t in dataset.split(split).tolist() if r == number}


def joined(left: set[tuple[int, int]], right: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(h, t) for h, middle in left for start, t in right if middle == start}


def test_the_compositions_hold_exactly(family: Dataset) -> None:
    parent = pairs(family, "parent")
    assert joined(parent, parent) == pairs(family, "grandparent")
    assert joined(parent, pairs(family, "sibling")) == pairs(family, "aunt_or_uncle")
    assert joined(parent, pairs(family, "spouse")) == parent
    for symmetric in ("sibling", "spouse"):
        assert {(t, h) for h, t in pairs(family, symmetric)} == pairs(family, symmetric)


def test_only_grandparents_are_held_out_and_they_follow_from_train(family: Dataset) -> None:
    number = family.relations.index("grandparent")
    parent = pairs(family, "parent", "train")
    for split in ("valid", "test"):
        assert set(family.split(split)[:, 1].tolist()) == {number}
        assert pairs(family, "grandparent", split) <= joined(parent, parent)
    assert len(family.valid) == len(family.test) == 12
    assert len(pairs(family, "grandparent", "train")) == 104
    assert family.seen_E.all()


def test_nobody_marries_kin_and_everyone_has_a_gender() -> None:
    facts = [fact for split in family_facts().values() for fact in split]
    grandparents: dict[str, set[str]] = {}
    for head, relation, tail in facts:
        if relation == "grandparent":
            grandparents.setdefault(head, set()).add(tail)
    assert all(len(found) == 4 for found in grandparents.values())
    for head, relation, tail in facts:
        if relation == "spouse":
            assert not grandparents.get(head, set()) & grandparents.get(tail, set())
    people = {name for head, relation, tail in facts for name in (head, tail) if relation != "gender"}
    assert len(people) == 64
    assert {head for head, relation, _ in facts if relation == "gender"} == people


def test_it_is_the_same_each_time_and_the_seed_moves_the_held_out() -> None:
    assert family_dataset().fingerprint == family_dataset().fingerprint
    assert not torch.equal(family_dataset(0).test, family_dataset(1).test)
