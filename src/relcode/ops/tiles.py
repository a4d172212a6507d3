"""Products of rows with the matrix of their relation, rows being laid out in tiles of one relation.

A tile is W rows that share a relation, so that the step of a whole batch is a few large matrix products. The layout is

    x_TWD         T tiles of W rows of size D, tile t belonging to relation_T[t]
    matrix_SDD    one matrix for each directed relation

    product       y = x M_r          back    g M_rᵀ          outer   M_r += rate · Σ_w x_wᵀ g_w

:class:`PlainTiles` is the truth. :class:`CpuTiles` multiplies with the matrices where they lie (no copy of a D×D matrix is ever made) and takes
neighbouring tiles of a relation together. :class:`GatheredTiles` gathers the matrices once for single batched products, with shapes that do not
depend on the data: on CUDA, and wherever matrices are small blocks along their diagonal (:mod:`relcode.ops.diagonal`). Rows that are sorted by
relation need no padding: they are tiles of one row each (W = 1), and :class:`GroupedTiles` finds the larger ones in them and multiplies with the
matrices where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relcode.ops.diagonal import outer, times
from relcode.ops.triton import kernels
from relcode.ops.workers import share


def matrix_norms(matrix_SDD: Tensor, relations: Sequence[Tensor]) -> Tensor:
    """Return ‖M_r‖ (Frobenius) of the relations named, at their places among all; the others may be 1."""
    if matrix_SDD.is_cuda:  # without knowing which they are
        return matrix_SDD.flatten(1).norm(dim=1)
    norm_S = matrix_SDD.new_ones(len(matrix_SDD))
    used = torch.cat([relation.flatten() for relation in relations]).unique().tolist()

    def measure(relation: int) -> None:
        norm_S[relation] = torch.linalg.vector_norm(matrix_SDD[relation])

    share(measure, used)
    return norm_S


class PlainTiles:
    """The plain version: equations as written. The matrix in force is scale_r M_r where a scale is given, else M_r itself."""

    def __init__(self, matrix_SDD: Tensor, relation_T: Tensor, scale_S: Tensor | None = None) -> None:
        """Look at the matrices of the tiles' relations."""
        self.matrix_SDD, self.relation_T, self.scale_S = matrix_SDD, relation_T, scale_S

    def product(self, x_TWD: Tensor) -> Tensor:
        """Return y[t, w] = x[t, w] M_r."""
        return self._scaled(times(x_TWD, self.matrix_SDD[self.relation_T]))

    def back(self, g_TWD: Tensor) -> Tensor:
        """Return g M_rᵀ, the gradient of the product towards x."""
        return self._scaled(times(g_TWD, self.matrix_SDD[self.relation_T], back=True))

    def _scaled(self, y_TWD: Tensor) -> Tensor:
        return y_TWD if self.scale_S is None else y_TWD * self.scale_S[self.relation_T][:, None, None]

    def add_outer_(self, x_TWD: Tensor, g_TWD: Tensor, rate_S: Tensor) -> None:
        """Add rate_r · Σ_w x_wᵀ g_w of every tile to its relation's matrix, in place: the gradient of the product towards M."""
        for t, relation in enumerate(self.relation_T.tolist()):
            self.matrix_SDD[relation] += rate_S[relation] * outer(x_TWD[t], g_TWD[t], self.matrix_SDD.shape[-1])


