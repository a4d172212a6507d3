"""Matrices climb along sums of outer products by Adagrad (Duchi et al., 2011): one update of each relation that has rows, and of no other.

    g = Σ_{rows of r} xᵀ y        G ← G + g²        M_r ← M_r + rate · g / (√G + ε)

:func:`plain_climb_outer_` is the truth. On the CPU the sum of one relation is made and used before the next, so that no gradient of all matrices is
ever kept; on CUDA a kernel does the same block by block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.ops.precision import asks_onednn
from relcode.ops.room import room_of_thread
from relcode.ops.runs import Plan, Stretch
from relcode.ops.triton import kernels
from relcode.ops.workers import share

EPSILON = 1e-10  # so that a number whose gradient is zero stays where it is
CACHED = 3 << 16  # numbers of sums of outer products that stay in a core's cache until they are used


def plain_climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move matrices along Σ xᵀ y, in place: the equations as written."""
    for relation in relation_P.unique().tolist():
        gradient_DD = torch.einsum("pd,pe->de", x_PD[relation_P == relation], y_PD[relation_P == relation])
        square_SDD[relation] += gradient_DD.square()
        value_SDD[relation] += rate * gradient_DD / (square_SDD[relation].sqrt() + EPSILON)


def climb_once_(value: Tensor, square: Tensor, ascent: Tensor, rate: float) -> None:
    """Take Adagrad's step along ``ascent``, in place, in one pass over memory: a third of the time of one pass for each operation.

    torch has it as part of its optimiser; it counts steps from 1, and without decay the count changes nothing.
    """
    torch._fused_adagrad_([value], [ascent], [square], [torch.ones(())], lr=rate, lr_decay=0.0, weight_decay=0.0, eps=EPSILON, maximize=True)


def cpu_climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move matrices along Σ xᵀ y, one product for a relation or for a stretch of them (:mod:`relcode.ops.runs`); these are shared among threads."""
    order_P: Tensor | None = None
    if not bool((relation_P.diff() >= 0).all()):
        relation_P, order_P = torch.sort(relation_P, stable=True)
    relation_X, count_X = torch.unique_consecutive(relation_P, return_counts=True)
    D, step = value_SDD.shape[-1], float(rate)
    plan = Plan.of(relation_X.tolist(), count_X.tolist(), asks_onednn(), max(1, CACHED // (D * D)))
    row_Z = plan.row_Z if order_P is None else order_P[plan.row_Z]

    def move(each: Stretch) -> None:
        if order_P is None and each.count == 1:
            x_XD, y_XD = x_PD[each.first : each.last], y_PD[each.first : each.last]
        else:
            here = slice(each.begin, each.end)
            fill_X = (~plan.own_Z[here]).nonzero()[:, 0]
            x_XD, y_XD = (part_PD[row_Z[here]].index_fill_(0, fill_X, 0) for part_PD in (x_PD, y_PD))
        sum_RDD, moved = room_of_thread().take("outer", (each.count, D, D), value_SDD), slice(each.relation, each.relation + each.count)
        if each.count == 1:
            torch.mm(x_XD.T, y_XD, out=sum_RDD[0])
        else:
            torch.bmm(x_XD.view(each.count, -1, D).mT, y_XD.view(each.count, -1, D), out=sum_RDD)
        climb_once_(value_SDD[moved], square_SDD[moved], sum_RDD, step)

    share(move, plan.stretches)


def climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move each relation's matrix along the sum of its rows' outer products by Adagrad, in place; rows may stand in any order."""
    if value_SDD.is_cuda:
        kernels().climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, rate, EPSILON)
    else:
        cpu_climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, rate)
