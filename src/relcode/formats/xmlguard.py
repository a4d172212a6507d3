"""RDF/XML is looked over by Python's own XML parser before pyoxigraph sees it.

pyoxigraph (0.5) takes a document that was cut off for a complete one, expands entities made of entities to whatever they come to, and needs time
that grows with the square of the depth of nesting. What is passed on here is well-formed to its end, shallow, and has plain entities only. Of a long
document that takes a fourth of the time, and is left to a second process: threads would take turns at it, since both parsers hold Python's lock.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import deque
from typing import BinaryIO

from relcode.errors import DataError
from relcode.formats import xmlcheck
from relcode.formats.xmlcheck import BAD, GOOD, Refused, XmlCheck

CHUNK = 1 << 17
LONG = 4 << 20  # bytes of a document that is worth a process
AHEAD = 8  # pieces that may be on their way to the other process
PIPE_BYTES = 1 << 20


class XmlGuard:
    """A stream of XML that raises ``DataError`` where the document is none, or is made to do harm."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        """Look over what is read from ``stream``."""
        self._stream, self._source = stream, source
        self._waiting: deque[bytes] = deque()  # read, and not yet looked over
        self._checker: _Here | _Elsewhere | None = None
        self._ready, self._place, self._ended = b"", 0, False

    def read(self, size: int = -1) -> bytes:
        """Read, look over and hand on."""
        if self._place >= len(self._ready):
            self._ready, self._place = self._next(), 0
        data = self._ready[self._place :] if size < 0 else self._ready[self._place : self._place + size]
        self._place += len(data)
        return data

    def close(self) -> None:
        """End the other process, where there is one."""
        if self._checker is not None:
            self._checker.close()

    def _next(self) -> bytes:
        """Return the next piece that is good; none after the end."""
        checker = self._checker = self._checker or self._begin()
        while len(self._waiting) < checker.ahead and not self._ended:
            checker.send(self._read_piece())
        if not self._waiting:
            return b""
        data = self._waiting.popleft()
        try:
            checker.answer(data)
        except Refused as refused:
            raise DataError(f"{self._source}, {refused}") from None
        return data

    def _read_piece(self) -> bytes:
        data = self._stream.read(CHUNK)
        self._ended = not data
        self._waiting.append(data)
        return data

    def _begin(self) -> _Here | _Elsewhere:
        """Choose who looks: another process where the document is long and one can be started."""
        length = 0
        while length < LONG and not self._ended:
            length += len(self._read_piece())
        if not self._ended and sys.executable and not getattr(sys, "frozen", False):
            with contextlib.suppress(OSError):
                checker = _Elsewhere()
                for data in self._waiting:
                    checker.send(data)
                return checker
        return _Here()


class _Here:
    """Looks over a document in this process."""

    ahead = 1

    def __init__(self) -> None:
        self._check = XmlCheck()

    def send(self, data: bytes) -> None:
        """Nothing is sent anywhere."""

    def answer(self, data: bytes) -> None:
        """Look at a piece; a bad one is ``Refused``."""
        self._check.feed(data)

    def close(self) -> None:
        """Nothing is open."""


class _Elsewhere:
    """Has another process look over a document while this one goes on with the pieces before."""

    ahead = AHEAD

    def __init__(self) -> None:
        command = [sys.executable, "-I", xmlcheck.__file__]  # -I: nothing around it decides what is imported
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=PIPE_BYTES if sys.platform == "linux" else -1
        )
        assert self._child.stdin is not None and self._child.stdout is not None
        self._pieces, self._answers = self._child.stdin, self._child.stdout

    def send(self, data: bytes) -> None:
        """Send a piece; where the other process has ended, its last answer says why."""
        with contextlib.suppress(OSError):  # a broken pipe; Windows calls it otherwise
            self._pieces.write(len(data).to_bytes(4, "little"))
            self._pieces.write(data)
            self._pieces.flush()

    def answer(self, data: bytes) -> None:
        """Wait for the answer to the oldest piece sent; a bad one is ``Refused``."""
        answer = self._answers.read(1)
        if answer == BAD:
            raise Refused(self._answers.read().decode("utf-8"))
        if answer != GOOD:
            raise Refused("a part of it: the process that looks over its XML was ended; try again")

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        for pipe in (self._pieces, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
        self._child.wait()
