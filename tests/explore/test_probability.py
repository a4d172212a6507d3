from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_model import small_model

import relcode
from relcode.analysis.calibration import fact_inputs
from relcode.errors import DataError, OutputError, RunError, SettingError
from relcode.explore import probability as module
from relcode.explore.model import Model
from relcode.explore.probability import FILE, calibrate, ensure_calibration, probabilities

pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")


@pytest.fixture(scope="module")
def calibrated(family_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrated") / "run"
    shutil.copytree(family_run, folder)
    calibrate(relcode.load(folder, device="cpu"))
    return folder


def fresh(calibrated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(calibrated, tmp_path / "run"))


def test_the_family_is_calibrated_and_the_calibration_is_kept(calibrated: Path) -> None:
    model = relcode.load(calibrated, device="cpu")
    found = model.calibration
    assert found is not None and found.measured is not None
    assert found.facts + found.missed == len(model.dataset.valid) and found.facts > 0
    assert found.measured.facts + found.measured.missed == len(model.dataset.test)
    assert found.measured.after.brier < found.measured.before.brier
    tree = json.loads((calibrated / FILE).read_text(encoding="utf-8"))
    assert tree == json.loads(json.dumps(found.to_json(model.dataset.relations.names)))
    assert list(tree["relations"]) == list(model.dataset.relations.names) and tree["weights_sha256"] == model.run.status.best_sha256
    assert found.against == tree["against"] and "calibrated on the valid split" in found.against


def test_answers_carry_the_probability_of_their_facts(calibrated: Path) -> None:
    model = relcode.load(calibrated, device="cpu")
    assert model.calibration is not None
    data = model.dataset
    head, relation = data.entities.index("Ada_4"), data.relations.index("grandparent")
    for one in model.predict_tails("Ada_4", "grandparent", top=60):
        fact_13 = torch.tensor([[head, relation, data.entities.index(one.entity)]])
        inputs, other = fact_inputs(model.scorer, model.candidates, model.known, fact_13)
        expected = float(model.calibration.calibrators.probabilities(fact_13[:, 1], inputs, other))
        assert one.probability is None if bool(other) else one.probability == pytest.approx(expected, abs=1e-6)
    assert len({one.probability for one in model.predict_tails("Ada_4", "grandparent", top=60)}) > 10


def test_answers_have_the_same_probability_as_facts_asked_about_one_by_one(calibrated: Path) -> None:
    """The quick way, from the scores that a question gave, against the plain one: every directed relation, known facts and other types included."""
    model = relcode.load(calibrated, device="cpu")
    data, compared = model.dataset, 0
    for relation in range(data.num_directed):
        for head in range(0, data.num_entities, 9):
            found = model.predict_tails(data.entities[head], model.names.path_text((relation,)), top=40)
            facts_X3 = torch.tensor([[head, relation, data.entities.index(one.entity)] for one in found])
            expected = probabilities(model, facts_X3)
            assert [one.probability is None for one in found] == [one is None for one in expected]
            pairs = [(one.probability, other) for one, other in zip(found, expected, strict=True) if other is not None]
            assert [one for one, _ in pairs] == pytest.approx([other for _, other in pairs], abs=1e-6)
            compared += len(pairs)
    assert compared > 500


def test_both_directions_and_all_ways_of_asking_agree(calibrated: Path) -> None:
    model = relcode.load(calibrated, device="cpu")
    tails = {one.entity: one.probability for one in model.predict_tails("Ada_4", "grandparent", top=70)}
    backwards = {one.entity: one.probability for one in model.predict_heads("Ada_4", "^grandparent", top=70)}
    assert tails == pytest.approx(backwards)
    (heads,) = [one.probability for one in model.predict_heads("Bob_2", "grandparent", top=70) if one.entity == "Ada_4"]
    (relation,) = [one.probability for one in model.predict_relations("Ada_4", "Bob_2", top=20) if one.relation == "grandparent"]
    (turned,) = [one.probability for one in model.predict_relations("Bob_2", "Ada_4", top=20) if one.relation == "^grandparent"]
    scores = model.score_facts([("Ada_4", "grandparent", "Bob_2"), ("Bob_2", "^grandparent", "Ada_4")])
    assert [heads, relation, turned, *(one.probability for one in scores)] == pytest.approx([tails["Bob_2"]] * 5, rel=1e-5)


def test_a_run_without_calibration_has_scores_alone(family_run: Path) -> None:
    model = relcode.load(family_run, device="cpu")
    assert model.calibration is None
    assert {one.probability for one in model.predict_tails("Ada_4", "grandparent")} == {None}
    assert small_model().predict_tails("a", "r")[0].probability is None


def test_a_calibration_of_other_weights_does_not_count(calibrated: Path, tmp_path: Path) -> None:
    folder = fresh(calibrated, tmp_path)
    tree = json.loads((folder / FILE).read_text(encoding="utf-8"))
    (folder / FILE).write_text(json.dumps(tree | {"weights_sha256": "0" * 64}), encoding="utf-8")
    assert relcode.load(folder, device="cpu").calibration is None


def test_a_calibration_of_the_first_format_is_made_again(calibrated: Path, tmp_path: Path) -> None:
    folder = fresh(calibrated, tmp_path)
    tree = json.loads((folder / FILE).read_text(encoding="utf-8"))
    (folder / FILE).write_text(json.dumps({"format": 1, "weights_sha256": tree["weights_sha256"], "shared": {}}), encoding="utf-8")
    model = relcode.load(folder, device="cpu")
    assert model.calibration is None and "calibrated on the valid split, once" in ensure_calibration(model)
    assert json.loads((folder / FILE).read_text(encoding="utf-8")) == tree


def test_few_valid_facts_are_said(calibrated: Path) -> None:
    found = relcode.load(calibrated, device="cpu").calibration
    assert found is not None
    assert replace(found, facts=1, missed=0).caution.startswith("only 1 valid fact: probabilities are rough")
    assert replace(found, facts=30, missed=19).caution.startswith("only 49 valid facts: ")
    assert replace(found, facts=30, missed=20).caution == ""
    assert replace(found, facts=1, missed=1).to_json(["r"] * len(found.calibrators.of_relation))["caution"]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"relations": {}},
        {"parent": {"slope": -1.0, "head": 0.0, "tail": 0.0, "intercept": 0.0}},
        {"parent": {"slope": 1.0}},
        {"parent": {"slope": float("nan"), "head": 0.0, "tail": 0.0, "intercept": 0.0}},
        {"other_type": 3.0},
        {"population": None},
    ],
    ids=str,
)
def test_a_damaged_calibration_is_one_line(calibrated: Path, tmp_path: Path, change: dict[str, object]) -> None:
    folder = fresh(calibrated, tmp_path)
    tree = json.loads((folder / FILE).read_text(encoding="utf-8"))
    if "parent" in change:
        change = {"relations": tree["relations"] | change}
    (folder / FILE).write_text(json.dumps(tree | change), encoding="utf-8")
    with pytest.raises(RunError, match=r"calibration\.json"):
        _ = relcode.load(folder, device="cpu").calibration
    (folder / FILE).write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="damaged"):
        _ = relcode.load(folder, device="cpu").calibration


