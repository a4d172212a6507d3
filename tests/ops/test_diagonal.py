"""Matrices of blocks beside the same matrices with their zeros: every function is the plain one, of whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from relcode.ops.diagonal import blocks_of, compose, identity_like, outer, times, trace, transpose, whole, whole_array

D = 12
WIDTHS = [1, 2, 4, 12]


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_whole_by_hand() -> None:
    kept = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    assert whole(kept).tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]
    assert blocks_of(kept).tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert np.array_equal(whole_array(kept.numpy()[None, ::-1]), whole(kept.flip(0))[None].numpy())


def test_zeros_outside_the_blocks_are_zeros_whatever_is_inside() -> None:
    made = whole(torch.tensor([[torch.inf], [torch.nan], [-1.0]]))
    outside = ~torch.eye(3, dtype=torch.bool)
    assert not made[outside].any() and not made[outside].signbit().any() and made[2, 2] == -1


@pytest.mark.parametrize("b", WIDTHS)
def test_products_are_those_of_whole_matrices(b: int) -> None:
    matrix_TDD, x_TWD = gaussian(3, D, b), gaussian(3, 5, D, seed=1)
    torch.testing.assert_close(times(x_TWD, matrix_TDD), x_TWD @ whole(matrix_TDD))
    torch.testing.assert_close(times(x_TWD, matrix_TDD, back=True), x_TWD @ whole(matrix_TDD).mT)
    torch.testing.assert_close(times(x_TWD[0], matrix_TDD), x_TWD[0] @ whole(matrix_TDD))  # the same rows for each
    torch.testing.assert_close(times(x_TWD[0, 0], matrix_TDD[1]), x_TWD[0, 0] @ whole(matrix_TDD[1]))
    torch.testing.assert_close(times(x_TWD[0, 0], matrix_TDD, back=True), x_TWD[0, 0] @ whole(matrix_TDD).mT)


@pytest.mark.parametrize("b", WIDTHS)
def test_matrices_made_of_matrices_are_those_of_whole_ones(b: int) -> None:
    first_TDD, second_TDD = gaussian(3, D, b), gaussian(3, D, b, seed=1)
    torch.testing.assert_close(whole(compose(first_TDD, second_TDD)), whole(first_TDD) @ whole(second_TDD))
    torch.testing.assert_close(whole(compose(first_TDD[0], second_TDD)), whole(first_TDD[0]) @ whole(second_TDD))
    torch.testing.assert_close(whole(transpose(first_TDD)), whole(first_TDD).mT)
    torch.testing.assert_close(whole(identity_like(first_TDD)), torch.eye(D, dtype=torch.float64))
    torch.testing.assert_close(trace(first_TDD), whole(first_TDD).diagonal(dim1=1, dim2=2).sum(1))
    torch.testing.assert_close(first_TDD.flatten(1).norm(dim=1), whole(first_TDD).flatten(1).norm(dim=1))


@pytest.mark.parametrize("b", WIDTHS)
def test_outer_products_are_the_slope_towards_the_blocks(b: int) -> None:
    x_TWD, g_TWD = gaussian(3, 5, D), gaussian(3, 5, D, seed=1)
    matrix_TDD = gaussian(3, D, b, seed=2).requires_grad_()
    (times(x_TWD, matrix_TDD) * g_TWD).sum().backward()
    found_TDD = outer(x_TWD, g_TWD, b)
    assert matrix_TDD.grad is not None
    torch.testing.assert_close(found_TDD, matrix_TDD.grad)
    inside_DD = whole(torch.ones(D, b, dtype=torch.float64))
    torch.testing.assert_close(whole(found_TDD), (x_TWD.mT @ g_TWD) * inside_DD)
