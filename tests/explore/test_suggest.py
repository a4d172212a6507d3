from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from completion import Case, slow_best, slow_evidence

import relcode
from relcode.analysis.found_pairs import Search
from relcode.errors import PathSyntaxError, SettingError, UnknownName
from relcode.explore.model import Model
from relcode.explore.probability import calibrate
from relcode.explore.suggest import Suggester, Wanted, suggest, suggest_about

pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")


@pytest.fixture(scope="module")
def model(family_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("suggest") / "run"
    shutil.copytree(family_run, folder)
    model = relcode.load(folder, device="cpu")
    calibrate(model)
    return model


def test_suggestions_agree_with_a_loop_over_all_pairs(model: Model) -> None:
    data = model.dataset
    case = Case(data, model.scorer, model.candidates, model.known)
    assert model.calibration is not None
    for name in ("spouse", "grandparent"):
        relation = data.relations.index(name)
        shifts = model.calibration.calibrators.shifts(relation)
        expected = slow_best(case, Search(relation=relation, top=0, shifts=shifts))[:25]
        found = suggest(model, [name], top=25, memory="1MB")
        assert {(one.head, one.tail) for one in found} == {(data.entities[h], data.entities[t]) for _, h, t in expected}
        for one in found[:5]:
            numbers = data.entities.index(one.head), relation, data.entities.index(one.tail)
            assert one.evidence == pytest.approx(slow_evidence(case, *numbers), abs=1e-3)
            assert one.score == pytest.approx(model.score(one.head, name, one.tail), abs=1e-4)
            (scored,) = model.score_facts([(one.head, name, one.tail)])
            assert one.probability == pytest.approx(scored.probability, abs=1e-4) and not scored.known


def test_held_out_facts_are_suggested_first_where_they_are_not_known(family_run: Path) -> None:
    model = relcode.load(family_run, device="cpu")
    data = model.dataset
    # Hide the test split from the model's known facts: these are the facts that are really missing.
    model.known = relcode_known(data, "train", "valid")
    calibrate(model, store=False)
    found = suggest(model, ["grandparent"], top=24)
    missing = {(data.entities[h], data.entities[t]) for h, _, t in data.test.tolist()}
    assert len({(one.head, one.tail) for one in found} & missing) >= 6  # of 12, among the best 24 of some thousand


def relcode_known(data: relcode.Dataset, *splits: str):
    from relcode.graph.known import KnownAnswers

    return KnownAnswers(torch.cat([data.split(name) for name in splits]), data.num_entities, data.num_relations)


def test_all_relations_come_by_probability(model: Model) -> None:
    found = suggest(model, top=7)
    assert {one.relation for one in found} == set(model.dataset.relations.names)
    assert max(sum(one.relation == name for one in found) for name in model.dataset.relations.names) == 7
    values = [one.probability for one in found]
    assert values == sorted(values, reverse=True) and len(set(values)) > 10  # type: ignore[type-var]
    facts = {tuple(fact) for split in ("train", "valid", "test") for fact in model.dataset.split(split).tolist()}
    names = model.dataset.entities.index, model.dataset.relations.index
    assert not any((names[0](one.head), names[1](one.relation), names[0](one.tail)) in facts for one in found)


def test_a_part_of_the_knowledge_base(model: Model) -> None:
    heads = suggest(model, ["spouse"], ["Ada_4", "Abe_4"], top=5)
    assert {one.head for one in heads} == {"Ada_4", "Abe_4"}
    tails = suggest(model, ["^grandparent"], ["Ada_1"], top=5)
    assert {(one.relation, one.tail) for one in tails} == {("grandparent", "Ada_1")}
    assert suggest(model, ["spouse", "^spouse"], top=3) == suggest(model, ["spouse"], top=3)
    likely = suggest(model, ["grandparent"], top=200, min_probability=0.05)
    everything = suggest(model, ["grandparent"], top=200)
    expected = [one for one in everything if one.probability is not None and one.probability >= 0.05]
    assert [(one.head, one.tail) for one in likely] == [(one.head, one.tail) for one in expected] and 0 < len(likely) < len(everything)
    assert [one.probability for one in likely] == pytest.approx([one.probability for one in expected])


def test_the_model_has_it_at_hand(model: Model) -> None:
    assert model.suggest(["spouse"], top=3) == suggest(model, ["spouse"], top=3)
    kept = json.dumps(model.calibrate().to_json(model.dataset.relations.names))
    assert json.loads(kept) == json.loads((model.folder / "calibration.json").read_text(encoding="utf-8"))


def test_about_one_entity(model: Model) -> None:
    found = suggest_about(model, "Ada_3", top=10)
    assert len(found) == 10 and all("Ada_3" in (one.head, one.tail) for one in found)
    assert {one.head == "Ada_3" for one in found} == {True, False}
    expected = [one for one in suggest(model, top=5000) if "Ada_3" in (one.head, one.tail)]
    assert [one.probability for one in found] == pytest.approx([one.probability for one in expected[:10]], abs=1e-6)
    triples = [(one.head, one.relation, one.tail) for one in suggest_about(model, "Ada_3", top=3000)]
    assert sorted(triples) == sorted((one.head, one.relation, one.tail) for one in expected)


def test_any_type_asks_about_every_entity(model: Model) -> None:
    limited = suggest(model, ["gender"], top=2000)
    lifted = suggest(model, ["gender"], top=2000, any_type=True)
    assert {one.tail for one in limited} == {"female", "male"}
    assert {one.tail for one in lifted} > {"female", "male"}
    typed = [one for one in lifted if one.typed]
    assert [(one.head, one.tail) for one in typed] == [(one.head, one.tail) for one in limited] and lifted[: len(typed)] == typed
    assert {one.probability for one in lifted if not one.typed} == {None} and "typed" in lifted[-1].to_json()
    assert all(one.typed for one in suggest(model, ["gender"], top=2000, any_type=True, min_probability=0.001))


def test_reasons_are_paths_of_training_facts(model: Model) -> None:
    found = suggest(model, ["aunt_or_uncle"], top=20, reasons=True)
    reasons = [one.reason for one in found if one.reason]
    assert reasons
    train = {tuple(fact) for fact in model.dataset.train.tolist()}
    for reason in reasons:
        _, facts = reason.split(": ", 1)
        for fact in facts.split(", "):
            head, relation, tail = fact.split(" ")
            numbers = model.dataset.entities.index(head), model.dataset.relations.index(relation), model.dataset.entities.index(tail)
            assert numbers in train
    assert "reason" in found[0].to_json() or not found[0].reason
    assert suggest_about(model, "Ada_3", top=3, reasons=True)


def test_without_calibration_they_come_by_evidence(family_run: Path) -> None:
    model = relcode.load(family_run, device="cpu")
    found = suggest(model, ["grandparent"], top=30)
    assert {one.probability for one in found} == {None}
    assert [one.evidence for one in found] == sorted((one.evidence for one in found), reverse=True)
    with pytest.raises(SettingError, match="needs a calibrated run"):
        suggest(model, min_probability=0.5)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"top": 0}, SettingError, "top cannot be 0"),
        ({"top": 10**9}, SettingError, "top cannot be 1000000000"),
        ({"top": 50_000}, SettingError, "at most 10,000"),
        ({"min_probability": 1.5}, SettingError, "from 0 to 1"),
        ({"min_probability": float("nan")}, SettingError, "from 0 to 1"),
        ({"relations": ["grandparnt"]}, UnknownName, "did you mean 'grandparent'"),
        ({"relations": ["parent/parent"]}, PathSyntaxError, "expected one relation"),
        ({"heads": ["Ada_44"]}, UnknownName, "did you mean 'Ada_4'"),
        ({"memory": "10KB"}, SettingError, "too few"),
        ({"memory": "much"}, SettingError, "write an amount"),
    ],
    ids=str,
)
def test_bad_wishes_are_refused(model: Model, options: dict[str, object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        suggest(model, **options)  # type: ignore[arg-type]


def test_what_training_never_saw_is_said(tmp_path: Path) -> None:
    facts = {"train": [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")], "valid": [("a", "r", "c")], "test": [("z", "s", "a")]}
    data = relcode.dataset_from_facts(facts)
    model = relcode.train(data, "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, tile=2, progress=False, device="cpu")
    work = Suggester(model, Wanted(relations=("s",), heads=("z",)))
    assert len(work.notes) == 2 and "'z' never occurred" in work.notes[0] and "no training fact has the relation s" in work.notes[1]
    assert work.all() == [] and suggest(model, heads=["z"], any_type=True) == []
    assert {one.relation for one in suggest(model)} == {"r"}
