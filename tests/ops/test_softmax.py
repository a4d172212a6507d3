"""The softmax of a table in place: by hand, beside torch's, and at its edges."""

from __future__ import annotations

import math

import pytest
import torch

from relcode.ops.softmax import plain_softmax_, softmax_


def test_by_hand() -> None:
    score = torch.tensor([[0.0, math.log(3.0), 9.0], [-5.0, -5.0, 9.0]])  # the last column is padding
    total = softmax_(score, 2)
    assert total.tolist() == pytest.approx([math.log(4.0), math.log(2.0) - 5.0])
    assert score.tolist() == [pytest.approx([0.25, 0.75, 0.0]), pytest.approx([0.5, 0.5, 0.0])]


@pytest.mark.parametrize("size", [1.0, 1e4, -1e9])
def test_it_is_that_of_torch_whatever_the_size(size: float) -> None:
    score = torch.randn(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * size
    expected, found = torch.softmax(score, dim=1), score.clone()
    total = plain_softmax_(found, 7)
    torch.testing.assert_close(found, expected)
    assert bool(total.isfinite().all())


def test_no_rows_and_what_is_not_a_number() -> None:
    assert softmax_(torch.empty(0, 3), 3).shape == (0,)
    assert not bool(softmax_(torch.tensor([[math.nan, 1.0]]), 2).isfinite().any())
