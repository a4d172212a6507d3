"""What every reader takes and gives: options, batches of named facts, and a tally of what was read, skipped and decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from relcode.errors import DataError
from relcode.graph.facts import COLUMNS
from relcode.graph.lines import LONGEST_LINE
from relcode.graph.unpack import MOST_BYTES

LONGEST_NAME = LONGEST_LINE
EXAMPLE_LENGTH = 120
FORBIDDEN = "[\t\n\r\\x00]"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How sources are to be read; None means: find out, and say what was found."""

    form: str | None = None  # one of sources.FORMS
    head: str | None = None  # name (or number from 1) of a table's column; relation, tail and time likewise
    relation: str | None = None
    tail: str | None = None
    time: str | None = None
    header: bool | None = None  # whether a table of text begins with the names of its columns
    delimiter: str | None = None
    literals: bool = False  # keep RDF literals as entities
    skip_bad: bool = False  # leave out lines that cannot be read, and count them
    most_bytes: int = MOST_BYTES


@dataclass(slots=True)
class Skipped:
    """What was left out for one reason: how often, and the first case."""

    count: int = 0
    first: str = ""


@dataclass(slots=True)
class Tally:
    """What one source gave: facts read, what was skipped and why, what was decided."""

    source: str
    form: str = ""
    facts: int = 0
    skipped: dict[str, Skipped] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # what may not be as it was meant
    prefixes: dict[str, str] = field(default_factory=dict)  # as the source declares them
    labels: dict[str, tuple[int, str]] = field(default_factory=dict)  # IRI -> (preference, label); the smallest pair is taken
    graphs: int = 0  # facts that were in a named graph

    def skip(self, reason: str, first: str = "", count: int = 1) -> None:
        """Count something that was left out."""
        if count:
            entry = self.skipped.setdefault(reason, Skipped(first=shown(first)))
            entry.count += count


@dataclass(frozen=True, slots=True)
class Batch:
    """Some facts by name: three columns of equal length, each a list of texts or an Arrow array of them, and perhaps their times."""

    head: Sequence[str] | pa.Array
    relation: Sequence[str] | pa.Array
    tail: Sequence[str] | pa.Array
    time: pa.Array | None = None

    def __len__(self) -> int:
        """Return how many facts there are."""
        return len(self.head)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Go through the facts as three names."""
        columns = [column.to_pylist() if isinstance(column, pa.Array) else column for column in (self.head, self.relation, self.tail)]
        return zip(*columns, strict=True)


def shown(text: str) -> str:
    """Return a text short enough for a message, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXAMPLE_LENGTH else line[: EXAMPLE_LENGTH - 1] + "…"


def clean_batch(columns: Sequence[pa.Array], tally: Tally, first_row: int, time: pa.Array | None = None) -> Batch:
    """Make a batch of three columns of text: rows that lack a name are skipped and counted, names that no file could hold are refused.

    ``first_row`` is the number of the first row, for messages.
    """
    lacking = None
    for name, column in zip(COLUMNS, columns, strict=True):
        empty = pc.or_kleene(pc.is_null(column), pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)).fill_null(True)
        count = pc.sum(empty).as_py() or 0
        if count:
            tally.skip(f"the {name} is empty", f"row {first_row + pc.index(empty, True).as_py():,}", count)
            lacking = empty if lacking is None else pc.or_(lacking, empty)
    whole = list(columns)
    if lacking is not None:
        keep = pc.invert(lacking)
        whole, time = [column.filter(keep) for column in columns], None if time is None else time.filter(keep)
    for name, column in zip(COLUMNS, whole, strict=True):
        check_names(column, name, f"{tally.source}, from row {first_row:,} on")
    head, relation, tail = whole
    return Batch(head, relation, tail, time)


def check_names(names: pa.Array, column: str, where: str) -> None:
    """Refuse names that hold a tab, line break or NUL, or are longer than any name is."""
    bad = pc.match_substring_regex(names, FORBIDDEN)
    if pc.any(bad, min_count=0).as_py():
        name = names[pc.index(bad, True).as_py()].as_py()
        raise DataError(f"{where}: the {column} {shown(repr(name))} holds a tab, line break or NUL, which no name may")
    longest = pc.max(pc.binary_length(names)).as_py() or 0
    if longest > LONGEST_NAME:
        raise DataError(f"{where}: a {column} of {longest:,} bytes; names of more than {LONGEST_NAME:,} bytes are not read")
