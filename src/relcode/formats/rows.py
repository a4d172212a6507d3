"""The text of a table, checked and cut into blocks of whole rows.

Arrow's own reader of streams (``pyarrow.csv.open_csv``) is not used: its threads may hold the stream after it has returned or failed, and letting
go of a Python object while the interpreter ends aborts the process. Blocks in memory are parsed by ``read_csv``, which waits for what it started.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import cache
from typing import BinaryIO

from relcode.errors import DataError
from relcode.graph.lines import BYTE_ORDER_MARK
from relcode.graph.unpack import refuse_wrapped

BLOCK_BYTES = 8 << 20
LOOKED_AT = 1 << 18  # bytes of a text table from which its delimiter and header are guessed
ROWS_TOGETHER = 1000  # found by one match: what it has to remember is bounded


class CheckedText:
    """A stream of text in blocks: the beginning can be looked at, a byte order mark is dropped, NUL bytes and bad UTF-8 are refused."""

    def __init__(self, stream: BinaryIO, source: str, quoted: bool) -> None:
        """Read and check the beginning; messages call the stream ``source``."""
        self._stream, self._source, self._quoted = stream, source, quoted
        self._marks = 0
        self.beginning = b""
        while len(self.beginning) < LOOKED_AT and (data := stream.read(LOOKED_AT)):
            self.beginning += data
        refuse_wrapped(self.beginning, source)
        self.beginning = self.beginning.removeprefix(BYTE_ORDER_MARK)
        self._lines = 1
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._check(self.beginning)

    def blocks(self, delimiter: str) -> Iterator[bytes]:
        """Go through blocks of whole rows, once; only the last row may lack its line end."""
        rest, data = b"", self.beginning
        while data:
            data = rest + data
            cut = end_of_rows(data, delimiter if self._quoted else None)
            if cut:
                yield data[:cut]
            rest = data[cut:]
            if len(rest) > BLOCK_BYTES:
                raise DataError(f"{self._source}: a row longer than {BLOCK_BYTES:,} bytes, or a quotation mark without its partner")
            data = self._stream.read(BLOCK_BYTES)
            self._check(data)
        if rest:
            yield rest

    def _check(self, data: bytes) -> None:
        nul = data.find(b"\0")
        if nul >= 0:
            raise DataError(f"{self._source}, line {self._lines + data.count(10, 0, nul):,}: a NUL byte; this is not a text file")
        try:
            self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self._lines + data.count(10, 0, max(0, error.start))
            raise DataError(f"{self._source}, line {line:,}: not UTF-8 ({error.reason}); save it as UTF-8") from None
        self._lines += data.count(10)
        self._marks += data.count(b'"')
        if not data and self._quoted and self._marks % 2:  # the field that it opens would swallow all lines up to the next
            raise DataError(f"{self._source}: a quotation mark without its partner; where it is a letter, read with --format tsv --delimiter ,")


def end_of_rows(data: bytes, delimiter: str | None) -> int:
    """Return where the last whole row ends in a text that begins with one, 0 where none does; ``delimiter`` is None where no field is quoted."""
    if delimiter is None or b'"' not in data:
        return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    rows, place = _rows(delimiter.encode()), 0
    while found := rows.match(data, place):
        place = found.end()
    return place


@cache
def _rows(delimiter: bytes) -> re.Pattern[bytes]:
    """Return the pattern of many whole rows.

    A field is quoted where it begins with a quotation mark; it ends with the next one that is not doubled, and line ends within are its own.
    """
    mark = re.escape(delimiter)
    plain = rb"[^%b\r\n]*+" % mark
    field = rb'(?:"[^"]*+(?:""[^"]*+)*+"%b|(?!")%b)' % (plain, plain)
    return re.compile(rb"(?:%b(?:%b%b)*+[\r\n]){1,%d}" % (field, mark, field, ROWS_TOGETHER))
