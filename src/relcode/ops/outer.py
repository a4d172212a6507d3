"""Matrices climb along sums of outer products by Adagrad (Duchi et al., 2011): one update of each relation that has rows, and of no other.

    g = Σ_{rows of r} xᵀ y        G ← G + g²        M_r ← M_r + rate · g / (√G + ε)

:func:`plain_climb_outer_` is the truth. On the CPU the sum of one relation is made and used before the next, so that no gradient of all matrices is
ever kept; on CUDA a kernel does the same block by block.
"""

from __future__ import annotations

import torch
from torch import Tensor

EPSILON = 1e-10  # so that a number whose gradient is zero stays where it is


def plain_climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move matrices along Σ xᵀ y, in place: the equations as written."""
    for relation in relation_P.unique().tolist():
        gradient_DD = torch.einsum("pd,pe->de", x_PD[relation_P == relation], y_PD[relation_P == relation])
        square_SDD[relation] += gradient_DD.square()
        value_SDD[relation] += rate * gradient_DD / (square_SDD[relation].sqrt() + EPSILON)


def cpu_climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move matrices along Σ xᵀ y, one product a relation."""
    if not bool((relation_P.diff() >= 0).all()):
        relation_P, order_P = torch.sort(relation_P, stable=True)
        x_PD, y_PD = x_PD[order_P], y_PD[order_P]
    relation_X, count_X = torch.unique_consecutive(relation_P, return_counts=True)
    counts = count_X.tolist()
    for relation, x_XD, y_XD in zip(relation_X.tolist(), x_PD.split(counts), y_PD.split(counts), strict=True):
        gradient_DD, square_DD = x_XD.T @ y_XD, square_SDD[relation]
        square_DD.addcmul_(gradient_DD, gradient_DD)
        value_SDD[relation].addcdiv_(gradient_DD.mul_(rate), square_DD.sqrt().add_(EPSILON))


def climb_outer_(value_SDD: Tensor, square_SDD: Tensor, relation_P: Tensor, x_PD: Tensor, y_PD: Tensor, rate: Tensor) -> None:
    """Move each relation's matrix along the sum of its rows' outer products by Adagrad, in place; rows may stand in any order."""
    if value_SDD.is_cuda:
        from relcode.ops import kernels

        kernels.climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, rate, EPSILON)
    else:
        cpu_climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, rate)
