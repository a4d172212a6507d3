from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relcode.graph.checks import FEWEST_SHARED, NEARLY, check_dataset, lookalikes, twins
from relcode.graph.dataset import dataset_from_facts, load_dataset, save_dataset
from relcode.graph.rules import contradictions

Fact = tuple[str, str, str]


def pairs(count: int) -> list[tuple[str, str]]:
    return [(f"h{i}", f"t{i}") for i in range(count)]


def test_a_repeated_an_inverse_and_a_symmetric_relation_by_hand() -> None:
    train = [(h, "r", t) for h, t in pairs(10)] + [(h, "again", t) for h, t in pairs(9)] + [(t, "back", h) for h, t in pairs(10)]
    train += [(h, "friend", t) for h, t in pairs(6)] + [(t, "friend", h) for h, t in pairs(5)] + [(h, "other", t) for h, t in pairs(3)]
    test = [("h9", "again", "t9"), ("t5", "friend", "h5"), ("h8", "other", "t8")]
    found = check_dataset(dataset_from_facts({"train": train, "test": test, "valid": [("h0", "r", "t0")]}))
    assert [(one.first, one.second, one.shared) for one in found.near_duplicates] == [("again", "r", 10)]
    assert [(one.first, one.second, one.shared) for one in found.near_inverses] == [("again", "back", 10), ("back", "r", 10)]
    assert found.leaked == {"valid": 1, "test": 1}
    assert found.near_duplicates[0].leaks == {"valid": 1, "test": 1}
    assert [one.relation for one in found.symmetric] == ["friend"] and found.symmetric[0].share == 1
    assert found.reversed_in_train == {"valid": 0, "test": 1} and found.symmetric[0].reversed_in_train["test"] == 1
    assert found.repeated_from_train == {"valid": 1, "test": 0}
    words = " | ".join(found.warnings)
    assert "1 (33.3%) of the test facts are in train under a relation that nearly" in words
    assert "1 (100.0%) of the valid facts are in train as they are" in words


def slow_pairs(facts: list[Fact]) -> set[tuple[str, str, bool, int]]:
    """The definition, word for word."""
    of = {r: {(h, t) for h, s, t in facts if s == r} for _, r, _ in facts}
    found = set()
    for (r, left), (s, right), inverse in product(of.items(), of.items(), (False, True)):
        both = left & ({(t, h) for h, t in right} if inverse else right)
        if r < s and len(both) >= FEWEST_SHARED and len(both) >= NEARLY * len(left) and len(both) >= NEARLY * len(right):
            found.add((r, s, inverse, len(both)))
    return found


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("rstu"), st.sampled_from("abcde")), max_size=90))
def test_pairs_of_relations_against_the_definition(facts: list[Fact]) -> None:
    half = len(facts) // 2
    found = check_dataset(dataset_from_facts({"train": facts[:half], "test": facts[half:]}))
    assert {(one.first, one.second, one.inverse, one.shared) for one in (*found.near_duplicates, *found.near_inverses)} == slow_pairs(facts)
    train = set(facts[:half])
    assert found.reversed_in_train["test"] == sum((t, r, h) in train and h != t for h, r, t in set(facts[half:]))


def test_contradictions_by_hand() -> None:
    born = [(f"p{i}", "born_in", f"c{i % 7}") for i in range(60)]
    parent = [(f"p{i}", "parent", f"q{j}") for i in range(10) for j in range(6)]
    dataset = dataset_from_facts([*born, ("p3", "born_in", "c1"), *parent, ("q0", "parent", "p0"), ("p1", "parent", "p1")])
    found = {(one.relation, one.kind): one for one in contradictions(dataset)}
    assert set(found) == {("born_in", "functional"), ("parent", "one-way"), ("parent", "never a loop")}
    assert found["born_in", "functional"].breaks == 1
    assert set(found["born_in", "functional"].examples) == {"p3 born_in c1", "p3 born_in c3"}
    assert found["parent", "one-way"].breaks == 2
    assert found["parent", "never a loop"].examples == ("p1 parent p1",)


def test_lookalikes_differ_only_to_the_machine() -> None:
    dataset = dataset_from_facts([("é", "r", "e\u0301"), ("Oslo", "r", "oslo"), ("Oslo ", "r", "x"), ("a\u200bb", "r", "ab"), ("ß", "r", "y")])
    assert {frozenset(names) for names in lookalikes(dataset)} == {
        frozenset({"é", "e\u0301"}),
        frozenset({"Oslo", "oslo", "Oslo "}),
        frozenset({"a\u200bb", "ab"}),
    }


def test_relations_that_look_alike_are_listed_too() -> None:
    assert lookalikes(dataset_from_facts([("a", "knows", "b"), ("a", " Knows", "c")])) == [(" Knows", "knows")]


@pytest.mark.parametrize("stored", [False, True])
def test_twins_differ_by_spaces_around_or_by_normalisation_alone(tmp_path: Path, stored: bool) -> None:
    facts = [("é", "r", "e\u0301"), ("Oslo", "r", "oslo"), (" Oslo", "r ", "Oslo "), ("a  b", "r", "a b"), (" x", "r", "x\u00a0"), ("ﬁ", "r", "fi")]
    dataset = dataset_from_facts(facts)
    dataset = save_dataset(dataset, tmp_path / "d") if stored else dataset
    assert set(twins(dataset)) == {("é", "e\u0301"), ("Oslo", " Oslo"), ("Oslo", "Oslo "), (" x", "x\u00a0"), ("r", "r ")}


def test_nothing_is_found_in_nothing() -> None:
    assert check_dataset(dataset_from_facts([])).warnings == ()
    assert twins(dataset_from_facts([])) == []


@pytest.mark.parametrize(
    ("name", "flagged", "leaked", "reversed_share"),
    [("wn18", True, 3606, 0.217), ("wn18rr", False, 0, 0.347), ("fb15k-237", False, 0, 0.0), ("umls", False, 0, 0.147)],
)
def test_benchmarks_are_flagged_as_they_should_be(
    benchmark: Callable[[str], Path], name: str, flagged: bool, leaked: int, reversed_share: float
) -> None:
    found = check_dataset(load_dataset(benchmark(name)))
    assert bool(found.warnings) == flagged
    assert found.leaked["test"] == leaked
    assert round(found.reversed_in_train["test"] / found.facts["test"], 3) == reversed_share


@pytest.mark.slow
def test_fb15k_is_flagged(benchmark: Callable[[str], Path]) -> None:
    found = check_dataset(load_dataset(benchmark("fb15k")))
    assert found.leaked["test"] == 39473 and len(found.warnings) == 2
    kinds = Counter(one.inverse for one in (*found.near_duplicates, *found.near_inverses))
    assert kinds[True] > 400 and kinds[False] > 100
