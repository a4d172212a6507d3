"""The state of training: one record, which is also what a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from relcode.model.parameters import Parameters


@dataclass(frozen=True)
class TrainState:
    """Parameters with their counters, how many steps were taken, and the random stream of what comes next."""

    parameters: Parameters
    step: int
    generator: torch.Generator


@dataclass(frozen=True, slots=True)
class StepStats:
    """Sums over steps, gathered on the device and read once."""

    steps: int
    edges: float
    loss: float  # mean of −L1 over training paths
    coder_loss: float | None  # mean of −L2 over autoencoder updates
    finite: bool
