"""All targets together: run folders and weight files, and the parsers of data."""

from __future__ import annotations

from soak.targets import Target, targets

# How much of the cases a target gets, where that is not 1: a run folder takes twenty times as long as a text.
SHARES: dict[str, float] = {"run folders": 0.5, "settings": 0.4, "authors' models": 0.5, "weight files": 2.0, "strict JSON": 2.0, "archives": 1.5}


def every_target() -> list[Target]:
    """Return all targets."""
    return targets()
