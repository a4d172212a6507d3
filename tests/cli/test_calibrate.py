from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")


@pytest.fixture
def run(family_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(family_run, tmp_path / "run"))


def test_calibrate_shows_what_it_kept(relcode, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = relcode("calibrate", run, "--png", tmp_path / "picture.png")
    assert result.code == 0 and "expected calibration error" in result.out and "0.9 to 1.0" in result.out
    assert (tmp_path / "picture.png").stat().st_size > 10_000 and "kept in" in result.err
    tree = json.loads((run / "calibration.json").read_text(encoding="utf-8"))
    assert json.loads(relcode("calibrate", run, "--json").out) == tree
    assert f"{tree['measured']['after']['error']:.4f} after" in result.out


def test_predict_says_how_to_get_probabilities_and_then_what_they_mean(relcode, run: Path, tmp_path: Path) -> None:
    question = ("predict", run, "--head", "Ada_4", "--relation", "grandparent")
    before = relcode(*question)
    assert "probability" not in before.out and "relcode calibrate" in before.err
    assert relcode("calibrate", run).code == 0
    after = relcode(*question)
    assert "probability" in after.out and "calibrated on the valid split" in after.out and after.err == ""
    assert json.loads(relcode(*question, "--json").out)["answers"][0]["probability"] is not None
    (tmp_path / "facts.tsv").write_text("Ada_4\tgrandparent\tBob_2\n")
    header, row = (line.split("\t") for line in relcode("score", run, tmp_path / "facts.tsv").out.splitlines())
    assert header[-1] == "probability" and 0 <= float(row[-1]) <= 1


def test_paths_are_shown_both_ways_and_measured(relcode, run: Path) -> None:
    out = relcode("predict", run, "--head", "Ada_4", "--path", "parent/parent", "--top", 2).out
    assert "by composed matrices" in out and "through the best entities on the way" in out and "→" in out
    assert "path 'parent//parent', column 8" in relcode("predict", run, "--head", "Ada_4", "--path", "parent//parent").err
    report = relcode("evaluate", run, "--paths", "--questions", 25, "--json")
    assert report.code == 0 and [row["n"] for row in json.loads(report.out)["paths"]] == [25] * 4
    assert "3 steps" in relcode("evaluate", run, "--paths", "--questions", 5).out
    assert "leave out --protocol" in relcode("evaluate", run, "--paths", "--protocol", "paper").err
    assert relcode("evaluate", run, "--paths", "--questions", 10**9).code == 2


def test_a_picture_that_cannot_be_drawn_is_one_line(relcode, run: Path, tmp_path: Path) -> None:
    result = relcode("calibrate", run, "--png", tmp_path)
    assert result.code == 2 and "is a folder" in result.err and result.err.count("\n") == 1


def test_where_it_cannot_be_kept_the_table_is_printed_all_the_same(relcode, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from relcode.errors import OutputError
    from relcode.explore import probability

    def refuse(*_: object) -> None:
        raise OutputError("cannot write: read-only")

    monkeypatch.setattr(probability, "write_text", refuse)
    result = relcode("calibrate", run)
    assert result.code == 2 and "0.9 to 1.0" in result.out and "cannot write: read-only" in result.err
    assert not (run / "calibration.json").exists()


def test_few_valid_facts_are_said_in_one_line(relcode, tmp_path: Path) -> None:
    import relcode as package

    facts = {"train": [(f"h{i}", "r", f"t{i % 3}") for i in range(9)], "valid": [("h0", "r", "t1")]}
    package.train(package.dataset_from_facts(facts), "base", out=tmp_path / "run", dim=4, epochs=5, edges=16, tile=4, progress=False, device="cpu")
    for command in ("suggest", "calibrate"):
        result = relcode(command, tmp_path / "run")
        assert result.code == 0 and "only 1 valid fact: probabilities are rough" in result.err
    assert "(1 fact, 9 others; 0 valid facts are not among the candidates)" in result.out
    assert json.loads(relcode("calibrate", tmp_path / "run", "--json").out)["caution"].startswith("only 1 valid fact")


def test_relations_without_a_probability_leave_it_blank(relcode, run: Path) -> None:
    assert relcode("calibrate", run).code == 0
    shown = relcode("predict", run, "--head", "Ada_4", "--tail", "Bob_2", "--top", 12)
    rows = json.loads(relcode("predict", run, "--head", "Ada_4", "--tail", "Bob_2", "--top", 12, "--json").out)["answers"]
    assert None in [one["probability"] for one in rows] and "probability" in shown.out and "None" not in shown.out
