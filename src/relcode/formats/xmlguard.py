"""RDF/XML is looked over by Python's own XML parser before pyoxigraph sees it.

pyoxigraph (0.5) takes a document that was cut off for a complete one, expands entities made of entities to whatever they come to, and needs time
that grows with the square of the depth of nesting. What is passed on here is well-formed to its end, shallow, and has plain entities only.
"""

from __future__ import annotations

from typing import BinaryIO
from xml.parsers import expat

from relcode.errors import DataError

DEEPEST = 1000  # elements within elements
LONGEST_ENTITY = 512  # bytes; in RDF/XML an entity stands for a namespace
LONGEST_TEXT = 16 << 20  # bytes without any tag
LONGEST_TAG = 1 << 20
CHUNK = 1 << 17


class XmlGuard:
    """A stream of XML that raises ``DataError`` where the document is none, or is made to do harm."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        """Look over what is read from ``stream``."""
        self._stream, self._source = stream, source
        self._depth = self._tags = self._silent = self._fed = 0
        self._ready, self._ended = b"", False
        parser = expat.ParserCreate()
        parser.ordered_attributes = True  # a list is made faster than a mapping, and nobody looks at it
        parser.XmlDeclHandler = self._declared
        parser.EntityDeclHandler = self._entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        self._parser = parser

    def read(self, size: int = -1) -> bytes:
        """Read, look over and hand on."""
        if not self._ready:
            self._ready = self._stream.read(CHUNK)
            self._look_over(self._ready)
        wanted = len(self._ready) if size < 0 else size
        data, self._ready = self._ready[:wanted], self._ready[wanted:]
        return data

    def _look_over(self, data: bytes) -> None:
        """Parse some more; nothing more, after the end, is parsed once."""
        tags = self._tags
        if data or not self._ended:
            try:
                self._parser.Parse(data, not data)
            except expat.ExpatError as error:
                reason = expat.ErrorString(error.code)
                raise DataError(f"{self._source}, line {error.lineno:,}: not well-formed XML ({reason}); is the file whole?") from None
        self._ended = not data
        self._fed += len(data)
        self._silent = self._silent + len(data) if tags == self._tags else 0
        if self._silent > LONGEST_TEXT:
            self._refuse(f"more than {LONGEST_TEXT:,} bytes without a tag")
        if self._silent and self._fed - self._parser.CurrentByteIndex > LONGEST_TAG:
            self._refuse(f"a tag longer than {LONGEST_TAG:,} bytes")

    def _refuse(self, reason: str) -> None:
        raise DataError(f"{self._source}, line {self._parser.CurrentLineNumber:,}: {reason}; such XML is not read")

    def _declared(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            self._refuse(f"the encoding {encoding!r} (save it as UTF-8)")

    def _entity(self, name: str, is_parameter: int, value: str | None, *where: str | None) -> None:
        if is_parameter or value is None or "&" in value or "<" in value or len(value) > LONGEST_ENTITY:
            self._refuse(f"the entity {name[:80]!r} is not a short plain text")

    def _start(self, name: str, attributes: list[str]) -> None:
        self._tags += 1
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(f"more than {DEEPEST:,} elements within one another")

    def _end(self, name: str) -> None:
        self._tags += 1
        self._depth -= 1
