"""Opening a file of text that may be packed (gzip, zstd), with a bound on what comes out of it."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from relcode.errors import DataError

MOST_BYTES = 16 << 30  # unpacked; a gzip of a few megabytes can unpack to terabytes
MOST_RATIO = 250  # unpacked to packed; dumps of facts reach 20 to 50, a bomb of zeros 1,000 and more
RATIO_FROM = 64 << 20  # below this many unpacked bytes the ratio does not matter
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
JSON_ENDINGS = tuple(f".{ending}{packing}" for ending in ("json", "jsonl", "ndjson", "jsonld") for packing in ("", ".gz", ".zst"))
JSON_START = re.compile(rb'\s*(?:\{\s*(?:"[^"\n]*"\s*:|\})|\[\s*(?:[\[{]|"[^"\n]*"\s*,))')  # an object with a name in it, or a list of something
PACKED = {".gz": "gzip", ".zst": "zstd"}


def packing_of(path: Path) -> str:
    """Tell how a file is packed, by its name: "gzip", "zstd" or nothing."""
    return PACKED.get(path.suffix.lower(), "")


class Bounded(io.RawIOBase):
    """A stream of bytes that refuses to give more than it may: in all, and as a multiple of the packed size."""

    def __init__(self, stream: BinaryIO, source: str, most_bytes: int = MOST_BYTES, packed_bytes: int | None = None) -> None:
        """Read from ``stream``; ``packed_bytes`` is the size of the packed file, None where it is not packed."""
        self._stream, self._source, self._most = stream, source, most_bytes
        self._total = 0
        self._by_ratio = None if packed_bytes is None else max(MOST_RATIO * packed_bytes, RATIO_FROM)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes (a megabyte where no size is given); empty at the end."""
        data = self._stream.read(size if size >= 0 else 1 << 20)
        self._total += len(data)
        if self._total > self._most:
            raise DataError(f"{self._source}: more than {self._most:,} bytes of text once unpacked, which is the most that is read")
        if self._by_ratio is not None and self._total > self._by_ratio:
            raise DataError(f"{self._source}: unpacks to more than {MOST_RATIO} times its size; this is not a file of facts")
        return data

    def readinto(self, buffer: object) -> int:
        """Fill a buffer, as readers that wrap this stream ask for."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


@contextmanager
def opened(path: Path, most_bytes: int = MOST_BYTES) -> Iterator[BinaryIO]:
    """Open a file, unpacked where its name ends in .gz or .zst; whatever goes wrong while it is read becomes a ``DataError``."""
    packing = packing_of(path)
    try:
        if path.is_dir():
            raise DataError(f"{path}: a folder, where a file was expected")
        with _stream(path, packing) as stream:
            packed_bytes = os.stat(path).st_size if packing else None
            yield cast("BinaryIO", Bounded(stream, str(path), most_bytes, packed_bytes))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except EOFError:
        raise DataError(f"{path}: the gzip ends early; copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a sound gzip file ({error}); copy or download it again") from None
    except OSError as error:
        if packing == "zstd" and error.errno is None:
            raise DataError(f"{path}: not a sound zstd file, or it ends early ({error}); copy or download it again") from None
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # a path with a NUL character in it
        raise DataError(f"{str(path)!r}: cannot be read ({error})") from None


def _stream(path: Path, packing: str) -> BinaryIO:
    """Open the file, with the unpacker it needs."""
    if packing == "gzip":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if packing == "zstd":
        return cast("BinaryIO", pa.CompressedInputStream(pa.OSFile(os.fspath(path)), "zstd"))
    return path.open("rb")


def refuse_wrapped(chunk: bytes, source: str) -> None:
    """Refuse, with advice, the common files that are text in another wrapping; ``chunk`` is the beginning of one."""
    if chunk.startswith(GZIP_MAGIC):
        raise DataError(f"{source}: gzip'ed inside, but its name does not say so; rename it to end in .gz")
    if chunk.startswith(ZSTD_MAGIC):
        raise DataError(f"{source}: packed by zstd inside, but its name does not say so; rename it to end in .zst")
    if chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{source}: not UTF-8 (it looks like UTF-16); save it as UTF-8")
    if JSON_START.match(chunk) and chunk.partition(b"\n")[0].count(b"\t") < 2:
        raise json_refused(source)


def json_refused(source: object) -> DataError:
    """Say that JSON is not read, and what is."""
    return DataError(f"{source}: JSON is not read; write its facts as a table (TSV, CSV, Parquet or Arrow) of head, relation and tail, or as RDF")
