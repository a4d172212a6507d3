"""The stream of walks: random walks of length 1 + Poisson(mean), whose every prefix is a training path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

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
        head_walks: int = 1,
        relation_noise: bool = False,
        together: int = 1,
    ) -> None:
        """Hold the edges on ``device``; a step takes about ``edges`` path steps, an epoch as many as there are directed edges."""
        self.adjacency = adjacency.to(device)
        self.num_directed, self.seed, self.head_walks, self.relation_noise = num_directed, seed, head_walks, relation_noise
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
        # Walks with one head do not follow each other: of those that follow, the first ones are the long ones.
        here_TP = draw_rows(self.cumulative_E, (steps, heads), generator).repeat(1, self.head_walks)[:, : self.at_least[0]]
        row_TP = here_TP  # at level 1 a row comes from its entity, later from its row of the level before
        drawn: list[_Rows] = []
        for length, count in enumerate(self.at_least, start=1):
            edge_TP = random_edges(self.adjacency, self.degree_E, here_TP[:, :count], generator)
            chosen_TP = (torch.rand(edge_TP.shape, generator=generator, device=device) * length < 1).float()
            here_TP = self.adjacency.tail_N[edge_TP]
            drawn.append(_Rows(self.adjacency.relation_N[edge_TP], here_TP, torch.ones_like(chosen_TP), chosen_TP, torch.ones_like(chosen_TP)))
        chains = _Chains(drawn, self.num_directed, generator) if self.relation_noise else None
        for length, rows in enumerate(drawn):
            count = rows.relation_TP.shape[1]
            source_TP = row_TP[:, :count]
            if chains is not None and length:
                rows, source_TP = chains.behind(length, rows, row_TP)
            relation_TP, order_TP = torch.sort(rows.relation_TP, dim=1, stable=True)
            parts = (source_TP, rows.tail_TP, rows.weight_TP, rows.chosen_TP, rows.noise_TP)
            source_TP, tail_TP, weight_TP, chosen_TP, noise_TP = (part_TP.gather(1, order_TP).flatten()[:, None] for part_TP in parts)
            yield Level(relation_TP.flatten(), source_TP, tail_TP, weight_TP, chosen_TP, noise_TP)
            row_TP = torch.argsort(order_TP, dim=1)  # where each walk stands now


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a level in the order of their walks, T steps of P rows."""

    relation_TP: Tensor
    tail_TP: Tensor
    weight_TP: Tensor
    chosen_TP: Tensor
    noise_TP: Tensor


class _Chains:
    """Noise on relations: a path that updates its matrix i is weighed against noises by u M_1 … M_i M* … M*, random matrices in place of later ones.

    Such a chain leaves its walk behind matrix i. For every prefix of length l there is a place for one at each level up to l; where it has not left
    yet, and where i = l, the place is empty, so that shapes do not depend on what was drawn. It has no fact of its own and chooses no matrix, so that
    its gradients wait for matrix i.
    """

    def __init__(self, drawn: list[_Rows], num_directed: int, generator: torch.Generator) -> None:
        """Learn which matrix each prefix chose; a prefix of which it is not the last one has its noises at its chain's end."""
        self.num_directed, self.generator = num_directed, generator
        self.choice: list[Tensor] = []
        for length, rows in enumerate(drawn):
            before_TP = self.choice[-1][:, : rows.chosen_TP.shape[1]] if length else torch.zeros_like(rows.chosen_TP)
            self.choice.append(torch.where(rows.chosen_TP > 0, float(length), before_TP))

    def behind(self, length: int, rows: _Rows, row_TP: Tensor) -> tuple[_Rows, Tensor]:
        """Return the rows of a level (from 0) with the chains behind them, and where each comes from; ``row_TP`` are the places below."""
        walks = rows.relation_TP.shape[1]
        source, noise, below = [row_TP[:, :walks]], [rows.chosen_TP], 0
        if length > 1:
            below = self.choice[length - 1].shape[1]  # walks of the level below come first there, then the chains of its own prefixes: they end there
            below += self.choice[length - 1].shape[1]
        for last in range(length, len(self.choice)):
            choice_TP = self.choice[last]
            count = choice_TP.shape[1]
            from_walk_TP = row_TP[:, :count]
            from_chain_TP = row_TP[:, below : below + count] if length > 1 else from_walk_TP
            below += count
            source.append(torch.where(choice_TP == length - 1, from_walk_TP, from_chain_TP))
            noise.append((choice_TP < length).float() if last == length else torch.zeros_like(choice_TP))
        noise_TP, source_TP = torch.cat(noise, dim=1), torch.cat(source, dim=1)
        random_TP = torch.randint(self.num_directed, (len(noise_TP), noise_TP.shape[1] - walks), generator=self.generator, device=noise_TP.device)
        empty_TP = torch.zeros_like(random_TP)

        def longer(part_TP: Tensor, more_TP: Tensor) -> Tensor:
            return torch.cat([part_TP, more_TP.to(part_TP.dtype)], dim=1)

        return (
            _Rows(
                relation_TP=longer(rows.relation_TP, random_TP),
                tail_TP=longer(rows.tail_TP, empty_TP),
                weight_TP=longer(rows.weight_TP, empty_TP),
                chosen_TP=longer(rows.chosen_TP, empty_TP),
                noise_TP=noise_TP,
            ),
            source_TP,
        )


def _rows(level: Level, place: int, steps: int) -> Level:
    """Return the rows of one step of a plan of so many."""
    count = len(level.relation_T) // steps
    return Level(*(getattr(level, item.name)[place * count : (place + 1) * count] for item in fields(Level)))
