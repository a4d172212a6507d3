"""Writing so that a reader sees the old file or the new one, never half of either; reading that trusts nothing.

A run folder may come from anybody. Its files must be plain files in it (a link could lead anywhere, a pipe would never end), of a size that
fits what they are, and are JSON, safetensors and Parquet: nothing in them is ever run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from relcode.errors import CannotWrite, RunError

_flushing: dict[int, threading.Thread] = {}  # by process: a forked child has none of its parent's threads
MOST_JSON = 16 * 2**20  # bytes; run.json and settings.json have a few thousand
MOST_HEADER = 2**20  # bytes of a safetensors header; ours have under two thousand
PIECE = 4 * 2**20  # bytes written and summed up at a time
# What safetensors calls the types we write, in the order it writes them.
TYPES = {torch.int64: "I64", torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}


def write_atomically(path: Path, write: Callable[[Path], None], wait: bool = True) -> None:
    """Let ``write`` fill a file beside ``path``, flush it to disk and put it in place with one rename.

    Without ``wait`` it is put in place at once and flushed meanwhile (:func:`finish_flushing` waits). A process that is killed loses nothing by
    that; a power cut may, so only files of which an older one is kept, and whose checksum is known, are written this way.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(draft)
        if wait:
            _flush(draft)
        os.replace(draft, path)
        if wait:
            _sync_folder(path.parent)
        else:
            _flush_meanwhile(path)
    except OSError as error:
        raise CannotWrite(path, error, "choose another place") from None
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk there is nothing to clean up, and no way to
            draft.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def _flush_meanwhile(path: Path) -> None:
    """Flush a file and its name while training goes on; one file at a time, so that they cannot pile up."""

    def flush() -> None:
        with contextlib.suppress(OSError):  # it may be gone by then; an error of the disk shows in its checksum
            _flush(path)
            _sync_folder(path.parent)

    finish_flushing()
    _flushing[os.getpid()] = thread = threading.Thread(target=flush, name="relcode-flush", daemon=True)
    thread.start()


def finish_flushing() -> None:
    """Wait until all that this process wrote is on disk."""
    thread = _flushing.pop(os.getpid(), None)
    if thread is not None:
        thread.join()


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda draft: _write(draft, text))


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.write(text)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], wait: bool = True) -> str:
    """Write tensors atomically as safetensors and return the file's SHA-256; ``wait`` as in :func:`write_atomically`."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    digests: list[str] = []
    write_atomically(path, lambda draft: digests.append(save_file(plain, draft, metadata)), wait)
    return digests[0]


def save_file(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str]) -> str:
    """Write contiguous tensors of the CPU as safetensors, and return the SHA-256 of what was meant to be written.

    The bytes are those of safetensors' own writer (larger types first, then by name). That one copies every tensor and holds Python's lock meanwhile,
    so that training could not go on; here writing and summing up happen without it.
    """
    order = sorted(tensors, key=lambda name: (list(TYPES).index(tensors[name].dtype), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        header[name] = {"dtype": TYPES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as handle:
        for data in (memoryview(len(text).to_bytes(8, "little") + text), *(_bytes_of(tensors[name]) for name in order)):
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                handle.write(piece)
                digest.update(piece)
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor where they are."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")


def check_plain(path: Path, most: int | None = None) -> int:
    """Return the size of a file, which must be a plain one, no link, and no larger than ``most``; else raise :class:`RunError`."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise RunError(f"{path} is missing: {path.parent} is not a run folder or is incomplete") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be looked at ({error})") from None
    if not stat.S_ISREG(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "no plain file"
        raise RunError(f"{path} is {kind}: the files of a run must lie in its folder; copy the file there")
    if most is not None and found.st_size > most:
        raise RunError(f"{path} is damaged: it has {found.st_size:,} bytes, at most {most:,} are expected")
    return found.st_size


def read_tensors(path: Path, device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file whole; a damaged one is a :class:`RunError`.

    The tensors are copied to memory of torch's own. In the file's they begin wherever the one before ends, and sums over numbers that are aligned
    otherwise are rounded otherwise: a resumed training would differ from one that was never stopped.
    """
    size = check_plain(path)
    try:
        _check_header(path, size)
        with safe_open(path, framework="pt", device=str(device)) as handle:
            return {name: handle.get_tensor(name).clone() for name in handle.keys()}, handle.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        raise RunError(f"{path} is damaged and cannot be read ({_first_line(error)})") from None


def read_metadata(path: Path) -> dict[str, str]:
    """Read the texts in the header of a safetensors file, and none of its numbers."""
    size = check_plain(path)
    try:
        found = _check_header(path, size).get("__metadata__", {})
        return {str(key): str(value) for key, value in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise RunError(f"{path} is damaged and cannot be read ({_first_line(error)})") from None


def _check_header(path: Path, size: int) -> dict[str, Any]:
    """Return a safetensors header after checking, before anything is reserved for it, that its length can be true."""
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if length > min(size - 8, MOST_HEADER):
            raise ValueError(f"its header claims {length:,} bytes of a file of {size:,}")
        return parse_json(handle.read(length).decode("utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    return parse_file(path)[0]


def parse_file(path: Path) -> tuple[dict[str, Any], str]:
    """Read a JSON object, and the text it was read from."""
    check_plain(path, MOST_JSON)
    try:
        text = path.read_text(encoding="utf-8")
        return parse_json(text), text
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged and cannot be read ({_first_line(error)})") from None


def parse_json(text: str) -> dict[str, Any]:
    """Parse a JSON object strictly: a name twice, NaN, Infinity, or nesting without end is a ``ValueError``."""
    try:
        tree = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(tree, dict):
        raise ValueError("it must hold a JSON object")
    return tree


def _distinct(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of names and values; two values for a name may mean either, so neither is taken."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        if name in tree:
            raise ValueError(f"{name[:80]!r} is given twice")
        tree[name] = value
    return tree


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def _first_line(error: BaseException) -> str:
    """Return what an error says, in one line of bearable length."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
