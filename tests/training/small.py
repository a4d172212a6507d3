"""Small trainings that tests of this folder share. Every number is set here, so that tuning a default changes no test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from relcode.config import Settings
from relcode.model.parameters import Parameters
from relcode.recipes import recipe

CPU = torch.device("cpu")
FIXED: Mapping[str, Any] = {
    "model.dim": 8,
    "model.code_dim": 3,
    "model.normalise": True,
    "model.initial": "identity",
    "sampling.edges": 48,
    "sampling.tile": 8,
    "sampling.max_path": 4,
    "sampling.head_power": 1.0,
    "sampling.noises": 3,
    "sampling.noise_draws": 6,
    "sampling.noise_sharing": "tile",
    "sampling.noise_rows": None,
    "sampling.noise": "uniform",
    "updates.rule": "counted",
    "updates.vector_rate": 2.0**-2,
    "updates.vector_decay": 2.0**-10,
    "updates.matrix_rate": 2.0**-3,
    "updates.matrix_decay": 2.0**-12,
    "updates.vector_damping": 0.5,
    "updates.matrix_damping": 0.125,
    "updates.factor_limit": 8.0,
    "updates.saturation": 6.0,
    "updates.orthogonal_rate": 2.0**-4,
    "updates.orthogonal_every": 24.0,
    "updates.path_matrices": "one",
    "updates.anneal": True,
    "coder.rate": 0.25,
    "coder.decay": 2.0**-12,
    "coder.matrix_rate": 2.0**-6,
    "coder.matrix_decay": 2.0**-20,
    "coder.every": 24.0,
    "coder.batch": 4,
    "coder.noises": 3,
    "coder.smooth_relu": True,
    "coder.scale": 1.0,
    "training.seed": 0,
}


def small(name: str, **changes: Any) -> Settings:
    """Return a recipe with every number fixed; ``changes`` are options with __ for the dot."""
    return recipe(name).with_values({**FIXED, **{key.replace("__", "."): value for key, value in changes.items()}})


def snapshot(parameters: Parameters) -> dict[str, torch.Tensor]:
    """Return copies of all tensors."""
    return {name: value.clone() for name, value in parameters.tensors().items()}


def same(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> bool:
    """Say whether all tensors are equal, bit for bit."""
    return set(left) == set(right) and all(torch.equal(value, right[name]) for name, value in left.items())
