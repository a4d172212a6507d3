"""The files of the blind test of codes: a sheet for the reader, its key, the reader's answers, and codes as ``relcode codes --json`` prints them."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import torch

from relcode.analysis.codes import RelationCodes, scale_to_share
from relcode.errors import DataError, OutputError, SettingError
from relcode.runs.files import parse_json, write_text
from relcode.studies.judge import GRADES, KINDS, LETTERS, SEPARATOR, Question, Sheet

COLUMNS = ("question", "kind", "text", *LETTERS, "answer")
ABOUT = (
    "# Write a letter into the column answer of every question; guess where you cannot tell. Answer in order, and do not go back.",
    "# ^r is the relation r read backwards. In a name, film→ means relations that lead from films, →film relations that lead to films.",
)
ASKED = {
    "intruder": "Four of these relations belong together. Which does not belong?",
    "name": "Which of these lists does the name fit best: {name}",
    "grade": "Does the name ({name}) fit these relations? {relations}",
}
MANY = 3  # questions named in an error


def sheet_text(sheet: Sheet) -> str:
    """Return the sheet as tab-separated text: nothing in it tells which questions are of the control."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, one in zip(sheet.numbers, sheet.questions, strict=True):
        text = ASKED[one.kind].format(name=one.name, relations=SEPARATOR.join(one.relations))
        cells = (number, one.kind, text, *one.choices, *[""] * (len(LETTERS) - len(one.choices)), "")
        writer.writerow([" ".join(cell.split()) for cell in cells])  # a name may hold a tab or the end of a line
    return "\n".join(ABOUT) + "\n" + out.getvalue()


def write_sheet(sheet: Sheet, place: Path, key: Path, source: str) -> None:
    """Write sheet and key, over nothing that is there: a key that is lost cannot be made up for."""
    if place.resolve() == key.resolve():
        raise SettingError(f"--sheet and --key are both {place}: the reader must not see the key; choose two files")
    for option, path in (("--sheet", place), ("--key", key)):
        if path.exists():
            raise OutputError(f"{path} exists already: choose another file with {option}, or remove it first")
    write_text(key, json.dumps(sheet.key(source), ensure_ascii=False, indent=1) + "\n")
    write_text(place, sheet_text(sheet))


def read_key(path: Path) -> tuple[Sheet, str]:
    """Read a key, and where its codes came from; the questions must be those that its identity says."""
    record = _read_json(path, "the key of a sheet")
    wrong = DataError(f"{path} is not the key of a sheet, or was changed: give the file that relcode study judge wrote with --key")
    try:
        questions = tuple(Question(**{**one, "choices": tuple(one["choices"]), "relations": tuple(one["relations"])}) for one in record["questions"])
        sheet, source = Sheet(questions, int(record["seed"])), str(record["source"])
        same = sheet.identity == record["sheet"]
    except (KeyError, TypeError, ValueError):
        raise wrong from None
    if record.get("study") != "judge" or not same or not all(one.kind in KINDS for one in questions):
        raise wrong
    return sheet, source


def read_answers(path: Path, sheet: Sheet) -> tuple[str, ...]:
    """Return a letter for each question: from the sheet filled in, or any tab-separated text with the columns question and answer."""
    given: dict[str, str] = {}
    for row in _read_rows(path):
        number, answer = (row.get("question") or "").strip(), (row.get("answer") or "").strip()
        if not number and not answer:
            continue
        if number in given:
            raise DataError(f"{path} answers question {number} twice: leave one of the two")
        given[number] = answer
    known = set(sheet.numbers)
    foreign = [number for number in given if number not in known]
    if foreign:
        raise DataError(f"{path} has the question {foreign[0]!r}, the key is of sheet {sheet.identity}: give the key that was written with the sheet")
    missing = [number for number in sheet.numbers if not given.get(number)]
    if missing:
        named = ", ".join(missing[:MANY]) + (", …" if len(missing) > MANY else "")
        raise DataError(f"{path} leaves {len(missing)} of {len(known)} questions unanswered ({named}): answer all, and guess where you cannot tell")
    return tuple(_letter(path, number, one, given[number]) for number, one in zip(sheet.numbers, sheet.questions, strict=True))


def _letter(path: Path, number: str, question: Question, answer: str) -> str:
    """Return the letter of an answer; a grade may be given by its word."""
    words = {word: letter for word, letter in zip(GRADES, LETTERS, strict=False) if question.kind == "grade"}
    letter = words.get(answer.casefold(), answer.upper())
    allowed = LETTERS[: len(question.choices)]
    if len(letter) != 1 or letter not in allowed:
        raise DataError(f"{path} answers question {number} with {answer!r}: allowed are {', '.join(allowed)}; mend that line")
    return letter


def _read_rows(path: Path) -> list[dict[str, str]]:
    """Read tab-separated rows under a header that has the columns question and answer; lines that begin with # are left out."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = [line for line in text.splitlines() if not line.lstrip('"').startswith("#")]
        reader = csv.DictReader(lines, delimiter="\t", restval="")
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as answers ({_reason(error)}): give the sheet as tab-separated text, filled in") from None
    if not {"question", "answer"} <= set(reader.fieldnames or ()):
        raise DataError(f"{path} has no columns question and answer, with tabs between: give the sheet, filled in")
    return rows


def read_codes(path: Path) -> RelationCodes:
    """Read codes as ``relcode codes RUN --json`` prints them: all directed relations, r before its inverse."""
    record = _read_json(path, "codes")
    wrong = DataError(f"{path} does not hold the codes of all relations and their inverses: write it with relcode codes RUN --json")
    try:
        rows = record["relations"]
        names, short = (tuple(str(row[column]) for row in rows) for column in ("relation", "short"))
        code_SC = torch.tensor([[float(value) for value in row["code"]] for row in rows], dtype=torch.float64)
    except (KeyError, TypeError, ValueError):
        raise wrong from None
    half = len(names) // 2
    inverses = all(back.startswith("^") and _plain(back) == _plain(name) for name, back in zip(names[:half], names[half:], strict=False))
    fits = code_SC.ndim == 2 and code_SC.numel() and len(set(names)) == len(names) == 2 * half and inverses
    if not fits or not math.isfinite(float(code_SC.sum())) or bool((code_SC < 0).any()):
        raise wrong
    return RelationCodes(names, short, code_SC, scale_to_share(code_SC), half)


def _plain(name: str) -> str:
    """Return a relation's name without what is written around it in a path."""
    return name.lstrip("^").removeprefix("<").removesuffix(">")


def _read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object; what cannot be read is named in one line."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as {what} ({_reason(error)}): give a file that relcode wrote") from None


def _reason(error: Exception) -> str:
    """Return what an error says, short."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0][:100]
