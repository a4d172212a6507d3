from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from relcode.model.autoencoder import (
    CODE_LIMIT,
    CoderGradients,
    coder_gradients,
    codes,
    crowding_slope,
    flatten_matrices,
    smooth_relu,
    smooth_relu_slope,
    without_identity,
)

D, C = 3, 4
Q = D * D


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Case:
    """J relations against K noises each: m of both, A and Bᵀ, all of different values."""

    def __init__(self, relations: int = 3, noises: int = 2, seed: int = 0) -> None:
        self.flat_JQ = flatten_matrices(gaussian(relations, D, D, seed=seed))
        self.noise_JKQ = flatten_matrices(gaussian(relations * noises, D, D, seed=seed + 1)).view(relations, noises, Q)
        self.encoder_CQ = gaussian(C, Q, seed=seed + 2)
        self.decoder_CQ = gaussian(C, Q, seed=seed + 3)

    def gradients(self, **changes: Any) -> CoderGradients:
        rule: dict[str, Any] = {"dim": D, "smooth": True, "saturation": math.inf, **changes}
        return coder_gradients(self.flat_JQ, self.noise_JKQ, self.encoder_CQ, self.decoder_CQ, **rule)


def slow_relu(x: float, smooth: bool) -> float:
    if not smooth:
        return max(x, 0.0)
    return 0.0 if x < -2 else x if x > 2 else 2 * (0.5 + x / 4) ** 2


def slow_loss(
    left: list[float], gold: list[float], noises: list[list[float]], encoder: list[list[float]], decoder: list[list[float]], smooth: bool
) -> float:
    """−L2 of one relation by loops: ln g(r1, r2) = m_r1ᵀ B c_r2 / √(d·c); ``left`` is m_r left of B c, ``gold`` the m_r its code is made of."""
    k, factor = len(noises), 1 / math.sqrt(D * C)

    def similarity(other: list[float]) -> float:
        code = [slow_relu(sum(a * m for a, m in zip(row, other, strict=True)), smooth) for row in encoder]
        norm = math.sqrt(sum(value**2 for value in code))
        if norm > CODE_LIMIT * math.sqrt(D):
            code = [value * CODE_LIMIT * math.sqrt(D) / norm for value in code]
        return factor * sum(left[q] * decoder[c][q] * code[c] for c in range(C) for q in range(Q))

    def g(other: list[float]) -> float:
        return math.exp(similarity(other))

    return -math.log(g(gold) / (k + g(gold))) - sum(math.log(k / (k + g(noise))) for noise in noises)


def case_loss(case: Case, smooth: bool, flat: Tensor | None = None, encoder: Tensor | None = None, decoder: Tensor | None = None) -> float:
    """Sum −L2 over the relations of a case, with some of the left-hand m, A, B replaced."""
    flat = case.flat_JQ if flat is None else flat
    encoder = case.encoder_CQ if encoder is None else encoder
    decoder = case.decoder_CQ if decoder is None else decoder
    return sum(
        slow_loss(left, gold, noises, encoder.tolist(), decoder.tolist(), smooth)
        for left, gold, noises in zip(flat.tolist(), case.flat_JQ.tolist(), case.noise_JKQ.tolist(), strict=True)
    )


def test_matrices_are_flattened_row_by_row_at_norm_root_d() -> None:
    matrix_XDD = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, -7.0]]], dtype=torch.float64)
    flat_XQ = flatten_matrices(matrix_XDD)
    assert torch.allclose(flat_XQ[0], torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64) * math.sqrt(2 / 30))
    assert torch.allclose(flat_XQ[1], torch.tensor([0.0, 0.0, 0.0, -math.sqrt(2)], dtype=torch.float64))
    assert flatten_matrices(torch.zeros(1, 2, 2)).tolist() == [[0, 0, 0, 0]]
    assert flatten_matrices(torch.full((1, 2, 2), 1e9)).norm().item() == pytest.approx(math.sqrt(2))


