"""The door to the kernels, which need Triton: a CUDA build of torch for Linux brings it, others do not."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from types import ModuleType

from relcode.errors import DeviceError


def kernels() -> ModuleType:
    """Return the module of kernels, or say in one line what is missing."""
    try:
        from relcode.ops import kernels as module
    except ModuleNotFoundError as error:
        raise DeviceError(
            f"on CUDA the paper's recipes need Triton, which is not installed ({error}): install it, or use --device cpu or --recipe default"
        ) from None
    return module


@functools.cache
def has_kernels() -> bool:
    """Say whether there can be kernels, where something else would do: Triton is there, and the C compiler that it calls (found as it does)."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return importlib.util.find_spec("triton") is not None and compiler is not None
