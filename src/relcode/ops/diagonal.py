"""Matrices that have numbers only in blocks along their diagonal, and products with them.

A d×d matrix of d/b blocks of size b×b is kept as d rows of b numbers, [D, b]: a row of the matrix without the zeros outside its block. With b = d
that is the matrix itself, and every function here is the plain product; names say ``DD`` for both. Products, sums, transposes and composition of such
matrices are such matrices again, and so is the identity, so that nothing but :func:`whole` ever needs the zeros. Norms, cosines and traces are those
of the whole matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, np.dtype[np.float32]]


def blocks_of(matrix_XDD: Tensor) -> Tensor:
    """Return a view of the blocks; [..., d/b, b, b]."""
    return matrix_XDD.unflatten(-2, (-1, matrix_XDD.shape[-1]))


def _cut(x_XWD: Tensor, b: int) -> Tensor:
    """Return rows cut into the parts that meet a block; [..., d/b, W, b]."""
    return x_XWD.unflatten(-1, (-1, b)).transpose(-3, -2)


def _joined(x_XKWb: Tensor) -> Tensor:
    """Undo :func:`_cut`."""
    return x_XKWb.transpose(-3, -2).flatten(-2)


def times(x_XWD: Tensor, matrix_XDD: Tensor, back: bool = False) -> Tensor:
    """Return x M, or x Mᵀ where ``back``, for W rows; leading dimensions are batches. One vector [D] is one row."""
    D, b = matrix_XDD.shape[-2:]
    if x_XWD.dim() == 1:
        return times(x_XWD[None], matrix_XDD, back).squeeze(-2)
    if b == D:
        return x_XWD @ (matrix_XDD.mT if back else matrix_XDD)
    block_XKbb = blocks_of(matrix_XDD)
    return _joined(_cut(x_XWD, b) @ (block_XKbb.mT if back else block_XKbb))


def transpose(matrix_XDD: Tensor) -> Tensor:
    """Return Mᵀ."""
    return blocks_of(matrix_XDD).mT.flatten(-3, -2)


def compose(first_XDD: Tensor, second_XDD: Tensor) -> Tensor:
    """Return the matrix of the path r1/r2, M_1 M_2: first r1, then r2. Leading dimensions are batches."""
    return (blocks_of(first_XDD) @ blocks_of(second_XDD)).flatten(-3, -2)


def outer(x_XWD: Tensor, y_XWD: Tensor, b: int) -> Tensor:
    """Return Σ_w x_wᵀ y_w within the blocks, the gradient of x M towards M; [..., D, b]."""
    if b == x_XWD.shape[-1]:
        return x_XWD.mT @ y_XWD
    return (_cut(x_XWD, b).mT @ _cut(y_XWD, b)).flatten(-3, -2)


def identity_like(matrix_XDD: Tensor) -> Tensor:
    """Return the identity I of the same size and blocks; [D, b]."""
    D, b = matrix_XDD.shape[-2:]
    return torch.eye(b, dtype=matrix_XDD.dtype, device=matrix_XDD.device).repeat(D // b, 1)


def trace(matrix_XDD: Tensor) -> Tensor:
    """Return tr M of each matrix."""
    return blocks_of(matrix_XDD).diagonal(dim1=-2, dim2=-1).flatten(-2).sum(-1)


def whole(matrix_XDD: Tensor) -> Tensor:
    """Return the matrix with its zeros; [..., D, D]."""
    D, b = matrix_XDD.shape[-2:]
    if b == D:
        return matrix_XDD
    matrix_XKbKb = torch.diag_embed(blocks_of(matrix_XDD).movedim(-3, -1), dim1=-4, dim2=-2)
    return matrix_XKbKb.flatten(-2).flatten(-3, -2)


def whole_array(matrix_XDD: Array) -> Array:
    """Return what :func:`whole` does, of NumPy's arrays."""
    matrix: Array = whole(torch.from_numpy(np.ascontiguousarray(matrix_XDD))).numpy()
    return matrix
