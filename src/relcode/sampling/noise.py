"""Noise: entities a path is weighed against."""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.ops.rows import cumulative, draw_rows


class NoiseSource:
    """Draws noise entities among those of the training facts, uniformly or by how often they are a tail; never filtered against the facts."""

    def __init__(self, directed_N3: Tensor, distribution: str, device: torch.device) -> None:
        """Learn the entities from the directed facts; ``distribution`` is uniform or unigram."""
        entity_X, count_X = directed_N3[:, 2].unique(return_counts=True)
        self.entity_X = entity_X.to(device)
        self.cumulative_X: Tensor | None = None
        if distribution == "unigram":
            self.cumulative_X = cumulative(count_X.to(device))

    def draw(self, rows: int, columns: int, generator: torch.Generator) -> Tensor:
        """Return ``rows`` × ``columns`` noise entities."""
        most, device = len(self.entity_X), self.entity_X.device
        if self.cumulative_X is None:
            return self.entity_X[torch.randint(most, (rows, columns), generator=generator, device=device)]
        return self.entity_X[draw_rows(self.cumulative_X, (rows, columns), generator)]
