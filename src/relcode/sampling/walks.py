"""The stream of walks: random walks of length 1 + Poisson(mean), whose every prefix is a training path."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relcode.graph.adjacency import Adjacency
from relcode.ops.rows import cumulative, draw_rows
from relcode.sampling.batches import Level, PathBatch, group_by_relation, take_rows


def walks_per_length(walks: int, mean: float, longest: int) -> list[int]:
    """Return how many of ``walks`` walks take at least 1, 2, … steps when lengths follow 1 + Poisson(mean), cut at ``longest``.

    P(length > l) = 1 − Σ_{i<l} e^{−mean} meanⁱ/i!. The numbers are the expected ones, rounded: shapes are the same in every batch, and
    a batch has exactly the mixture of lengths that independent draws would have on average.
    """
    at_least, tail, term = [walks], 1.0, math.exp(-mean)
    for length in range(1, longest):
        tail -= term
        term *= mean / length
        if (count := round(walks * tail)) < 1:
            break
        at_least.append(count)
    return at_least


def random_edges(adjacency: Adjacency, head_P: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one outgoing edge of each entity, uniformly."""
    degree_P = adjacency.degree_E[head_P]
    draw_P = torch.rand(len(head_P), generator=generator, device=head_P.device, dtype=torch.float64)
    return adjacency.offset_E1[head_P] + (draw_P * degree_P).long().clamp_max(degree_P - 1)


class WalkStream:
    """Serves random walks over the directed edges: a head ∝ degree^power, then each step uniform over the edges that leave (backtracking allowed)."""

    def __init__(
        self, adjacency: Adjacency, num_directed: int, *, edges: int, tile: int, mean: float, longest: int, power: float, device: torch.device
    ) -> None:
        """Hold the edges on ``device``; a step takes about ``edges`` path steps, an epoch as many as there are directed edges."""
        self.adjacency = adjacency.to(device)
        self.num_directed = num_directed
        self.tile = tile
        per_thousand = sum(walks_per_length(1000, mean, longest))
        self.at_least = walks_per_length(max(1, round(edges * 1000 / per_thousand)), mean, longest)
        self.steps_per_epoch = max(1, round(len(self.adjacency.tail_N) / sum(self.at_least)))
        self.cumulative_E = cumulative(self.adjacency.degree_E.double().pow(power) * (self.adjacency.degree_E > 0))

    def batch(self, step: int, generator: torch.Generator) -> PathBatch:
        """Draw fresh walks; ``step`` plays no part."""
        here_P = draw_rows(self.cumulative_E, (self.at_least[0],), generator)
        row_P = here_P  # at level 1 a row comes from its entity, later from its row of the level before
        levels: list[Level] = []
        for length, count in enumerate(self.at_least, start=1):
            edge_P = random_edges(self.adjacency, here_P[:count], generator)
            relation_T, source_TW = group_by_relation(self.adjacency.relation_N[edge_P], self.num_directed, self.tile)
            tail_P = self.adjacency.tail_N[edge_P]
            chosen_P = (torch.rand(count, generator=generator, device=edge_P.device) * length < 1).float()
            weight_TW = (source_TW < count).float()
            levels.append(
                Level(relation_T, take_rows(row_P[:count], source_TW), take_rows(tail_P, source_TW), weight_TW, take_rows(chosen_P, source_TW))
            )
            here_P = tail_P
            row_P = self._places(source_TW, count)
        return PathBatch(tuple(levels))

    @staticmethod
    def _places(source_TW: Tensor, count: int) -> Tensor:
        """Return where each of ``count`` rows stands in the tiling (the inverse of ``source_TW``)."""
        place_P = torch.empty(count + 1, dtype=torch.long, device=source_TW.device)
        place_P[source_TW.view(-1)] = torch.arange(source_TW.numel(), device=source_TW.device)
        return place_P[:count]
