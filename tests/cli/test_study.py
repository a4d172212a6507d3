from __future__ import annotations

import json
from pathlib import Path

import pytest
from family import family_facts


def test_necessity_prints_its_averages_and_writes_its_record(relcode, family_run: Path, tmp_path: Path) -> None:
    result = relcode("study", "necessity", family_run, "--facts", 4, "--top", 2, "--draws", 2, "--out", tmp_path / "record.json")
    assert result.code == 0, result.err
    assert "4 facts of family test" in result.out and "log-odds" in result.out
    assert "4 facts are too few" in result.out and "95 % interval" not in result.out
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert record["study"] == "necessity" and len(record["rows"]) == 4 and "torch" in record["environment"]
    assert "top cannot be 0" in relcode("study", "necessity", family_run, "--top", 0).err


def test_with_facts_enough_necessity_has_an_interval(relcode, family_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relcode.cli.study.FEWEST_FACTS", 3)
    result = relcode("study", "necessity", family_run, "--facts", 3, "--top", 2, "--draws", 2)
    assert "95 % interval" in result.out and "too few" not in result.out


def test_discovery_trains_judges_and_does_not_train_again(relcode, tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("\n".join("\t".join(fact) for fact in family_facts()["train"]) + "\n", encoding="utf-8")
    options = ("--out", tmp_path / "study", "--parts", "0,0.5", "--min-pairs", 10, "--min-jaccard", 0.2, "--recipe", "base+comp", "--device", "cpu")
    small = ("--dim", 4, "--epochs", 1, "--set", "sampling.edges=64")
    result = relcode("study", "discovery", tmp_path / "facts.tsv", *options, *small)
    assert result.code == 0, result.err
    assert result.err.count("training base+comp") == 2 and "counting" in result.out and "With 50% of the shared pairs" in result.out
    again = relcode("study", "discovery", tmp_path / "facts.tsv", *options, *small, "--json")
    assert "training" not in again.err.replace("trainings", "") and {line["by"] for line in json.loads(again.out)["lines"]} == {
        "model",
        "random second",
        "counting",
        "chance",
    }
    other = relcode("study", "discovery", tmp_path / "facts.tsv", *options, "--dim", 5)
    assert other.code == 2 and "choose another --out" in other.err


@pytest.mark.parametrize(("parts", "message"), [("half", "--parts takes numbers"), ("2", "each lies between 0 and 1"), ("", "--parts takes numbers")])
def test_parts_are_checked(relcode, tmp_path: Path, parts: str, message: str) -> None:
    result = relcode("study", "discovery", "world", "--out", tmp_path, "--parts", parts)
    assert (result.code, result.out) == (2, "") and message in result.err and result.err.count("\n") == 1
