"""Where downloaded datasets are kept: ``$RELCODE_CACHE``, or relcode's folder in the platform's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from relcode.errors import DataError

CACHE_VARIABLE = "RELCODE_CACHE"


def cache_folder() -> Path:
    """Return the folder of cached files, which need not exist.

    Linux and other Unixes: ``$XDG_CACHE_HOME/relcode``, else ``~/.cache/relcode``; macOS: ``~/Library/Caches/relcode``; Windows: ``%LOCALAPPDATA%``.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        if chosen:
            return Path(chosen).expanduser()
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA")
            return (Path(local) if local else Path.home() / "AppData" / "Local") / "relcode" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "relcode"
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "relcode"
    except RuntimeError:  # a user without a home
        raise DataError(f"there is no home folder to keep datasets in: set {CACHE_VARIABLE} to a folder") from None


def datasets_folder() -> Path:
    """Return the folder of downloaded datasets, one folder each."""
    return cache_folder() / "datasets"
