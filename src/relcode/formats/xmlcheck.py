"""What is wrong with an XML document, found by Python's own parser as it comes in; also a program, which does so beside the process that reads it.

    xmlcheck.py < pieces > answers        each piece: its length as 4 bytes, then its bytes; an empty piece ends the document

Each piece is answered by ``GOOD``, or, where something is wrong, by ``BAD`` and what it is, and nothing more. This file imports nothing of ours, so
that the program starts at once.
"""

from __future__ import annotations

import sys
from xml.parsers import expat

DEEPEST = 1000  # elements within elements
LONGEST_ENTITY = 512  # bytes; in RDF/XML an entity stands for a namespace
LONGEST_TEXT = 16 << 20  # bytes without any tag
LONGEST_TAG = 1 << 20
GOOD, BAD = b"+", b"-"


class Refused(Exception):
    """An XML document that is none, or is made to do harm; the text says where and why."""


class XmlCheck:
    """Goes through a document piece by piece."""

    def __init__(self) -> None:
        """Begin before the first byte."""
        self._open = self._silent = self._fed = 0
        self._closed: list[str] = []  # since the last piece; appending to a list is the cheapest thing that the parser can call
        self._ended = False
        parser = expat.ParserCreate()
        parser.ordered_attributes = True  # a list is made faster than a mapping, and nobody looks at it
        parser.XmlDeclHandler = self._declared
        parser.EntityDeclHandler = self._entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._closed.append
        self._parser = parser

    def feed(self, data: bytes) -> None:
        """Look at some more; no more bytes, for the first time, is the end."""
        before = self._open
        if data or not self._ended:
            try:
                self._parser.Parse(data, not data)
            except expat.ExpatError as error:
                raise Refused(f"line {error.lineno:,}: not well-formed XML ({expat.ErrorString(error.code)}); is the file whole?") from None
        self._ended = not data
        self._fed += len(data)
        self._silent = self._silent + len(data) if before == self._open and not self._closed else 0
        self._open -= len(self._closed)
        self._closed.clear()
        if self._silent > LONGEST_TEXT:
            self._refuse(f"more than {LONGEST_TEXT:,} bytes without a tag")
        if self._silent and self._fed - self._parser.CurrentByteIndex > LONGEST_TAG:
            self._refuse(f"a tag longer than {LONGEST_TAG:,} bytes")

    def _refuse(self, reason: str) -> None:
        raise Refused(f"line {self._parser.CurrentLineNumber:,}: {reason}; such XML is not read")

    def _declared(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            self._refuse(f"the encoding {encoding!r} (save it as UTF-8)")

    def _entity(self, name: str, is_parameter: int, value: str | None, *where: str | None) -> None:
        if is_parameter or value is None or "&" in value or "<" in value or len(value) > LONGEST_ENTITY:
            self._refuse(f"the entity {name[:80]!r} is not a short plain text")

    def _start(self, name: str, attributes: list[str]) -> None:
        self._open += 1
        if self._open > DEEPEST + len(self._closed):
            self._refuse(f"more than {DEEPEST:,} elements within one another")


def main() -> None:
    """Answer for each piece that comes in, until one is bad or the document ends."""
    pieces, answers, check = sys.stdin.buffer, sys.stdout.buffer, XmlCheck()
    while length := pieces.read(4):
        data = pieces.read(int.from_bytes(length, "little"))
        try:
            check.feed(data)
        except Refused as refused:
            answers.write(BAD + str(refused).encode("utf-8", "backslashreplace"))
            return
        answers.write(GOOD)
        answers.flush()


if __name__ == "__main__":
    main()
