"""Trainings of a moment that tests of runs and of the experiment share, and what of a run must not depend on when it was stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from relcode.config import Settings
from relcode.experiment import Event, Finished
from relcode.recipes import recipe
from relcode.runs.run import Run, open_run

CPU = torch.device("cpu")
SIZES = {"model.dim": 8, "model.code_dim": 2, "sampling.edges": 256, "sampling.tile": 8, "sampling.noise_draws": 8}
LENGTH = {"training.epochs": 6, "training.validations": 3, "training.patience": 0, "training.device": "cpu"}
STILL = {
    "updates__adagrad_rate": 1e-12,
    "updates__adagrad_matrix_rate": 1e-12,
    "updates__orthogonal_rate": 0.0,
    "coder__matrix_rate": 0.0,
}  # no rank ever changes


def short(name: str = "joint", **changes: Any) -> Settings:
    """Return a recipe, small and short; ``changes`` are options with __ for the dot."""
    return recipe(name).with_values({**SIZES, **LENGTH, **{key.replace("__", "."): value for key, value in changes.items()}})


def ended(events: Iterable[Event]) -> Run:
    """Go through all events and return the run at their end."""
    *_, last = events
    assert isinstance(last, Finished)
    return last.run


def logged(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def lasting(folder: Path) -> dict[str, Any]:
    """Return all of a finished run that must not depend on clock, folder or interruptions: its weights byte for byte, its status, its validations."""
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("run.json", "log.jsonl", ".lock") and path.parent.name != "checkpoints"
    ]
    status = asdict(open_run(folder).status)
    return {
        "files": {str(path.relative_to(folder)): path.read_bytes() for path in files},
        "checkpoint": (folder / "checkpoints" / status["checkpoint"]).read_bytes(),
        "status": {name: value for name, value in status.items() if name not in ("seconds", "previous", "previous_sha256")},
        "validations": [{**line, "seconds": 0} for line in logged(folder) if line["event"] == "validated"],
    }
