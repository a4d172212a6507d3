"""Reading a text file safely in blocks of whole lines: packed or plain, bounded, with the line number of whatever is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from relcode.errors import DataError
from relcode.graph.unpack import MOST_BYTES, Bounded, opened, refuse_wrapped

BLOCK_BYTES = 16 << 20
LONGEST_LINE = 1 << 20  # bytes; a name of a megabyte is a damaged file
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a file: bytes with plain newlines, and the number (from 1) of the first line."""

    first_line: int
    data: bytes

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Go through (line number, line without its newline)."""
        yield from enumerate(self.data.removesuffix(b"\n").split(b"\n"), start=self.first_line)


def read_blocks(path: Path, most_bytes: int = MOST_BYTES, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Go through a file in blocks of whole lines, without blank lines at its end.

    A byte order mark at the beginning and carriage returns before newlines are dropped. ``DataError`` names the file, and the line where it can,
    for everything that is not text: NUL bytes, a gzip that ends early, a line over 1 MiB, more than ``most_bytes`` once unpacked.
    """
    with opened(path, most_bytes) as stream:
        yield from split_blocks(stream, str(path), most_bytes, block_bytes)


def split_blocks(stream: BinaryIO, source: str, most_bytes: int = MOST_BYTES, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """As ``read_blocks``, from an open stream of bytes that messages call ``source``."""
    blank_line = 0
    for block in raw_blocks(Bounded(stream, source, most_bytes), source, block_bytes):
        text = block.data.replace(b"\r\n", b"\n").removesuffix(b"\r")
        # Blank lines are forgiven only at the end of the file, so they are held back until something follows.
        kept = text.rstrip(b"\n")
        if kept and blank_line:
            raise DataError(f"{source}, line {blank_line}: blank, but more lines follow; blank lines may only end the file")
        if kept:
            yield Block(block.first_line, kept + b"\n")
            blank_line = 0
        first_blank = block.first_line + (kept.count(b"\n") + 1 if kept else 0)
        if first_blank < block.first_line + text.count(b"\n") and not blank_line:
            blank_line = first_blank


def raw_blocks(stream: BinaryIO | Bounded, source: str, block_bytes: int = BLOCK_BYTES, longest_line: int = LONGEST_LINE) -> Iterator[Block]:
    """Cut a stream into blocks of whole lines, as they are but for a byte order mark at the beginning; only the last line may lack its newline."""
    line, started, rest = 1, False, b""
    while True:
        chunk = stream.read(block_bytes)
        if not started:
            refuse_wrapped(chunk, source)
            started = True
        data = rest + chunk
        cut = data.rfind(b"\n") + 1 if chunk else len(data)
        data, rest = data[:cut], data[cut:]
        if len(rest) > longest_line:
            raise DataError(f"{source}, line {line + data.count(10)}: longer than {longest_line:,} bytes; is this a file of text?")
        if line == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        if data:
            _check_bytes(data, line, source, longest_line)
            yield Block(line, data)
            line += data.count(10)
        if not chunk:
            return


def _check_bytes(data: bytes, line: int, source: str, longest_line: int) -> None:
    """Refuse NUL bytes and lines that are too long."""
    nul = data.find(b"\0")
    if nul >= 0:
        raise DataError(f"{source}, line {line + data.count(10, 0, nul)}: a NUL byte; this is not a text file")
    if len(data) <= longest_line:
        return
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    lengths = np.diff(ends, prepend=-1, append=len(data)) - 1
    worst = int(lengths.argmax())
    if lengths[worst] > longest_line:
        raise DataError(f"{source}, line {line + worst}: longer than {longest_line:,} bytes; is this a file of text?")
