"""A start for the autoencoder: a non-negative factorisation of the relation matrices' cosines.

The noise-contrastive loss of the autoencoder is content with any code that tells relations apart, and from random projections it finds codes that are
sparse but mean nothing. What relations have in common is in the cosines of their matrices. So, once these are formed, codes begin at the factors of

    K ≈ W H,   K_rs = max(0, cos(M_r, M_s)),   W, H ≥ 0        (Lee and Seung, 2001: multiplicative updates; Boutsidis and Gallopoulos, 2008: start)

and encoder and decoder at the least-squares maps that give them: A m_r ≈ σ W_r, and B c_r ≈ m_r.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.model.autoencoder import flatten_matrices

ROUNDS = 150
TURNS, EXTRA = 12, 8  # of the subspace iteration: turns, and vectors beyond those asked for
RIDGE = 0.05  # on cosines: relations whose matrices nearly agree must not get opposite weights
CODE_SIZE = 8.0  # median largest entry of a code: well above the zone (−2, 2) in which the ReLU is smoothed
DROP = 0.15  # of a code's largest entry is taken from all of them: small ones, which training blurs anyway, begin at zero
TINY = 1e-12


def factors(positive_SS: Tensor, size: int) -> Tensor:
    """Return W [S, C] of the factorisation K ≈ W H, in double precision, without chance; factors beyond the number of relations are zero."""
    S = len(positive_SS)
    value_X, vector_SX = leading_vectors(positive_SS, min(size, S))
    parts_2SX = torch.stack([vector_SX.clamp_min(0), (-vector_SX).clamp_min(0)])
    larger_SX = parts_2SX[parts_2SX.norm(dim=1).argmax(0), :, torch.arange(vector_SX.shape[1])].T  # of each vector's positive and negative part
    left_SX = larger_SX * value_X.clamp_min(0).sqrt() + positive_SS.mean() / 100  # a zero would stay one for ever
    left_SC = torch.cat([left_SX, left_SX.new_zeros(S, size - left_SX.shape[1])], dim=1)
    right_CS = left_SC.T.clone()
    for _ in range(ROUNDS):
        right_CS *= (left_SC.T @ positive_SS) / (left_SC.T @ left_SC @ right_CS + TINY)
        left_SC *= (positive_SS @ right_CS.T) / (left_SC @ (right_CS @ right_CS.T) + TINY)
    return left_SC * right_CS.norm(dim=1)  # what a factor weighs is in W alone


def leading_vectors(matrix_SS: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the largest eigenvalues of a symmetric matrix and their vectors, by subspace iteration (all of them would be cubic in S)."""
    S = len(matrix_SS)
    width = min(S, number + EXTRA)
    basis_SX = torch.linalg.qr(matrix_SS[:, torch.linspace(0, S - 1, width).round().long()]).Q
    for _ in range(TURNS):
        basis_SX = torch.linalg.qr(matrix_SS @ basis_SX).Q
    value_X, turn_XX = torch.linalg.eigh(basis_SX.T @ matrix_SS @ basis_SX)
    return value_X.flip(0)[:number], (basis_SX @ turn_XX).flip(1)[:, :number]


def factor_coder(matrix_SDD: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return encoder A and decoder Bᵀ, both [C, Q], whose codes are those factors.

    A = Xᵀ Φ with rows m_r of Φ and (K + ρI) X = σ W / d, so that A m_r ≈ σ W_r; Bᵀ = (CᵀC + ρ)⁻¹ Cᵀ Φ, so that B c_r ≈ m_r.
    """
    flat_SQ = flatten_matrices(matrix_SDD)
    d = matrix_SDD.shape[1]
    cosine_SS = (flat_SQ @ flat_SQ.T).div(d).double().cpu()
    weight_SC = factors(cosine_SS.clamp_min(0), size)
    weight_SC = (weight_SC - DROP * weight_SC.max(dim=1, keepdim=True).values).clamp_min(0)
    code_SC = weight_SC * (CODE_SIZE / weight_SC.max(dim=1).values.median().clamp_min(TINY))
    eye_SS, eye_CC = torch.eye(len(cosine_SS), dtype=torch.float64), torch.eye(size, dtype=torch.float64)
    coefficient_SC = torch.linalg.solve(cosine_SS + RIDGE * eye_SS, code_SC) / d
    square_CC = code_SC.T @ code_SC
    back_CS = torch.linalg.solve(square_CC + (RIDGE * square_CC.diagonal().mean() + TINY) * eye_CC, code_SC.T)
    to = {"dtype": flat_SQ.dtype, "device": flat_SQ.device}
    return coefficient_SC.T.to(**to) @ flat_SQ, back_CS.to(**to) @ flat_SQ
