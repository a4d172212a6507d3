"""A model small enough to work by hand: four entities, two relations, vectors of two numbers, nothing normalised but the heads (which are unit here).

u: a (1, 0)   b (0, 1)   c (1, 0)        d never occurs in training
v: a (1, 2)   b (3, 4)   c (-1, 0)
M_r = [[1, 2], [0, 1]]   M_s = [[0, 1], [1, 0]]   M_^r = [[2, 0], [0, 1]]   M_^s = [[1, 0], [0, -1]]
"""

from __future__ import annotations

from pathlib import Path

import torch

from relcode.explore.model import Model
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.model.parameters import Parameters
from relcode.recipes import recipe
from relcode.runs.run import Run, RunStatus

HEAD = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.6, 0.8]]
TAIL = [[1.0, 2.0], [3.0, 4.0], [-1.0, 0.0], [9.0, 9.0]]
MATRIX = [[[1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]]]
FACTS = {"train": [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")], "valid": [("a", "r", "a")], "test": [("d", "s", "a")]}


def small_dataset(labels: dict[str, str] | None = None) -> Dataset:
    data = dataset_from_facts(FACTS, name="small")
    return Dataset(**{**vars(data), "labels": labels or {}})


def small_model(labels: dict[str, str] | None = None, **changes: object) -> Model:
    """Return the model; ``changes`` replace parameters."""
    data = small_dataset(labels)
    settings = recipe("base").with_values({"model.dim": 2, "model.normalise": False})
    counters = {"head_count_E": 4, "tail_count_E": 4, "matrix_count_S": 4}
    values: dict[str, object] = {"head_ED": torch.tensor(HEAD), "tail_ED": torch.tensor(TAIL), "matrix_SDD": torch.tensor(MATRIX)}
    values |= {name: torch.zeros(size, dtype=torch.float64) for name, size in counters.items()}
    parameters = Parameters(**{**values, **changes})  # type: ignore[arg-type]
    return Model(Run(Path("nowhere"), settings, RunStatus(state="complete"), {"data": {"name": "small"}}), data, parameters)
