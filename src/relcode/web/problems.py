"""Errors over HTTP: problem JSON (RFC 9457), one clear line each, never a traceback."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from relcode.analysis.codes import NoAutoencoder
from relcode.errors import MissingExtra, NotFinite, PathSyntaxError, RelcodeError, UnknownName
from relcode.web.lanes import RETRY_SECONDS, Busy

MEDIA_TYPE = "application/problem+json"
SHOWN_LETTERS = 80  # of a value that is refused
SUGGESTED = re.compile(r": did you mean |: give one of their names, ")
WRITTEN = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?: or |, )?""")  # a name as Python writes it, and what stands between two

COLUMN = re.compile(rf"path {WRITTEN.pattern}column (\d+): ")

# What a kind of error is called, and its status. The first that fits counts.
KINDS: tuple[tuple[type[RelcodeError], str, HTTPStatus], ...] = (
    (UnknownName, "unknown-name", HTTPStatus.NOT_FOUND),
    (PathSyntaxError, "path-syntax", HTTPStatus(422)),
    (NoAutoencoder, "no-autoencoder", HTTPStatus.NOT_FOUND),
    (MissingExtra, "missing-extra", HTTPStatus.NOT_IMPLEMENTED),
    (NotFinite, "diverged", HTTPStatus.INTERNAL_SERVER_ERROR),
    (RelcodeError, "not-possible", HTTPStatus(422)),
)


def problem(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """Return a response that says what is wrong: ``detail`` in one line, ``code`` for programs."""
    title = HTTPStatus(status).phrase
    body = {"type": f"urn:relcode:{code}", "title": title, "status": status, "detail": " ".join(detail.split()), **more}
    return Response(json.dumps(body, ensure_ascii=False), status, headers, MEDIA_TYPE)


def of_error(error: RelcodeError) -> Response:
    """Return the problem of an error of relcode's; an unknown name comes with close ones, a path that does not parse with the column."""
    for kind, name, status in KINDS:
        if isinstance(error, kind):
            return problem(status, name, str(error), **_more(error))
    raise TypeError(f"{type(error).__name__} is no error of relcode's")


def of_busy(error: Busy) -> Response:
    """Return the problem of a lane that is full."""
    return problem(503, "busy", str(error), {"Retry-After": str(RETRY_SECONDS)})


def of_arguments(errors: Sequence[Mapping[str, Any]]) -> Response:
    """Return the problem of arguments that are missing, of another kind, or out of bounds."""
    found = [{"parameter": str(one["loc"][-1]), "detail": _argument(one)} for one in errors]
    return problem(422, "arguments", "; ".join(one["detail"] for one in found), errors=found)


def of_unknown_arguments(unknown: Sequence[str], known: Sequence[str]) -> Response:
    """Return the problem of arguments that a route does not have."""
    found = []
    for name in unknown:
        close = get_close_matches(name, known, n=1)
        hint = f": did you mean {close[0]}?" if close else f": known are {', '.join(known)}" if known else ": there are none here"
        found.append({"parameter": name[:SHOWN_LETTERS], "detail": f"unknown argument {_shown(name)}{hint}"})
    return problem(422, "arguments", "; ".join(one["detail"] for one in found[:3]), errors=found[:20])


def _argument(error: Mapping[str, Any]) -> str:
    """Say in a line what is wrong with one argument."""
    name, said = error["loc"][-1], str(error["msg"])
    if error["type"] == "missing":
        return f"{name} is missing"
    return f"{name} cannot be {_shown(error.get('input'))}: {said[:1].lower()}{said[1:]}"


def _shown(value: Any) -> str:
    """Write a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[: SHOWN_LETTERS - 1]}…"


def _more(error: RelcodeError) -> dict[str, Any]:
    """Return what programs want to know beside the line."""
    if isinstance(error, UnknownName):
        return {"kind": error.kind, "name": error.name, "suggestions": suggestions(error)}
    column = COLUMN.match(str(error)) if isinstance(error, PathSyntaxError) else None
    return {"column": int(column.group(2))} if column else {}


def suggestions(error: UnknownName) -> list[str]:
    """Return the names that the message of an unknown name suggests: it has looked for them already, and that takes long among many names."""
    said = str(error)
    asked = said.find(repr(error.name))
    start = SUGGESTED.search(said, asked + len(repr(error.name)))
    found: list[str] = []
    place = start.end() if start else len(said)
    while (match := WRITTEN.match(said, place)) is not None:
        found.append(ast.literal_eval(match.group(1)))
        place = match.end()
    return found
