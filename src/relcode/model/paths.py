"""Gradients of the noise-contrastive objective for walks: every prefix of a walk is a path, scored exp(u M_1 … M_l v).

Going up, level by level:    y_l = x_l M_l (a row),  x_{l+1} = y_l,  the path's score is y_l · v
Coming down:                 g_l = weight·v (gold) + Σ weight·v* (noise) + g_{l+1} M_{l+1}ᵀ
Ascent directions:           tail: weight·y_l     head: g_1 M_1ᵀ     matrix l: x_lᵀ g_l

The released program updates one matrix of each prefix, drawn uniformly. Drawing them independently would need a pass down for every prefix. Here
the prefix of length l takes the new matrix l with probability 1/l and otherwise keeps its predecessor's choice (reservoir sampling: each choice is
uniform over the l matrices). Then at each level either all that is pending is used or nothing, and one extra pass down serves all prefixes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.model.nce import gold_weight, nce_loss, noise_weight
from relcode.ops.rows import limit_norm
from relcode.ops.tiles import PlainTiles, tiles_of
from relcode.sampling.batches import Level


@dataclass(frozen=True, slots=True)
class LevelGradients:
    """Ascent directions at one level; the matrix's is the outer product of its two factors, summed over the tile."""

    tiles: PlainTiles
    before_TWD: Tensor  # x_l, left factor of the matrix update
    pull_TWD: Tensor  # right factor, zero where another matrix of the path is updated
    tail_TWD: Tensor
    noise_TKD: Tensor


@dataclass(frozen=True, slots=True)
class PathGradients:
    """Ascent directions of a batch, and its loss summed over all prefixes."""

    head_TWD: Tensor
    levels: tuple[LevelGradients, ...]
    loss: Tensor


@dataclass(frozen=True, slots=True)
class NceRule:
    """The numbers of the objective: k, where the sigmoid saturates, the longest factor of an update, and which matrices a path updates."""

    noises: int
    saturation: float = math.inf
    factor_limit: float = math.inf
    one_matrix: bool = False
    normalise: bool = True


def path_gradients(
    levels: Sequence[Level], head_TWD: Tensor, tails: Sequence[Tensor], noises: Sequence[Tensor], matrix_SDD: Tensor, rule: NceRule
) -> PathGradients:
    """Return the gradients for walks that start at ``head_TWD``; ``tails`` (T,W,D) and ``noises`` (T,K,D) are the vectors of each level."""
    ups: list[_Up] = []
    x_TWD = head_TWD
    for index, (level, tail_TWD, noise_TKD) in enumerate(zip(levels, tails, noises, strict=True)):
        if index:
            x_TWD = ups[-1].after_TWD.flatten(0, 1)[level.source_TW]
        ups.append(_go_up(level, x_TWD, tail_TWD, noise_TKD, matrix_SDD, rule))
    loss = torch.stack([up.loss for up in ups]).sum()
    found: list[LevelGradients] = []
    down: tuple[Tensor, Tensor] | None = None  # all gradients, and those still waiting for their matrix, at this level's y
    for index in reversed(range(len(levels))):
        level, up = levels[index], ups[index]
        all_TWD = waiting_TWD = up.towards_after_TWD
        if down is not None:
            all_TWD, waiting_TWD = all_TWD + down[0], waiting_TWD + down[1]
        pull_TWD = waiting_TWD * level.chosen_TW[..., None] if rule.one_matrix else all_TWD
        found.append(
            LevelGradients(up.tiles, limit_norm(up.before_TWD, rule.factor_limit), limit_norm(pull_TWD, rule.factor_limit), up.tail_TWD, up.noise_TKD)
        )
        back_TWD = up.back(all_TWD)
        if index == 0:
            break
        passed_TWD = up.back(waiting_TWD - pull_TWD) if rule.one_matrix else back_TWD
        down = _rows_below(back_TWD, level, ups[index - 1]), _rows_below(passed_TWD, level, ups[index - 1])
    return PathGradients(back_TWD, tuple(reversed(found)), loss)


@dataclass(frozen=True, slots=True)
class _Up:
    """What the way up leaves for the way down."""

    tiles: PlainTiles
    before_TWD: Tensor
    after_TWD: Tensor
    towards_after_TWD: Tensor
    tail_TWD: Tensor
    noise_TKD: Tensor
    scale_T: Tensor
    loss: Tensor

    def back(self, g_TWD: Tensor) -> Tensor:
        """Return g M_rᵀ with the matrix in force."""
        return self.tiles.back(g_TWD * self.scale_T[:, None, None])


def _go_up(level: Level, x_TWD: Tensor, tail_TWD: Tensor, noise_TKD: Tensor, matrix_SDD: Tensor, rule: NceRule) -> _Up:
    """Take one step: y = x M_r, scores against the tail and the noises, and the objective's pull on y, tail and noises."""
    d, draws = x_TWD.shape[-1], noise_TKD.shape[1]
    tiles = tiles_of(matrix_SDD, level.relation_T)
    scale_T = math.sqrt(d) / tiles.norm() if rule.normalise else matrix_SDD.new_ones(len(level.relation_T))
    y_TWD = tiles.product(x_TWD) * scale_T[:, None, None]
    gold_TW = torch.linalg.vecdot(y_TWD, tail_TWD)
    noise_TWK = torch.bmm(y_TWD, noise_TKD.transpose(1, 2))
    pull_TW = gold_weight(gold_TW, rule.noises, rule.saturation) * level.weight_TW
    push_TWK = noise_weight(noise_TWK, rule.noises, rule.saturation) * (level.weight_TW[..., None] * (rule.noises / draws))
    return _Up(
        tiles=tiles,
        before_TWD=x_TWD,
        after_TWD=y_TWD,
        towards_after_TWD=torch.baddbmm(pull_TW[..., None] * tail_TWD, push_TWK, noise_TKD),
        tail_TWD=pull_TW[..., None] * y_TWD,
        noise_TKD=torch.bmm(push_TWK.transpose(1, 2), y_TWD),
        scale_T=scale_T,
        loss=(nce_loss(gold_TW, noise_TWK, rule.noises) * level.weight_TW).sum(),
    )


def _rows_below(g_TWD: Tensor, level: Level, below: _Up) -> Tensor:
    """Carry gradients from this level's rows to the rows of the level before that they came from."""
    rows_XD = torch.zeros_like(below.after_TWD).flatten(0, 1)
    return rows_XD.index_add_(0, level.source_TW.flatten(), (g_TWD * level.weight_TW[..., None]).flatten(0, 1)).view_as(below.after_TWD)
