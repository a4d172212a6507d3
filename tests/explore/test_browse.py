"""Looking around in a model small enough to check by hand; the routes of the web are tested on a trained one."""

from __future__ import annotations

import pytest
import torch
from small_model import small_model

from relcode.analysis.codes import NoAutoencoder
from relcode.errors import PathSyntaxError, SettingError, UnknownName
from relcode.explore.browse import Browser


@pytest.fixture(scope="module")
def browser() -> Browser:
    return Browser(small_model({"a": "Alpha", "b": "Beta", "c": "Beta"}))


def test_entities_are_found_by_name_and_label_with_their_facts(browser: Browser) -> None:
    assert browser.entities("alp")["entities"] == [{"name": "a", "label": "Alpha", "facts": 5}]  # a fact of itself with itself counts twice
    assert [one["name"] for one in browser.entities("beta")["entities"]] == ["b", "c"]
    assert browser.entities("", 2)["entities"][0]["name"] == "a"


def test_relations_of_an_entity_come_first_in_both_directions(browser: Browser) -> None:
    found = browser.relations("", "b")["relations"]
    assert [(one["relation"], one["has"]) for one in found] == [("s", 1), ("^r", 1), ("r", 0), ("^s", 0)]
    assert [one["relation"] for one in browser.relations("^", "b")["relations"]] == ["^r", "^s"]
    assert [one["relation"] for one in browser.relations("r")["relations"]] == ["r", "^r"]
    with pytest.raises(UnknownName):
        browser.relations("r", "nobody")


def test_facts_of_an_entity_are_grouped_and_told_apart_from_held_out_ones(browser: Browser) -> None:
    record = browser.facts("a")
    groups = {group["relation"]: [(fact["entity"], fact["trained"]) for fact in group["facts"]] for group in record["relations"]}
    assert groups == {"r": [("a", False), ("b", True)], "^r": [("a", False), ("c", True)], "^s": [("d", False)]}
    assert record["trained"] and not browser.facts("d")["trained"]
    assert [group["total"] for group in browser.facts("a", 1)["relations"]] == [2, 2, 1]
    assert all(len(group["facts"]) == 1 for group in browser.facts("a", 1)["relations"])


def test_neighbours_have_the_cosine_of_the_tail_vectors(browser: Browser) -> None:
    record = browser.neighbours("a")
    cosine = torch.cosine_similarity(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), dim=0)
    assert [one["name"] for one in record["neighbours"]] == ["b", "c"]  # d was never trained
    assert record["neighbours"][0]["cosine"] == pytest.approx(float(cosine))
    assert browser.neighbours("d")["neighbours"] == []
    assert len(browser.neighbours("a", 1)["neighbours"]) == 1


def test_a_relation_has_its_nearest_and_its_facts_in_its_own_direction(browser: Browser) -> None:
    record = browser.relation("r")
    assert record["code"] is None and record["facts"] == 2
    flat = torch.tensor([[1.0, 2, 0, 1], [0, 1, 1, 0], [2, 0, 0, 1], [1, 0, 0, -1]])
    cosine = torch.cosine_similarity(flat, flat[0][None], dim=1)
    assert [one["relation"] for one in record["nearest"]] == ["s", "^r", "^s"]
    assert [one["cosine"] for one in record["nearest"]] == pytest.approx(cosine[[1, 2, 3]].tolist(), abs=1e-6)
    assert [(one["head"], one["tail"]) for one in record["examples"]] == [("a", "b"), ("c", "a")]
    assert [(one["head"], one["tail"]) for one in browser.relation("^r")["examples"]] == [("b", "a"), ("a", "c")]
    assert record["examples"][0]["head_label"] == "Alpha"


def test_a_composition_needs_two_steps_and_shows_who_says_so(browser: Browser) -> None:
    record = browser.composition("r/s", "r")
    assert record["examples"] == []
    (against,) = record["counter_examples"]
    assert (against["head"], against["middle"], against["tail"], against["known"]) == ("a", "b", "c", False)
    (held_out,) = browser.composition("^r/^r", "r")["counter_examples"] or [None]
    assert held_out is not None and held_out["head"] == "b"
    with pytest.raises(PathSyntaxError, match="2 steps"):
        browser.composition("r", "s")


def test_maps_and_about_and_labels(browser: Browser) -> None:
    assert [point["name"] for point in browser.map()["points"]] == ["r", "s", "^r", "^s"]
    assert {point["name"] for point in browser.map("entities")["points"]} == {"Alpha", "Beta"}
    about = browser.about()
    assert (about["entities"], about["relations"], about["code_dim"], about["labels"]) == (4, 2, None, 3)
    assert about["starters"][0] == {"head": "d", "relation": "s"}
    assert browser.labels(["a", "nobody", "d"]) == {"labels": {"a": "Alpha"}}


def test_a_run_without_an_autoencoder_has_no_codes(browser: Browser) -> None:
    with pytest.raises(NoAutoencoder):
        browser.codes()
    with pytest.raises(SettingError):
        browser.entities("a", 0)
