"""The stream of walks: random walks of length 1 + Poisson(mean), whose every prefix is a training path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

import torch
from torch import Tensor

from relcode.graph.adjacency import Adjacency
from relcode.ops.rows import cumulative, draw_rows
from relcode.sampling.batches import Level, PathBatch
from relcode.sampling.facts import epoch_seed

MOST_PLANNED = 1 << 21  # path steps that are drawn at once


def walks_per_length(walks: int, mean: float, longest: int, together: int = 1) -> list[int]:
    """Return how many of ``walks`` walks take at least 1, 2, … steps when lengths follow 1 + Poisson(mean), cut at ``longest``.

    P(length > l) = 1 − Σ_{i<l} e^{−mean} meanⁱ/i!. The numbers are the expected ones, rounded: shapes are the same in every batch, and
    a batch has exactly the mixture of lengths that independent draws would have on average. Where rows of a level are to share noises, a multiple
    of ``together`` is taken, if there are as many.
    """
    at_least, tail, term = [walks], 1.0, math.exp(-mean)
    for length in range(1, longest):
        tail -= term
        term *= mean / length
        if (count := round(walks * tail)) < 1:
            break
        at_least.append(count)
    return [together * round(count / together) if count >= together else count for count in at_least]


def random_edges(adjacency: Adjacency, degree_E: Tensor, head: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one outgoing edge of each entity, uniformly; ``degree_E`` are the adjacency's, which cost a pass over all entities."""
    degree = degree_E[head]
    draw = torch.rand(head.shape, generator=generator, device=head.device, dtype=torch.float64)
    return adjacency.offset_E1[head] + (draw * degree).long().clamp_max(degree - 1)


class WalkStream:
    """Serves random walks over the directed edges: a head ∝ degree^power, then each step uniform over the edges that leave (backtracking allowed).

    Fresh walks are drawn for many steps at once, and those of a step are sorted by relation at each level, without padding. What is drawn depends on
    the seed and the step's number alone, so that a stopped run goes on exactly where it was.
    """

    def __init__(
        self,
        adjacency: Adjacency,
        num_directed: int,
        *,
        edges: int,
        mean: float,
        longest: int,
        power: float,
        seed: int,
        device: torch.device,
        together: int = 1,
    ) -> None:
        """Hold the edges on ``device``; a step takes about ``edges`` path steps, an epoch as many as there are directed edges."""
        self.adjacency = adjacency.to(device)
        self.num_directed, self.seed = num_directed, seed
        per_thousand = sum(walks_per_length(1000, mean, longest))
        self.at_least = walks_per_length(max(1, round(edges * 1000 / per_thousand)), mean, longest, together)
        self.steps_per_epoch = max(1, round(len(self.adjacency.tail_N) / sum(self.at_least)))
        self.planned_steps = min(self.steps_per_epoch, max(1, MOST_PLANNED // sum(self.at_least)))
        self.degree_E = self.adjacency.degree_E
        self.cumulative_E = cumulative(self.degree_E.double().pow(power) * (self.degree_E > 0))
        self._planned: tuple[int, tuple[Level, ...]] | None = None

    def batch(self, step: int, generator: torch.Generator) -> PathBatch:
        """Return the walks of the given step; all their randomness is in the plan."""
        plan, place = divmod(step, self.planned_steps)
        if self._planned is None or self._planned[0] != plan:
            self._planned = (plan, tuple(self._plan(plan)))
        return PathBatch(tuple(_rows(level, count, place) for level, count in zip(self._planned[1], self.at_least, strict=True)))

    def _plan(self, plan: int) -> Iterator[Level]:
        """Draw the walks of ``planned_steps`` steps (T of them), level by level; a step's rows follow each other."""
        device, steps = self.degree_E.device, self.planned_steps
        generator = torch.Generator(device).manual_seed(epoch_seed(self.seed, plan))
        here_TP = draw_rows(self.cumulative_E, (steps, self.at_least[0]), generator)
        row_TP = here_TP  # at level 1 a row comes from its entity, later from its row of the level before
        for length, count in enumerate(self.at_least, start=1):
            edge_TP = random_edges(self.adjacency, self.degree_E, here_TP[:, :count], generator)
            chosen_TP = (torch.rand(edge_TP.shape, generator=generator, device=device) * length < 1).float()
            relation_TP, order_TP = torch.sort(self.adjacency.relation_N[edge_TP], dim=1, stable=True)
            here_TP = self.adjacency.tail_N[edge_TP]
            rows = (relation_TP, *(part_TP.gather(1, order_TP) for part_TP in (row_TP[:, :count], here_TP, chosen_TP)))
            relation_T, source_TW, tail_TW, chosen_TW = (part_TP.flatten() for part_TP in rows)
            yield Level(relation_T, source_TW[:, None], tail_TW[:, None], torch.ones_like(chosen_TW)[:, None], chosen_TW[:, None])
            row_TP = torch.argsort(order_TP, dim=1)  # where each walk stands now


def _rows(level: Level, count: int, place: int) -> Level:
    """Return the rows of one step of a plan."""
    return Level(*(getattr(level, item.name)[place * count : (place + 1) * count] for item in fields(Level)))
