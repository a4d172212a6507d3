from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from relcode.ops.tiles import CpuTiles, GatheredTiles, PlainTiles, matrix_norms, tiles_of

VERSIONS = [PlainTiles, CpuTiles, GatheredTiles]  # the batched version is plain torch: it can be checked where there is no CUDA
LAYOUTS = [[0], [3], [0, 0, 0], [0, 1, 3], [1, 1, 3, 3, 3, 0], [2, 0, 2, 2, 1, 0]]


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow_product(x: list[float], matrix: list[list[float]]) -> list[float]:
    return [sum(x[i] * matrix[i][j] for i in range(len(x))) for j in range(len(matrix[0]))]


def transposed(matrix: list[list[float]]) -> list[list[float]]:
    return [list(column) for column in zip(*matrix, strict=True)]


@pytest.mark.parametrize("version", VERSIONS)
def test_products_worked_by_hand(version: type[PlainTiles]) -> None:
    # M = [[0, 1], [3, 0]]: (1, 2) M = (6, 1) and (1, 2) Mᵀ = (2, 3); the outer product of (1, 2) and (5, 7) is [[5, 7], [10, 14]].
    matrix_SDD = torch.stack([torch.eye(2), torch.tensor([[0.0, 1.0], [3.0, 0.0]])])
    tiles = version(matrix_SDD, torch.tensor([1]))
    x_TWD = torch.tensor([[[1.0, 2.0]]])
    assert tiles.product(x_TWD).tolist() == [[[6.0, 1.0]]]
    assert tiles.back(x_TWD).tolist() == [[[2.0, 3.0]]]
    assert matrix_norms(matrix_SDD, [torch.tensor([1])]).tolist() == pytest.approx([1, math.sqrt(10)])
    tiles.add_outer_(x_TWD, torch.tensor([[[5.0, 7.0]]]), torch.tensor([100.0, 0.5]))
    assert matrix_SDD.tolist() == [[[1, 0], [0, 1]], [[2.5, 4.5], [8.0, 7.0]]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_row_agrees_with_the_loop(version: type[PlainTiles], layout: list[int]) -> None:
    T, W, D, S = len(layout), 3, 4, 5
    matrix_SDD, x_TWD, g_TWD = gaussian(S, D, D), gaussian(T, W, D, seed=1), gaussian(T, W, D, seed=2)
    rate_S = torch.rand(S, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    tiles = version(matrix_SDD, torch.tensor(layout))
    y_TWD, back_TWD, norm_S = tiles.product(x_TWD), tiles.back(g_TWD), matrix_norms(matrix_SDD, [tiles.relation_T])
    expected = matrix_SDD.clone()
    for t, relation in enumerate(layout):
        matrix = matrix_SDD[relation].tolist()
        assert norm_S[relation].item() == pytest.approx(math.sqrt(sum(value**2 for row in matrix for value in row)))
        for w in range(W):
            assert y_TWD[t, w].tolist() == pytest.approx(slow_product(x_TWD[t, w].tolist(), matrix), abs=1e-12)
            assert back_TWD[t, w].tolist() == pytest.approx(slow_product(g_TWD[t, w].tolist(), transposed(matrix)), abs=1e-12)
            for i in range(D):
                for j in range(D):
                    expected[relation, i, j] += rate_S[relation] * x_TWD[t, w, i] * g_TWD[t, w, j]
    tiles.add_outer_(x_TWD, g_TWD, rate_S)
    assert torch.allclose(matrix_SDD, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("version", VERSIONS)
def test_back_and_outer_are_the_gradients_of_the_product(version: type[PlainTiles]) -> None:
    matrix_SDD, x_TWD, g_TWD = gaussian(4, 3, 3), gaussian(5, 2, 3, seed=1), gaussian(5, 2, 3, seed=2)
    relation_T = torch.tensor([3, 3, 0, 1, 1])
    step = 1e-6

    def value(x: Tensor, matrix: Tensor) -> float:
        return float((version(matrix, relation_T).product(x) * g_TWD).sum())

    back_TWD = version(matrix_SDD, relation_T).back(g_TWD)
    for place in range(x_TWD.numel()):
        up, down = x_TWD.clone(), x_TWD.clone()
        up.view(-1)[place] += step
        down.view(-1)[place] -= step
        assert (value(up, matrix_SDD) - value(down, matrix_SDD)) / (2 * step) == pytest.approx(back_TWD.flatten()[place].item(), abs=1e-7)
    gradient_SDD = torch.zeros_like(matrix_SDD)
    version(gradient_SDD, relation_T).add_outer_(x_TWD, g_TWD, torch.ones(4, dtype=torch.float64))
    for place in range(matrix_SDD.numel()):
        up, down = matrix_SDD.clone(), matrix_SDD.clone()
        up.view(-1)[place] += step
        down.view(-1)[place] -= step
        assert (value(x_TWD, up) - value(x_TWD, down)) / (2 * step) == pytest.approx(gradient_SDD.flatten()[place].item(), abs=1e-7)


@pytest.mark.parametrize("version", VERSIONS)
def test_padding_rows_give_and_add_nothing(version: type[PlainTiles]) -> None:
    matrix_SDD = gaussian(2, 3, 3)
    before = matrix_SDD.clone()
    tiles = version(matrix_SDD, torch.tensor([0, 1]))
    zero_TWD = torch.zeros(2, 2, 3, dtype=torch.float64)
    assert torch.equal(tiles.product(zero_TWD), zero_TWD)
    assert torch.equal(tiles.back(zero_TWD), zero_TWD)
    tiles.add_outer_(gaussian(2, 2, 3, seed=1), zero_TWD, torch.ones(2, dtype=torch.float64))
    assert torch.equal(matrix_SDD, before)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_tiles_at_all(version: type[PlainTiles]) -> None:
    matrix_SDD = gaussian(2, 3, 3)
    before = matrix_SDD.clone()
    tiles = version(matrix_SDD, torch.zeros(0, dtype=torch.long))
    none_TWD = torch.zeros(0, 2, 3, dtype=torch.float64)
    assert tiles.product(none_TWD).shape == tiles.back(none_TWD).shape == (0, 2, 3)
    tiles.add_outer_(none_TWD, none_TWD, torch.ones(2, dtype=torch.float64))
    assert torch.equal(matrix_SDD, before)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_nan_stays_in_its_own_row(version: type[PlainTiles]) -> None:
    x_TWD = gaussian(2, 2, 3, seed=1)
    x_TWD[0, 1, 2] = math.nan
    y_TWD = version(gaussian(2, 3, 3), torch.tensor([0, 0])).product(x_TWD)
    assert torch.isnan(y_TWD[0, 1]).all()
    assert torch.isfinite(y_TWD[0, 0]).all() and torch.isfinite(y_TWD[1]).all()


@pytest.mark.parametrize("version", VERSIONS)
def test_very_large_values(version: type[PlainTiles]) -> None:
    matrix_SDD = torch.tensor([[[1e9, 0.0], [0.0, -1e9]]])
    tiles = version(matrix_SDD, torch.tensor([0]))
    assert tiles.product(torch.tensor([[[1.0, 1.0]]])).tolist() == [[[1e9, -1e9]]]
    assert matrix_norms(matrix_SDD, [tiles.relation_T])[tiles.relation_T].tolist() == pytest.approx([math.sqrt(2) * 1e9])


@pytest.mark.parametrize("version", VERSIONS)
def test_relations_without_a_tile_are_left_alone(version: type[PlainTiles]) -> None:
    matrix_SDD = gaussian(4, 3, 3)
    before = matrix_SDD.clone()
    version(matrix_SDD, torch.tensor([2, 2])).add_outer_(gaussian(2, 1, 3), gaussian(2, 1, 3, seed=1), torch.ones(4, dtype=torch.float64))
    assert torch.equal(matrix_SDD[[0, 1, 3]], before[[0, 1, 3]])
    assert not torch.equal(matrix_SDD[2], before[2])


def test_the_chooser_takes_the_version_for_the_device() -> None:
    assert type(tiles_of(gaussian(1, 2, 2), torch.tensor([0]))) is CpuTiles
    if torch.cuda.is_available():
        assert type(tiles_of(gaussian(1, 2, 2).cuda(), torch.tensor([0]).cuda())) is GatheredTiles
