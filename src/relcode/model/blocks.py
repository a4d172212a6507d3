"""Gradients of walks on the CPU, block by block: what :func:`relcode.model.paths.path_gradients` returns, from tables of vectors.

A block is some hundred rows. It is taken from the gathering of its vectors to its gradients before the next one, so that what is between stays in the
cache, and blocks are shared among threads (:mod:`relcode.ops.workers`). Levels follow each other: rows of one come from any block of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from relcode.model.nce import gold_loss, gold_weight
from relcode.model.paths import LevelGradients, NceRule, PathGradients
from relcode.ops.noises import noise_push
from relcode.ops.room import Room
from relcode.ops.rows import limit_norm
from relcode.ops.tiles import CpuTiles, PlainTiles, matrix_norms
from relcode.ops.workers import share
from relcode.sampling.batches import Level

BLOCK = 512  # rows; with vectors of 256 numbers, one array of a block is half a megabyte


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a level, and the groups of noises they are scored against; ``place`` is the block's number."""

    place: int
    rows: slice
    groups: slice


def blocks_of(rows: int, groups: int) -> list[Block]:
    """Cut ``rows`` rows, of which each of ``groups`` groups has as many, into blocks: of several groups, or of a part of one."""
    each = rows // groups
    if each == 0:
        return []
    if each <= BLOCK:
        together = BLOCK // each
        cuts = [(first, min(first + together, groups)) for first in range(0, groups, together)]
        return [Block(place, slice(a * each, b * each), slice(a, b)) for place, (a, b) in enumerate(cuts)]
    parts = [(group, first) for group in range(groups) for first in range(0, each, BLOCK)]
    return [
        Block(place, slice(group * each + first, group * each + min(first + BLOCK, each)), slice(group, group + 1))
        for place, (group, first) in enumerate(parts)
    ]


def block_gradients(
    levels: Sequence[Level], head_ED: Tensor, tail_ED: Tensor, noises: Sequence[Tensor], matrix_SDD: Tensor, rule: NceRule, room: Room
) -> PathGradients:
    """Return the gradients for walks between entities; ``noises`` (G,K) are those of each level. Curvatures are not found.

    They are written to ``room``.
    """
    scale_S = math.sqrt(head_ED.shape[1]) / matrix_norms(matrix_SDD, [level.relation_T for level in levels]) if rule.normalise else None
    tables, space = _Tables(tail_ED, matrix_SDD, scale_S), _Space(levels, noises, room, head_ED)
    places: list[_LevelRows] = []
    for index, (level, noise_GK) in enumerate(zip(levels, noises, strict=True)):
        source_XD = places[-1].after_PD if places else head_ED
        assert source_XD is not None, "only the last level leaves no rows behind"
        places.append(_LevelRows(level, noise_GK, source_XD, tables, rule, space, index))
    for rows in places[:-1]:
        share(rows.go_up, rows.blocks)
    share(places[-1].go_up_and_down, places[-1].blocks)
    for rows, above in zip(reversed(places[:-1]), reversed(places[1:]), strict=True):
        rows.comes_from(above)
        share(rows.go_down, rows.blocks)
    found = tuple(rows.gradients() for rows in places)
    return PathGradients(places[0].back_PD.view(*levels[0].weight_TW.shape, -1), found, torch.cat([rows.loss_B for rows in places]).sum())


@dataclass(frozen=True, slots=True)
class _Tables:
    """Vectors of tails, matrices and their scales, as they are before the step."""

    tail_ED: Tensor
    matrix_SDD: Tensor
    scale_S: Tensor | None


class _Space:
    """Where gradients are written: levels one behind the other, and their noises behind them all, as what climbs along them wants them."""

    def __init__(self, levels: Sequence[Level], noises: Sequence[Tensor], room: Room, like: Tensor) -> None:
        """Cut the room into pieces."""
        self.room, self.like, self.levels = room, like, len(levels)
        sizes, draws = [level.weight_TW.numel() for level in levels], [noise_GK.numel() for noise_GK in noises]
        self.before, self.pull, self.tail = (
            self.take(name, sum(each)).split(each) for name, each in (("before", sizes), ("pull", sizes), ("tail", sizes + draws))
        )
        self.noise = self.tail[len(levels) :]

    def take(self, name: str, rows: int) -> Tensor:
        """Return room for some rows."""
        return self.room.take(name, (rows, self.like.shape[1]), self.like)


