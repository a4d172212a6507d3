"""Adagrad, by hand and against torch's own."""

from __future__ import annotations

import pytest
import torch

import relcode.training.adagrad as adagrad_module
from relcode.ops.rows import sum_rows
from relcode.training.adagrad import adagrad_, adagrad_rows_, climb_rows_


def test_first_step_is_the_rate_and_the_second_is_smaller() -> None:
    value, square, rate = torch.tensor([1.0, -1.0]), torch.zeros(2), torch.tensor(0.1)
    adagrad_(value, square, torch.tensor([4.0, -0.5]), rate)
    assert value.tolist() == pytest.approx([0.9, -0.9])
    adagrad_(value, square, torch.tensor([4.0, -0.5]), rate)
    assert value.tolist() == pytest.approx([0.9 - 0.1 / 2**0.5, -0.9 + 0.1 / 2**0.5])


def test_agrees_with_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    value, gradients = torch.randn(4, 3, generator=generator), torch.randn(5, 4, 3, generator=generator)
    theirs = value.clone().requires_grad_()
    optimiser, square = torch.optim.Adagrad([theirs], lr=0.2, eps=1e-10), torch.zeros_like(value)
    for gradient in gradients:
        theirs.grad = gradient.clone()
        optimiser.step()
        adagrad_(value, square, gradient, torch.tensor(0.2))
    torch.testing.assert_close(value, theirs.detach())


def test_rows_named_twice_move_once_by_the_sum() -> None:
    generator = torch.Generator().manual_seed(1)
    index, gradient = torch.tensor([2, 0, 2]), torch.randn(3, 2, 2, generator=generator)
    dense = torch.zeros(4, 2, 2).index_add_(0, index, gradient)
    value, square = torch.ones(4, 2, 2), torch.full((4, 2, 2), 0.5)
    expected, expected_square = value.clone(), square.clone()
    adagrad_(expected, expected_square, dense, torch.tensor(0.3))
    adagrad_rows_(value, square, index, gradient, torch.tensor(0.3))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(square, expected_square)


def test_zero_gradient_moves_nothing() -> None:
    value, square = torch.ones(3), torch.zeros(3)
    adagrad_(value, square, torch.zeros(3), torch.tensor(0.1))
    assert value.tolist() == [1, 1, 1]


def test_sum_rows_keeps_the_first_place() -> None:
    summed = sum_rows(torch.tensor([3, 1, 3, 1, 0]), torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), 5)
    assert summed.tolist() == [5, 10, 0, 0, 16]


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_climb_along_their_sums_less_the_decay(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adagrad_module, "BLOCK", 3)
    generator, before = torch.Generator().manual_seed(2), torch.get_num_threads()
    index, ascent = torch.randint(20, (30,), generator=generator), torch.randn(30, 4, generator=generator)
    value, square = torch.randn(25, 4, generator=generator), torch.rand(25, 4, generator=generator)
    decay = torch.rand(25, generator=generator) * torch.zeros(25).index_fill_(0, index, 1.0)  # rows that are not named have none
    expected, expected_square = value.clone(), square.clone()
    adagrad_(expected, expected_square, (value * decay[:, None]).index_add_(0, index, ascent, alpha=-1), torch.tensor(0.3))
    torch.set_num_threads(threads)
    try:
        climb_rows_(value, square, index, ascent, decay, 0.3)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(square, expected_square)


def test_no_rows_climb_nowhere() -> None:
    value, square = torch.ones(3, 2), torch.ones(3, 2)
    climb_rows_(value, square, torch.zeros(0, dtype=torch.long), torch.zeros(0, 2), torch.ones(3), 0.1)
    assert bool((value == 1).all())
