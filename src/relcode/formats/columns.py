"""Which columns of a table are head, relation and tail: as named, or guessed and then said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relcode.errors import DataError, SettingError
from relcode.formats.reading import ReadOptions, Tally, shown

ROLES = ("head", "relation", "tail")
# Words that name columns of facts elsewhere; the first that occurs is taken.
WORDS = {
    "head": ("head", "subject", "subj", "source", "src", "from", "start", "start_id", "head_id", "subject_id", "source_id", "node1", "entity1"),
    "relation": ("relation", "predicate", "pred", "rel", "property", "edge", "edge_type", "relation_type", "rel_type", "type", "label"),
    "tail": ("tail", "object", "obj", "target", "dst", "destination", "to", "end", "end_id", "tail_id", "object_id", "target_id", "node2", "entity2"),
}
LETTERS = (["h", "r", "t"], ["s", "p", "o"])
BETWEEN = ("relation", "predicate")  # between two columns of any name, these name the columns too: hardly a fact has such a relation


@dataclass(frozen=True, slots=True)
class Columns:
    """The numbers (from 0) of the columns of head, relation, tail and time, None without a time; and whether the first row names the columns."""

    numbers: tuple[int, int, int, int | None]
    header: bool


def choose_columns(fields: Sequence[str], options: ReadOptions, tally: Tally, is_header: bool | None) -> Columns:
    """Choose the columns of a table whose first row (or schema, with ``is_header``) is ``fields``, and note what was guessed."""
    named = {role: value for role in (*ROLES, "time") if (value := getattr(options, role)) is not None}
    missing = [role for role in ROLES if role not in named]
    if 0 < len(missing) < 3:
        raise SettingError(f"name all three columns or none: {' and '.join(f'--{role}' for role in missing)} not given")
    guess = _guess(fields)
    header = options.header if is_header is None else is_header
    if header is None:
        header = any(not _is_number(value) for value in named.values()) or (bool(missing) and len(guess) == 3)
    found = {role: _find(value, fields, header, tally.source) for role, value in named.items()}
    if missing:
        found |= guess if header and guess else _in_order(fields, found.get("time"), tally)
    if len(set(found.values())) < len(found):
        raise SettingError(f"{tally.source}: head, relation, tail and time must be different columns; there are {shown(', '.join(fields))}")
    columns = Columns((found["head"], found["relation"], found["tail"], found.get("time")), header)
    if missing:
        _note(columns, fields, options, tally, is_header)
    return columns


def _guess(fields: Sequence[str]) -> dict[str, int]:
    """Return the roles that the words of a first row name; where two of three columns are named the third has the role left over."""
    words = [field.strip().lower().lstrip(":").replace(" ", "_") for field in fields]
    if words in LETTERS:
        return dict(zip(ROLES, range(3), strict=True))
    found: dict[str, int] = {}
    for role in ROLES:
        number = next((words.index(word) for word in WORDS[role] if word in words), None)
        if number is not None:
            found[role] = number
    if len(fields) == 3 and len(found) == 2 and len(set(found.values())) == 2:
        (left,) = {0, 1, 2} - set(found.values())
        found[next(role for role in ROLES if role not in found)] = left
    if len(set(found.values())) == 3:
        return found
    return dict(zip(ROLES, range(3), strict=True)) if len(words) == 3 and words[1] in BETWEEN else {}


def _in_order(fields: Sequence[str], time: int | None, tally: Tally) -> dict[str, int]:
    """Return the roles of three columns in order, one of a time left out; where there are more or fewer, nobody can tell."""
    numbers = [number for number in range(len(fields)) if number != time]
    if len(numbers) == 3:
        return dict(zip(ROLES, numbers, strict=True))
    if len(fields) == 1:
        raise DataError(f"{tally.source}: one column ({shown(fields[0])}); a fact needs three: head, relation and tail. Is the delimiter another?")
    there = shown(", ".join(fields))
    if len(numbers) < 3:
        raise DataError(f"{tally.source}: {len(fields)} columns ({there}); a fact needs three: head, relation and tail")
    raise DataError(f"{tally.source}: {len(fields)} columns; say with --head, --relation and --tail which are meant (there are {there})")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _find(value: str, fields: Sequence[str], header: bool | None, source: str) -> int:
    """Return the number (from 0) of a column given by its name, or by its number from 1."""
    if header is not False and value in fields:
        return list(fields).index(value)
    if _is_number(value) and 1 <= int(value) <= len(fields):
        return int(value) - 1
    known = ", ".join(fields) if header is not False else f"1 to {len(fields)}"
    raise DataError(f"{source}: no column {value!r}; there are {shown(known)}")


def _note(columns: Columns, fields: Sequence[str], options: ReadOptions, tally: Tally, is_header: bool | None) -> None:
    """Say what was guessed."""
    names = [fields[number] if columns.header else f"column {number + 1}" for number in columns.numbers[:3]]
    how = "guessed" if is_header or options.header is None else "in order"
    first = "" if is_header else ", the first row names the columns" if columns.header else ", the first row is a fact"
    tally.notes.append(f"head, relation, tail are {', '.join(map(shown, names))} ({how}{first})")
