"""The stream of single facts, in shuffled tiles of one relation: every directed fact once an epoch, or drawn by the weight of its head."""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.ops.rows import cumulative, draw_rows
from relcode.sampling.batches import Level, PathBatch, group_by_relation


class FactStream:
    """Serves all directed facts of a KB, epoch after epoch.

    Within an epoch the facts of each relation are shuffled and cut into tiles of W, and the tiles are shuffled; a step takes the next T of
    them. The plan of an epoch depends on the seed and the epoch's number alone, so that a stopped run goes on exactly where it was.
    """

    def __init__(self, directed_N3: Tensor, num_directed: int, *, edges: int, tile: int, seed: int, device: torch.device, power: float = 1.0) -> None:
        """Hold the directed facts on ``device``; a step serves about ``edges`` of them.

        A head is looked at in proportion to its degree^power: at 1 each fact comes once an epoch, else an epoch is as many draws as there are facts.
        """
        self.num_directed = num_directed
        self.tile = tile
        self.seed = seed
        self.facts_N3 = directed_N3.to(device)
        head_N, relation_N = directed_N3[:, 0], directed_N3[:, 1]
        self.tiles_per_step = max(1, edges // tile)
        tiles = int(((torch.bincount(relation_N, minlength=num_directed) + tile - 1) // tile).sum())
        self.cumulative_N: Tensor | None = None
        if power != 1:
            self.cumulative_N = cumulative(torch.bincount(head_N).double().pow(power - 1)[head_N]).to(device)
        self.steps_per_epoch = -(-tiles // self.tiles_per_step)
        self._planned: tuple[int, Tensor, Tensor] | None = None

    def batch(self, step: int, generator: torch.Generator) -> PathBatch:
        """Return the batch of the given step; all its randomness is in the epoch's plan."""
        epoch, place = divmod(step, self.steps_per_epoch)
        relation_T, source_TW = self._plan(epoch)
        here = slice(place * self.tiles_per_step, (place + 1) * self.tiles_per_step)
        fact_TW3 = self.facts_N3[source_TW[here].clamp_min(0)]
        weight_TW = (source_TW[here] >= 0).float()
        return PathBatch((Level(relation_T[here], fact_TW3[..., 0], fact_TW3[..., 2], weight_TW, weight_TW, weight_TW),))

    def _plan(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Return each tile's relation and facts (−1 for padding) in the order of the epoch; tiles of a step are sorted by relation."""
        if self._planned is None or self._planned[0] != epoch:
            self._planned = (epoch, *self._make_plan(epoch))
        return self._planned[1:]

    def _make_plan(self, epoch: int) -> tuple[Tensor, Tensor]:
        device, count = self.facts_N3.device, len(self.facts_N3)
        generator = torch.Generator(device).manual_seed(epoch_seed(self.seed, epoch))
        if self.cumulative_N is None:
            shuffled_N = torch.randperm(count, generator=generator, device=device)
        else:
            shuffled_N = draw_rows(self.cumulative_N, (count,), generator)
        relation_T, source_TW = group_by_relation(self.facts_N3[shuffled_N, 1], self.num_directed, self.tile)
        fact_TW = torch.cat([shuffled_N, shuffled_N.new_full((1,), -1)])[source_TW]
        # Full tiles first: on CUDA the tiling may end in empty ones. Then shuffle, and pad with empty tiles to whole steps.
        used = int((fact_TW >= 0).any(1).sum())
        order_T = torch.argsort((fact_TW < 0).all(1).long(), stable=True)[:used]
        places = self.steps_per_epoch * self.tiles_per_step
        order_T = order_T[torch.randperm(used, generator=generator, device=device)][
            :places
        ]  # drawn facts may need a few tiles more: left out at random
        missing = places - len(order_T)
        relation_T = torch.cat([relation_T[order_T], relation_T[order_T[:1]].expand(missing)])
        fact_TW = torch.cat([fact_TW[order_T], fact_TW.new_full((missing, self.tile), -1)])
        step_T = torch.arange(len(relation_T), device=device) // self.tiles_per_step
        by_relation_T = torch.argsort(step_T * self.num_directed + relation_T, stable=True)
        return relation_T[by_relation_T], fact_TW[by_relation_T]


def epoch_seed(seed: int, epoch: int) -> int:
    """Return a seed for one epoch that no other epoch or nearby seed has (a 64-bit mix of both, after Steele et al., 2014)."""
    mask = (1 << 64) - 1
    mixed = (seed * 0x9E3779B97F4A7C15 + (epoch + 1) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return (mixed ^ (mixed >> 31)) >> 1
