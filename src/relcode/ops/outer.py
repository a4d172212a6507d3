"""Matrices climb along sums of outer products by Adagrad (Duchi et al., 2011): one update of each relation that has rows, and of no other.

    g = Σ_{rows of r} xᵀ y        G ← G + g²        M_r ← M_r + rate · g / (√G + ε)

:func:`plain_climb_outer_` is the truth. On the CPU the sum of one relation is made and used before the next, so that no gradient of all matrices is
ever kept; on CUDA a kernel does the same block by block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.ops.diagonal import outer
from relcode.ops.triton import kernels
from relcode.ops.workers import share

EPSILON = 1e-10  # so that a number whose gradient is zero stays where it is


def plain_climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move matrices along Σ xᵀ y, in place: the equations as written."""
    for relation in relation_P.unique().tolist():
        gradient_DD = outer(x_PD[relation_P == relation], y_PD[relation_P == relation], value_SDD.shape[-1])
        square_SDD[relation] += gradient_DD.square()
        value_SDD[relation] += rate * gradient_DD / (square_SDD[relation].sqrt() + EPSILON)


def climb_once_(value: Tensor, square: Tensor, ascent: Tensor, rate: float) -> None:
    """Take Adagrad's step along ``ascent``, in place, in one pass over memory: a third of the time of one pass for each operation.

    torch has it as part of its optimiser; it counts steps from 1, and without decay the count changes nothing. It walks memory as it lies.
    """
    assert value.is_contiguous() and square.is_contiguous(), "numbers would be paired with those of other places"
    torch._fused_adagrad_(
        [value], [ascent.contiguous()], [square], [torch.ones(())], lr=rate, lr_decay=0.0, weight_decay=0.0, eps=EPSILON, maximize=True
    )


def cpu_climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move matrices along Σ xᵀ y, one product a relation, relations shared among threads."""
    order_P: Tensor | None = None
    if not bool((relation_P.diff() >= 0).all()):
        relation_P, order_P = torch.sort(relation_P, stable=True)
    relation_X, count_X = torch.unique_consecutive(relation_P, return_counts=True)
    step = float(rate)

    def move(run: tuple[int, int, int]) -> None:
        relation, first, last = run
        if order_P is None:
            x_XD, y_XD = x_PD[first:last], y_PD[first:last]
        else:
            x_XD, y_XD = x_PD.index_select(0, order_P[first:last]), y_PD.index_select(0, order_P[first:last])
        climb_once_(value_SDD[relation], square_SDD[relation], outer(x_XD, y_XD, value_SDD.shape[-1]), step)

    last_X = count_X.cumsum(0)
    share(move, zip(relation_X.tolist(), (last_X - count_X).tolist(), last_X.tolist(), strict=True))


def climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move each relation's matrix along the sum of its rows' outer products by Adagrad, in place; rows may stand in any order."""
    if value_SDD.is_cuda:
        kernels().climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, rate, EPSILON)
    else:
        cpu_climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, rate)
