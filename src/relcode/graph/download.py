"""Fetching a known benchmark: from several mirrors, resumed after a cut, bounded, and never taken without its checksum.

What a server says of itself is not believed: not its length, not its redirects (http and https only, never from https to http), not its content.
A half-fetched file stays beside its place and is continued by the next try, of this process or of a later one.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from relcode.errors import CannotWrite, DataError, OutputError, UnknownName
from relcode.graph.cache import datasets_folder
from relcode.graph.known_datasets import KNOWN, KnownDataset, Split
from relcode.graph.split_names import SPLITS

BLOCK = 2**16
TRIES = 3  # in a row without a byte more
WAIT = 1.0  # seconds before the second try; longer before each further one
TIMEOUT = 30.0  # seconds without a byte
ARCHIVE_SLACK = 2**20  # bytes that an archive may have beside its facts
MOST_MEMBERS = 100
ELSEWHERE = "set RELCODE_CACHE to another folder"

Progress = Callable[[str, int, int], None]  # what is fetched, bytes so far, bytes in all (about)


class _Refused(Exception):
    """Why a mirror was given up, in a few words."""


def download(name: str, progress: Progress | None = None, known: dict[str, KnownDataset] | None = None) -> Path:
    """Fetch a known dataset into the cache, unless it is there already, and return its folder; every split is checked against its SHA-256."""
    catalogue = KNOWN if known is None else known
    if name not in catalogue:
        raise UnknownName("dataset", name, catalogue)
    entry, folder = catalogue[name], datasets_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; set RELCODE_CACHE to another") from None
    missing = [split for split in SPLITS if not is_sound(folder / f"{split}.txt", entry.split(split))]
    failures: list[str] = []
    for mirror in entry.mirrors:
        try:
            while missing:
                _write(folder / f"{missing[0]}.txt", _text(entry, missing[0], mirror, folder, progress or (lambda *_: None)))
                missing.pop(0)
        except _Refused as error:
            failures.append(f"{urlsplit(mirror).netloc or mirror}: {error}")
    if missing:
        by_hand = f"copy {', '.join(f'{split}.txt' for split in SPLITS)} to a folder {name} under $RELCODE_DATA"
        raise DataError(f"cannot download {name} ({'; '.join(dict.fromkeys(failures))}): try again, or, without a network, {by_hand}")
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)
    return folder


def is_sound(path: Path, split: Split) -> bool:
    """Say whether a cached file is the split it should be."""
    try:
        if path.is_symlink() or path.stat().st_size != split.size:
            return False
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest() == split.sha256
    except OSError:
        return False


def normalised(text: bytes) -> bytes:
    """Return a split's text without carriage returns and with a newline at its end, which is what checksums are of."""
    text = text.replace(b"\r", b"")
    return text if text.endswith(b"\n") else text + b"\n"


def _text(entry: KnownDataset, split: str, mirror: str, folder: Path, progress: Progress) -> bytes:
    """Return the checked text of a split from a mirror; a part that was continued and came out wrong is fetched once more from its beginning."""
    is_archive = mirror.endswith(".tar.gz")
    expected = entry.split(split)
    url = mirror.replace("{split}", split)
    part = folder / f".{'all' if is_archive else split}.{hashlib.sha256(url.encode()).hexdigest()[:12]}.part"
    most = entry.size + ARCHIVE_SLACK if is_archive else expected.size + expected.facts + 1  # a carriage return a line
    began_with = part.stat().st_size if part.exists() else 0
    for again in (True, False):
        _fetch(url, part, most, lambda done: progress(entry.name if is_archive else split, done, expected.size))
        text = normalised(_member(part, split, entry) if is_archive else part.read_bytes())
        if len(text) == expected.size and hashlib.sha256(text).hexdigest() == expected.sha256:
            return text
        part.unlink(missing_ok=True)
        if not began_with or not again:
            break
    raise _Refused(f"has another {split} than the one known ({len(text):,} bytes, {expected.size:,} expected)")


