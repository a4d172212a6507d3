from __future__ import annotations

import math

import pytest
import torch

from relcode.model.nce import gold_weight, nce_loss, noise_weight
from relcode.ops.rows import saturating_sigmoid

SCORES = [-40.0, -6.5, -1.0, 0.0, math.log(3), 2.0, 7.5, 40.0]


def slow_loss(gold: float, noise: list[float], k: int) -> float:
    """−ln s/(k+s) − (k/K) Σ ln k/(k+s*), with s = exp(x), as the paper writes it."""
    return -math.log(math.exp(gold) / (k + math.exp(gold))) - k / len(noise) * sum(math.log(k / (k + math.exp(x))) for x in noise)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_weights_and_loss_worked_by_hand() -> None:
    # k = 3 and s = 1 (x = 0): ln s/(k+s) = ln ¼ and ln k/(k+s*) = ln ¾; the pull is k/(k+s) = ¾, the push s/(k+s) = ¼.
    zero = tensor(0.0)
    assert gold_weight(zero, 3).item() == pytest.approx(0.75)
    assert noise_weight(zero, 3).item() == pytest.approx(-0.25)
    assert nce_loss(zero, tensor(0.0, 0.0, 0.0)[None], 3).item() == pytest.approx(math.log(4) - 3 * math.log(0.75))
    # At s = k fact and noise are equally likely.
    assert gold_weight(tensor(math.log(3)), 3).item() == pytest.approx(0.5)
    assert noise_weight(tensor(math.log(3)), 3).item() == pytest.approx(-0.5)


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("gold", SCORES)
def test_the_loss_is_the_papers_formula(k: int, gold: float) -> None:
    noise = [-2.0, 0.5, 3.0, 9.0]
    assert nce_loss(tensor(gold), tensor(*noise)[None], k).item() == pytest.approx(slow_loss(gold, noise, k), rel=1e-9)


def test_drawing_more_noises_weighs_no_more() -> None:
    few, many = tensor(0.3, -1.0, 2.0), tensor(0.3, -1.0, 2.0, 0.3, -1.0, 2.0)
    assert nce_loss(tensor(1.0), few[None], 3).item() == pytest.approx(nce_loss(tensor(1.0), many[None], 3).item())


def test_each_row_has_its_own_loss() -> None:
    gold, noise = tensor(0.0, 5.0), torch.stack([tensor(1.0, -1.0), tensor(0.0, 8.0)])
    expected = [slow_loss(0.0, [1.0, -1.0], 3), slow_loss(5.0, [0.0, 8.0], 3)]
    assert nce_loss(gold, noise, 3).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("x", [-6.5, -1.0, 0.0, math.log(3), 2.0, 7.5])
def test_weights_are_the_slopes_of_the_loss_by_finite_differences(k: int, x: float) -> None:
    step, draws = 1e-5, 4

    def towards_gold(value: float) -> float:
        return nce_loss(tensor(value), tensor(0.0)[None], k).item()

    def towards_noise(value: float) -> float:
        return nce_loss(tensor(0.0), tensor(value, 0.0, 1.0, -1.0)[None], k).item()

    slope = (towards_gold(x + step) - towards_gold(x - step)) / (2 * step)
    assert gold_weight(tensor(x), k).item() == pytest.approx(-slope, abs=1e-8)
    slope = (towards_noise(x + step) - towards_noise(x - step)) / (2 * step)
    assert noise_weight(tensor(x), k).item() * k / draws == pytest.approx(-slope, abs=1e-8)


def test_the_sigmoid_is_exactly_0_and_1_beyond_its_limit() -> None:
    x = tensor(-6.001, -6.0, -5.999, 0.0, 5.999, 6.0, 6.001)
    value = saturating_sigmoid(x, 6.0)
    assert value[:2].tolist() == [0.0, 0.0]
    assert value[-2:].tolist() == [1.0, 1.0]
    assert torch.equal(value[2:5], torch.sigmoid(x[2:5]))
    assert torch.equal(saturating_sigmoid(x, math.inf), torch.sigmoid(x))


def test_saturation_is_measured_from_ln_k() -> None:
    log_k = math.log(3)
    assert gold_weight(tensor(log_k + 6, log_k - 6), 3, 6.0).tolist() == [0.0, 1.0]
    assert noise_weight(tensor(log_k - 6, log_k + 6), 3, 6.0).tolist() == [0.0, -1.0]
    assert 0 < gold_weight(tensor(6.0), 3, 6.0).item() < 0.01  # a little inside: not yet 0
    assert noise_weight(tensor(-6.0), 3, 6.0).item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_scores_have_finite_weights_and_losses(dtype: torch.dtype) -> None:
    huge = torch.tensor([1e9, -1e9], dtype=dtype)
    for limit in (6.0, math.inf):
        assert gold_weight(huge, 3, limit).tolist() == [0.0, 1.0]
        assert noise_weight(huge, 3, limit).tolist() == [-1.0, 0.0]
    loss = nce_loss(huge, huge.flip(0)[:, None], 3)
    assert loss.tolist() == pytest.approx([0.0, 4e9], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("limit", [6.0, math.inf])
def test_nan_is_never_hidden(limit: float) -> None:
    bad = tensor(math.nan)
    assert gold_weight(bad, 3, limit).isnan().all()
    assert noise_weight(bad, 3, limit).isnan().all()
    assert nce_loss(bad, tensor(0.0)[None], 3).isnan().all()
    assert nce_loss(tensor(0.0), tensor(0.0, math.nan)[None], 3).isnan().all()
