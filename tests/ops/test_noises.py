from __future__ import annotations

import math

import pytest
import torch

from relcode.ops.noises import noise_push, plain_noise_push


def test_one_score_by_hand() -> None:
    # x = ln 3, k = 3: σ(0) = ½ and ln 2, by weight 2 and share 3/1.
    push, loss = noise_push(torch.tensor([[[math.log(3)]]]), torch.tensor([[2.0]]), 3, math.inf)
    assert push.item() == pytest.approx(-3.0) and loss.item() == pytest.approx(6 * math.log(2))


@pytest.mark.parametrize("saturation", [math.inf, 1.0])
def test_in_place_agrees_with_the_equations(saturation: float) -> None:
    generator = torch.Generator().manual_seed(0)
    score_GXK, weight_GX = torch.randn(2, 5, 7, generator=generator) * 3, torch.rand(2, 5, generator=generator)
    score_GXK[0, 0] = torch.tensor([1e9, -1e9, 0, 1, -1, 50, -50])
    expected = plain_noise_push(score_GXK, weight_GX, 4, saturation)
    for one, other in zip(noise_push(score_GXK.clone(), weight_GX, 4, saturation), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_nan_stays_visible() -> None:
    _, loss = noise_push(torch.tensor([[[math.nan, 0.0]]]), torch.ones(1, 1), 3, math.inf)
    assert loss.isnan().all()
