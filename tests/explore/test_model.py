from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from small_model import small_model

import relcode
from relcode.errors import DeviceError, NotFinite, RunError, SettingError, UnknownName
from relcode.evaluation.ranking import rank_facts
from relcode.explore.model import Model
from relcode.explore.records import Answer, RelationAnswer
from relcode.graph.dataset import Dataset


def test_tails_worked_by_hand() -> None:
    # u_a M_r = (1, 2): scores a 5, b 11, c -1. The facts know b (train) and a (valid).
    answers = small_model({"b": "Bonn"}).predict_tails("a", "r")
    assert answers.question == {"head": "a", "relation": "r"}
    assert answers.answers == (Answer(1, "b", "Bonn", 11.0, True), Answer(2, "a", "a", 5.0, True), Answer(3, "c", "c", -1.0, False))
    assert answers.note == ""


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda model: model.score("a", "r", 3), "an entity is given as text; got 3 .int."),
        (lambda model: model.score_facts([("a", 0, "b")]), "a relation is given as text; got 0 .int."),
        (lambda model: model.predict_tails(3, "r"), "an entity is given as text"),
        (lambda model: model.predict_heads("a", None), "a relation is given as text; got None .NoneType."),
        (lambda model: model.predict_relations("a", 3), "an entity is given as text"),
        (lambda model: model.answer_path("a", ["r", "s"]), "a path is given as text"),
    ],
)
def test_names_that_are_not_text_are_one_line(question: Callable[[Model], object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        question(small_model())


def test_new_answers_leave_out_known_ones_and_count_from_one() -> None:
    assert small_model().predict_tails("a", "r", new=True).answers == (Answer(1, "c", "c", -1.0, False),)


def test_heads_are_asked_through_the_inverse() -> None:
    # (?, r, a): u_a M_^r = (2, 0): scores a 2, b 6, c -2. Known heads of a: a and c.
    answers = small_model().predict_heads("a", "r")
    assert answers.question == {"tail": "a", "relation": "r"}
    assert [(one.entity, one.score, one.known) for one in answers] == [("b", 6.0, False), ("a", 2.0, True), ("c", -2.0, True)]


def test_an_inverse_relation_swaps_heads_and_tails() -> None:
    model = small_model()
    assert model.predict_tails("a", "^r").answers == model.predict_heads("a", "r").answers
    assert model.predict_heads("a", "^r").answers == model.predict_tails("a", "r").answers
    assert model.predict_tails("a", "^r").question == {"head": "a", "relation": "^r"}


def test_a_path_worked_by_hand() -> None:
    # u_a M_r M_s = (1, 2) M_s = (2, 1): scores a 4, b 10, c -2; from a the facts lead over b to c. M_s M_r would give (0, 1): another order.
    answers = small_model().answer_path("a", "r/s")
    assert answers.question == {"head": "a", "path": "r/s"}
    assert [(one.entity, one.score, one.known) for one in answers] == [("b", 10.0, False), ("a", 4.0, False), ("c", -2.0, True)]


def test_relations_worked_by_hand() -> None:
    # (a, ?, b): r 11; s: (0, 1)·(3, 4) = 4; ^r: (2, 0) -> 6; ^s: (1, 0) -> 3.
    answers = small_model().predict_relations("a", "b", top=3)
    assert answers.answers == (RelationAnswer(1, "r", 11.0, True), RelationAnswer(2, "^r", 6.0, False), RelationAnswer(3, "s", 4.0, False))
    assert [one.relation for one in small_model().predict_relations("a", "b", new=True)] == ["^r", "s", "^s"]


def test_an_entity_may_be_given_by_its_label() -> None:
    assert small_model({"a": "Aachen"}).predict_tails("Aachen", "r").question["head"] == "a"


def test_an_entity_never_trained_gets_a_note_and_no_answers() -> None:
    model = small_model()
    for answers in (model.predict_tails("d", "r"), model.predict_heads("d", "r"), model.answer_path("d", "r/s"), model.predict_relations("d", "a")):
        assert len(answers) == 0
        assert "'d' never occurred in training" in answers.note


def test_a_relation_never_trained_gets_a_note() -> None:
    facts = {"train": [("a", "r", "b"), ("b", "r", "c")], "test": [("a", "s", "c")]}
    model = small_model()
    model.dataset = relcode.dataset_from_facts(facts)
    model.names.dataset = model.dataset
    assert "no training fact has the relation s" in model._note((0,), (1,))
    assert model._note((0,), (0,)) == ""


def test_the_score_of_a_fact() -> None:
    model = small_model()
    assert model.score("a", "r", "b") == 11.0
    assert model.score("b", "^r", "a") == 2.0  # u_b M_^r = (0, 1) with v_a = (1, 2)
    assert model.score("d", "r", "b") == 0.0


def test_scored_facts_have_both_ranks() -> None:
    # (a, r, c): tail query scores a 5, b 11 (both known, filtered), c -1, d 0 (unseen: zero vector): rank 2.
    # head query u_c M_^r = (2, 0): a 2 (gold), b 6, c -2, d 0: no known head of c, rank 2.
    model = small_model()
    (one,) = model.score_facts([("a", "r", "c")])
    assert (one.score, one.rank, one.head_score, one.head_rank, one.known, one.note) == (-1.0, 2.0, 2.0, 2.0, False, "")
    (turned,) = model.score_facts([("c", "^r", "a")])
    assert (turned.score, turned.rank, turned.head_score, turned.head_rank) == (2.0, 2.0, -1.0, 2.0)
    assert (turned.head, turned.relation, turned.tail) == ("c", "^r", "a")
    known, unseen = model.score_facts([("a", "r", "b"), ("d", "s", "a")])
    assert (known.known, known.rank) == (True, 1.0)
    assert "never occurred" in unseen.note and "note" in unseen.to_json() and "note" not in known.to_json()
    assert model.score_facts([]) == []


def test_vectors_and_matrices_by_name() -> None:
    model = small_model()
    assert model.vector("b").tolist() == [0, 1]
    assert model.vector("b", role="tail").tolist() == [3, 4]
    assert model.vector("d").tolist() == [0, 0]
    assert model.matrix("r").tolist() == [[1, 2], [0, 1]]
    assert model.matrix("^s").tolist() == [[1, 0], [0, -1]]
    assert model.matrix("r/s").tolist() == [[2, 1], [1, 0]]
    with pytest.raises(SettingError, match="role cannot be 'middle'"):
        model.vector("b", role="middle")  # type: ignore[arg-type]
    model.vector("b")[:] = 7  # a copy: the model does not change
    assert model.vector("b").tolist() == [0, 1]


def test_answers_become_tables_and_json() -> None:
    answers = small_model().predict_tails("a", "r", top=2)
    assert answers.table().to_pydict()["entity"] == ["b", "a"]
    assert answers.table().schema.field("score").type == pa.float64()
    best = {"rank": 1, "entity": "b", "label": "b", "score": 11.0, "known": True, "probability": None}
    assert json.loads(json.dumps(answers.to_json()))["answers"][0] == best
    empty = small_model().predict_tails("d", "r")
    assert empty.table().num_rows == 0 and empty.table().column_names == ["rank", "entity", "label", "score", "known", "probability"]
    assert small_model().predict_relations("d", "a").table().column_names == ["rank", "relation", "score", "known", "probability"]
    assert answers[0].entity == "b" and len(answers) == 2


def test_a_diverged_model_is_an_error_and_not_an_answer() -> None:
    model = small_model(tail_ED=torch.full((4, 2), float("nan")))
    for ask in (lambda: model.predict_tails("a", "r"), lambda: model.predict_relations("a", "b"), lambda: model.score_facts([("a", "r", "c")])):
        with pytest.raises(NotFinite):
            ask()


def test_unknown_names_are_refused() -> None:
    model = small_model()
    with pytest.raises(UnknownName, match="unknown entity 'zz'"):
        model.predict_tails("zz", "r")
    with pytest.raises(UnknownName, match="unknown relation 'q'"):
        model.matrix("q")


def test_an_opened_run_scores_as_trained(family_run: Path, family: Dataset) -> None:
    model = relcode.load(family_run)
    assert isinstance(model, Model) and model.folder == family_run and "family" in repr(model)
    assert (model.dataset.fingerprint, model.settings.model.dim) == (family.fingerprint, 16)
    report = model.evaluate("test", memory="20MB")
    ranks = rank_facts(model.scorer, family, family.test)
    assert report.both.mr == pytest.approx(float(ranks.realistic_N.mean()))
    scored = model.score_facts([(family.entities[h], family.relations[r], family.entities[t]) for h, r, t in family.test.tolist()])
    assert [one.rank for one in scored] == ranks.realistic_N[: len(scored)].tolist()
    assert [one.head_rank for one in scored] == ranks.realistic_N[len(scored) :].tolist()


def test_predictions_agree_with_scores_one_by_one(family_run: Path) -> None:
    model = relcode.load(family_run, device="cpu")
    answers = model.predict_tails("Ada_4", "grandparent", top=1000)
    assert len(answers) == model.dataset.num_entities
    assert [one.score for one in answers] == sorted((one.score for one in answers), reverse=True)
    for one in answers.answers[::9]:
        assert one.score == pytest.approx(model.score("Ada_4", "grandparent", one.entity), abs=1e-5)
        u, m, v = model.vector("Ada_4"), model.matrix("grandparent"), model.vector(one.entity, role="tail")
        assert one.score == pytest.approx(float(u @ m @ v), abs=1e-5)


def test_codes_of_a_run(family_run: Path) -> None:
    codes = relcode.load(family_run).codes()
    assert codes.names[:2] == ("aunt_or_uncle", "gender") and codes.code_SC.shape == (12, 4)
    with pytest.raises(relcode.RelcodeError, match="no autoencoder"):
        small_model().codes()


def test_cuda_where_there_is_none(family_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cuda was asked for"):
        Model.open(family_run, "cuda")


def test_a_run_whose_names_do_not_fit_its_weights_is_damaged(family_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(family_run, copy)
    tree = json.loads((copy / "run.json").read_text())
    tree["data"]["entities"] += 1
    (copy / "run.json").write_text(json.dumps(tree))
    with pytest.raises(RunError, match=r"it has 66 rows, run\.json says 67"):
        Model.open(copy)
