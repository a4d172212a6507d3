"""Suggestions into a file, a relation at a time, so that a long search that was stopped goes on where it was.

While it runs, ``FILE.partial`` holds a first line that says what is being looked for, then the suggestions of each relation as lines of JSON, each
relation closed by a line of its own. What comes after the last such line is half a relation, and is dropped. At the end the relations, each in order,
are merged into ``FILE``, which appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from relcode.errors import ExistsAlready, OutputError
from relcode.explore.model import Model
from relcode.explore.probability import weights_of
from relcode.explore.suggest import Suggester, Suggestion
from relcode.formats.facts_out import form_of, write_rows
from relcode.runs.files import write_atomically

FORMAT = 1
CHUNK = 2**16  # bytes read at a time from each relation's part
COLUMNS: dict[str, type] = {"head": str, "relation": str, "tail": str, "probability": float, "score": float, "evidence": float}

Progress = Callable[[int, int], None]  # pairs looked at, of all


def write_suggestions(work: Suggester, out: Path, form: str | None = None, progress: Progress | None = None) -> int:
    """Look for all that is wanted and write it to ``out``; return how many suggestions there are. A search that was stopped before goes on."""
    form = form_of(out, form)
    if out.exists():
        raise ExistsAlready(out)
    try:
        return _write(work, out, form, progress)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}; choose another place with --out") from None


def _write(work: Suggester, out: Path, form: str, progress: Progress | None) -> int:
    columns = COLUMNS | ({"reason": str} if work.wanted.reasons else {}) | ({"typed": bool} if work.wanted.any_type else {})
    costs = [work.cost(search) for search in work.searches]
    with Partial(partial_path(out), identity(work)) as partial:
        done = len(partial.parts)
        for number, search in enumerate(work.searches[done:], start=done):
            if progress is not None:
                progress(sum(costs[:number]), sum(costs))
            partial.add(work.found(search))
        if progress is not None:
            progress(sum(costs), sum(costs))
        rows = ({name: getattr(one, name) for name in columns} for one in partial.merged())
        counts: list[int] = []
        prefixes = getattr(work.model.dataset, "prefixes", {})
        write_atomically(out, lambda draft: counts.append(write_rows(draft, form, rows, columns, prefixes)))
    partial.path.unlink()
    return counts[0]


def partial_path(out: Path) -> Path:
    """Return where the parts of an unfinished file lie."""
    return out.with_name(f"{out.name}.partial")


def identity(work: Suggester) -> dict[str, Any]:
    """Say what is being looked for, so that only the very same search is gone on with."""
    model: Model = work.model
    calibration = None if model.calibration is None else model.calibration.to_json(model.dataset.relations.names)
    digest = hashlib.sha256(json.dumps(calibration, sort_keys=True).encode()).hexdigest()
    wanted = json.loads(json.dumps(asdict(work.wanted)))
    return {
        "format": FORMAT,
        "weights": weights_of(model.run),
        "data": model.dataset.fingerprint,
        "calibration": digest,
        "wanted": wanted,
        "searches": len(work.searches),
    }


class Partial:
    """The file of parts, open for more; ``parts`` are the places (from, to) of the relations that are in it."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        """Take up what an earlier search for the same left, or begin anew."""
        self.path, self.about = path, about
        self.parts: list[tuple[int, int]] = []

    def __enter__(self) -> Partial:
        """Open the file, and drop what is not whole."""
        self.handle: BinaryIO = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b")
        end = self._read()
        self.handle.truncate(end)
        self.handle.seek(end)
        if not end:
            self._append(json.dumps(self.about, ensure_ascii=False).encode() + b"\n")
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.handle.close()

    def _read(self) -> int:
        """Find the relations that are whole; return where the last one ends, 0 where the file is of another search."""
        first = self.handle.readline()
        if not first.endswith(b"\n") or _json(first) != self.about:
            return 0
        start = place = len(first)  # where the relation begins, and where the line at hand does
        for line in self.handle:
            record = _json(line) if line.endswith(b"\n") else None
            if record is None:
                break
            if "end" in record:
                self.parts.append((start, place))
                start = place + len(line)
            place += len(line)
        return start

    def add(self, suggestions: list[Suggestion]) -> None:
        """Add a relation's suggestions, in order, and make sure that they are on the disk."""
        start = self.handle.tell()
        body = b"".join(json.dumps(asdict(one), ensure_ascii=False).encode() + b"\n" for one in suggestions)
        self._append(body + json.dumps({"end": len(suggestions)}).encode() + b"\n")
        self.parts.append((start, start + len(body)))

    def _append(self, text: bytes) -> None:
        self.handle.write(text)
        self.handle.flush()
        os.fsync(self.handle.fileno())

    def merged(self) -> Iterator[Suggestion]:
        """Go through all suggestions, the most probable first; of each relation only a piece is held."""
        return heapq.merge(*(self._part(start, stop) for start, stop in self.parts), key=lambda one: one.order)

    def _part(self, start: int, stop: int) -> Iterator[Suggestion]:
        """Go through one relation's suggestions."""
        rest = b""
        while start < stop:
            self.handle.seek(start)
            text = rest + self.handle.read(min(CHUNK, stop - start))
            start = min(start + CHUNK, stop)
            *lines, rest = text.split(b"\n")
            yield from (Suggestion(**json.loads(line)) for line in lines)


def _json(line: bytes) -> dict[str, Any] | None:
    """Read one line as a JSON object; None where it is not one."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
