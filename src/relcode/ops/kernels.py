"""Triton kernels: products with matrices where they lie, outer products moved by Adagrad, the push of noises, softmax. Imported on CUDA alone.

Each stands beside a plain version that is the truth (:mod:`relcode.ops.tiles`, :mod:`relcode.ops.outer`, :mod:`relcode.ops.noises`,
:mod:`relcode.ops.softmax`). None of them waits for the device, has shapes that depend on the data, or adds by atomics: they can be recorded, and the
same input gives the same output.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 32  # rows of one relation that a program multiplies together
BLOCK = 64  # rows or columns of a matrix that a program looks at


def precision() -> str:
    """Return how float32 factors of products are rounded, as torch was told."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def runs_of(relation_P: Tensor, num_relations: int) -> Tensor:
    """Return where the rows of each relation begin (and, last, where all end), rows being sorted by relation."""
    return torch.searchsorted(relation_P, torch.arange(num_relations + 1, device=relation_P.device))


def tiles_in(first_S1: Tensor, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cut each relation's rows into tiles: return the relation of each, where it begins and where it ends (an empty one where nobody needs it)."""
    count_S = first_S1.diff()
    last_S = ((count_S + TILE - 1) // TILE).cumsum(0)
    tile_T = torch.arange(rows // TILE + min(rows, len(count_S)), device=first_S1.device)
    relation_T = torch.searchsorted(last_S, tile_T, right=True).clamp_max(len(count_S) - 1)
    before_T = last_S[relation_T] - (count_S[relation_T] + TILE - 1) // TILE
    begin_T = first_S1[relation_T] + (tile_T - before_T) * TILE
    return relation_T, begin_T, torch.minimum(begin_T + TILE, first_S1[relation_T + 1])


@triton.jit
def _product(
    x,
    m,
    y,
    relation_T,
    begin_T,
    end_T,
    scale_S,
    SCALED: tl.constexpr,
    D: tl.constexpr,
    W: tl.constexpr,
    B: tl.constexpr,
    BACK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """y = x M_r, or x M_rᵀ, for W rows of one tile and B columns."""
    t = tl.program_id(0)
    begin = tl.load(begin_T + t).to(tl.int64)
    end = tl.load(end_T + t).to(tl.int64)
    if begin < end:
        row = begin + tl.arange(0, W)
        column = tl.program_id(1) * B + tl.arange(0, B)
        relation = tl.load(relation_T + t).to(tl.int64)
        matrix = m + relation * D * D
        total = tl.zeros((W, B), tl.float32)
        for k0 in range(0, D, B):
            k = k0 + tl.arange(0, B)
            x_WB = tl.load(x + row[:, None] * D + k[None, :], mask=(row < end)[:, None] & (k < D)[None, :], other=0.0)
            if BACK:
                m_BB = tl.load(matrix + column[None, :] * D + k[:, None], mask=(k < D)[:, None] & (column < D)[None, :], other=0.0)
            else:
                m_BB = tl.load(matrix + k[:, None] * D + column[None, :], mask=(k < D)[:, None] & (column < D)[None, :], other=0.0)
            total = tl.dot(x_WB, m_BB, total, input_precision=PRECISION)
        if SCALED:
            total *= tl.load(scale_S + relation)
        tl.store(y + row[:, None] * D + column[None, :], total, mask=(row < end)[:, None] & (column < D)[None, :])


def grouped_product(x_PD: Tensor, matrix_SDD: Tensor, tiles: tuple[Tensor, Tensor, Tensor], scale_S: Tensor | None, back: bool) -> Tensor:
    """Return x M_r (x M_rᵀ where ``back``), by the relation's scale, of rows sorted by relation; ``tiles`` are those of :func:`tiles_in`."""
    x_PD, D = x_PD.contiguous(), x_PD.shape[1]
    y_PD = torch.empty_like(x_PD)
    sizes = {"SCALED": scale_S is not None, "D": D, "W": TILE, "B": BLOCK, "BACK": back, "PRECISION": precision()}
    _product[(len(tiles[0]), triton.cdiv(D, BLOCK))](x_PD, matrix_SDD, y_PD, *tiles, matrix_SDD if scale_S is None else scale_S, **sizes)
    return y_PD


@triton.jit
def _outer(
    x,
    g,
    order_P,
    first_S1,
    value,
    square,
    rate,
    D: tl.constexpr,
    N: tl.constexpr,
    W: tl.constexpr,
    B: tl.constexpr,
    ADAGRAD: tl.constexpr,
    EPSILON: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A B × B part of a relation's matrix: Σ xᵀ g over its rows, then a step along it, Adagrad's or at the relation's rate.

    Matrices have blocks of N × N along their diagonal; several may meet in one part, which looks at them alone.
    """
    high: tl.constexpr = (D + B - 1) // B
    wide: tl.constexpr = (N + B - 1) // B
    s = (tl.program_id(0) // (high * wide)).to(tl.int64)
    part = tl.program_id(0) % (high * wide)
    first = part // wide * B
    i = first + tl.arange(0, B)
    j = (first if N < B else first // N * N) + part % wide * B + tl.arange(0, B)
    begin = tl.load(first_S1 + s)
    end = tl.load(first_S1 + s + 1)
    if begin < end:
        total = tl.zeros((B, B), tl.float32)
        for p in range(begin, end, W):
            place = p + tl.arange(0, W)
            row = tl.load(order_P + place, mask=place < end, other=0).to(tl.int64)
            x_BW = tl.load(x + row[None, :] * D + i[:, None], mask=(place < end)[None, :] & (i < D)[:, None], other=0.0)
            g_WB = tl.load(g + row[:, None] * D + j[None, :], mask=(place < end)[:, None] & (j < D)[None, :], other=0.0)
            total = tl.dot(x_BW, g_WB, total, input_precision=PRECISION)
        here = s * D * N + i[:, None] * N + (j % N)[None, :]
        inside = (i < D)[:, None] & (j < D)[None, :] & ((i // N)[:, None] == (j // N)[None, :])
        if ADAGRAD:
            seen = tl.load(square + here, mask=inside, other=0.0) + total * total
            tl.store(square + here, seen, mask=inside)
            total = tl.load(rate) * total / (tl.sqrt(seen) + EPSILON)
        else:
            total = tl.load(rate + s) * total
        tl.store(value + here, tl.load(value + here, mask=inside, other=0.0) + total, mask=inside)


def climb_outer_(
    value_SDD: Tensor, square_SDD: Tensor | None, relation_P: Tensor, x_PD: Tensor, g_PD: Tensor, rate: Tensor, epsilon: float = 0.0
) -> None:
    """Move each matrix along Σ xᵀ g over its rows (in any order), in place; matrices without rows are not looked at.

    By Adagrad at one rate, or, where there are no sums of squares, at a rate for each relation.
    """
    S, D, N = value_SDD.shape
    assert D == N or N % BLOCK == 0 or BLOCK % N == 0, "blocks that no part cuts"
    sorted_P, order_P = torch.sort(relation_P, stable=True)
    tensors = (x_PD.contiguous(), g_PD.contiguous(), order_P, runs_of(sorted_P, S), value_SDD, value_SDD if square_SDD is None else square_SDD, rate)
    sizes = {"D": D, "N": N, "W": TILE, "B": BLOCK, "ADAGRAD": square_SDD is not None, "EPSILON": epsilon, "PRECISION": precision()}
    _outer[(triton.cdiv(D, BLOCK) * triton.cdiv(N, BLOCK) * S,)](*tensors, **sizes)


@triton.jit
def _push(score, weight, loss, columns, log_k, share, limit, B: tl.constexpr):
    """A row of scores becomes the weights of its noises, in place, and its part of the loss."""
    row = tl.program_id(0).to(tl.int64)
    w = tl.load(weight + row) * share
    total = 0.0
    for k0 in range(0, columns, B):
        k = k0 + tl.arange(0, B)
        z = tl.load(score + row * columns + k, mask=k < columns, other=-float("inf")) - log_k
        small = tl.exp(-tl.abs(z))
        sigmoid = tl.where(z >= 0, 1.0, small) / (1.0 + small)
        sigmoid = tl.where(z <= -limit, 0.0, tl.where(z >= limit, 1.0, sigmoid))
        tl.store(score + row * columns + k, -w * sigmoid, mask=k < columns)
        total += tl.sum(tl.where(k < columns, tl.maximum(z, 0.0) + tl.log(1.0 + small), 0.0))
    tl.store(loss + row, w * total)


def noise_push_(score_XK: Tensor, weight_X: Tensor, log_k: float, share: float, limit: float) -> Tensor:
    """Turn scores into −σ(x − ln k)·share·weight, in place, and return Σ_K ln(1 + exp(x − ln k))·share·weight of each row."""
    loss_X = torch.empty_like(weight_X)
    _push[(len(score_XK),)](score_XK, weight_X, loss_X, score_XK.shape[1], log_k, share, limit, B=1024)
    return loss_X


@triton.jit
def _softmax(score, total, columns, width, B: tl.constexpr):
    """A row of scores becomes its softmax, in place: its largest number and the sum of exponentials on the way there, shares on the way back."""
    row = score + tl.program_id(0).to(tl.int64) * width
    largest_B = tl.full((B,), -float("inf"), tl.float32)
    sum_B = tl.zeros((B,), tl.float32)
    for e0 in range(0, columns, B):
        e = e0 + tl.arange(0, B)
        x_B = tl.load(row + e, mask=e < columns, other=-float("inf"))
        higher_B = tl.maximum(largest_B, x_B)
        known_B = tl.where(higher_B == -float("inf"), 0.0, higher_B)  # a place that has seen nothing yet
        sum_B = sum_B * tl.exp(largest_B - known_B) + tl.exp(x_B - known_B)
        largest_B = higher_B
    largest = tl.max(largest_B, axis=0)
    log_sum = largest + tl.log(tl.sum(sum_B * tl.exp(largest_B - largest), axis=0))
    tl.store(total + tl.program_id(0), log_sum)
    for e0 in range(0, width, B):
        e = e0 + tl.arange(0, B)
        x_B = tl.load(row + e, mask=e < columns, other=-float("inf"))
        tl.store(row + e, tl.exp(x_B - log_sum), mask=e < width)


def softmax_(score_BE: Tensor, columns: int) -> Tensor:
    """Turn the first ``columns`` columns into their softmax and the others into 0, in place; return ln Σ exp of each row."""
    total_B = torch.empty(len(score_BE), dtype=score_BE.dtype, device=score_BE.device)
    _softmax[(len(score_BE),)](score_BE, total_B, columns, score_BE.shape[1], B=1024)
    return total_B