def _fetch(url: str, part: Path, most: int, progress: Callable[[int], None]) -> None:
    """Fetch an address into a file, going on where the file ends; several tries, as long as each brings something."""
    tries = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            if _fetch_once(url, part, before, most, progress):
                return
            reason = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and before:
                part.unlink(missing_ok=True)  # more than there is: not a beginning of it
                before = 0
            elif error.code < http.client.INTERNAL_SERVER_ERROR and error.code != http.client.TOO_MANY_REQUESTS:
                raise _Refused(f"HTTP {error.code} {' '.join(str(error.reason).split())}") from None
            reason = f"HTTP {error.code}"
        except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
        after = part.stat().st_size if part.exists() else 0
        tries = 1 if after > before else tries + 1
        if tries >= TRIES:
            raise _Refused(" ".join(reason.split()))
        time.sleep(WAIT * tries)


def _fetch_once(url: str, part: Path, have: int, most: int, progress: Callable[[int], None]) -> bool:
    """Ask once, for what is missing; False where the connection ended before all was there."""
    headers = {"User-Agent": "relcode", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with _opener(url).open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as response:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise _Refused("sends what was not asked for")
        goes_on = response.status == http.client.PARTIAL_CONTENT
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink(missing_ok=True)
            return False
        have = have if goes_on else 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        if total is not None and total > most:
            raise _Refused(f"claims {total:,} bytes, at most {most:,} are expected")
        return _store(response, part, have, total, most, progress)


def _store(response: Any, part: Path, have: int, total: int | None, most: int, progress: Callable[[int], None]) -> bool:
    """Write what comes; True where it was all."""
    try:
        handle = part.open("ab" if have else "wb")
    except OSError as error:
        raise CannotWrite(part, error, ELSEWHERE) from None
    with handle:
        while block := response.read(BLOCK):
            have += len(block)
            if have > most:
                handle.truncate(0)
                raise _Refused(f"sends more than the {most:,} bytes expected")
            try:
                handle.write(block)
            except OSError as error:
                raise CannotWrite(part, error, ELSEWHERE) from None
            progress(have)
    return total is None or have >= total


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https, and never from https to http."""

    def redirect_request(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> urllib.request.Request | None:
        """Refuse a redirect to anything else."""
        if urlsplit(newurl).scheme not in (("https",) if req.type == "https" else ("http", "https")):
            raise _Refused(f"redirects to {newurl[:80]}, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Return what opens web addresses and nothing else: no files, no FTP."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise _Refused("is no web address")
    opener = urllib.request.OpenerDirector()
    handlers = (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.HTTPDefaultErrorHandler)
    for handler in (*handlers, _Redirects, urllib.request.HTTPErrorProcessor):
        opener.add_handler(handler())
    return opener


@dataclass
class _Bounded:
    """A stream of which only so many bytes are read, however many it unpacks to."""

    inner: Any
    left: int

    def read(self, size: int = -1) -> bytes:
        """Read, and refuse to read beyond the limit."""
        block: bytes = self.inner.read(size if 0 <= size <= self.left else self.left + 1)
        self.left -= len(block)
        if self.left < 0:
            raise _Refused("its archive unpacks to more than its facts")
        return block


def _bounded(unpacked: Any, entry: KnownDataset) -> Any:
    return _Bounded(unpacked, 4 * (entry.size + ARCHIVE_SLACK))


def _member(path: Path, split: str, entry: KnownDataset) -> bytes:
    """Return the text of a split in a .tar.gz, whatever folder it lies in there; nothing is unpacked to disk."""
    most = entry.split(split).size + entry.split(split).facts + 1
    try:
        with gzip.open(path) as unpacked, tarfile.open(fileobj=_bounded(unpacked, entry), mode="r|") as archive:
            for member in _first(archive):
                if member.isreg() and PurePosixPath(member.name).name == f"{split}.txt" and member.size <= most:
                    handle = archive.extractfile(member)
                    return handle.read() if handle else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        path.unlink(missing_ok=True)
        raise _Refused(f"its archive cannot be read ({type(error).__name__})") from None
    path.unlink(missing_ok=True)
    raise _Refused(f"its archive has no {split}.txt")


def _first(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Go through the first members of an archive."""
    for number, member in enumerate(archive):
        if number >= MOST_MEMBERS:
            return
        yield member


def _write(path: Path, text: bytes) -> None:
    """Put a file in place whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(text)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise CannotWrite(path, error, ELSEWHERE) from None
