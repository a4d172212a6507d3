"""The stream of walks: random walks of length 1 + Poisson(mean), whose every prefix is a training path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields

import torch
from torch import Tensor

from relcode.graph.adjacency import Adjacency
from relcode.ops.rows import cumulative, draw_rows
from relcode.sampling.batches import Level, PathBatch
from relcode.sampling.chains import Rows, with_chains
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
        head_walks: int = 1,
        relation_noise: bool = False,
        together: int = 1,
    ) -> None:
        """Hold the edges on ``device``; a step takes about ``edges`` path steps, an epoch as many as there are directed edges."""
        self.adjacency = adjacency.to(device)
        self.num_directed, self.seed = num_directed, seed
        self.head_walks, self.relation_noise, self.together = head_walks, relation_noise, together
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
        return PathBatch(tuple(_rows(level, place, self.planned_steps) for level in self._planned[1]))

    def _plan(self, plan: int) -> Iterator[Level]:
        """Draw the walks of ``planned_steps`` steps (T of them), level by level; a step's rows follow each other."""
        device, steps = self.degree_E.device, self.planned_steps
        generator = torch.Generator(device).manual_seed(epoch_seed(self.seed, plan))
        heads = -(-self.at_least[0] // self.head_walks)
        # Walks of one head do not follow each other: the first ones are the long ones, and every head is to have some.
        here_TP = draw_rows(self.cumulative_E, (steps, heads), generator).repeat(1, self.head_walks)[:, : self.at_least[0]]
        row_TP = here_TP  # at level 1 a row comes from its entity, later from its row of the level before
        drawn: Iterable[Rows] = self._draw(here_TP, generator)
        if self.relation_noise:
            drawn = with_chains([*drawn], self.num_directed, self.together, generator)
        for rows in drawn:
            relation_TP, order_TP = torch.sort(rows.relation_TP, dim=1, stable=True)
            parts = (row_TP.gather(1, rows.place_TP), rows.tail_TP, rows.weight_TP, rows.chosen_TP, rows.noise_TP)
            yield Level(relation_TP.flatten(), *(part_TP.gather(1, order_TP).flatten()[:, None] for part_TP in parts))
            row_TP = torch.argsort(order_TP, dim=1)  # where each walk stands now

    def _draw(self, here_TP: Tensor, generator: torch.Generator) -> Iterator[Rows]:
        """Draw the steps of walks from the entities given, level by level; of those that follow each other, the first ones go on."""
        for length, count in enumerate(self.at_least, start=1):
            edge_TP = random_edges(self.adjacency, self.degree_E, here_TP[:, :count], generator)
            chosen_TP = (torch.rand(edge_TP.shape, generator=generator, device=edge_TP.device) * length < 1).float()
            place_TP = torch.arange(count, device=edge_TP.device).expand_as(edge_TP)
            here_TP, one_TP = self.adjacency.tail_N[edge_TP], torch.ones_like(chosen_TP)
            yield Rows(self.adjacency.relation_N[edge_TP], place_TP, here_TP, one_TP, chosen_TP, one_TP)


def _rows(level: Level, place: int, steps: int) -> Level:
    """Return the rows of one step of a plan of so many."""
    count = len(level.relation_T) // steps
    return Level(*(getattr(level, item.name)[place * count : (place + 1) * count] for item in fields(Level)))
