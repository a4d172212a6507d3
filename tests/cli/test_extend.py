from __future__ import annotations

import json
from pathlib import Path

import pytest
from family import family_facts

SMALL = ("--dim", 4, "--code-dim", 2, "--set", "softmax.questions=64", "--set", "training.validations=1", "--epochs", 2, "--device", "cpu")
FACTS = "Zoe\tparent\tAda_1\nZoe\tadmires\tBob_1\nZoe\tparent\tBob_1\nAda_1\tgender\tfemale\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of two epochs; tests only read it."""
    from relcode.cli import main

    place = tmp_path_factory.mktemp("extend")
    (place / "family").mkdir()
    for split, facts in family_facts().items():
        (place / "family" / f"{split}.txt").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    assert main([str(word) for word in ("train", place / "family", "--out", place / "run", *SMALL)]) == 0
    return place / "run"


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """Return a file of facts, three of them new."""
    path = tmp_path / "facts.tsv"
    path.write_text(FACTS, encoding="utf-8")
    return path


def test_extend_makes_a_new_run_says_what_joined_and_prints_its_folder_alone(relcode, run: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "more"
    result = relcode("extend", run, facts, "--out", out, "--epochs", 1)
    assert (result.code, result.out) == (0, f"{out}\n")
    assert f"3 new facts, 1 new entity, 1 new relation join {run} (1 known already)" in result.err
    assert f"relcode evaluate {out}" in result.err
    assert relcode("predict", out, "--head", "Zoe", "--relation", "^admires").code == 0
    assert relcode("evaluate", out).code == 0


def test_json_tells_what_joined(relcode, run: Path, facts: Path, tmp_path: Path) -> None:
    result = relcode("extend", run, facts, "--out", tmp_path / "more", "--epochs", 1, "--json")
    told = json.loads(result.out)
    assert (told["new_facts"], told["known_facts"], told["new_entities"], told["new_relations"]) == (3, 1, 1, 1)
    assert told["out"] == str(tmp_path / "more") and (tmp_path / "more" / "run.json").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.tsv", "", "empty"),
        ("known.tsv", "Ada_1\tgender\tfemale\n", "the run knows all 1 facts given already: nothing joins it"),
        ("odd.xyz", "Zoe parent Ada_1\n", "odd.xyz"),
        ("two.tsv", "Zoe\tparent\nZoe\tgender\n", "two.tsv"),
    ],
)
def test_facts_that_cannot_join_are_one_line_and_nothing_is_written(relcode, run: Path, tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    result = relcode("extend", run, tmp_path / name, "--out", tmp_path / "more")
    assert result.code == 2 and result.out == "" and result.err.startswith("relcode: ") and result.err.count("\n") == 1
    assert said in result.err and not (tmp_path / "more").exists()


def test_a_run_or_file_that_is_not_there_and_a_folder_that_is(relcode, run: Path, facts: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ((tmp_path / "none", facts), "no run folder"),
        ((run, tmp_path / "none.tsv"), "none.tsv"),
        ((run, facts, "--out", run), "exists already"),
        ((run, facts, "--epochs", 0), "epochs cannot be 0"),
        ((run, facts, "--minutes", -1), "minutes cannot be -1"),
        ((run, facts, "--device", "tpu"), "device cannot be 'tpu'"),
    ):
        result = relcode("extend", *arguments)
        assert result.code == 2 and said in result.err and result.err.count("\n") == 1, result.err
