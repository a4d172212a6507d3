"""Sums of outer products moved by Adagrad, on the CPU; kernels are tested in test_kernels.py."""

from __future__ import annotations

import pytest
import torch

from relcode.ops.outer import climb_once_, climb_outer_, plain_climb_outer_


def test_a_first_step_by_hand() -> None:
    # One row, xᵀy = [[3, 4], [6, 8]]: Adagrad's first step is the rate in every number, but where the gradient is zero.
    value_SDD, square_SDD = torch.zeros(2, 2, 2), torch.zeros(2, 2, 2)
    climb_outer_(value_SDD, square_SDD, torch.tensor([1]), torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0]]), torch.tensor(0.5))
    assert value_SDD.tolist() == [[[0, 0], [0, 0]], [[0.5, 0], [0.5, 0]]]
    assert square_SDD[1].tolist() == [[9, 0], [36, 0]]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_agrees_with_the_equations(ordered: bool, threads: int) -> None:
    generator, before = torch.Generator().manual_seed(0), torch.get_num_threads()
    relation_P = torch.randint(6, (40,), generator=generator)
    relation_P = relation_P[relation_P != 3]  # one relation has no row
    relation_P = relation_P.sort().values if ordered else relation_P
    value_SDD, square_SDD = torch.randn(6, 5, 5, generator=generator), torch.rand(6, 5, 5, generator=generator)
    x_PD, y_PD = (torch.randn(len(relation_P), 5, generator=generator) for _ in range(2))
    expected, expected_square, untouched = value_SDD.clone(), square_SDD.clone(), value_SDD[3].clone()
    plain_climb_outer_(expected, expected_square, relation_P, x_PD, y_PD, torch.tensor(0.1))
    torch.set_num_threads(threads)
    try:
        climb_outer_(value_SDD, square_SDD, relation_P, x_PD, y_PD, torch.tensor(0.1))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(value_SDD, expected)
    torch.testing.assert_close(square_SDD, expected_square)
    assert torch.equal(value_SDD[3], untouched)


def test_no_rows_move_nothing() -> None:
    value_SDD, square_SDD = torch.ones(2, 3, 3), torch.ones(2, 3, 3)
    climb_outer_(value_SDD, square_SDD, torch.zeros(0, dtype=torch.long), torch.zeros(0, 3), torch.zeros(0, 3), torch.tensor(1.0))
    assert bool((value_SDD == 1).all()) and bool((square_SDD == 1).all())


def test_one_pass_agrees_with_the_operations_one_by_one() -> None:
    generator = torch.Generator().manual_seed(1)
    value, square, ascent = (torch.randn(7, 33, generator=generator) for _ in range(3))
    square.abs_()
    ascent[2], square[2] = 0.0, 0.0  # never moved
    after = square + ascent**2
    expected = value + 0.3 * ascent / (after.sqrt() + 1e-10)
    kept = ascent.clone()
    climb_once_(value, square, ascent, 0.3)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(square, after)
    assert torch.equal(ascent, kept)
