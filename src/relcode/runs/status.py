"""The part of run.json that changes, and what it may say."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

State = Literal["running", "stopped", "complete"]
MOST_ROWS = 2**31 - 1  # numbers of entities, relations and facts are stored as int32


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """Where a run stands."""

    state: State
    reason: str = ""  # why it stopped, in words
    step: int = 0
    epoch: float = 0.0
    seconds: float = 0.0  # of training, over all its sittings
    checkpoint: str = ""
    checkpoint_sha256: str = ""
    previous: str = ""  # the checkpoint before it, which is kept too
    previous_sha256: str = ""
    best: dict[str, float] | None = None  # the validation whose parameters are in best.safetensors
    best_sha256: str = ""
    stale_validations: int = 0  # validations since MR or MRR last improved
    best_mr: float | None = None
    best_mrr: float | None = None


# What goes with a step, beside parameters and random stream; the rest of a status is about the sitting, or about files.
OF_A_STEP = ("epoch", "stale_validations", "best_mr", "best_mrr")


def of_step(status: RunStatus) -> dict[str, Any]:
    """Return the part of a status that a checkpoint carries, so that a run can go back to it."""
    return {name: value for name, value in asdict(status).items() if name in OF_A_STEP}


def checked_status(tree: Mapping[str, Any]) -> RunStatus:
    """Make a status; what no run writes is a ``ValueError``, above all a name that would lead out of the run's folder."""
    if not isinstance(tree, dict):
        raise ValueError("the status must be an object")
    status = RunStatus(**tree)
    if status.state not in get_args(State):
        raise ValueError(f"a run's state cannot be {status.state!r}: it is one of {', '.join(get_args(State))}")
    for name in (status.checkpoint, status.previous):
        if not isinstance(name, str) or not re.fullmatch(r"([0-9]{1,20}\.safetensors)?", name):
            raise ValueError(f"a checkpoint's name cannot be {str(name)[:80]!r}")
    if not all(isinstance(text, str) for text in (status.reason, status.checkpoint_sha256, status.previous_sha256, status.best_sha256)):
        raise ValueError("reason and checksums must be text")
    if status.best is not None and (not isinstance(status.best, dict) or "mrr" not in status.best):
        raise ValueError("the best validation must have an mrr")
    for value in (status.step, status.stale_validations):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
            raise ValueError("steps and validations must be counts")
    numbers = [status.epoch, status.seconds, *(status.best or {}).values()]
    numbers += [value for value in (status.best_mr, status.best_mrr) if value is not None]
    if not all(is_number(value) for value in numbers):
        raise ValueError("steps, seconds and validations must be numbers")
    return status


def is_number(value: object) -> bool:
    """Say whether a value is a finite number that a float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**1000 if isinstance(value, int) else math.isfinite(value)


def checked_about(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what run.json says about data and environment; a count that is none is a ``ValueError``."""
    about = {"data": tree["data"], "environment": tree["environment"]}
    if not all(isinstance(part, dict) for part in about.values()):
        raise ValueError("data and environment must be objects")
    for name in ("entities", "relations", "train", "valid", "test"):
        count = about["data"].get(name)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_ROWS:
            raise ValueError(f"data.{name} must be a count, not {str(count)[:40]!r}")
    prefixes = about["data"].get("prefixes", {})
    if not isinstance(prefixes, dict) or not all(isinstance(text, str) for text in prefixes.values()):
        raise ValueError("data.prefixes must be texts by name")
    return about
