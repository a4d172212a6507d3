"""What one request may ask for, and how much work may wait: the bounds that keep one visitor from taking the whole machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from relcode.errors import PathSyntaxError
from relcode.explore.model import Model

NAME_LETTERS = 1_000
PATH_LETTERS = 4_000
SEARCH_LETTERS = 200
PATH_STEPS = 8
MOST_ANSWERS = 200
MOST_REASONS = 20
MOST_FOUND = 1_000
MOST_LABELS = 200


@dataclass(frozen=True, kw_only=True)
class LaneSize:
    """How many requests a lane works on at a time, and how many more may wait."""

    workers: int
    waiting: int


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lane_sizes() -> dict[str, LaneSize]:
    """Return the lanes: predictions, other answers in milliseconds, reasons and suggestions in seconds, what is computed once and kept, and maps.

    Each has threads of its own, so that whoever asks for a map never makes a prediction, or the codes, wait for it. Predictions that wait are
    answered together, so half as many threads as processors answer them: the rest is for the clients' connections and for the other lanes.
    """
    return {
        "predict": LaneSize(workers=max(1, min(cores() // 2, 8)), waiting=64),
        "quick": LaneSize(workers=max(2, min(cores(), 8)), waiting=64),
        "slow": LaneSize(workers=2, waiting=16),
        "long": LaneSize(workers=1, waiting=8),
        "map": LaneSize(workers=1, waiting=8),
    }


def check_steps(model: Model, path: str) -> None:
    """Refuse a path of more steps than are answered in one request."""
    steps = len(model.names.path(path))
    if steps > PATH_STEPS:
        raise PathSyntaxError(f"the path has {steps} steps: at most {PATH_STEPS} are answered here")
