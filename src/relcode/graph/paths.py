"""Relation paths as text, in the form of SPARQL 1.1 property paths: ``r1/^r2/r3`` is first r1, then r2 backwards, then r3.

    path := step ("/" step)*        step := "^"? (name | "<" name ">")

Spaces around steps do not count. A name that holds a slash stands in angle brackets, where ``\\>`` is > and ``\\\\`` is \\. A text that is, as a
whole, one relation's name (or ^ and a name) is that relation, so ``/film/film/country`` needs no brackets when it is alone.
Directed relations are numbered 0..2R-1: r is forward, r + R its inverse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from relcode.errors import PathSyntaxError, UnknownName, suggestion
from relcode.graph.vocab import Vocab

OTHER_OPERATORS = re.compile(r"[*+?|!()]")  # of SPARQL, which a product of matrices cannot follow


@dataclass(frozen=True, slots=True)
class _Step:
    """One step as written: ``name`` as read, ``raw`` with its brackets, ``column`` (from 1) where the name begins."""

    name: str
    raw: str
    inverse: bool
    bracketed: bool
    column: int


def parse_path(text: str, relations: Vocab) -> tuple[int, ...]:
    """Read a path; return its directed relation numbers, first step first.

    ``PathSyntaxError`` says what is wrong and at which column; a well-formed step that no relation is called by raises ``UnknownName``.
    """
    whole = _whole_name(text.strip(), relations)
    if whole is not None:
        return (whole,)
    return tuple(_look_up(step, text, relations) for step in _steps(text, relations))


def relation_id(text: str, relations: Vocab) -> int:
    """Read one step, such as ``r``, ``^r`` or ``<name/with/slash>``; return its directed relation number."""
    bare = text.strip().removeprefix("^")
    if bare.startswith("/") and bare not in relations:  # a name such as /film/film/country, misspelt: no path begins with a slash
        raise UnknownName("relation", bare, relations.names)
    ids = parse_path(text, relations)
    if len(ids) != 1:
        raise PathSyntaxError(f"expected one relation, got the path {text!r} of {len(ids)} steps")
    return ids[0]


def format_path(ids: Sequence[int], relations: Vocab) -> str:
    """Write directed relation numbers as a path that ``parse_path`` reads back; brackets only where they are needed."""
    if not ids:
        raise PathSyntaxError("a path needs at least one step, got none")
    plain = "/".join(_written(number, relations, brackets=False) for number in ids)
    try:
        # The reader itself is the judge of whether brackets are needed: no second copy of the rules.
        if parse_path(plain, relations) == tuple(ids):
            return plain
    except (PathSyntaxError, UnknownName):
        pass
    steps = [_written(number, relations, brackets=_needs_brackets(relations[number % len(relations)])) for number in ids]
    mixed = "/".join(steps)
    if parse_path(mixed, relations) == tuple(ids):
        return mixed
    return "/".join(_written(number, relations, brackets=True) for number in ids)


def invert_path(ids: Sequence[int], num_relations: int) -> tuple[int, ...]:
    """Return the path walked backwards: steps in reverse order, each inverted; r1/r2 becomes ^r2/^r1."""
    return tuple(number - num_relations if number >= num_relations else number + num_relations for number in reversed(ids))


def _whole_name(text: str, relations: Vocab) -> int | None:
    """Return the directed number where the text is one whole relation name, or ^ and one; None otherwise.

    Text that begins with a bracket is left to the grammar, so that bracketed steps always mean what they say.
    """
    inner = text[1:].lstrip() if text.startswith("^") else text
    if inner.startswith("<"):
        return None
    if text in relations:
        return relations.index(text)
    if text.startswith("^") and inner in relations:
        return relations.index(inner) + len(relations)
    return None


def _steps(text: str, relations: Vocab) -> list[_Step]:
    """Cut a text into its steps."""
    steps, place = [], 0
    while True:
        step, place = _read_step(text, place, relations)
        steps.append(step)
        if place == len(text):
            return steps
        place += 1  # the slash


def _read_step(text: str, place: int, relations: Vocab) -> tuple[_Step, int]:
    """Read one step from ``place``; return it with the place of the slash or end that follows."""
    place = _skip_spaces(text, place)
    inverse = text.startswith("^", place)
    if inverse:
        place = _skip_spaces(text, place + 1)
    if text.startswith("^", place):
        raise PathSyntaxError(f"path {text!r}, column {place + 1}: a second ^; one inverts a step")
    if text.startswith("<", place):
        return _read_bracketed(text, place, inverse)
    end = text.find("/", place)
    end = len(text) if end < 0 else end
    name = text[place:end].strip()
    if not name:
        hint = suggestion(text.strip().removeprefix("^"), relations.names) if "/" in text else ""
        advice = "a name that holds a slash goes in angle brackets, as in <a/b>" if "/" in text else "write one relation or more, as in r1/^r2"
        raise PathSyntaxError(f"path {text!r}, column {place + 1}: a step without a name; {advice}{hint}")
    return _Step(name, name, inverse, False, place + 1), end


def _read_bracketed(text: str, place: int, inverse: bool) -> tuple[_Step, int]:
    """Read ``<name>`` from its opening bracket; return the step with the place of the slash or end that follows."""
    letters, cursor = [], place + 1
    while cursor < len(text) and text[cursor] != ">":
        if text[cursor] == "\\":
            cursor += 1
            if text[cursor : cursor + 1] not in ("\\", ">"):
                raise PathSyntaxError(f"path {text!r}, column {cursor}: a lone \\; inside brackets write \\\\ for \\ and \\> for >")
        letters.append(text[cursor])
        cursor += 1
    if cursor == len(text):
        raise PathSyntaxError(f"path {text!r}, column {place + 1}: < without its >")
    end = _skip_spaces(text, cursor + 1)
    if end < len(text) and text[end] != "/":
        raise PathSyntaxError(f"path {text!r}, column {end + 1}: expected / or the end after >, got {text[end]!r}")
    return _Step("".join(letters), text[place : cursor + 1], inverse, True, place + 1), end


def _look_up(step: _Step, text: str, relations: Vocab) -> int:
    """Return the directed number of a step."""
    shift = len(relations) if step.inverse else 0
    if step.name in relations:
        return relations.index(step.name) + shift
    if step.bracketed and step.raw in relations:  # some knowledge bases store names with the brackets on
        return relations.index(step.raw) + shift
    operator = OTHER_OPERATORS.search(step.name)
    if operator and not step.bracketed and any(part.strip() in relations for part in OTHER_OPERATORS.split(step.name)):
        where = f"path {text!r}, column {step.column + operator.start()}"
        raise PathSyntaxError(f"{where}: {operator.group()} is not understood; a path is steps r or ^r with / between them")
    raise UnknownName("relation", step.name, relations.close_names(step.name))


def _needs_brackets(name: str) -> bool:
    """Tell whether a name cannot stand bare as a step between others."""
    return "/" in name or name[:1] in ("<", "^") or name != name.strip() or not name


def _written(number: int, relations: Vocab, brackets: bool) -> str:
    """Write one directed relation number as a step."""
    if not 0 <= number < 2 * len(relations):
        raise PathSyntaxError(f"directed relation number {number} is outside 0..{2 * len(relations) - 1}")
    name = relations[number % len(relations)]
    if brackets:
        escaped = name.replace("\\", "\\\\").replace(">", "\\>")
        name = f"<{escaped}>"
    return ("^" if number >= len(relations) else "") + name


def _skip_spaces(text: str, place: int) -> int:
    """Return the first place from ``place`` on that holds no space."""
    while place < len(text) and text[place].isspace():
        place += 1
    return place
