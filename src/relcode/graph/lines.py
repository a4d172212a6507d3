"""Reading a text file safely in blocks of whole lines: gzip or plain, bounded, with the line number of whatever is wrong."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from relcode.errors import DataError

BLOCK_BYTES = 16 << 20
LONGEST_LINE = 1 << 20  # bytes; a name of a megabyte is a damaged file
MOST_BYTES = 16 << 30  # unpacked; a gzip of a few megabytes can unpack to terabytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a file: bytes with plain newlines, and the number (from 1) of the first line."""

    first_line: int
    data: bytes

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Go through (line number, line without its newline)."""
        yield from enumerate(self.data.removesuffix(b"\n").split(b"\n"), start=self.first_line)


def is_gzip_name(path: Path) -> bool:
    """Tell whether a file is gzip'ed, by its name."""
    return path.name.lower().endswith(".gz")


def read_blocks(path: Path, most_bytes: int = MOST_BYTES, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Go through a file in blocks of whole lines, without blank lines at its end.

    A byte order mark at the beginning and carriage returns before newlines are dropped. ``DataError`` names the file, and the line where it can,
    for everything that is not text: NUL bytes, a gzip that ends early, a line over 1 MiB, more than ``most_bytes`` once unpacked.
    """
    with _opened(path) as stream:
        yield from split_blocks(stream, str(path), most_bytes, block_bytes)


def split_blocks(stream: BinaryIO, source: str, most_bytes: int = MOST_BYTES, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """As ``read_blocks``, from an open stream of bytes that messages call ``source``."""
    line, total, blank_line, rest = 1, 0, 0, b""
    while True:
        chunk = stream.read(block_bytes)
        if total == 0:
            _check_start(chunk, source)
        total += len(chunk)
        if total > most_bytes:
            raise DataError(f"{source}: more than {most_bytes:,} bytes of text once unpacked, which is the most that is read")
        data = rest + chunk
        cut = data.rfind(b"\n") + 1 if chunk else len(data)
        data, rest = data[:cut], data[cut:]
        if len(rest) > LONGEST_LINE:
            raise DataError(f"{source}, line {line + data.count(10)}: longer than {LONGEST_LINE:,} bytes; is this a file of text?")
        if line == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        if data:
            _check_bytes(data, line, source)
            text = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
            # Blank lines are forgiven only at the end of the file, so they are held back until something follows.
            kept = text.rstrip(b"\n")
            if kept and blank_line:
                raise DataError(f"{source}, line {blank_line}: blank, but more lines follow; blank lines may only end the file")
            if kept:
                yield Block(line, kept + b"\n")
                blank_line = 0
            first_blank = line + (kept.count(b"\n") + 1 if kept else 0)
            line += text.count(b"\n")
            if first_blank < line and not blank_line:
                blank_line = first_blank
        if not chunk:
            return


def _check_start(chunk: bytes, source: str) -> None:
    """Refuse, with advice, the two common files that are text in another wrapping."""
    if chunk.startswith(GZIP_MAGIC):
        raise DataError(f"{source}: gzip'ed inside, but its name does not say so; rename it to end in .gz")
    if chunk.startswith(UTF16_MARKS):
        raise DataError(f"{source}: not UTF-8 (it looks like UTF-16); save it as UTF-8")


def _check_bytes(data: bytes, line: int, source: str) -> None:
    """Refuse NUL bytes and lines that are too long."""
    nul = data.find(b"\0")
    if nul >= 0:
        raise DataError(f"{source}, line {line + data.count(10, 0, nul)}: a NUL byte; this is not a text file")
    if len(data) <= LONGEST_LINE:
        return
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    lengths = np.diff(ends, prepend=-1, append=len(data)) - 1
    worst = int(lengths.argmax())
    if lengths[worst] > LONGEST_LINE:
        raise DataError(f"{source}, line {line + worst}: longer than {LONGEST_LINE:,} bytes; is this a file of text?")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, unpacking it where its name ends in .gz; whatever goes wrong while it is read becomes a ``DataError``."""
    try:
        if path.is_dir():
            raise DataError(f"{path}: a folder, where a file of text was expected")
        with cast("BinaryIO", gzip.open(path, "rb")) if is_gzip_name(path) else path.open("rb") as stream:
            yield stream
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except EOFError:
        raise DataError(f"{path}: the gzip ends early; copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a sound gzip file ({error}); copy or download it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # a path with a NUL character in it
        raise DataError(f"{str(path)!r}: cannot be read ({error})") from None
