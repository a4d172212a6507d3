from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import relcode
from relcode.errors import NotFinite, PathSyntaxError, SettingError, UnknownName
from relcode.explore.model import Model


@pytest.fixture(scope="module")
def model(family_run: Path) -> Model:
    return relcode.load(family_run, device="cpu")


def test_both_ways_find_the_grandparents(model: Model) -> None:
    parents = {one.entity for one in model.predict_tails("Ada_4", "parent", top=70) if one.known}
    grandparents = {grand.entity for parent in parents for grand in model.predict_tails(parent, "parent", top=70) if grand.known}
    answers = model.answer_path("Ada_4", "parent/parent", top=4)
    assert len(grandparents) == 4
    assert len({one.entity for one in answers} & grandparents) >= 3
    assert len({one.entity for one in answers.beam} & grandparents) >= 3
    best = answers.beam[0]
    assert best.known and best.through[0] in parents and best.stated == (True, True) and 0 < best.best_chance <= best.chance <= 1
    assert [one.chance for one in answers.beam] == sorted((one.chance for one in answers.beam), reverse=True)


def test_new_answers_leave_out_what_facts_lead_to(model: Model) -> None:
    answers = model.answer_path("Ada_4", "parent/parent", top=70, new=True)
    assert not any(one.known for one in answers) and not any(one.known for one in answers.beam)
    assert len(answers.beam) == len(answers) == 70 - 4 - len([e for e in model.dataset.seen_E.tolist() if not e]) or len(answers) > 50
    assert any(not all(one.stated) for one in answers.beam)


def test_tables_and_json(model: Model) -> None:
    answers = model.answer_path("Ada_4", "parent/^parent/spouse", top=3)
    assert answers.to_json()["path"] == "parent/^parent/spouse"
    assert [len(one["through"]) for one in answers.to_json()["beam"]] == [2, 2, 2]
    assert answers.beam_table().num_rows == answers.table().num_rows == 3
    assert answers.beam_table().column("through").to_pylist() == [list(one.through) for one in answers.beam]


def test_bad_questions(model: Model) -> None:
    with pytest.raises(PathSyntaxError, match="column 8"):
        model.answer_path("Ada_4", "parent//parent")
    with pytest.raises(UnknownName, match="did you mean 'parent'"):
        model.answer_path("Ada_4", "parent/parnt")
    with pytest.raises(UnknownName, match="did you mean 'Ada_4'"):
        model.answer_path("Ada_44", "parent/parent")
    with pytest.raises(SettingError, match="at most 16"):
        model.answer_path("Ada_4", "/".join(["parent"] * 17))
    for top in (0, 10**9):
        with pytest.raises(SettingError, match="top cannot be"):
            model.answer_path("Ada_4", "parent/parent", top=top)


def test_a_diverged_model_says_so(family_run: Path) -> None:
    model = relcode.load(family_run, device="cpu")
    model.scorer = replace(model.scorer, matrix_SDD=model.scorer.matrix_SDD * float("nan"))
    with pytest.raises(NotFinite):
        model.answer_path("Ada_4", "parent/parent")


def test_an_unseen_head_has_no_answers(tmp_path: Path) -> None:
    facts = {"train": [("a", "r", "b"), ("b", "r", "c")], "valid": [("a", "r", "c")], "test": [("z", "r", "a")]}
    model = relcode.train(
        relcode.dataset_from_facts(facts), "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, tile=2, progress=False, device="cpu"
    )
    answers = model.answer_path("z", "r/r")
    assert len(answers) == len(answers.beam) == 0 and "never occurred" in answers.note
