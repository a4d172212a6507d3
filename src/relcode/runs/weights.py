"""Weights read from a run: the right tensors, of the right shapes and types, finite, and those whose checksum run.json has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relcode.config import Settings
from relcode.errors import RunError
from relcode.model.parameters import Parameters, tensor_names
from relcode.runs.files import check_plain, file_digest, parse_json, read_metadata
from relcode.runs.status import OF_A_STEP, RunStatus, checked_status

TYPES = (torch.float32, torch.float64)


def parameters_of(tensors: Mapping[str, Tensor], settings: Settings, data: Mapping[str, Any]) -> Parameters:
    """Make the record of parameters; tensors that no run of these settings and data has are a ``ValueError``.

    The shape of each is told by the letters its name ends in (E entities, S directed relations, D, C, Q = D·D; none: a single number).
    Where matrices have blocks of b×b, the last D of theirs is b, and Q = D·b.
    """
    dim = settings.model.size
    sizes = {"E": int(data["entities"]), "S": 2 * int(data["relations"]), "D": dim, "C": settings.model.code_dim, "Q": dim * settings.model.width}
    needed, of_training = tensor_names(settings)
    if of_training & set(tensors):  # a checkpoint has all of them, weights alone have none
        needed |= of_training
    for name in sorted({*needed, *tensors}):
        letters = name.rpartition("_")[2]
        shape = tuple(sizes[letter] for letter in letters) if letters.isupper() and set(letters) <= set(sizes) else ()
        if letters == "SDD":
            shape = (*shape[:2], settings.model.width)
        expected = shape if name in needed else "none"
        found = tuple(tensors[name].shape) if name in tensors else "none"
        if found != expected:
            raise ValueError(f"{name[:80]} has shape {found}, the run says {expected}")
        if tensors[name].dtype not in TYPES:
            raise ValueError(f"{name} has type {tensors[name].dtype}, a run has {TYPES[0]} or {TYPES[1]}")
        if not bool(tensors[name].isfinite().all()):
            raise ValueError(f"{name} holds numbers that are not finite")
    return Parameters(**tensors)


def verify(path: Path, digest: str, hint: str = "") -> None:
    """Refuse a file that is missing, a link, or not the one whose checksum run.json has."""
    if not os.path.lexists(path):
        raise RunError(f"{path} is missing: the run is incomplete")
    check_plain(path)
    try:
        found = file_digest(path)
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from None
    if found != digest:
        raise RunError(f"{path} is damaged: its checksum is not the one in run.json{hint}")


def step_of(metadata: Mapping[str, str]) -> int:
    """Return the step a checkpoint's header names: in its status, or, as relcode 0.1.0 wrote it, alone."""
    return int(parse_json(metadata["status"])["step"]) if "status" in metadata else int(metadata["step"])


def gone_back(folder: Path, status: RunStatus) -> RunStatus:
    """Return the status of the checkpoint before, where the one in force of an unfinished run is not there and that one is.

    The best parameters stay as they are: training comes by them again, and they are not better than themselves.
    """
    older = folder / status.previous
    if status.state == "complete" or not status.previous or os.path.lexists(folder / status.checkpoint) or not older.is_file():
        return status
    try:
        carried = parse_json(read_metadata(older)["status"])
        if set(carried) != {"step", *OF_A_STEP}:
            raise ValueError("it carries no status")
        files = {"checkpoint": status.previous, "checkpoint_sha256": status.previous_sha256, "previous": "", "previous_sha256": ""}
        ended = {"state": "stopped", "reason": "its last checkpoint is gone"}
        return checked_status({**asdict(status), **carried, **files, **ended})
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{older} is not a checkpoint of this run ({' '.join(str(error).split())[:200]})") from None