def test_data_without_a_valid_split_cannot_be_calibrated(tmp_path: Path) -> None:
    facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]
    model = relcode.train(facts, "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, tile=2, progress=False, device="cpu")
    with pytest.raises(DataError, match="valid split"):
        calibrate(model)
    assert "no probabilities, only scores" in ensure_calibration(model) and model.calibration is None


def test_calibration_happens_once_and_where_it_cannot_be_kept_it_still_counts(
    family_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(family_run, tmp_path / "run"))
    model = relcode.load(folder, device="cpu")
    assert FILE in ensure_calibration(model) and ensure_calibration(model) == "" and (folder / FILE).is_file()
    (folder / FILE).unlink()

    def refuse(*_: object) -> None:
        raise OutputError("cannot write: read-only")

    monkeypatch.setattr(module, "write_text", refuse)
    model = relcode.load(folder, device="cpu")
    assert "not kept" in ensure_calibration(model) and model.calibration is not None


def test_entities_never_trained_have_no_probability(tmp_path: Path) -> None:
    facts = {"train": [(f"h{i}", "r", f"t{i % 3}") for i in range(9)], "valid": [("h0", "r", "t1"), ("h1", "r", "t2")], "test": [("z", "r", "t0")]}
    model = relcode.train(
        relcode.dataset_from_facts(facts), "base", out=tmp_path / "run", dim=4, epochs=5, edges=16, tile=4, progress=False, device="cpu"
    )
    assert isinstance(model, Model)
    calibrate(model)
    z, h, t = (model.dataset.entities.index(name) for name in ("z", "h0", "t0"))
    assert probabilities(model, torch.tensor([[z, 0, t], [t, 1, z]])) == [None, None]
    assert probabilities(model, torch.tensor([[h, 0, t]])) != [None]
    assert probabilities(model, torch.empty((0, 3), dtype=torch.int64)) == []


def test_too_little_memory_is_refused(family_run: Path) -> None:
    with pytest.raises(SettingError, match="too few"):
        calibrate(relcode.load(family_run, device="cpu"), memory="10KB", store=False)