class _LevelRows:
    """The rows of one level on their way up and down (equations in :mod:`relcode.model.paths`); a block writes its own rows alone."""

    def __init__(self, level: Level, noise_GK: Tensor, source_XD: Tensor, tables: _Tables, rule: NceRule, space: _Space, index: int) -> None:
        """Make ready; ``source_XD`` are the vectors that the rows name as theirs, ``index`` counts levels from 0."""
        self.level, self.noise_GK, self.source_XD, self.tables, self.rule = level, noise_GK, source_XD, tables, rule
        self.source_P, self.tail_P, self.weight_P, self.chosen_P, self.weighed_P = (
            part_TW.flatten() for part_TW in (level.source_TW, level.tail_TW, level.weight_TW, level.chosen_TW, level.noise_TW)
        )
        self.relation_P = level.relation_T[:, None].expand_as(level.weight_TW).flatten()
        self.before_PD, self.pull_PD, self.tail_PD, noise_XD = space.before[index], space.pull[index], space.tail[index], space.noise[index]
        rows = len(self.source_P)
        self.after_PD = space.take(f"after {index}", rows) if index + 1 < space.levels else None
        self.carries = 2 if rule.one_matrix and index > 0 else 1  # all gradients, and those that wait for a matrix of a level before
        self.back_PD = space.take(f"back {index}", rows * self.carries).view(rows, -1)
        self.blocks = blocks_of(rows, len(noise_GK))
        self.tiles: list[CpuTiles | None] = [None] * len(self.blocks)
        self.loss_B = noise_XD.new_zeros(len(self.blocks))
        self.noise_GKD = noise_XD.view(*noise_GK.shape, -1)
        if not self.blocks:
            noise_XD.zero_()
        spread = len(self.blocks) > len(noise_GK)  # a group of noises over several blocks
        self.part_BKD = noise_XD.new_empty(len(self.blocks), *self.noise_GKD.shape[1:]) if spread else self.noise_GKD
        self.above: tuple[Tensor, Tensor, _LevelRows] | None = None

    def go_up(self, block: Block) -> None:
        """Take one step: y = x M_r, scores against tail and noises, and the objective's pull on y, tail and noises."""
        here, groups, rule, tail_ED = block.rows, block.groups, self.rule, self.tables.tail_ED
        x_XD = torch.index_select(self.source_XD, 0, self.source_P[here], out=self.before_PD[here])
        y_XD = torch.empty_like(x_XD) if self.after_PD is None else self.after_PD[here]
        tiles = self.tiles[block.place] = CpuTiles(self.tables.matrix_SDD, self.relation_P[here], self.tables.scale_S)
        tiles.multiply(x_XD, y_XD)
        gold_XD = tail_ED.index_select(0, self.tail_P[here])
        other_GKD = tail_ED.index_select(0, self.noise_GK[groups].flatten()).unflatten(0, self.noise_GK[groups].shape)
        y_GXD, weight_X = y_XD.view(len(other_GKD), -1, y_XD.shape[1]), self.weight_P[here]
        gold_X = torch.linalg.vecdot(y_XD, gold_XD)
        pull_X = gold_weight(gold_X, rule.noises, rule.saturation) * weight_X
        score_GXK = torch.bmm(y_GXD, other_GKD.transpose(1, 2))
        push_GXK, loss_GX = noise_push(score_GXK, self.weighed_P[here].view(y_GXD.shape[:2]), rule.noises, rule.saturation)
        torch.mul(gold_XD, pull_X[:, None], out=self.pull_PD[here])
        self.pull_PD[here].view_as(y_GXD).baddbmm_(push_GXK, other_GKD)
        torch.mul(y_XD, pull_X[:, None], out=self.tail_PD[here])
        parts = groups if self.part_BKD is self.noise_GKD else slice(block.place, block.place + 1)
        torch.bmm(push_GXK.transpose(1, 2), y_GXD, out=self.part_BKD[parts])
        self.loss_B[block.place] = loss_GX.sum() + (gold_loss(gold_X, rule.noises) * weight_X).sum()

    def go_down(self, block: Block) -> None:
        """Add what the longer paths pull, leave this level's matrix its part, and carry the rest below."""
        here, tiles, limit = block.rows, self.tiles[block.place], self.rule.factor_limit
        assert tiles is not None, "rows go up first"
        own_XD, before_XD = self.pull_PD[here], self.before_PD[here]
        if self.rule.one_matrix:
            sum_X2D = self._carried(here).add_(own_XD[:, None])  # all gradients, and those still waiting for their matrix
            pull_XD = sum_X2D[:, 1] * self.chosen_P[here, None]
            down_XD = sum_X2D[:, 0].contiguous()
            if self.carries == 2:
                sum_X2D[:, 1].sub_(pull_XD)
                down_XD = sum_X2D.flatten(0, 1)
        else:
            pull_XD = down_XD = own_XD if self.above is None else self._carried(here)[:, 0].add_(own_XD)
        tiles.multiply(down_XD, self.back_PD[here].view_as(down_XD), back=True)
        for kept_XD, new_XD in ((own_XD, limit_norm(pull_XD, limit)), (before_XD, limit_norm(before_XD, limit))):
            if new_XD is not kept_XD:
                kept_XD.copy_(new_XD)

    def go_up_and_down(self, block: Block) -> None:
        """Do both at once, where no row of another level comes between."""
        self.go_up(block)
        self.go_down(block)

    def comes_from(self, above: _LevelRows) -> None:
        """Learn which rows of the level above come from which row of this one."""
        order_X = torch.argsort(above.source_P, stable=True)
        count_P = torch.bincount(above.source_P, minlength=len(self.source_P))
        self.above = (order_X, torch.cat([count_P.new_zeros(1), count_P.cumsum(0)]), above)

    def _carried(self, here: slice) -> Tensor:
        """Return the sums of what comes down to some rows: of all gradients and, where some wait for their matrix, of those."""
        count = here.stop - here.start
        if self.above is None:
            return self.pull_PD.new_zeros(count, 1 + self.rule.one_matrix, self.pull_PD.shape[1])
        order_X, first_P1, above = self.above
        first, last = int(first_P1[here.start]), int(first_P1[here.stop])
        return embedding_bag(order_X[first:last], above.back_PD, first_P1[here] - first, mode="sum").view(count, above.carries, -1)

    def gradients(self) -> LevelGradients:
        """Return what was found."""
        if self.part_BKD is not self.noise_GKD:
            torch.sum(self.part_BKD.view(len(self.noise_GKD), -1, *self.noise_GKD.shape[1:]), dim=1, out=self.noise_GKD)
        before_TWD, pull_TWD, tail_TWD = (x_PD.view(*self.level.weight_TW.shape, -1) for x_PD in (self.before_PD, self.pull_PD, self.tail_PD))
        tiles = PlainTiles(self.tables.matrix_SDD, self.level.relation_T, self.tables.scale_S)
        return LevelGradients(tiles=tiles, before_TWD=before_TWD, pull_TWD=pull_TWD, tail_TWD=tail_TWD, noise_GKD=self.noise_GKD, curves=None)