class CpuTiles(PlainTiles):
    """One product for each run of neighbouring tiles of a relation, with the matrix where it lies."""

    def __init__(self, matrix_SDD: Tensor, relation_T: Tensor, scale_S: Tensor | None = None) -> None:
        """Find the runs."""
        super().__init__(matrix_SDD, relation_T, scale_S)
        relation_X, length_X = torch.unique_consecutive(relation_T, return_counts=True)
        self.relations: list[int] = relation_X.tolist()
        self.lengths: list[int] = length_X.tolist()
        self.scales: list[float] = [1.0] * len(self.relations) if scale_S is None else scale_S[relation_X].tolist()

    def product(self, x_TWD: Tensor) -> Tensor:
        """Return x M_r."""
        self.multiply(x_TWD.flatten(0, 1), (y_TWD := torch.empty_like(x_TWD)).flatten(0, 1))
        return y_TWD

    def back(self, g_TWD: Tensor) -> Tensor:
        """Return g M_rᵀ."""
        self.multiply(g_TWD.flatten(0, 1), (y_TWD := torch.empty_like(g_TWD)).flatten(0, 1), back=True)
        return y_TWD

    def multiply(self, x_XD: Tensor, y_XD: Tensor, back: bool = False) -> None:
        """Write x M_r (x M_rᵀ where ``back``) of all rows to y."""
        for relation, scale, x_RD, y_RD in zip(self.relations, self.scales, self._runs(x_XD), self._runs(y_XD), strict=True):
            matrix_DD = self.matrix_SDD[relation]
            torch.addmm(y_RD, x_RD, matrix_DD.T if back else matrix_DD, beta=0, alpha=scale, out=y_RD)

    def add_outer_(self, x_TWD: Tensor, g_TWD: Tensor, rate_S: Tensor) -> None:
        """Add rate_r · Σ_w x_wᵀ g_w."""
        rates = rate_S[self.relations].tolist()
        for relation, rate, x_XD, g_XD in zip(self.relations, rates, self._runs(x_TWD.flatten(0, 1)), self._runs(g_TWD.flatten(0, 1)), strict=True):
            self.matrix_SDD[relation].addmm_(x_XD.T, g_XD, alpha=rate)

    def _runs(self, x_XD: Tensor) -> tuple[Tensor, ...]:
        """Return the rows of each run as one matrix."""
        width = len(x_XD) // max(1, len(self.relation_T))
        return x_XD.split([length * width for length in self.lengths])


class GatheredTiles(PlainTiles):
    """Batched products with the matrices gathered once."""

    def __init__(self, matrix_SDD: Tensor, relation_T: Tensor, scale_S: Tensor | None = None) -> None:
        """Gather the matrices."""
        super().__init__(matrix_SDD, relation_T, scale_S)
        self.matrix_TDD = matrix_SDD[relation_T]

    def product(self, x_TWD: Tensor) -> Tensor:
        """Return x M_r."""
        return self._scaled(times(x_TWD, self.matrix_TDD))

    def back(self, g_TWD: Tensor) -> Tensor:
        """Return g M_rᵀ."""
        return self._scaled(times(g_TWD, self.matrix_TDD, back=True))

    def add_outer_(self, x_TWD: Tensor, g_TWD: Tensor, rate_S: Tensor) -> None:
        """Add rate_r · Σ_w x_wᵀ g_w."""
        rate_T11 = rate_S[self.relation_T][:, None, None]
        self.matrix_SDD.index_add_(0, self.relation_T, outer(x_TWD, g_TWD * rate_T11, self.matrix_SDD.shape[-1]))


class GroupedTiles(PlainTiles):
    """Rows sorted by relation (W = 1), by a kernel that reads the matrices where they lie."""

    def __init__(self, matrix_SDD: Tensor, relation_T: Tensor, scale_S: Tensor | None = None) -> None:
        """Cut the rows of each relation into tiles."""
        super().__init__(matrix_SDD, relation_T, scale_S)
        self.kernels = kernels()
        self.tiles = self.kernels.tiles_in(self.kernels.runs_of(relation_T, len(matrix_SDD)), len(relation_T))

    def product(self, x_TWD: Tensor) -> Tensor:
        """Return x M_r."""
        return self._product(x_TWD, back=False)

    def back(self, g_TWD: Tensor) -> Tensor:
        """Return g M_rᵀ."""
        return self._product(g_TWD, back=True)

    def add_outer_(self, x_TWD: Tensor, g_TWD: Tensor, rate_S: Tensor) -> None:
        """Add rate_r · Σ_w x_wᵀ g_w."""
        self.kernels.climb_outer_(self.matrix_SDD, None, self.relation_T, x_TWD.flatten(0, 1), g_TWD.flatten(0, 1), rate_S)

    def _product(self, x_TWD: Tensor, back: bool) -> Tensor:
        y_PD: Tensor = self.kernels.grouped_product(x_TWD.flatten(0, 1), self.matrix_SDD, self.tiles, self.scale_S, back)
        return y_PD.view_as(x_TWD)


def tiles_of(matrix_SDD: Tensor, relation_T: Tensor, scale_S: Tensor | None = None, width: int | None = None) -> PlainTiles:
    """Return the version that is fast where the matrices are; ``width`` is that of the tiles, 1 for rows sorted by relation."""
    if matrix_SDD.shape[1] != matrix_SDD.shape[2]:
        return GatheredTiles(matrix_SDD, relation_T, scale_S)
    if not matrix_SDD.is_cuda:
        return CpuTiles(matrix_SDD, relation_T, scale_S)
    return (GroupedTiles if width == 1 else GatheredTiles)(matrix_SDD, relation_T, scale_S)
