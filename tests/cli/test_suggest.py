from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import relcode as package
from relcode.explore.suggest import suggest

pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")


@pytest.fixture(scope="module")
def run(family_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(family_run, tmp_path_factory.mktemp("cli") / "run"))


def test_suggest_calibrates_once_and_shows_the_best(relcode, run: Path) -> None:
    first = relcode("suggest", run, "--top", 30)
    assert first.code == 0 and "kept in" in first.err
    assert "probability" in first.out and "probabilities are calibrated on the valid split" in first.out
    assert "(the best 30 of each relation, 6 relations: 180 found; the best 20 are shown, --out FILE writes all)" in first.out
    second = relcode("suggest", run, "--top", 30)
    assert second.out == first.out and "kept in" not in second.err


def test_json_prints_what_python_gives(relcode, run: Path) -> None:
    assert relcode("calibrate", run).code == 0
    result = relcode("suggest", run, "--relation", "grandparent", "--head", "Ada_4", "--top", 3, "--reason", "--json")
    found = suggest(package.load(run, device="cpu"), ["grandparent"], ["Ada_4"], top=3, reasons=True)
    assert [json.loads(line) for line in result.out.splitlines()] == [one.to_json() for one in found]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet", "nt"])
def test_files_of_every_form(relcode, run: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"facts.{ending}"
    result = relcode("suggest", run, "--top", 2, "--out", out)
    assert (
        result.code == 0
        and result.out == f"12 suggestions in {out} (the best 2 of each relation, 6 relations: 12 found)\n"
        and out.stat().st_size > 100
    )
    assert relcode("suggest", run, "--top", 2, "--out", out).code == 2  # never written over


def test_reasons_on_the_screen(relcode, run: Path) -> None:
    out = relcode("suggest", run, "--relation", "grandparent", "--reason", "--top", "20").out
    assert "reason" in out.splitlines()[0] and " parent " in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--top", 10**9), "top cannot be 1000000000"),
        (("--top", 0), "top cannot be 0"),
        (("--relation", "grandparnt"), "did you mean 'grandparent'"),
        (("--head", "Ada_44"), "did you mean 'Ada_4'"),
        (("--relation", "parent//parent"), "column 8"),
        (("--min-probability", 2), "from 0 to 1"),
        (("--format", "csv"), "give --out too"),
        (("--out", "facts.doc"), "does not tell its form"),
        (("--out", "facts.tsv", "--format", "xml"), "unknown form 'xml'"),
        (("--memory", "1"), "too few"),
    ],
    ids=str,
)
def test_bad_wishes_are_one_line(
    relcode, run: Path, arguments: tuple[object, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert relcode("calibrate", run).code == 0
    result = relcode("suggest", run, *arguments)
    assert (result.code, result.out) == (2, "") and result.err.count("\n") == 1 and text in result.err
    assert list(tmp_path.iterdir()) == []


def test_no_valid_split_gives_scores_alone(relcode, tmp_path: Path) -> None:
    facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")]
    package.train(facts, "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, tile=2, progress=False, device="cpu")
    result = relcode("suggest", tmp_path / "run")
    assert result.code == 0 and "no probabilities, only scores" in result.err and "probability" not in result.out
    assert relcode("calibrate", tmp_path / "run").code == 2
    assert "needs a calibrated run" in relcode("suggest", tmp_path / "run", "--min-probability", 0.5).err


def test_names_are_text(relcode, tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "שלום", '🗾 "x"', "a/b", "[bold]x[/bold]", "50 %"]
    facts = [(one, "r/<s>", other) for one in names[:3] for other in names[3:]][:-1]
    package.train(facts, "base", out=tmp_path / "run", dim=4, epochs=2, edges=8, tile=2, progress=False, device="cpu")
    result = relcode("suggest", tmp_path / "run", "--out", tmp_path / "facts.jsonl", "--any-type", "--top", 1000)
    assert result.code == 0
    rows = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["relation"] for row in rows} == {"r/<s>"} and {row["head"] for row in rows} == set(names)
    shown = relcode("suggest", tmp_path / "run", "--relation", "<r/<s\\>>", "--any-type").out
    assert all(name in shown for name in names)
