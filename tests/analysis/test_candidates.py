from __future__ import annotations

import pytest
import torch
from completion import random_case, slow_heads

from relcode.analysis import candidates as module
from relcode.analysis.candidates import Candidates
from relcode.graph.dataset import dataset_from_facts


def named(facts: list[tuple[str, str, str]], relation: str, side: str, share: float = 0.25) -> list[str]:
    data = dataset_from_facts(facts)
    found = Candidates.of(data.train, data.num_entities, data.num_relations, share)
    r = data.relations.index(relation)
    return [data.entities[e] for e in (found.heads(r) if side == "head" else found.tails(r)).tolist()]


def test_an_entity_with_a_similar_role_is_a_candidate() -> None:
    cities = [(f"city{i}", "timezone", f"zone{i % 2}") for i in range(4)]
    countries = [(f"city{i}", "country", "land") for i in range(3)]  # of city3 the country is not stated
    others = [(f"sea{i}", "part_of", "ocean") for i in range(3)]
    assert named(cities + countries + others, "country", "head") == ["city0", "city1", "city2", "city3"]
    assert named(cities + countries + others, "country", "tail") == ["land"]
    assert named(cities + countries + others, "part_of", "head") == ["sea0", "sea1", "sea2"]


def test_the_share_decides() -> None:
    # Three of the four that have a time zone have a country.
    facts = [(f"city{i}", "timezone", "zone") for i in range(4)] + [(f"city{i}", "country", "land") for i in range(3)]
    assert "city3" in named(facts, "country", "head", share=0.75)
    assert "city3" not in named(facts, "country", "head", share=0.76)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.25, 0.6, 1.0])
def test_candidates_agree_with_a_loop(seed: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_case(seed).dataset
    monkeypatch.setattr(module, "BLOCK_NUMBERS", 7)  # entities one at a time
    found = Candidates.of(data.train, data.num_entities, data.num_relations, share)
    for relation in range(data.num_directed):
        assert found.heads(relation).tolist() == slow_heads(data, relation, share)
        inverse = (relation + data.num_relations) % data.num_directed
        assert found.inverse(relation) == inverse
        assert found.tails(relation).tolist() == slow_heads(data, inverse, share)


def test_how_often_a_head_has_one_tail_and_which_relations_loop() -> None:
    data = dataset_from_facts([("a", "r", "b"), ("a", "r", "c"), ("b", "r", "b"), ("a", "s", "b")])
    found = Candidates.of(data.train, 3, 2)
    assert found.once_S.tolist() == pytest.approx([2 / 3, 1, 2 / 3, 1])
    assert found.loops_R.tolist() == [True, False]


def test_a_relation_without_training_facts_has_no_candidates() -> None:
    data = dataset_from_facts({"train": [("a", "r", "b")], "valid": [("a", "s", "b")]})
    found = Candidates.of(data.train, data.num_entities, data.num_relations)
    assert found.heads(1).tolist() == found.tails(1).tolist() == [] and float(found.once_S[1]) == 0
    nothing = Candidates.of(torch.empty((0, 3), dtype=torch.int64), 0, 0)
    assert len(nothing.holder_X) == 0


def test_who_is_a_candidate_agrees_with_the_list() -> None:
    case = random_case(3)
    entity_X = torch.arange(case.dataset.num_entities)
    for relation in range(case.dataset.num_directed):
        listed = set(case.candidates.heads(relation).tolist())
        assert case.candidates.are_heads(entity_X, relation).tolist() == [e in listed for e in entity_X.tolist()]
    nobody = Candidates.of(torch.empty((0, 3), dtype=torch.int64), 4, 1)
    assert nobody.are_heads(torch.arange(4), 0).tolist() == [False] * 4
