"""Small operations on rows: counting, limiting, drawing. None of them waits for the device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def row_counts(index: Tensor, weight: Tensor, rows: int) -> Tensor:
    """Return the sum of the weights given to each of ``rows`` rows: count[i] = Σ_{index = i} weight."""
    return torch.zeros(rows, device=weight.device, dtype=weight.dtype).index_add_(0, index.flatten(), weight.flatten())


def limit_norm(x: Tensor, limit: float) -> Tensor:
    """Scale rows that are longer than ``limit`` down to it."""
    if math.isinf(limit):
        return x
    return x * (limit / x.norm(dim=-1, keepdim=True).clamp_min(1e-30)).clamp_max(1)


def saturating_sigmoid(x: Tensor, limit: float) -> Tensor:
    """Return σ(x), exactly 0 for x ≤ −limit and exactly 1 for x ≥ limit, as the released program's table has it."""
    sigmoid = torch.sigmoid(x)
    if math.isinf(limit):
        return sigmoid
    return torch.where(x <= -limit, 0.0, torch.where(x >= limit, 1.0, sigmoid))


def cumulative(weight_X: Tensor) -> Tensor:
    """Return the running share of the total weight, in float64, as :func:`draw_rows` wants it."""
    sum_X = weight_X.double().cumsum(0)
    return sum_X / sum_X[-1]


def draw_rows(cumulative_X: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw row numbers in proportion to the weights behind ``cumulative_X``, with replacement (a row of weight 0 is never drawn)."""
    draw = torch.rand(shape, generator=generator, device=cumulative_X.device, dtype=torch.float64)
    return torch.searchsorted(cumulative_X, draw, right=True).clamp_max(len(cumulative_X) - 1)


def sum_rows(index_X: Tensor, value_X: Tensor, rows: int) -> Tensor:
    """Add up the values with the same index in the place of the first of them; the other places are zero.

    The sum of all updates of a row, with a shape that does not depend on the data. ``rows`` is one more than the largest index there can be.
    """
    place_X = torch.arange(len(index_X), device=index_X.device)
    first_R = torch.full((rows,), len(index_X), device=index_X.device).scatter_reduce_(0, index_X, place_X, "amin")
    return torch.zeros_like(value_X).index_add_(0, first_R[index_X], value_X)


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """Return the parts one behind the other, without a copy where they already stand so in memory."""
    first, place = parts[0], parts[0].storage_offset()
    for part in parts:
        if part.untyped_storage().data_ptr() != first.untyped_storage().data_ptr() or part.storage_offset() != place or not part.is_contiguous():
            return torch.cat(list(parts))
        place += part.numel()
    return first.as_strided((sum(len(part) for part in parts), *first.shape[1:]), first.stride())
