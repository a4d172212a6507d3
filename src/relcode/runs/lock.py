"""One process at a time writes a run.

The lock is the operating system's own, so it ends with the process that holds it, however that ends; the file ``.lock`` in the run's folder
only carries it, and says who it is. Within one process a folder may be claimed again: whoever stopped listening to a training there can go on.
"""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

from relcode.errors import OutputError, RunError

LOCK = ".lock"
_held: dict[tuple[int, Path], int] = {}  # (process, folder) → open file; a forked child has another number and holds nothing


def claim(folder: Path) -> bool:
    """Take the lock of a run folder for this process; False where it was this process's already, a :class:`RunError` where it is another's."""
    key = (os.getpid(), folder.resolve())
    if key in _held:
        return False
    path = folder / LOCK
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
        if not _try_lock(handle):
            owner = _owner(handle)
            os.close(handle)
            raise RunError(f"{folder} is being trained by another process{owner}: wait for it, or stop it and then resume")
        if _is_still(handle, path):
            break
        os.close(handle)  # whoever had it removed it in between: try the new one
    with contextlib.suppress(OSError):  # a full disk: the lock itself needs no space
        os.truncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {platform.node()}\n".encode())
    _held[key] = handle
    return True


def release(folder: Path) -> None:
    """Give the lock back, if this process has it."""
    handle = _held.pop((os.getpid(), folder.resolve()), None)
    if handle is None:
        return
    with contextlib.suppress(OSError):  # on Windows an open file cannot be removed; left behind, it does no harm
        (folder / LOCK).unlink(missing_ok=True)
    os.close(handle)


def _try_lock(handle: int) -> bool:
    """Lock an open file without waiting; True where that worked."""
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(handle, 2**30, os.SEEK_SET)  # far beyond the text, which others may read
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(handle: int, path: Path) -> bool:
    """Say whether the open file is the one that has the name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def _owner(handle: int) -> str:
    """Return who has the lock, as far as the file tells."""
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        text = os.read(handle, 200).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f" ({text})" if text.isprintable() and text else ""
