from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from relcode.model.orthogonality import orthogonal_pull, pull_once_


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rotation(d: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(gaussian(d, d, seed=seed)).Q


def slow_pull(matrix: list[list[float]]) -> list[list[float]]:
    """−s (N Nᵀ − I) N by loops, N = M/s with ‖N‖² = d."""
    d = len(matrix)
    s = math.sqrt(sum(value**2 for row in matrix for value in row) / d)
    n = [[value / s for value in row] for row in matrix]
    gram = [[sum(n[i][k] * n[j][k] for k in range(d)) - (i == j) for j in range(d)] for i in range(d)]
    return [[-s * sum(gram[i][k] * n[k][j] for k in range(d)) for j in range(d)] for i in range(d)]


def test_a_pull_worked_by_hand() -> None:
    # diag(3, 1): s² = 10/2, N Nᵀ − I = diag(9/5 − 1, 1/5 − 1), so M moves by −(4/5)·3 and +(4/5)·1.
    pull, safe = orthogonal_pull(torch.tensor([[[3.0, 0.0], [0.0, 1.0]]], dtype=torch.float64))
    assert torch.allclose(pull, torch.tensor([[[-2.4, 0.0], [0.0, 0.8]]], dtype=torch.float64))
    assert safe.tolist() == pytest.approx([(1.8**3 + 0.2**3) ** (-1 / 3)])


@pytest.mark.parametrize("d", [1, 2, 5])
def test_every_pull_agrees_with_the_loop(d: int) -> None:
    matrix_XDD = gaussian(4, d, d, seed=d) * torch.tensor([0.01, 1.0, 3.0, 100.0], dtype=torch.float64)[:, None, None]
    pull_XDD, _ = orthogonal_pull(matrix_XDD)
    for matrix, pull in zip(matrix_XDD, pull_XDD, strict=True):
        assert torch.allclose(pull, torch.tensor(slow_pull(matrix.tolist()), dtype=torch.float64), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [0.1, 1.0, 50.0])
def test_a_multiple_of_an_orthogonal_matrix_stays_where_it_is(size: float) -> None:
    pull, _ = orthogonal_pull(rotation(6)[None] * size)
    assert pull.abs().max() < 1e-12 * size


def test_the_pull_is_downhill_by_finite_differences() -> None:
    """At N with ‖N‖² = d the pull is minus the gradient of ‖N Nᵀ − I‖²/4, the scale held at 1."""
    unit = gaussian(4, 4)
    unit = unit * 2 / unit.norm()
    step = 1e-6

    def penalty(matrix: Tensor) -> float:
        return float(((matrix @ matrix.T - torch.eye(4, dtype=torch.float64)) ** 2).sum()) / 4

    pull = orthogonal_pull(unit[None])[0][0]
    for i in range(4):
        for j in range(4):
            up, down = unit.clone(), unit.clone()
            up[i, j] += step
            down[i, j] -= step
            assert pull[i, j].item() == pytest.approx(-(penalty(up) - penalty(down)) / (2 * step), abs=1e-8)


def test_the_pull_grows_with_the_matrix_and_the_safe_step_does_not() -> None:
    matrix = gaussian(1, 5, 5)
    small, large = orthogonal_pull(matrix), orthogonal_pull(matrix * 1000)
    assert torch.allclose(large[0], 1000 * small[0])
    assert torch.allclose(large[1], small[1])


@pytest.mark.parametrize("seed", range(5))
def test_the_safe_step_never_overshoots(seed: int) -> None:
    matrix = gaussian(1, 6, 6, seed=seed)
    unit = matrix * math.sqrt(6) / matrix.norm()
    left, before, right = torch.linalg.svd(unit[0])
    pull, safe = orthogonal_pull(unit)
    assert 1 / 6 <= safe.item() * float(before.max()) ** 2 <= 1 + 1e-12
    for share in (0.1, 1.0):
        moved = left.T @ (unit + share * safe[:, None, None] * pull)[0] @ right.T
        after = moved.diagonal()
        assert torch.allclose(moved, after.diag(), atol=1e-12)  # the directions stay, only singular values change
        assert torch.allclose(after, before * (1 - share * safe * (before**2 - 1)))
        assert ((after - 1).abs() <= (before - 1).abs() + 1e-12).all()  # and none ends farther from 1


def test_pulls_lead_to_an_orthogonal_matrix() -> None:
    matrix = gaussian(3, 6, 6)
    for _ in range(400):
        pull, safe = orthogonal_pull(matrix)
        matrix = matrix + pull * safe.clamp_max(1 / 16)[:, None, None]
    unit = matrix / (matrix.flatten(1).norm(dim=1) / math.sqrt(6))[:, None, None]
    assert torch.allclose(unit @ unit.transpose(1, 2), torch.eye(6, dtype=torch.float64).expand(3, 6, 6), atol=1e-3)


def test_a_nearly_singular_direction_is_the_worst_case_and_still_safe() -> None:
    # All weight in one singular value, √d: the step must be 1/d of what an orthogonal matrix could take, not explode.
    d = 8
    matrix = torch.zeros(1, d, d, dtype=torch.float64)
    matrix[0, 0, 3] = 1e9
    pull, safe = orthogonal_pull(matrix)
    assert safe.item() == pytest.approx(1 / d)
    moved = matrix + safe[:, None, None] * pull
    assert torch.isfinite(moved).all()
    assert 0 < moved[0, 0, 3].item() < 1e9


def test_edges() -> None:
    pull, safe = orthogonal_pull(torch.zeros(1, 3, 3))
    assert pull.abs().max() == 0
    assert not safe.isnan().any()
    pull, _ = orthogonal_pull(torch.stack([torch.eye(3) * math.nan, torch.eye(3) * 2]))
    assert pull[0].isnan().any() and torch.isfinite(pull[1]).all()
    pull, safe = orthogonal_pull(torch.zeros(0, 3, 3))
    assert pull.shape == (0, 3, 3) and safe.shape == (0,)


@pytest.mark.parametrize("rate", [0.01, 0.2, 100.0])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_one_matrix_in_place_moves_as_by_the_equations(rate: float, size: float) -> None:
    matrix_DD = gaussian(5, 5, seed=3) * size
    pull_1DD, safe_1 = orthogonal_pull(matrix_DD[None])
    expected = matrix_DD + pull_1DD[0] * min(rate, float(safe_1))
    pull_once_(matrix_DD, rate)
    torch.testing.assert_close(matrix_DD, expected)


def test_a_zero_matrix_stays_and_a_nan_stays_visible() -> None:
    zero, broken = torch.zeros(3, 3), torch.full((3, 3), math.nan)
    pull_once_(zero, 0.1)
    pull_once_(broken, 0.1)
    assert bool((zero == 0).all()) and bool(broken.isnan().all())