def test_the_part_of_the_identity_by_hand() -> None:
    matrix_DD = torch.tensor([[3.0, 2.0], [5.0, 1.0]])
    assert torch.equal(
        without_identity(torch.stack([matrix_DD, 4 * torch.eye(2)])), torch.tensor([[[1.0, 2.0], [5.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    )
    assert torch.equal(matrix_DD, torch.tensor([[3.0, 2.0], [5.0, 1.0]]))  # untouched


def test_the_smoothed_relu_at_its_corners() -> None:
    x = torch.tensor([-1e9, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 1e9], dtype=torch.float64)
    assert smooth_relu(x).tolist() == [0, 0, 0, 0.125, 0.5, 1.125, 2, 3, 1e9]
    assert smooth_relu_slope(x).tolist() == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    assert smooth_relu(torch.tensor(math.nan)).isnan()


@pytest.mark.parametrize("x", [-5.0, -2.0, -1.3, 0.0, 0.7, 2.0, 5.0])
def test_the_slope_is_that_of_the_smoothed_relu(x: float) -> None:
    step = 1e-6
    up, down = (smooth_relu(torch.tensor(x + sign * step, dtype=torch.float64)).item() for sign in (1, -1))
    assert smooth_relu_slope(torch.tensor(x, dtype=torch.float64)).item() == pytest.approx((up - down) / (2 * step), abs=1e-6)


def test_codes_are_read_with_the_plain_relu() -> None:
    matrix_XDD, encoder_CQ = gaussian(5, D, D), gaussian(C, Q, seed=1)
    code_XC = codes(matrix_XDD, encoder_CQ)
    for x in range(5):
        flat = matrix_XDD[x].flatten() * math.sqrt(D) / matrix_XDD[x].norm()
        for c in range(C):
            assert code_XC[x, c].item() == pytest.approx(max(0.0, float(encoder_CQ[c] @ flat)), abs=1e-12)
    assert (code_XC == 0).any() and (code_XC > 0).any()
    assert torch.allclose(codes(matrix_XDD * 100, encoder_CQ), code_XC)  # the size of a matrix says nothing
    assert not torch.allclose(codes(matrix_XDD.transpose(1, 2), encoder_CQ), code_XC)


def test_one_step_worked_by_hand() -> None:
    # d = 1, c = 1: m = 1 and one noise with m* = -1. A = 2, B = 3. Codes ReLU(2) = 2 and ReLU(-2) = 0; ln g = 3·2 = 6 and 0; k = 1.
    one = torch.ones(1, 1, dtype=torch.float64)
    found = coder_gradients(one, -one[None], 2 * one, 3 * one, dim=1, smooth=False, saturation=math.inf)
    pull, push = 1 / (1 + math.exp(6)), -0.5
    assert found.matrix_JQ.item() == pytest.approx(pull * 3 * 2 + push * 3 * 0)
    assert found.decoder_CQ.item() == pytest.approx(pull * 2 * 1 + push * 0)
    assert found.encoder_CQ.item() == pytest.approx(pull * 3 * 1)  # the noise's code is off: no slope
    assert found.loss.item() == pytest.approx(math.log(1 + math.exp(-6)) + math.log(2))


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize(("relations", "noises"), [(1, 1), (3, 2), (4, 3)])
def test_the_loss_is_that_of_the_loop(smooth: bool, relations: int, noises: int) -> None:
    case = Case(relations, noises)
    assert case.gradients(smooth=smooth).loss.item() == pytest.approx(case_loss(case, smooth) / relations, rel=1e-10)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize(("relations", "noises", "seed"), [(3, 2, 0), (2, 3, 10)])
def test_gradients_by_finite_differences(smooth: bool, relations: int, noises: int, seed: int) -> None:
    """A and B in full; the matrix through m on the left of B c alone: its code, its norm and the noises' matrices are held constant."""
    case, step = Case(relations, noises, seed), 1e-6
    found = case.gradients(smooth=smooth)

    def slopes(name: str, start: Tensor) -> list[float]:
        found: list[float] = []
        for place in range(start.numel()):
            up, down = start.clone(), start.clone()
            up.view(-1)[place] += step
            down.view(-1)[place] -= step
            found.append(-(case_loss(case, smooth, **{name: up}) - case_loss(case, smooth, **{name: down})) / (2 * step))
        return found

    assert found.matrix_JQ.flatten().tolist() == pytest.approx(slopes("flat", case.flat_JQ), abs=1e-7)
    assert found.encoder_CQ.flatten().tolist() == pytest.approx(slopes("encoder", case.encoder_CQ), abs=1e-7)
    assert found.decoder_CQ.flatten().tolist() == pytest.approx(slopes("decoder", case.decoder_CQ), abs=1e-7)


def test_gradients_of_several_relations_add_up() -> None:
    both = Case(relations=2, noises=3)
    total = both.gradients()
    parts = []
    for row in (0, 1):
        one = Case(relations=1, noises=3)
        one.flat_JQ, one.noise_JKQ = both.flat_JQ[row : row + 1], both.noise_JKQ[row : row + 1]
        one.encoder_CQ, one.decoder_CQ = both.encoder_CQ, both.decoder_CQ
        parts.append(one.gradients())
    assert torch.allclose(total.encoder_CQ, parts[0].encoder_CQ + parts[1].encoder_CQ)
    assert torch.allclose(total.decoder_CQ, parts[0].decoder_CQ + parts[1].decoder_CQ)
    assert torch.allclose(total.matrix_JQ, torch.cat([parts[0].matrix_JQ, parts[1].matrix_JQ]))
    assert total.loss.item() == pytest.approx((parts[0].loss + parts[1].loss).item() / 2)


def test_the_similarity_is_scaled_by_one_over_root_dc() -> None:
    # A factor on the similarity is the same as that factor on B, but for the gradient towards B, which feels it once more.
    case, twice = Case(), Case()
    twice.decoder_CQ = case.decoder_CQ * 2
    scaled, larger = case.gradients(scale=2.0), twice.gradients()
    assert scaled.loss.item() == pytest.approx(larger.loss.item())
    assert torch.allclose(scaled.decoder_CQ, 2 * larger.decoder_CQ)
    assert torch.allclose(scaled.encoder_CQ, larger.encoder_CQ)


def test_saturated_relations_feel_nothing() -> None:
    # The rows of A and Bᵀ are m itself, so A m = 3 in each of the 4 entries of the code and ln g = 4·3·3/√12, far above ln k + 6.
    case = Case(relations=1, noises=1)
    case.encoder_CQ = case.decoder_CQ = case.flat_JQ.expand(C, Q).clone()
    case.noise_JKQ = -case.flat_JQ[None]  # its code is zero
    for value in (found := case.gradients(smooth=False, saturation=6.0)).matrix_JQ, found.encoder_CQ, found.decoder_CQ:
        assert value.abs().max() == 0
    assert case.gradients(smooth=False).matrix_JQ.abs().max() > 0  # without saturation a little is left
    # Where the noise is the relation itself it is pushed at full weight and nothing pulls: −m, at the limit of a pull (6 without it).
    case.noise_JKQ = case.flat_JQ[None].clone()
    found = case.gradients(smooth=False, saturation=6.0)
    assert torch.allclose(found.matrix_JQ, -CODE_LIMIT * case.flat_JQ / math.sqrt(D))
    assert torch.allclose(found.decoder_CQ, -3 / math.sqrt(D * C) * case.flat_JQ.expand(C, Q))


def test_a_long_code_is_scaled_down() -> None:
    case = Case(relations=1, noises=1)
    case.encoder_CQ = case.encoder_CQ * 20
    before = float((case.flat_JQ @ case.encoder_CQ.T).relu().norm())
    assert before > CODE_LIMIT * math.sqrt(D)
    assert case.gradients().loss.item() == pytest.approx(case_loss(case, True), rel=1e-9)


def test_the_pull_on_a_matrix_is_no_longer_than_its_limit() -> None:
    case = Case(relations=4, noises=3)
    case.decoder_CQ = -case.decoder_CQ.abs() * 1e4
    found = case.gradients(saturation=6.0)
    assert found.matrix_JQ.norm(dim=1).max() <= CODE_LIMIT + 1e-9
    assert found.matrix_JQ.norm(dim=1).max() > CODE_LIMIT - 1e-9


@pytest.mark.parametrize("size", [1e9, -1e9])
def test_huge_values_stay_finite(size: float) -> None:
    case = Case()
    case.encoder_CQ, case.decoder_CQ = case.encoder_CQ * abs(size), case.decoder_CQ * size
    found = case.gradients(saturation=6.0)
    for value in (found.matrix_JQ, found.encoder_CQ, found.decoder_CQ, found.loss):
        assert torch.isfinite(value).all()


def test_nan_is_never_hidden() -> None:
    case = Case(relations=2)
    case.flat_JQ[0, 0] = math.nan
    found = case.gradients(saturation=6.0)
    assert not torch.isfinite(found.loss)
    assert found.matrix_JQ[0].isnan().any() and torch.isfinite(found.matrix_JQ[1]).all()
    assert found.encoder_CQ.isnan().any() and found.decoder_CQ.isnan().any()


def test_crowding_by_hand() -> None:
    # ‖c‖₁/‖c‖₂ of (3, 4) is 7/5; its slope is (1 − c·7/25)/5.
    assert crowding_slope(torch.tensor([[3.0, 4.0]])).tolist() == [pytest.approx([(1 - 21 / 25) / 5, (1 - 28 / 25) / 5])]


def test_crowding_is_the_slope_of_the_ratio_of_norms() -> None:
    code = torch.rand(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    (code.sum(1) / code.norm(dim=1)).sum().backward()
    assert code.grad is not None
    assert torch.allclose(crowding_slope(code.detach()), code.grad)
    assert torch.isfinite(crowding_slope(torch.zeros(1, 4))).all()


def test_sparsity_moves_the_encoder_alone_and_by_the_slope_of_the_relation_s_own_code() -> None:
    draw = torch.Generator().manual_seed(4)
    flat, noise = torch.randn(2, 16, dtype=torch.float64, generator=draw), torch.randn(2, 3, 16, dtype=torch.float64, generator=draw)
    encoder, decoder = (torch.randn(5, 16, dtype=torch.float64, generator=draw) for _ in range(2))
    plain, sparse = (coder_gradients(flat, noise, encoder, decoder, dim=4, smooth=True, saturation=6.0, sparsity=weight) for weight in (0.0, 0.5))
    assert torch.equal(plain.matrix_JQ, sparse.matrix_JQ) and torch.equal(plain.decoder_CQ, sparse.decoder_CQ)
    moved = encoder.clone().requires_grad_()
    code = smooth_relu(flat @ moved.T)
    (code.sum(1) / code.norm(dim=1)).sum().backward()
    assert moved.grad is not None
    assert torch.allclose(sparse.encoder_CQ, plain.encoder_CQ - 0.5 * moved.grad)
