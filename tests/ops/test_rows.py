from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relcode.ops.rows import cumulative, draw_rows, join_rows, limit_norm, row_counts


def chi_square(count: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((count - expected) ** 2 / expected).sum())


def test_counting_by_hand() -> None:
    index = torch.tensor([[2, 0], [2, 3]])
    weight = torch.tensor([[1.0, 0.5], [3.0, 0.0]])
    assert row_counts(index, weight, 5).tolist() == [0.5, 0.0, 4.0, 0.0, 0.0]


def test_counting_nothing() -> None:
    assert row_counts(torch.zeros(0, dtype=torch.long), torch.zeros(0), 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_counts_have_the_type_of_the_weights(dtype: torch.dtype) -> None:
    assert row_counts(torch.tensor([1]), torch.ones(1, dtype=dtype), 2).dtype == dtype


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=40))
def test_counts_are_the_sums_of_a_loop(pairs: list[tuple[int, int]]) -> None:
    expected = [0] * 7
    for row, weight in pairs:
        expected[row] += weight
    index, weights = torch.tensor([row for row, _ in pairs], dtype=torch.long), torch.tensor([weight for _, weight in pairs], dtype=torch.long)
    assert row_counts(index, weights, 7).tolist() == expected


def test_long_rows_are_scaled_down_by_hand() -> None:
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-30.0, 40.0]])
    assert torch.allclose(limit_norm(x, 5.0), torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-3.0, 4.0]]))
    assert torch.allclose(limit_norm(x, 1.0)[0], torch.tensor([0.6, 0.8]))


def test_without_a_limit_rows_stay_as_they_are() -> None:
    x = torch.tensor([[1e30, -1e30]])
    assert torch.equal(limit_norm(x, math.inf), x)


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=8), st.floats(0.125, 64, width=32))
def test_a_limited_row_keeps_its_direction_and_is_no_longer_than_the_limit(rows: list[list[float]], limit: float) -> None:
    x = torch.tensor(rows, dtype=torch.float64)
    limited = limit_norm(x, limit)
    for before, after in zip(x, limited, strict=True):
        norm = math.sqrt(sum(value**2 for value in before.tolist()))
        expected = before if norm <= limit else before * (limit / norm)
        assert torch.allclose(after, expected, rtol=1e-12, atol=0)


def test_limits_hold_along_the_last_axis_whatever_the_others() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 9
    assert torch.allclose(limit_norm(x, 2.0), limit_norm(x.reshape(6, 4), 2.0).view(2, 3, 4))
    assert limit_norm(x, 2.0).norm(dim=-1).max() <= 2 + 1e-12


def test_a_row_that_is_not_finite_stays_so_and_leaves_its_neighbours_alone() -> None:
    limited = limit_norm(torch.tensor([[math.nan, 1.0], [6.0, 8.0], [math.inf, 1.0]]), 5.0)
    assert not torch.isfinite(limited[0]).all()
    assert torch.allclose(limited[1], torch.tensor([3.0, 4.0]))
    assert not torch.isfinite(limited[2]).all()


def test_running_shares_by_hand() -> None:
    shares = cumulative(torch.tensor([0, 1, 0, 3, 0]))
    assert shares.tolist() == [0.0, 0.25, 0.25, 1.0, 1.0]
    assert shares.dtype == torch.float64


def test_draws_follow_the_weights_and_weight_zero_is_never_drawn() -> None:
    weight = torch.tensor([0.0, 5.0, 1.0, 0.0, 0.0, 3.0, 1.0, 0.0])
    draws = 20_000
    drawn = draw_rows(cumulative(weight), (100, draws // 100), torch.Generator().manual_seed(0))
    assert drawn.shape == (100, draws // 100)
    count = torch.bincount(drawn.flatten(), minlength=len(weight)).double()
    assert count[weight == 0].sum() == 0
    some = weight > 0
    assert chi_square(count[some], draws * weight[some].double() / weight.sum()) < 16.3  # 99.9 % of chi-square with 3 degrees of freedom


def test_draws_that_fall_exactly_on_an_edge_belong_to_the_row_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([0.0, 0.25, 1 - 2.0**-53], dtype=torch.float64))
    assert draw_rows(cumulative(torch.tensor([0, 1, 0, 3, 0])), (3,), torch.Generator()).tolist() == [1, 3, 3]


def test_the_same_generator_state_draws_the_same_rows() -> None:
    shares = cumulative(torch.arange(1, 50))
    first, second = (draw_rows(shares, (64,), torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, draw_rows(shares, (64,), torch.Generator().manual_seed(8)))


def test_neighbours_are_joined_without_a_copy_and_others_with_one() -> None:
    table = torch.arange(24.0).view(8, 3)
    one, two, three = table.split([2, 1, 5])
    assert join_rows([one, two, three]).data_ptr() == table.data_ptr()
    for parts in ([one, two, three], [two, three], [one, three], [three, one], [one.clone(), two], [table[:4:2], two], [one, one], [two[:0], two]):
        assert torch.equal(join_rows(parts), torch.cat(parts))
