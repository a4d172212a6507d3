"""Which columns of a table are head, relation and tail: as named, or guessed and then said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relcode.errors import DataError, SettingError, suggestion
from relcode.formats.reading import ReadOptions, Tally, shown
from relcode.graph.headers import ROLES, roles_in


@dataclass(frozen=True, slots=True)
class Columns:
    """The numbers (from 0) of the columns of head, relation, tail and time, None without a time; and whether the first row names the columns."""

    numbers: tuple[int, int, int, int | None]
    header: bool


def choose_columns(fields: Sequence[str], options: ReadOptions, tally: Tally, is_header: bool | None) -> Columns:
    """Choose the columns of a table whose first row (or schema, with ``is_header``) is ``fields``, and note what was guessed."""
    named = {role: value for role in (*ROLES, "time") if (value := getattr(options, role)) is not None}
    missing = [role for role in ROLES if role not in named]
    guess = roles_in(fields)
    header = options.header if is_header is None else is_header
    if header is None:
        header = any(not _is_number(value) for value in named.values()) or (bool(missing) and len(guess) == 3)
    found = {role: _find(value, fields, header, tally.source) for role, value in named.items()}
    if 0 < len(missing) < 3:
        not_given = " and ".join(f"--{role}" for role in missing)
        raise SettingError(f"name all three columns or none: {not_given} not given (there are {shown(', '.join(fields))})")
    if missing:
        found |= guess if header and guess else _in_order(fields, found.get("time"), tally)
    if len(set(found.values())) < len(found):
        raise SettingError(f"{tally.source}: head, relation, tail and time must be different columns; there are {shown(', '.join(fields))}")
    columns = Columns((found["head"], found["relation"], found["tail"], found.get("time")), header)
    if missing:
        _note(columns, fields, options, tally, is_header)
    return columns


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
    if header is False:
        raise DataError(f"{source}: no column {value!r}; there are 1 to {len(fields)}")
    raise DataError(f"{source}: no column {value!r}{shown(suggestion(value, fields)) or f'; there are 1 to {len(fields)}'}")


def _note(columns: Columns, fields: Sequence[str], options: ReadOptions, tally: Tally, is_header: bool | None) -> None:
    """Say what was guessed."""
    names = [fields[number] if columns.header else f"column {number + 1}" for number in columns.numbers[:3]]
    how = "guessed" if is_header or options.header is None else "in order"
    first = "" if is_header else ", the first row names the columns" if columns.header else ", the first row is a fact"
    tally.notes.append(f"head, relation, tail are {', '.join(map(shown, names))} ({how}{first})")
