"""Where a result was made: versions, machine and commit, kept beside every number."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy
import torch

from relcode import __version__


def environment(device: torch.device | str = "cpu") -> dict[str, str | int]:
    """Return what is needed to judge or repeat a measurement."""
    kind = torch.device(device).type
    return {
        "relcode": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if kind == "cuda" else "cpu",
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "commit": commit(),
        "command": " ".join([Path(sys.argv[0]).name, *(Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])]),
    }


def commit() -> str:
    """Return the commit relcode runs from: what $RELCODE_COMMIT says, else git's name for it (with ``+`` where files differ), else "unknown"."""
    root = Path(__file__).parents[3]
    if "RELCODE_COMMIT" in os.environ or not (root / ".git").exists():
        return os.environ.get("RELCODE_COMMIT", "unknown")
    try:
        found = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty=+"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


def _cpu_name() -> str:
    """Return the processor's name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
