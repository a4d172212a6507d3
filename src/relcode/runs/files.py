"""Writing so that a reader sees the old file or the new one, never half of either; reading that trusts nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from relcode.errors import OutputError, RunError


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a file beside ``path``, flush it to disk and put it in place with one rename."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(draft)
        with draft.open("rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; free space there or choose another place") from None
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk there is nothing to clean up, and no way to
            draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda draft: _write(draft, text))


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.write(text)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Write tensors atomically as safetensors and return the file's SHA-256."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    def write(draft: Path) -> None:
        try:
            save_file(plain, draft, metadata=dict(metadata))
        except SafetensorError as error:  # safetensors reports a full disk in its own words
            raise OSError(str(error)) from None

    write_atomically(path, write)
    return file_digest(path)


def read_tensors(path: Path, device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file whole; a damaged one is a :class:`RunError`.

    The tensors are copied to memory of torch's own. In the file's they begin wherever the one before ends, and sums over numbers that are aligned
    otherwise are rounded otherwise: a resumed training would differ from one that was never stopped.
    """
    try:
        with safe_open(path, framework="pt", device=str(device)) as handle:
            return {name: handle.get_tensor(name).clone() for name in handle.keys()}, handle.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise RunError(f"{path} is missing: the run is incomplete") from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise RunError(f"{path} is damaged and cannot be read ({str(error).splitlines()[0]})") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path} is missing: {path.parent} is not a run folder or is incomplete") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged and cannot be read ({error})") from None
    if not isinstance(tree, dict):
        raise RunError(f"{path} is damaged: it must hold a JSON object")
    return tree


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
