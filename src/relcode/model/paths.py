"""Gradients of the noise-contrastive objective for walks: every prefix of a walk is a path, scored exp(u M_1 … M_l v).

Going up, level by level:    y_l = x_l M_l (a row),  x_{l+1} = y_l,  the path's score is y_l · v
Coming down:                 g_l = weight·v (gold) + Σ weight·v* (noise) + g_{l+1} M_{l+1}ᵀ
Ascent directions:           tail: weight·y_l     head: g_1 M_1ᵀ     matrix l: x_lᵀ g_l

The released program updates one matrix of each prefix, drawn uniformly. Drawing them independently would need a pass down for every prefix. Here
the prefix of length l takes the new matrix l with probability 1/l and otherwise keeps its predecessor's choice (reservoir sampling: each choice is
uniform over the l matrices). Then at each level either all that is pending is used or nothing, and one extra pass down serves all prefixes.

Beside each direction stands a bound on the curvature along it, Σ |weight|·‖other factor‖², by which updates are damped: for a tail ‖y_l‖²,
for a head the ‖v‖² of all tails and noises that its paths are scored with (near-orthogonal matrices keep lengths), for a matrix that times ‖x_l‖².
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
    noise_GKD: Tensor
    matrix_curve_T: Tensor
    tail_curve_TW: Tensor
    noise_curve_GK: Tensor


@dataclass(frozen=True, slots=True)
class PathGradients:
    """Ascent directions of a batch with the curvature along each, and its loss summed over all prefixes."""

    head_TWD: Tensor
    head_curve_TW: Tensor
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
    """Return the gradients for walks that start at ``head_TWD``; ``tails`` (T,W,D) are the vectors of each level, ``noises`` (G,K,D) those of
    its noises, shared by the rows of a tile (G = T) or by all (G = 1)."""
    ups: list[_Up] = []
    x_TWD = head_TWD
    for index, (level, tail_TWD, noise_GKD) in enumerate(zip(levels, tails, noises, strict=True)):
        if index:
            x_TWD = ups[-1].after_TWD.flatten(0, 1)[level.source_TW]
        ups.append(_go_up(level, x_TWD, tail_TWD, noise_GKD, matrix_SDD, rule))
    loss = torch.stack([up.loss for up in ups]).sum()
    found: list[LevelGradients] = []
    down: tuple[Tensor, Tensor, Tensor] | None = None  # all gradients, those still waiting for their matrix, and curvatures, at this level's y
    for index in reversed(range(len(levels))):
        level, up = levels[index], ups[index]
        all_TWD = waiting_TWD = up.towards_after_TWD
        curve_TW = up.row_curve_TW
        if down is not None:
            all_TWD, waiting_TWD, curve_TW = all_TWD + down[0], waiting_TWD + down[1], curve_TW + down[2]
        pull_TWD = waiting_TWD * level.chosen_TW[..., None] if rule.one_matrix else all_TWD
        used_TW = level.chosen_TW if rule.one_matrix else level.weight_TW
        found.append(
            LevelGradients(
                tiles=up.tiles,
                before_TWD=limit_norm(up.before_TWD, rule.factor_limit),
                pull_TWD=limit_norm(pull_TWD, rule.factor_limit),
                tail_TWD=up.tail_TWD,
                noise_GKD=up.noise_GKD,
                matrix_curve_T=(curve_TW * used_TW * squared(up.before_TWD)).sum(1) * up.scale_T,
                tail_curve_TW=up.tail_curve_TW,
                noise_curve_GK=up.noise_curve_GK,
            )
        )
        back_TWD = up.back(all_TWD)
        if index == 0:
            break
        passed_TWD = up.back(waiting_TWD - pull_TWD) if rule.one_matrix else back_TWD
        below = ups[index - 1]
        down = (
            _rows_below(back_TWD, level, below.after_TWD),
            _rows_below(passed_TWD, level, below.after_TWD),
            _rows_below(curve_TW[..., None], level, below.row_curve_TW[..., None]).squeeze(-1),
        )
    return PathGradients(back_TWD, curve_TW, tuple(reversed(found)), loss)


def squared(x: Tensor) -> Tensor:
    """Return ‖x‖² of each row."""
    return torch.linalg.vecdot(x, x)


@dataclass(frozen=True, slots=True)
class _Up:
    """What the way up leaves for the way down."""

    tiles: PlainTiles
    before_TWD: Tensor
    after_TWD: Tensor
    towards_after_TWD: Tensor
    tail_TWD: Tensor
    noise_GKD: Tensor
    row_curve_TW: Tensor
    tail_curve_TW: Tensor
    noise_curve_GK: Tensor
    scale_T: Tensor
    loss: Tensor

    def back(self, g_TWD: Tensor) -> Tensor:
        """Return g M_rᵀ with the matrix in force."""
        return self.tiles.back(g_TWD * self.scale_T[:, None, None])


def _go_up(level: Level, x_TWD: Tensor, tail_TWD: Tensor, noise_GKD: Tensor, matrix_SDD: Tensor, rule: NceRule) -> _Up:
    """Take one step: y = x M_r, scores against the tail and the noises, and the objective's pull on y, tail and noises."""
    d, draws = x_TWD.shape[-1], noise_GKD.shape[1]
    tiles = tiles_of(matrix_SDD, level.relation_T)
    scale_T = math.sqrt(d) / tiles.norm() if rule.normalise else matrix_SDD.new_ones(len(level.relation_T))
    y_TWD = tiles.product(x_TWD) * scale_T[:, None, None]
    gold_TW = torch.linalg.vecdot(y_TWD, tail_TWD)
    y_GXD = y_TWD.view(len(noise_GKD), -1, d)  # rows that share their noises: those of a tile, or all of them
    noise_GXK = torch.bmm(y_GXD, noise_GKD.transpose(1, 2))
    pull_TW = gold_weight(gold_TW, rule.noises, rule.saturation) * level.weight_TW
    weight_GX = level.weight_TW.view(y_GXD.shape[:2])
    push_GXK = noise_weight(noise_GXK, rule.noises, rule.saturation) * (weight_GX[..., None] * (rule.noises / draws))
    gold_GXD = (pull_TW[..., None] * tail_TWD).view_as(y_GXD)
    return _Up(
        tiles=tiles,
        before_TWD=x_TWD,
        after_TWD=y_TWD,
        towards_after_TWD=torch.baddbmm(gold_GXD, push_GXK, noise_GKD).view_as(y_TWD),
        tail_TWD=pull_TW[..., None] * y_TWD,
        noise_GKD=torch.bmm(push_GXK.transpose(1, 2), y_GXD),
        row_curve_TW=pull_TW * squared(tail_TWD) - torch.bmm(push_GXK, squared(noise_GKD)[..., None]).view_as(pull_TW),
        tail_curve_TW=pull_TW * squared(y_TWD),
        noise_curve_GK=-torch.bmm(push_GXK.transpose(1, 2), squared(y_GXD)[..., None]).squeeze(-1),
        scale_T=scale_T,
        loss=(nce_loss(gold_TW.view(weight_GX.shape), noise_GXK, rule.noises) * weight_GX).sum(),
    )


def _rows_below(g_TWD: Tensor, level: Level, below_TWD: Tensor) -> Tensor:
    """Carry gradients from this level's rows to the rows of the level before that they came from, which have the shape of ``below_TWD``."""
    rows_XD = torch.zeros_like(below_TWD).flatten(0, 1)
    return rows_XD.index_add_(0, level.source_TW.flatten(), (g_TWD * level.weight_TW[..., None]).flatten(0, 1)).view_as(below_TWD)
