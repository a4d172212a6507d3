from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from family import family_facts
from small_model import small_model

import relcode
from relcode.errors import SettingError, UnknownName
from relcode.explore.model import Model
from relcode.explore.reason_records import Explanation
from relcode.explore.reasons import explain

ONLY = ("parent", "gender", "grandparent")  # without siblings, spouses and aunts, parent/parent is the one way to a grandparent


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a model of the part of the family in which a grandparent has one reason."""
    facts = {split: [fact for fact in some if fact[1] in ONLY] for split, some in family_facts().items()}
    settings = {"model.dim": 16, "model.code_dim": 4, "sampling.edges": 256, "sampling.tile": 8, "sampling.noise_draws": 8}
    length = {"training.epochs": 150, "training.validations": 0, "training.device": "cpu"}
    folder = tmp_path_factory.mktemp("reasons") / "run"
    relcode.train(relcode.dataset_from_facts(facts), "joint+comp", out=folder, settings=settings | length, progress=False)
    return Model.open(folder, "cpu")


def held_out(model: Model) -> Iterator[tuple[str, str, str]]:
    data = model.dataset
    for h, r, t in data.test.tolist():
        yield data.entities[h], data.relations[r], data.entities[t]


@pytest.fixture(scope="module")
def explained(model: Model) -> list[Explanation]:
    return [explain(model, *fact, top=1, verify=True) for fact in held_out(model)]


def test_the_reason_of_a_grandparent_is_a_parents_parent(explained: list[Explanation]) -> None:
    assert len(explained) == 12
    assert [one.paths[0].path for one in explained] == ["parent/parent"] * 12
    for one in explained:
        ((first, second),) = one.paths[0].facts
        assert first[:2] == (one.head, "parent") and second == (first[2], "parent", one.tail)
        assert one.paths[0].groundings == 1 and one.paths[0].adds > 0 and 0 < one.paths[0].cosine <= 1


def test_removing_the_reason_hurts_more_than_removing_others(explained: list[Explanation]) -> None:
    found = [one.verification for one in explained if one.verification is not None]
    assert len(found) == 12 and all(len(one.removed) == 1 and not one.emptied for one in found)

    def mean_log(ranks: list[float]) -> float:
        return sum(map(math.log, ranks)) / len(ranks)

    nothing, reason = mean_log([one.nothing.rank for one in found]), mean_log([one.explanation.rank for one in found])
    by_chance = mean_log([draw.rank for one in found for draw in one.draws])
    assert reason > by_chance > nothing - 0.05 and reason > nothing + 0.2
    scores = [sum(getattr(one, arm).score for one in found) for arm in ("nothing", "random", "explanation")]
    assert scores[0] > scores[1] > scores[2]


def test_an_entity_that_loses_every_fact_is_named(model: Model) -> None:
    few, many = (explain(model, *next(held_out(model)), top=top, verify=True).verification for top in (1, 50))
    assert few is not None and many is not None
    assert few.emptied == () and len(many.removed) > len(few.removed)
    alone = small_model()
    alone.dataset = relcode.dataset_from_facts({"train": [("a", "r", "b"), ("c", "s", "c")], "test": [("d", "s", "c")]})
    alone.names.dataset = alone.dataset
    found = explain(alone, "a", "s", "b", verify=True).verification  # joined by one fact, the only one of both
    assert found is not None and (found.removed, found.available, found.emptied) == ((("a", "r", "b"),), 1, ("a", "b"))
    assert all(draw == replace(found.explanation, arm="random") for draw in found.draws)


def test_edges_shown_are_training_facts_and_never_the_fact_itself(model: Model) -> None:
    data = model.dataset
    train = {(data.entities[h], data.relations[r], data.entities[t]) for h, r, t in data.train.tolist()}
    asked = [fact for fact in sorted(train) if fact[1] == "grandparent"][:5]
    for head, relation, tail in asked:
        for found in (explain(model, head, relation, tail), explain(model, tail, f"^{relation}", head)):
            edges = [edge for path in found.paths for facts in path.facts for edge in facts]
            assert edges and found.known and set(edges) <= train and (head, relation, tail) not in edges
            assert all({one.head, one.tail} != {head, tail} for one in found.similar)


def test_the_inverse_is_explained_by_the_path_backwards(model: Model) -> None:
    head, relation, tail = next(held_out(model))
    forward, back = explain(model, head, relation, tail, top=1), explain(model, tail, f"^{relation}", head, top=1, verify=True)
    assert back.paths[0].path == "^parent/^parent" and back.relation == "^grandparent"
    assert back.paths[0].facts[0] == forward.paths[0].facts[0][::-1]
    assert (back.rank, back.head_rank) == (forward.head_rank, forward.rank)
    assert back.verification is not None and [(one.head, one.relation, one.tail) for one in back.facts] == list(back.verification.removed)


def test_explanations_repeat_and_become_json_and_tables(model: Model) -> None:
    fact = next(held_out(model))
    found = explain(model, *fact, verify=True)
    assert found == explain(model, *fact, verify=True)
    assert found.verification is not None and found.verification.nothing == explain(model, *fact, verify=True, seed=7).verification.nothing  # type: ignore[union-attr]
    record = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert record["paths"][0]["path"] == "parent/parent" and record["verification"]["nothing"]["removed"] == 0 and "note" not in record
    assert "verification" not in replace(found, verification=None).to_json()
    table = found.table()
    assert table.num_rows == sum(len(one.facts) for one in found.paths) and table.column_names[0] == "path"
    assert [edge["relation"] for edge in table.to_pylist()[0]["facts"]] == ["parent", "parent"]
    assert found.verification.table().num_rows == 8
    tables = found.tables()
    assert {name: table.num_rows for name, table in tables.items() if name != "paths"} == {
        name: len(getattr(found, name)) for name in ("facts", "similar", "codes", "rivals")
    }
    assert tables["paths"] == table and tables["facts"].column_names == ["head", "relation", "tail", "fall"]


def test_similar_facts_and_codes_are_of_the_same_head_or_relation(model: Model) -> None:
    found = explain(model, *next(held_out(model)), top=3)
    assert found.similar and all(one.relation == "grandparent" and one.head_cosine > 0 < one.tail_cosine for one in found.similar)
    assert found.codes and all(one.relation != "grandparent" and one.answers for one in found.codes)
    cosines = [one.code_cosine for one in found.codes]
    assert cosines == sorted(cosines, reverse=True)


def test_what_speaks_against_a_fact(model: Model) -> None:
    wrong = explain(model, "Ada_4", "gender", "Abe_1")
    text = " | ".join(wrong.against)
    assert "is only number" in text and "Abe_1 is the tail of no other training fact of gender" in text
    assert "gender usually has one answer (1.00 on average), and Ada_4 has female already, and female scores above Abe_1" in text
    assert wrong.rank > 1 and wrong.rivals[0].known and wrong.rivals[0].entity == "female"
    nobody = " | ".join(explain(model, "female", "parent", "male").against)
    assert "female is the head of no training fact of parent" in nobody
    right = explain(model, "Ada_4", "gender", "female")
    assert right.known and right.rank == 1 and right.rivals == ()


def test_a_run_without_codes_and_an_entity_never_trained() -> None:
    found = explain(small_model(), "a", "s", "b")
    assert found.codes == () and [one.path for one in found.paths][:1] == ["r"]
    assert found.paths[0].facts == ((("a", "r", "b"),),)
    unseen = explain(small_model(), "d", "s", "a", verify=True)
    assert "'d' never occurred in training" in unseen.note and unseen.paths == unseen.similar == unseen.rivals == () and unseen.verification is None
    assert "note" in unseen.to_json()


def test_mistakes_are_told() -> None:
    for fact in (("x", "r", "a"), ("a", "x", "b"), ("a", "r", "x")):
        with pytest.raises(UnknownName, match="'x'"):
            explain(small_model(), *fact)
    with pytest.raises(SettingError, match="top cannot be 0"):
        explain(small_model(), "a", "r", "b", top=0)


def test_a_full_family_has_reasons_too(family_run: Path) -> None:
    model = Model.open(family_run, "cpu")
    for head, relation, tail in list(held_out(model))[:4]:
        found = explain(model, head, relation, tail, top=20)
        assert "parent/parent" in [one.path for one in found.paths] and len(found.facts) > 3
        falls, carried = [one.fall for one in found.facts], [one.cosine * max(one.carries or 0, 0) for one in found.paths]
        assert falls == sorted(falls, reverse=True) and falls[-1] > 0 and carried == sorted(carried, reverse=True) and carried[0] > 0


def test_facts_are_those_of_the_two_entities_and_can_be_left_unmeasured(model: Model) -> None:
    fact = next(held_out(model))
    found, quick = explain(model, *fact), explain(model, *fact, verify=True, facts=False)
    assert found.facts and all({one.head, one.tail} & {fact[0], fact[2]} for one in found.facts)
    assert quick.facts == () and quick.verification is None and all(one.carries is None for one in quick.paths)
    assert {one.path for one in quick.paths} == {one.path for one in found.paths} and replace(quick, paths=found.paths, facts=found.facts) == found
