"""Adagrad (Duchi et al., 2011): every number has its own rate, which falls with the gradients it has seen.

G ← G + g²        θ ← θ − rate · g / (√G + ε)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from relcode.ops.outer import EPSILON, climb_once_
from relcode.ops.rows import sum_rows
from relcode.ops.workers import share

BLOCK = 512  # rows that are moved together on the CPU, few enough to stay in the cache


def adagrad_(value: Tensor, square: Tensor, gradient: Tensor, rate: Tensor) -> None:
    """Move all of ``value`` against its gradient, in place."""
    if value.device.type == "cpu":
        climb_once_(value, square, gradient, -float(rate))
    else:
        square.addcmul_(gradient, gradient)
        value.addcdiv_(gradient * -rate, square.sqrt().add_(EPSILON))


def adagrad_rows_(value_R: Tensor, square_R: Tensor, index_X: Tensor, gradient_X: Tensor, rate: Tensor) -> None:
    """Move the rows named by ``index_X`` alone, each by the sum of its gradients, in place."""
    summed_X = sum_rows(index_X, gradient_X, len(value_R))
    square_R.index_add_(0, index_X, summed_X.square())
    value_R.index_add_(0, index_X, summed_X.mul(-rate).div_(square_R[index_X].sqrt().add_(EPSILON)))


def climb_rows_(value_ED: Tensor, square_ED: Tensor, index_X: Tensor, ascent_XD: Tensor, decay_E: Tensor, rate: float) -> None:
    """Move the rows named by ``index_X`` along the sum of their ascents less decay · value, in place, on the CPU.

    Rows are summed, moved and put back block by block, and blocks are shared among threads.
    """
    sorted_X, order_X = torch.sort(index_X, stable=True)
    row_Y, count_Y = torch.unique_consecutive(sorted_X, return_counts=True)
    last_Y = count_Y.cumsum(0)

    def move(first: int) -> None:
        here = slice(first, first + BLOCK)
        row_B, begin_B, end = row_Y[here], last_Y[here] - count_Y[here], int(last_Y[here][-1])
        begin = int(begin_B[0])
        gradient_BD = embedding_bag(order_X[begin:end], ascent_XD, begin_B - begin, mode="sum")
        value_BD, square_BD = value_ED.index_select(0, row_B), square_ED.index_select(0, row_B)
        gradient_BD.addcmul_(value_BD, decay_E[row_B][:, None], value=-1)
        climb_once_(value_BD, square_BD, gradient_BD, rate)
        value_ED.index_copy_(0, row_B, value_BD)
        square_ED.index_copy_(0, row_B, square_BD)

    share(move, range(0, len(row_Y), BLOCK))
