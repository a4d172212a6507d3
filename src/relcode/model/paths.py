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

from relcode.model.nce import gold_loss, gold_weight
from relcode.ops.noises import noise_push
from relcode.ops.rows import limit_norm
from relcode.ops.tiles import PlainTiles, matrix_norms, tiles_of
from relcode.sampling.batches import Level


@dataclass(frozen=True, slots=True)
class LevelGradients:
    """Ascent directions at one level; the matrix's is the outer product of its two factors, summed over the tile."""

    tiles: PlainTiles
    before_TWD: Tensor  # x_l, left factor of the matrix update
    pull_TWD: Tensor  # right factor, zero where another matrix of the path is updated
    tail_TWD: Tensor
    noise_GKD: Tensor
    curves: LevelCurves | None


@dataclass(frozen=True, slots=True)
class LevelCurves:
    """Bounds on the curvature along a level's directions."""

    row_TW: Tensor  # of the rows' own pulls, those of longer paths included
    matrix_T: Tensor
    tail_TW: Tensor
    noise_GK: Tensor


@dataclass(frozen=True, slots=True)
class PathGradients:
    """Ascent directions of a batch, where asked with the curvature along each, and its loss summed over all prefixes."""

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
    curves: bool = True  # whether curvatures are asked for too


def path_gradients(
    levels: Sequence[Level], head_TWD: Tensor, tails: Sequence[Tensor], noises: Sequence[Tensor], matrix_SDD: Tensor, rule: NceRule
) -> PathGradients:
    """Return the gradients for walks that start at ``head_TWD``; ``tails`` (T,W,D) are the vectors of each level, ``noises`` (G,K,D) those of
    its noises, shared by the rows of a tile (G = T) or by all (G = 1)."""
    ups: list[_Up] = []
    x_TWD = head_TWD
    scale_S = math.sqrt(head_TWD.shape[-1]) / matrix_norms(matrix_SDD, [level.relation_T for level in levels]) if rule.normalise else None
    for index, (level, tail_TWD, noise_GKD) in enumerate(zip(levels, tails, noises, strict=True)):
        if index:
            x_TWD = ups[-1].after_TWD.flatten(0, 1)[level.source_TW]
        tiles = tiles_of(matrix_SDD, level.relation_T, scale_S, level.weight_TW.shape[1])
        ups.append(_go_up(level, x_TWD, tail_TWD, noise_GKD, tiles, rule))
    loss = torch.stack([up.loss for up in ups]).sum()
    found: list[LevelGradients] = []
    down: tuple[Tensor, Tensor] | None = None  # all gradients at this level's y, and those still waiting for their matrix
    curve_TW: Tensor | None = None
    for index in reversed(range(len(levels))):
        level, up = levels[index], ups[index]
        all_TWD = waiting_TWD = up.towards_after_TWD
        if down is not None:
            all_TWD, waiting_TWD = all_TWD + down[0], waiting_TWD + down[1]
        pull_TWD = waiting_TWD * level.chosen_TW[..., None] if rule.one_matrix else all_TWD
        curves = None
        if rule.curves:
            curves = up.curves(level, curve_TW, level.chosen_TW if rule.one_matrix else level.weight_TW)
        found.append(
            LevelGradients(
                tiles=up.tiles,
                before_TWD=limit_norm(up.before_TWD, rule.factor_limit),
                pull_TWD=limit_norm(pull_TWD, rule.factor_limit),
                tail_TWD=up.tail_TWD,
                noise_GKD=up.noise_GKD,
                curves=curves,
            )
        )
        back_TWD = up.tiles.back(all_TWD)
        if index == 0:
            break
        passed_TWD = up.tiles.back(waiting_TWD - pull_TWD) if rule.one_matrix else back_TWD
        below = ups[index - 1]
        down = (_rows_below(back_TWD, level, below.after_TWD), _rows_below(passed_TWD, level, below.after_TWD))
        if curves is not None:
            curve_TW = _rows_below(curves.row_TW[..., None], level, below.pull_TW[..., None]).squeeze(-1)
    return PathGradients(back_TWD, tuple(reversed(found)), loss)


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
    pull_TW: Tensor
    push_GXK: Tensor
    gold_TWD: Tensor  # vectors of the tails, and of the noises
    other_GKD: Tensor
    loss: Tensor

    def curves(self, level: Level, above_TW: Tensor | None, used_TW: Tensor) -> LevelCurves:
        """Return the curvatures at this level; ``above_TW`` are those of the longer paths, ``used_TW`` the rows whose matrix is updated."""
        y_GXD = self.after_TWD.view(*self.push_GXK.shape[:2], -1)
        row_TW = self.pull_TW * squared(self.gold_TWD) - torch.bmm(self.push_GXK, squared(self.other_GKD)[..., None]).view_as(self.pull_TW)
        row_TW = row_TW if above_TW is None else row_TW + above_TW
        matrix_T = (row_TW * used_TW * squared(self.before_TWD)).sum(1)
        return LevelCurves(
            row_TW=row_TW,
            matrix_T=matrix_T if self.tiles.scale_S is None else matrix_T * self.tiles.scale_S[level.relation_T],
            tail_TW=self.pull_TW * squared(self.after_TWD),
            noise_GK=-torch.bmm(self.push_GXK.transpose(1, 2), squared(y_GXD)[..., None]).squeeze(-1),
        )


def _go_up(level: Level, x_TWD: Tensor, tail_TWD: Tensor, noise_GKD: Tensor, tiles: PlainTiles, rule: NceRule) -> _Up:
    """Take one step: y = x M_r, scores against the tail and the noises, and the objective's pull on y, tail and noises."""
    y_TWD = tiles.product(x_TWD)
    gold_TW = torch.linalg.vecdot(y_TWD, tail_TWD)
    y_GXD = y_TWD.view(len(noise_GKD), -1, y_TWD.shape[-1])  # rows that share their noises: those of a tile, or all of them
    pull_TW = gold_weight(gold_TW, rule.noises, rule.saturation) * level.weight_TW
    push_GXK, loss_GX = noise_push(torch.bmm(y_GXD, noise_GKD.transpose(1, 2)), level.noise_TW.view(y_GXD.shape[:2]), rule.noises, rule.saturation)
    gold_GXD = (pull_TW[..., None] * tail_TWD).view_as(y_GXD)
    return _Up(
        tiles=tiles,
        before_TWD=x_TWD,
        after_TWD=y_TWD,
        towards_after_TWD=torch.baddbmm(gold_GXD, push_GXK, noise_GKD).view_as(y_TWD),
        tail_TWD=pull_TW[..., None] * y_TWD,
        noise_GKD=torch.bmm(push_GXK.transpose(1, 2), y_GXD),
        pull_TW=pull_TW,
        push_GXK=push_GXK,
        gold_TWD=tail_TWD,
        other_GKD=noise_GKD,
        loss=loss_GX.sum() + (gold_loss(gold_TW, rule.noises) * level.weight_TW).sum(),
    )


def _rows_below(g_TWD: Tensor, level: Level, below_TWD: Tensor) -> Tensor:
    """Carry gradients from this level's rows to the rows of the level before that they came from, which have the shape of ``below_TWD``.

    Those of padding are zero, and go to row 0.
    """
    return torch.zeros_like(below_TWD).flatten(0, 1).index_add_(0, level.source_TW.flatten(), g_TWD.flatten(0, 1)).view_as(below_TWD)
