"""Adagrad (Duchi et al., 2011): every number has its own rate, which falls with the gradients it has seen.

G ← G + g²        θ ← θ − rate · g / (√G + ε)
"""

from __future__ import annotations

from torch import Tensor

from relcode.ops.rows import sum_rows

EPSILON = 1e-10  # so that a number whose gradient is zero stays where it is


def adagrad_(value: Tensor, square: Tensor, gradient: Tensor, rate: Tensor) -> None:
    """Move all of ``value`` against its gradient, in place."""
    square.addcmul_(gradient, gradient)
    value.addcdiv_(gradient * -rate, square.sqrt().add_(EPSILON))


def adagrad_rows_(value_R: Tensor, square_R: Tensor, index_X: Tensor, gradient_X: Tensor, rate: Tensor) -> None:
    """Move the rows named by ``index_X`` alone, each by the sum of its gradients, in place."""
    summed_X = sum_rows(index_X, gradient_X, len(value_R))
    square_R.index_add_(0, index_X, summed_X.square())
    value_R.index_add_(0, index_X, summed_X.mul(-rate).div_(square_R[index_X].sqrt().add_(EPSILON)))
