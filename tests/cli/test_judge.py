from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

from relcode.analysis.codes import codes_of
from relcode.graph.vocab import Vocab

TOPICS = ("film", "city", "team", "song")
PROPERTIES = ("country", "owner", "year", "size", "colour")


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    """Return a file of codes as relcode codes --json prints them, a dimension for each topic."""
    names = [f"{topic}_{word}" for topic in TOPICS for word in PROPERTIES]
    code_SC = torch.zeros(40, 4)
    for row in range(20):
        code_SC[row, row // 5] = 10 - row % 5
    path = tmp_path / "codes.json"
    path.write_text(json.dumps({"relations": codes_of(code_SC, Vocab(names, "relation")).table().to_pylist()}), encoding="utf-8")
    return path


@pytest.fixture
def written(relcode, codes: Path, tmp_path: Path) -> tuple[Path, Path]:
    sheet, key = tmp_path / "sheet.tsv", tmp_path / "key.json"
    result = relcode("study", "judge", "--codes", codes, "--sheet", sheet, "--key", key, "--seed", 5)
    assert (result.code, result.out) == (0, ""), result.err
    assert "8 intruder" in result.err and "give the reader" in result.err
    return sheet, key


def rows_of(sheet: Path) -> list[dict[str, str]]:
    lines = [line for line in sheet.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t"))


def fill_in(sheet: Path, place: Path, answers: dict[str, str]) -> Path:
    """Write the two columns that answers need."""
    lines = ["question\tanswer", *(f"{row['question']}\t{answers.get(row['question'], 'A')}" for row in rows_of(sheet))]
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def correct(sheet: Path, key: Path) -> dict[str, str]:
    questions = json.loads(key.read_text(encoding="utf-8"))["questions"]
    return {row["question"]: one["correct"] or "right" for row, one in zip(rows_of(sheet), questions, strict=True)}


def test_the_sheet_tells_nothing_of_the_key(written: tuple[Path, Path]) -> None:
    sheet, key = written
    questions = json.loads(key.read_text(encoding="utf-8"))["questions"]
    rows = rows_of(sheet)
    assert list(rows[0]) == ["question", "kind", "text", "A", "B", "C", "D", "E", "answer"]
    assert len(rows) == len(questions) and all(not row["answer"] for row in rows)
    assert all(word not in sheet.read_text(encoding="utf-8") for word in ("control", "dimension", "true", "seed"))
    assert [row["A"] for row in rows] == [one["choices"][0] for one in questions]


def test_answers_are_scored(relcode, written: tuple[Path, Path], tmp_path: Path) -> None:
    sheet, key = written
    answers = fill_in(sheet, tmp_path / "answers.tsv", correct(sheet, key))
    result = relcode("study", "judge", "--answers", answers, "--key", key)
    assert result.code == 0, result.err
    assert "Does the name fit?" in result.out and "film→" in result.out and "0.002" in result.out  # 4 of 4 at 1/5
    record = json.loads(relcode("study", "judge", "--answers", answers, "--key", key, "--json").out)
    assert record["tallies"][0] == {
        "kind": "intruder",
        "control": False,
        "asked": 4,
        "right": 4,
        "share": 1.0,
        "chance": 0.2,
        "p_value": pytest.approx(0.2**4),
        "by_words": 1.0,  # every name here begins with its topic
    }
    assert record["grades"]["real"] == {"right": 4, "partly": 0, "wrong": 0} and record["against_control"]["intruder"] == 1.0
    assert record["seed"] == 5 and record["source"].endswith("codes.json")


def test_the_sheet_itself_can_be_filled_in(relcode, written: tuple[Path, Path]) -> None:
    sheet, key = written
    text = "".join(f"{line}b\r\n" if line.endswith("\t") else f"{line}\r\n" for line in sheet.read_text(encoding="utf-8").splitlines())
    sheet.write_text("\ufeff" + text, encoding="utf-8", newline="")  # as a spreadsheet writes it
    assert relcode("study", "judge", "--answers", sheet, "--key", key).code == 0


def test_a_run_and_its_codes_give_the_same_sheet(relcode, family_run: Path, tmp_path: Path) -> None:
    (tmp_path / "codes.json").write_text(relcode("codes", family_run, "--json").out, encoding="utf-8")
    for name, source in (("run", [family_run]), ("codes", ["--codes", tmp_path / "codes.json"])):
        files = ("--sheet", tmp_path / f"{name}.tsv", "--key", tmp_path / f"{name}-key.json", "--kinds", "grade,intruder")
        result = relcode("study", "judge", *source, *files, "--json")
        assert result.code == 0, result.err
        assert json.loads(result.out)["study"] == "judge"
    assert (tmp_path / "run.tsv").read_bytes() == (tmp_path / "codes.tsv").read_bytes()


def test_bad_options_get_one_line(relcode, codes: Path, written: tuple[Path, Path], tmp_path: Path) -> None:
    sheet, key = written
    new = ("--sheet", tmp_path / "new.tsv", "--key", tmp_path / "new.json")
    for arguments, message in [
        (("--key", key), "either --sheet, to write questions, or --answers"),
        (("--sheet", sheet, "--answers", sheet, "--key", key), "give one of the two"),
        (new, "either a run or a file"),
        (("runs/x", "--codes", codes, *new), "either a run or a file"),
        (("runs/x", "--answers", sheet, "--key", key), "leave out the run"),
        (("--codes", codes, *new, "--kinds", "rhyme"), "--kinds cannot be 'rhyme': allowed are intruder, name, grade"),
        (("--codes", codes, *new, "--seed", 10**20), "--seed"),
        (("--codes", codes, "--sheet", sheet, "--key", key), "exists already"),
        (("--codes", codes, "--sheet", tmp_path / "new.tsv", "--key", key), "choose another file with --key"),
        (("--codes", codes, "--sheet", tmp_path / "one", "--key", tmp_path / "one"), "must not see the key"),
        (("--codes", tmp_path / "none.json", *new), "cannot be read as codes"),
        (("--codes", key, *new), "does not hold the codes of all relations"),
        (("--answers", tmp_path / "none.tsv", "--key", key), "cannot be read as answers"),
        (("--answers", sheet, "--key", codes), "is not the key of a sheet"),
        (("--answers", sheet, "--key", key), "questions unanswered"),
    ]:
        result = relcode("study", "judge", *arguments)
        assert (result.code, result.out) == (2, "") and message in result.err and result.err.count("\n") == 1, (arguments, result)
    assert not (tmp_path / "new.tsv").exists() and not (tmp_path / "one").exists()


def test_bad_answers_get_one_line(relcode, codes: Path, written: tuple[Path, Path], tmp_path: Path) -> None:
    sheet, key = written
    first = rows_of(sheet)[0]["question"]

    def refused(text: str, message: str, key: Path = key) -> None:
        (tmp_path / "answers.tsv").write_text(text, encoding="utf-8")
        result = relcode("study", "judge", "--answers", tmp_path / "answers.tsv", "--key", key)
        assert (result.code, result.out) == (2, "") and message in result.err and result.err.count("\n") == 1, result

    good = fill_in(sheet, tmp_path / "good.tsv", {}).read_text(encoding="utf-8")
    refused(good.replace(f"{first}\tA", f"{first}\tF"), f"answers question {first} with 'F': allowed are A, B, C, D, E")
    refused(good.replace(f"{first}\tA", f"{first}\tright"), "allowed are A, B, C, D, E")
    refused(good.replace(f"{first}\tA", f"{first}\t"), f"leaves 1 of {len(rows_of(sheet))} questions unanswered ({first})")
    refused(good + f"{first}\tB\n", "twice")
    refused("", "no columns question and answer")
    refused("question,answer\n", "no columns question and answer")
    other = tmp_path / "other-key.json"
    assert relcode("study", "judge", "--codes", codes, "--sheet", tmp_path / "other.tsv", "--key", other, "--seed", 6).code == 0
    refused(good, "the key is of sheet", other)
    changed = json.loads(key.read_text(encoding="utf-8"))
    changed["questions"][0]["correct"] = "E" if changed["questions"][0]["correct"] != "E" else "A"
    other.write_text(json.dumps(changed), encoding="utf-8")
    refused(good, "is not the key of a sheet, or was changed", other)


@pytest.mark.parametrize(
    "record",
    [
        {"relations": []},
        {"relations": [{"relation": "a", "short": "a", "code": [1.0]}]},
        {"relations": [{"relation": "a", "short": "a", "code": [1.0]}, {"relation": "b", "short": "b", "code": [1.0]}]},
        {"relations": [{"relation": "a", "short": "a", "code": [1.0]}, {"relation": "^a", "short": "^a", "code": [1.0, 2.0]}]},
        {"relations": [{"relation": "a", "short": "a", "code": [-1.0]}, {"relation": "^a", "short": "^a", "code": [1.0]}]},
        {"relations": [{"relation": "a", "short": "a", "code": ["x"]}, {"relation": "^a", "short": "^a", "code": [1.0]}]},
        {"relations": 5},
    ],
)
def test_codes_that_are_none_get_one_line(relcode, tmp_path: Path, record: object) -> None:
    (tmp_path / "codes.json").write_text(json.dumps(record), encoding="utf-8")
    result = relcode("study", "judge", "--codes", tmp_path / "codes.json", "--sheet", tmp_path / "s.tsv", "--key", tmp_path / "k.json")
    assert (result.code, result.out) == (2, "") and "relcode codes RUN --json" in result.err and result.err.count("\n") == 1
