from __future__ import annotations

import itertools
import math

import pytest
import torch

from relcode.analysis.codes import codes_of
from relcode.analysis.topics import domain, pairs_agreeing, strongest_relations, topic_test
from relcode.graph.vocab import Vocab


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/film/film/country", "film"),
        ("/people/person/spouse_s./people/marriage/type", "people"),
        ("/award_x/y", "award_x"),
        ("city_country", "city"),
        ("Plays for", "plays"),
        ("http://dbpedia.org/ontology/birthPlace", "birth"),
        ("dbo:birthPlace", "birth"),
        ("http://www.wikidata.org/prop/direct/P31", "p31"),
        ("_hypernym", "hypernym"),
        ("^", "^"),
    ],
)
def test_domains(name: str, expected: str) -> None:
    assert domain(name) == expected


def test_pairs_agreeing_worked_by_hand_and_by_loop() -> None:
    assert pairs_agreeing(torch.tensor([[1, 1, 2], [3, 3, 3], [1, 2, 3]])).tolist() == pytest.approx([1 / 3, 1, 0])
    drawn = torch.randint(3, (5, 7), generator=torch.Generator().manual_seed(0))
    slow = [sum(a == b for a, b in itertools.combinations(row, 2)) / 21 for row in drawn.tolist()]
    assert pairs_agreeing(drawn).tolist() == pytest.approx(slow)


def made(topical: bool, seed: int = 0) -> tuple[torch.Tensor, Vocab]:
    """Return codes of 60 relations of 4 domains over 4 dimensions, each domain on its own dimension or all at random; inverses as their relations."""
    names = [f"/{'abcd'[number % 4]}/x{number // 4:02d}" for number in range(60)]
    code_RC = torch.rand(60, 4, generator=torch.Generator().manual_seed(seed))
    if topical:
        code_RC[torch.arange(60), torch.arange(60) % 4] += 5
    return code_RC.repeat(2, 1), Vocab(names, "relation")


def test_topics_that_are_there_are_found() -> None:
    code_SC, relations = made(topical=True)
    found = topic_test(codes_of(code_SC, relations), relations, torch.Generator().manual_seed(0), deals=500)
    assert [(topic.domain, topic.holders, topic.relations) for topic in found.topics] == [(name, 10, 10) for name in "abcd"]
    assert found.agreement == 1 and found.chance == pytest.approx(14 / 59, abs=0.02) and found.p_value == 1 / 501
    assert found.significant == 4 and found.domains == 4 and "4 of 4 dimensions" in str(found)
    assert found.table().num_rows == 4


def test_no_topics_are_found_where_there_are_none() -> None:
    """Over many random codes the p-value is as likely below ½ as above, and seldom small."""
    values = []
    for seed in range(40):
        code_SC, relations = made(topical=False, seed=seed)
        values.append(topic_test(codes_of(code_SC, relations), relations, torch.Generator().manual_seed(seed), deals=99).p_value)
    assert sum(value <= 0.05 for value in values) <= 6 and 10 <= sum(value <= 0.5 for value in values) <= 32


def test_a_relation_and_its_inverse_are_one() -> None:
    relations = Vocab(["/a/x", "/b/y", "/b/z"], "relation")
    code_SC = torch.tensor([[1.0, 0], [0, 1], [0, 1], [9, 1], [0, 0], [2, 8]])
    strong = strongest_relations(codes_of(code_SC, relations), 10)
    assert {dimension: rows.tolist() for dimension, rows in strong.items()} == {0: [0, 2], 1: [1, 2, 0]}


def test_dimensions_without_relations_are_left_out_and_empty_codes_say_so() -> None:
    relations = Vocab(["/a/x", "/b/y"], "relation")
    found = topic_test(codes_of(torch.zeros(4, 3), relations), relations, torch.Generator(), deals=5)
    assert found.topics == () and math.isnan(found.agreement) and found.significant == 0 and "none can be a topic" in str(found)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([f"r{number}" for number in range(60)], "no two relations share the first part of their names, so there are no topics to tell"),
        ([f"/a/{number}" for number in range(60)], "all relations share the first part of their names, so there are no topics to tell"),
    ],
)
def test_names_that_cannot_tell_topics_are_said_to(names: list[str], said: str) -> None:
    code_SC, relations = made(topical=True)
    found = topic_test(codes_of(code_SC, Vocab(names, "relation")), Vocab(names, "relation"), torch.Generator().manual_seed(0), deals=50)
    assert (found.tells, str(found), found.relations) == (False, said, 60)
    assert topic_test(codes_of(code_SC, relations), relations, torch.Generator().manual_seed(0), deals=50).tells


def test_the_order_of_relations_does_not_matter() -> None:
    code_SC, relations = made(topical=True)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    shuffled = Vocab([relations[number] for number in order.tolist()], "relation")
    turned_SC = code_SC[torch.cat([order, order + 60])]
    both = [
        topic_test(codes_of(some_SC, names), names, torch.Generator().manual_seed(0), deals=50)
        for some_SC, names in ((code_SC, relations), (turned_SC, shuffled))
    ]
    assert [(one.number, one.domain, one.agreement) for one in both[0].topics] == [(one.number, one.domain, one.agreement) for one in both[1].topics]
