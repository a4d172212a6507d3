from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from relcode.graph.dataset import dataset_from_facts, load_dataset
from relcode.graph.statistics import describe, has_unseen_entity


def test_counts_by_hand() -> None:
    dataset = dataset_from_facts(
        {
            "train": [("a", "r", "b"), ("b", "r", "c"), ("a", "r", "b"), ("a", "s", "a")],
            "valid": [("a", "r", "b"), ("a", "r", "new1"), ("new1", "q", "new2")],
            "test": [("a", "r", "new1"), ("a", "r", "new1"), ("b", "r", "c"), ("c", "r", "a"), ("c", "q", "a")],
        }
    )
    counted = describe(dataset)
    assert (counted.entities, counted.relations) == (5, 3)
    assert counted.facts == {"train": 3, "valid": 3, "test": 4}
    assert counted.duplicates == {"train": 1, "valid": 0, "test": 1}
    assert counted.unseen_entities == 2
    assert counted.unseen_relations == ("q",)
    assert counted.facts_with_unseen_entities == {"valid": 2, "test": 1}
    assert counted.facts_with_unseen_relations == {"valid": 1, "test": 1}
    assert counted.repeated_from_train == {"valid": 1, "test": 1}
    assert counted.valid_repeated_in_test == 1
    assert has_unseen_entity(dataset, dataset.train).sum() == 0
    assert json.loads(json.dumps(asdict(counted)))["facts"]["test"] == 4


def test_a_dataset_of_nothing() -> None:
    counted = describe(dataset_from_facts([]))
    assert counted.entities == counted.relations == counted.valid_repeated_in_test == 0
    assert counted.repeated_from_train == {"valid": 0, "test": 0}


# entities, relations, train, valid, test (lines of the files, repeated ones included), test and valid facts with an entity that train lacks, labels
BENCHMARKS = {
    "fb15k": (14951, 1345, 483142, 50000, 59071, 0, 0, 14510),
    "fb15k-237": (14541, 237, 272115, 17535, 20466, 28, 9, 14510),
    "wn18": (40943, 18, 141442, 5000, 5000, 0, 0, 40943),
    "wn18rr": (40943, 11, 86835, 3034, 3134, 210, 210, 40943),
    "codex-s": (2034, 42, 32888, 1827, 1828, 0, 0, 0),
    "nell-995": (75492, 200, 149678, 543, 3992, 1159, 102, 0),
    "umls": (135, 46, 5216, 652, 661, 0, 0, 0),
    "kinship": (104, 25, 8544, 1068, 1074, 0, 0, 0),
    "nations": (14, 55, 1592, 199, 201, 0, 0, 0),
    "countries_s1": (271, 2, 1111, 24, 24, 0, 0, 0),
    "countries_s2": (271, 2, 1063, 24, 24, 0, 0, 0),
    "countries_s3": (271, 2, 985, 24, 24, 0, 0, 0),
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_have_their_known_counts(name: str, benchmark: Callable[[str], Path]) -> None:
    entities, relations, train, valid, test, test_unseen, valid_unseen, labels = BENCHMARKS[name]
    counted = describe(load_dataset(benchmark(name)))
    assert (counted.entities, counted.relations) == (entities, relations)
    assert {split: counted.facts[split] + counted.duplicates[split] for split in counted.facts} == {"train": train, "valid": valid, "test": test}
    assert counted.duplicates == {"train": int(name.startswith("countries")), "valid": 0, "test": 0}
    assert counted.facts_with_unseen_entities == {"valid": valid_unseen, "test": test_unseen}
    assert counted.repeated_from_train["test"] == 0
    assert counted.unseen_relations == ()
    if name != "fb15k-237":  # its labels are those of fb15k: 31 of its entities lack one
        assert counted.labels == labels
    else:
        assert counted.labels == labels == entities - 31
