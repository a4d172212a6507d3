"""N-Triples and N-Quads quickly: lines of plain IRIs are taken apart by one regular expression for a whole block, all others by pyoxigraph.

The expression accepts fewer lines than the grammar does, and those it accepts it reads as pyoxigraph would (a test compares them). It runs outside
Python's lock, so the next block is taken apart while the names of this one are numbered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relcode.formats.rdf import Terms, _format, named_blanks, oxigraph
from relcode.formats.reading import Batch, ReadOptions, Tally
from relcode.graph.lines import Block, raw_blocks

BLOCK_BYTES = 8 << 20
LONGEST_LINE = 16 << 20  # a literal may be long (the outline of a country), names are bounded when they are numbered
AHEAD = 2  # blocks taken apart in advance

# RFC 3987, only what needs no second thought: a plain host, no user, no brackets, no private characters.
_CHARACTER = r"[A-Za-z0-9._~!$&'()*+,;=:@\x{A1}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}-]|%[0-9A-Fa-f]{2}"
_PATH = rf"(?:{_CHARACTER}|/)*"
_AFTER = rf"(?:{_CHARACTER}|[/?])*"
_START = rf"//[A-Za-z0-9._~-]+(?::[0-9]*)?(?:/{_PATH})?|(?:{_CHARACTER}){_PATH}"
IRI = rf"^[A-Za-z][A-Za-z0-9+.-]*:(?:{_START})(?:\?{_AFTER})?(?:#{_AFTER})?$"
# A line of three (or four) bracketed texts, taken apart; whether the texts are IRIs is looked at afterwards, which is faster.
_TEXT = r"[^\x00-\x20<>\\]+"
_TRIPLE = rf"^<(?P<head>{_TEXT})>[ \t]*<(?P<relation>{_TEXT})>[ \t]*<(?P<tail>{_TEXT})>[ \t]*"
PATTERNS = {"ntriples": _TRIPLE + r"\.[ \t]*\r?\n?$", "nquads": _TRIPLE + rf"(?:<(?P<graph>{_TEXT})>[ \t]*)?\.[ \t]*\r?\n?$"}


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A block taken apart: the facts recognised, and the lines that were not, with their numbers."""

    batch: Batch
    graphs: int
    other: bytes
    other_line: np.ndarray[Any, np.dtype[np.int64]]


def read_ntriples(
    stream: BinaryIO, form: str, tally: Tally, options: ReadOptions, blank_prefix: str = "", block_bytes: int = BLOCK_BYTES
) -> Iterator[Batch]:
    """Read N-Triples or N-Quads from a stream; the facts are those of ``read_rdf``, in another order."""
    ox = oxigraph()
    terms = Terms(ox, tally, options, named_blanks(blank_prefix))
    waiting: deque[Future[_Parsed]] = deque()
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            for block in raw_blocks(stream, tally.source, block_bytes, LONGEST_LINE):
                waiting.append(pool.submit(take_apart, block, form))
                if len(waiting) > AHEAD:
                    yield from _batches(waiting.popleft().result(), ox, form, terms, tally)
            while waiting:
                yield from _batches(waiting.popleft().result(), ox, form, terms, tally)
        finally:
            for future in waiting:
                future.cancel()


def _batches(parsed: _Parsed, ox: Any, form: str, terms: Terms, tally: Tally) -> Iterator[Batch]:
    """Hand on the facts of a block: those recognised, then those that pyoxigraph finds in the other lines."""
    tally.facts += len(parsed.batch)
    tally.graphs += parsed.graphs
    if len(parsed.batch):
        yield parsed.batch
    if parsed.other:
        last = len(parsed.other_line) - 1
        parser = ox.parse(parsed.other, format=_format(ox, form))
        yield from terms.batches(parser, lambda line: int(parsed.other_line[min(line - 1, last)]))


def take_apart(block: Block, form: str) -> _Parsed:
    """Take the lines of a block apart."""
    try:
        block.data.decode("utf-8")
    except UnicodeDecodeError:  # pyoxigraph says which line it is
        count = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
        empty = pa.array([], pa.utf8())
        return _Parsed(Batch(empty, empty, empty), 0, block.data, block.first_line + np.arange(count))
    end_N = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 10) + 1
    if not block.data.endswith(b"\n"):
        end_N = np.append(end_N, len(block.data))
    offset = np.concatenate([[0], end_N]).astype(np.int32)
    line_N = pa.Array.from_buffers(pa.utf8(), len(end_N), [None, pa.py_buffer(offset), pa.py_buffer(block.data)])
    parts = pc.extract_regex(line_N, PATTERNS[form])
    fields = [parts.field(name) for name in ("head", "relation", "tail")]
    known = pc.fill_null(
        pc.and_(pc.and_(*(pc.match_substring_regex(field, IRI) for field in fields[:2])), pc.match_substring_regex(fields[2], IRI)), False
    )
    graphs = 0
    if form == "nquads":
        graph = parts.field("graph")
        known = pc.and_(known, pc.fill_null(pc.match_substring_regex(graph, rf"{IRI}|^$"), False))
        graphs = pc.sum(pc.and_(known, pc.not_equal(graph, ""))).as_py() or 0
    if not pc.all(known, min_count=0).as_py():
        fields = [field.filter(known) for field in fields]
    other = pc.invert(known)
    text = b"".join(line_N.filter(other).cast(pa.binary()).to_pylist())
    return _Parsed(Batch(*fields), graphs, text, block.first_line + np.flatnonzero(other.to_numpy(zero_copy_only=False)))
