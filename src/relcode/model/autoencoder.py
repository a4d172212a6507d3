"""The relation autoencoder: a short sparse code for every relation matrix, trained jointly (the paper's section 3).

    m_r = M_r flattened, scaled to norm √d        c_r = ReLU(A m_r)        reconstruction B c_r
    ln g(r1, r2) = m_r1ᵀ B c_r2 / √(d·c)
    L2 = Σ_r ln g(r,r)/(k + g(r,r)) + Σ_r* ln k/(k + g(r,r*))

The factor 1/√(d·c) is essential: much larger and all codes go to 0, much smaller and all relations get the same code.
As in the released program, the gradient reaches A, B, and the matrix of r through m_r on the left of B c; nothing flows back through A, nor into
the matrices of the noise relations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.model.nce import gold_weight, nce_loss, noise_weight
from relcode.ops.diagonal import identity_like, trace
from relcode.ops.rows import limit_norm

LEAST_LENGTH = 0.1  # of a code whose entries are weighed against each other: the slope of a shorter one would have no bound
CODE_LIMIT = 4.0  # a code is scaled down to norm CODE_LIMIT·√d, a reconstruction to CODE_LIMIT·√(d·c), as the released program does


def flatten_matrices(matrix_XDD: Tensor) -> Tensor:
    """Return m_r for each matrix: flattened and scaled to norm √d."""
    flat_XQ = matrix_XDD.flatten(1)
    return flat_XQ * (math.sqrt(matrix_XDD.shape[-2]) / flat_XQ.norm(dim=1, keepdim=True).clamp_min(1e-30))


def without_identity(matrix_XDD: Tensor) -> Tensor:
    """Return M − (tr M / d) I for each matrix: where all begin near the identity they share it, and similarities would speak of little else."""
    return matrix_XDD - (trace(matrix_XDD) / matrix_XDD.shape[-2])[..., None, None] * identity_like(matrix_XDD)


def smooth_relu(x: Tensor) -> Tensor:
    """Return the program's smoothed ReLU: 0 below −2, 2(½ + x/4)² between −2 and 2, x above 2 (so ½ at x = 0)."""
    return torch.where(x > 2, x, 2 * (0.5 + x.clamp(-2, 2) / 4) ** 2)


def smooth_relu_slope(x: Tensor) -> Tensor:
    """Return the slope of :func:`smooth_relu`: 0, then ½ + x/4, then 1."""
    return (0.5 + x / 4).clamp(0, 1)


def codes(matrix_XDD: Tensor, encoder_CQ: Tensor) -> Tensor:
    """Return c_r = ReLU(A m_r) by the plain ReLU: the code a person reads."""
    return torch.relu(flatten_matrices(matrix_XDD) @ encoder_CQ.T)


def crowding_slope(code_XC: Tensor) -> Tensor:
    """Return the gradient of ‖c‖₁/‖c‖₂ for each code, (1 − c·‖c‖₁/‖c‖₂²)/‖c‖₂: it takes from small entries and gives to large ones."""
    length_X1, sum_X1 = code_XC.norm(dim=-1, keepdim=True).clamp_min(LEAST_LENGTH), code_XC.sum(-1, keepdim=True)
    return (1 - code_XC * (sum_X1 / length_X1.square())) / length_X1


@dataclass(frozen=True, slots=True)
class CoderGradients:
    """Ascent directions of L2 for J relations, each against K noise relations."""

    matrix_JQ: Tensor
    encoder_CQ: Tensor
    decoder_CQ: Tensor
    loss: Tensor  # mean over the J relations


def coder_gradients(
    flat_JQ: Tensor,
    noise_JKQ: Tensor,
    encoder_CQ: Tensor,
    decoder_CQ: Tensor,
    *,
    dim: int,
    smooth: bool,
    saturation: float,
    scale: float = 1.0,
    sparsity: float = 0.0,
) -> CoderGradients:
    """Return the gradients of L2 at J relations with K noises each; ``flat`` and ``noise`` are their m and that of their noises, ``dim`` is d."""
    noises, d, c = noise_JKQ.shape[1], dim, len(encoder_CQ)
    both_JKQ = torch.cat([flat_JQ[:, None], noise_JKQ], dim=1)
    before_JKC = both_JKQ @ encoder_CQ.T
    activation_JKC = smooth_relu(before_JKC) if smooth else torch.relu(before_JKC)
    slope_JKC = smooth_relu_slope(before_JKC) if smooth else (before_JKC > 0).to(before_JKC.dtype)
    code_JKC = limit_norm(activation_JKC, CODE_LIMIT * math.sqrt(d))
    factor = scale / math.sqrt(d * c)
    back_JC = flat_JQ @ decoder_CQ.T  # Bᵀ m_r
    x_JK = factor * torch.einsum("jc,jkc->jk", back_JC, code_JKC)
    weight_JK = torch.cat([gold_weight(x_JK[:, :1], noises, saturation), noise_weight(x_JK[:, 1:], noises, saturation)], dim=1) * factor
    mixture_JC = torch.einsum("jk,jkc->jc", weight_JK, code_JKC)
    towards_code_JKC = weight_JK[..., None] * back_JC[:, None]
    if sparsity > 0:
        towards_code_JKC[:, 0] -= sparsity * crowding_slope(code_JKC[:, 0])
    towards_code_JKC *= slope_JKC
    return CoderGradients(
        matrix_JQ=limit_norm(mixture_JC @ decoder_CQ, CODE_LIMIT),
        encoder_CQ=torch.einsum("jkc,jkq->cq", towards_code_JKC, both_JKQ),
        decoder_CQ=mixture_JC.T @ flat_JQ,
        loss=nce_loss(x_JK[:, 0], x_JK[:, 1:], noises).mean(),
    )
