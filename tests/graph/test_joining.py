from __future__ import annotations

import pytest

from relcode.errors import DataError
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.graph.joining import Joined, grown, join_facts
from relcode.graph.vocab import Vocab

OLD = dataset_from_facts(
    {"train": [("m", "likes", "z"), ("z", "likes", "b"), ("b", "near", "m")], "valid": [("m", "near", "z")], "test": [("u", "likes", "m")]},
    name="old",
)


def joined(*facts: tuple[str, str, str], **splits: list[tuple[str, str, str]]) -> Joined:
    return join_facts(OLD, dataset_from_facts({"train": list(facts), **splits}))


def named(data: Dataset, split: str) -> list[tuple[str, str, str]]:
    return [(data.entities[h], data.relations[r], data.entities[t]) for h, r, t in data.split(split).tolist()]


def test_old_names_and_facts_keep_their_numbers_and_places() -> None:
    result = joined(("a", "above", "m"), ("b", "likes", "y"))
    data = result.dataset
    assert data.entities.names == (*OLD.entities.names, "a", "y")  # a sorts before all old ones, and comes after them
    assert data.relations.names == (*OLD.relations.names, "above")
    for split in ("train", "valid", "test"):
        assert named(data, split)[: len(OLD.split(split))] == named(OLD, split)
        assert data.split(split)[: len(OLD.split(split))].tolist() == OLD.split(split).tolist()
    assert set(named(data, "train")[3:]) == {("a", "above", "m"), ("b", "likes", "y")}
    assert result.new_train.tolist() == data.train[3:].tolist()
    assert (result.old_entities, result.old_relations, result.known, result.held_out) == (4, 2, 0, 0)


def test_fresh_is_what_no_training_fact_named_before() -> None:
    result = joined(("u", "above", "m"), ("a", "likes", "b"))
    data = result.dataset
    assert {data.entities[i] for i in result.fresh_E.nonzero()[:, 0].tolist()} == {"u", "a"}  # u was in test alone
    assert {data.relations[i] for i in result.fresh_R.nonzero()[:, 0].tolist()} == {"above"}


def test_known_facts_are_counted_once_and_held_out_ones_stay_held_out() -> None:
    result = joined(("m", "likes", "z"), ("m", "near", "z"), ("u", "likes", "m"), ("z", "near", "m"))
    assert (result.known, result.held_out, len(result.new_train)) == (1, 2, 1)
    assert named(result.dataset, "train")[3:] == [("z", "near", "m")]
    assert named(result.dataset, "valid") == [("m", "near", "z")] and named(result.dataset, "test") == [("u", "likes", "m")]


def test_new_valid_and_test_facts_join_theirs_unless_they_are_trained_on() -> None:
    result = joined(("a", "likes", "m"), valid=[("a", "likes", "m"), ("a", "near", "m")], test=[("a", "near", "z"), ("m", "likes", "z")])
    assert named(result.dataset, "valid")[1:] == [("a", "near", "m")]
    assert named(result.dataset, "test")[1:] == [("a", "near", "z")]


def test_labels_of_before_are_kept() -> None:
    old = Dataset(**{**vars(OLD), "labels": {"m": "Em"}})
    new = Dataset(**{**vars(dataset_from_facts([("m", "likes", "a")])), "labels": {"m": "other", "a": "Ay"}})
    assert join_facts(old, new).dataset.labels == {"m": "Em", "a": "Ay"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([("m", "likes", "z")], r"knows all 1 facts given already: nothing joins"),
        ([("m", "likes", "z"), ("m", "near", "z")], r"all 2 facts given already, 1 of them held out in valid or test"),
        ([], r"no training facts among those given"),
    ],
)
def test_nothing_new_is_said(facts: list[tuple[str, str, str]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        joined(*facts, test=[("a", "near", "b")])


def test_grown_vocabulary_sorts_what_is_new() -> None:
    assert grown(Vocab(["b", "a"]), ["d", "a", "c", "d"]).names == ("b", "a", "c", "d")
