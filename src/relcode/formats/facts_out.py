"""Writing facts with what is known about them, row by row: TSV, CSV, JSON lines, Parquet, N-Triples.

N-Triples hold the three names alone, as IRIs. A name that is an IRI stays as it is, and one with a known prefix is written out; any other becomes

    urn:relcode:entity:NAME        urn:relcode:relation:NAME        NAME percent-encoded (UTF-8; letters, digits and _ . - ~ stay)

which :func:`name_of` turns back: no name is lost and no two names meet.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from relcode.errors import SettingError

Kind = Literal["entity", "relation"]
Row = Mapping[str, Any]

FORMS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".nt": "nt"}
OURS = "urn:relcode:"
# An IRI as N-Triples write it: a scheme, and none of the characters that may not stand between < and >.
ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]+")
BATCH = 10_000  # rows of a Parquet group
TYPES = {float: pa.float64(), str: pa.utf8(), int: pa.int64(), bool: pa.bool_()}


def form_of(path: Path, form: str | None = None) -> str:
    """Return the form to write: the one given, else the one that the file's ending tells."""
    known = ", ".join(dict.fromkeys(FORMS.values()))
    if form is not None:
        if form not in FORMS.values():
            raise SettingError(f"unknown form {form!r}: known are {known}")
        return form
    found = FORMS.get(path.suffix.lower())
    if found is None:
        raise SettingError(f"{path.name} does not tell its form: end it in {', '.join(FORMS)}, or give --format ({known})")
    return found


def write_rows(path: Path, form: str, rows: Iterable[Row], columns: Mapping[str, type], prefixes: Mapping[str, str] | None = None) -> int:
    """Write rows to a new file and return how many there were; ``columns`` are names and types, head, relation and tail among them.

    A missing value is empty in text and null in JSON and Parquet. ``prefixes`` say what short names stand for, which N-Triples write out.
    """
    if form == "parquet":
        return _write_parquet(path, rows, columns)
    with path.open("w", encoding="utf-8", newline="") as handle:
        count = -1 if form in ("tsv", "csv") else 0  # the first line of these names the columns
        for line in _lines(form, rows, list(columns), prefixes or {}):
            handle.write(line)
            count += 1
        return count


def _lines(form: str, rows: Iterable[Row], columns: Sequence[str], prefixes: Mapping[str, str]) -> Iterator[str]:
    """Go through the lines of a text file."""
    if form == "nt":
        kinds: tuple[tuple[str, Kind], ...] = (("head", "entity"), ("relation", "relation"), ("tail", "entity"))
        for row in rows:
            yield " ".join(f"<{iri_of(row[name], kind, prefixes)}>" for name, kind in kinds) + " .\n"
    elif form == "jsonl":
        for row in rows:
            yield json.dumps({name: row[name] for name in columns}, ensure_ascii=False, allow_nan=False) + "\n"
    else:
        yield _line(form, columns)
        for row in rows:
            yield _line(form, [_text(row[name]) for name in columns])


def _line(form: str, fields: Sequence[str]) -> str:
    """Write one line of TSV (names hold no tabs) or of CSV (RFC 4180)."""
    if form == "tsv":
        return "\t".join(fields) + "\n"
    line = _Line()
    csv.writer(line).writerow(fields)
    return line.text


class _Line:
    """Something for the csv module to write to."""

    text = ""

    def write(self, text: str) -> None:
        self.text += text


def _text(value: Any) -> str:
    """Write a value for a field: nothing where it is missing, numbers with six digits."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _write_parquet(path: Path, rows: Iterable[Row], columns: Mapping[str, type]) -> int:
    """Write rows in groups, so that few are held at a time."""
    schema = pa.schema([(name, TYPES[kind]) for name, kind in columns.items()])
    waiting, count = iter(rows), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(waiting, BATCH)):
            writer.write_table(pa.table({name: pa.array([row[name] for row in batch], schema.field(name).type) for name in columns}, schema))
            count += len(batch)
    return count


def iri_of(name: str, kind: Kind, prefixes: Mapping[str, str] | None = None) -> str:
    """Return the IRI that a name is written as; see the top of this file."""
    prefix, colon, rest = name.partition(":")
    if colon and prefixes and prefix in prefixes:
        name = prefixes[prefix] + rest
    if ABSOLUTE_IRI.fullmatch(name) and not name.startswith(OURS):
        return name
    return f"{OURS}{kind}:{quote(name, safe='')}"


def name_of(iri: str) -> str:
    """Return the name that an IRI was made of (a prefix stays written out)."""
    for kind in ("entity", "relation"):
        if iri.startswith(f"{OURS}{kind}:"):
            return unquote(iri.removeprefix(f"{OURS}{kind}:"))
    return iri
