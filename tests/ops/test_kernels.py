"""The kernels beside their plain versions: on CUDA where there is one, and by Triton's interpreter, in a process of its own, where Triton is."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from relcode.ops.noises import plain_noise_push
from relcode.ops.outer import EPSILON, plain_climb_outer_
from relcode.ops.softmax import plain_softmax_
from relcode.ops.tiles import PlainTiles

HAS_TRITON = importlib.util.find_spec("triton") is not None
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
here = pytest.mark.skipif(not HAS_TRITON or not (INTERPRETED or torch.cuda.is_available()), reason="kernels need CUDA, or Triton's interpreter")
DEVICE = torch.device("cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda")
# Rows of each relation: none, one, a few, more than a tile; sizes of matrices below and above a block, and not a multiple of it.
COUNTS = [[1], [0, 3, 0, 1], [40, 0, 33, 2, 64]]
SIZES = [5, 64, 70]
BLOCKS = [(5, 5), (64, 64), (70, 70), (96, 4), (64, 32), (96, 32), (256, 128)]  # sizes of matrices and of the blocks along their diagonal


@pytest.mark.skipif(
    INTERPRETED or not HAS_TRITON or torch.cuda.is_available(),
    reason="the interpreter's own process, no Triton, or CUDA, where the kernels themselves run",
)
def test_the_kernels_by_the_interpreter() -> None:
    """Triton must know of its interpreter before it is imported, so all tests below run once more in a process of their own."""
    surroundings = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(line, env=surroundings, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


@pytest.fixture(autouse=True)
def exact_products() -> object:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def gaussian(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def relations(counts: list[int]) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(DEVICE)


@here
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("counts", COUNTS)
def test_products_are_the_plain_ones(counts: list[int], size: int) -> None:
    from relcode.ops.kernels import grouped_product, runs_of, tiles_in

    relation_P, matrix_SDD = relations(counts), gaussian(len(counts), size, size, seed=1)
    x_PD = gaussian(len(relation_P), size, seed=2)
    tiles = tiles_in(runs_of(relation_P, len(counts)), len(relation_P))
    for scale_S in (None, gaussian(len(counts), seed=3)):
        plain = PlainTiles(matrix_SDD, relation_P, scale_S)
        for back, expected in ((False, plain.product(x_PD[:, None])), (True, plain.back(x_PD[:, None]))):
            torch.testing.assert_close(grouped_product(x_PD, matrix_SDD, tiles, scale_S, back), expected[:, 0], rtol=1e-4, atol=1e-4)


@here
def test_tiles_worked_by_hand() -> None:
    from relcode.ops.kernels import TILE, runs_of, tiles_in

    first_S1 = runs_of(relations([2, 0, TILE + 1]), 3)
    assert first_S1.tolist() == [0, 2, 2, TILE + 3]
    relation_T, begin_T, end_T = (part.tolist() for part in tiles_in(first_S1, TILE + 3))
    used = [(r, b, e) for r, b, e in zip(relation_T, begin_T, end_T, strict=True) if b < e]
    assert used == [(0, 0, 2), (2, 2, TILE + 2), (2, TILE + 2, TILE + 3)]


@here
@pytest.mark.parametrize(("size", "block"), BLOCKS)
@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_climbing_is_the_plain_one(counts: list[int], size: int, block: int, shuffled: bool) -> None:
    from relcode.ops.kernels import climb_outer_

    relation_P = relations(counts)
    if shuffled:
        relation_P = relation_P[torch.randperm(len(relation_P), generator=torch.Generator().manual_seed(3)).to(DEVICE)]
    x_PD, g_PD = gaussian(len(relation_P), size, seed=4), gaussian(len(relation_P), size, seed=5)
    value_SDD, square_SDD = gaussian(len(counts), size, block, seed=6), gaussian(len(counts), size, block, seed=7).abs()
    expected, expected_square = value_SDD.clone(), square_SDD.clone()
    plain_climb_outer_(expected, expected_square, relation_P, x_PD, g_PD, torch.tensor(0.1, device=DEVICE))
    climb_outer_(value_SDD, square_SDD, relation_P, x_PD, g_PD, torch.tensor(0.1, device=DEVICE), EPSILON)
    torch.testing.assert_close(square_SDD, expected_square, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(value_SDD, expected, rtol=1e-4, atol=1e-5)
    rate_S = torch.rand(len(counts), generator=torch.Generator().manual_seed(8)).to(DEVICE)
    PlainTiles(expected, relation_P).add_outer_(x_PD[:, None], g_PD[:, None], rate_S)
    climb_outer_(value_SDD, None, relation_P, x_PD, g_PD, rate_S)
    torch.testing.assert_close(value_SDD, expected, rtol=1e-4, atol=1e-3)


@here
@pytest.mark.parametrize("saturation", [float("inf"), 2.0])
@pytest.mark.parametrize(("rows", "draws"), [(3, 5), (7, 1500)])
def test_the_push_is_the_plain_one(rows: int, draws: int, saturation: float) -> None:
    from relcode.ops.kernels import noise_push_

    score_XK, weight_X = gaussian(rows, draws, seed=1) * 4, torch.tensor([0.0, 1.0, 0.5, 1, 1, 1, 1], device=DEVICE)[:rows]
    score_XK[1, 0], score_XK[2, 1] = 1e9, -1e9
    push, loss = plain_noise_push(score_XK[None], weight_X[None], 3, saturation)
    found_X = noise_push_(score_XK, weight_X, 1.0986123, 3 / draws, saturation)
    torch.testing.assert_close(score_XK, push[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found_X, loss[0], rtol=1e-4, atol=1e-6)


@here
def test_a_score_that_is_not_a_number_shows_in_the_loss() -> None:
    from relcode.ops.kernels import noise_push_

    score_XK = torch.full((2, 4), float("nan"), device=DEVICE)
    assert not torch.isfinite(noise_push_(score_XK, torch.ones(2, device=DEVICE), 1.0, 0.5, float("inf"))).any()


@here
@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 1, 1), (3, 5, 64), (2, 1024, 1024), (3, 2100, 2112)])
def test_the_softmax_is_the_plain_one(rows: int, columns: int, width: int) -> None:
    from relcode.ops.kernels import softmax_

    score_BE = 5 * gaussian(rows, width, seed=8)
    score_BE[0, 0] = 1e4  # the others underflow beside it
    expected_BE = score_BE.clone()
    expected_B, total_B = plain_softmax_(expected_BE, columns), softmax_(score_BE, columns)
    torch.testing.assert_close(total_B, expected_B, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(score_BE, expected_BE, rtol=1e-4, atol=1e-7)


@here
def test_the_softmax_does_not_hide_what_is_not_a_number() -> None:
    from relcode.ops.kernels import softmax_

    score_BE = gaussian(2, 8, seed=9)
    score_BE[1, 3] = float("nan")
    assert softmax_(score_BE, 8).isfinite().tolist() == [True, False]
