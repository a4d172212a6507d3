"""The regulariser that keeps relation matrices nearly orthogonal (the paper's section 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonal_pull(matrix_XDD: Tensor) -> tuple[Tensor, Tensor]:
    """Return −s (N Nᵀ − I) N for M = s N with tr(N Nᵀ) = d, and the largest step along it that is safe.

    The direction is downhill for ‖N Nᵀ − I‖²/4; minimising ‖MᵀM − (tr(MᵀM)/d) I‖ so drives M towards a multiple of an orthogonal matrix. A step a
    takes a singular value σ of N to σ(1 − a(σ² − 1)), which overshoots where aσ² > 1 and explodes where it is much larger. The bound
    a ≤ (Σ σ⁶)^(−1/3) ≤ 1/σ_max² costs nothing: Σ σ⁶ = ‖N Nᵀ N‖².
    """
    d = matrix_XDD.shape[-1]
    scale_X = (matrix_XDD.flatten(1).norm(dim=1) / d**0.5).clamp_min(1e-30)[:, None, None]
    unit_XDD = matrix_XDD / scale_X
    cube_XDD = torch.bmm(torch.bmm(unit_XDD, unit_XDD.transpose(1, 2)), unit_XDD)
    return scale_X * (unit_XDD - cube_XDD), cube_XDD.flatten(1).norm(dim=1).pow(-2 / 3)


def pull_once_(matrix_DD: Tensor, rate: float) -> None:
    """Move one matrix by the smaller of ``rate`` and the safe step a, in place: the same in fewer passes, M − a ((N Nᵀ) M − M)."""
    scale = max(float(torch.linalg.vector_norm(matrix_DD)) / len(matrix_DD) ** 0.5, 1e-30)
    unit_DD = matrix_DD / scale
    cube_DD = (unit_DD @ unit_DD.T) @ matrix_DD
    size = float(torch.linalg.vector_norm(cube_DD)) / scale
    matrix_DD.lerp_(cube_DD, -min(rate, size ** (-2 / 3)) if size else -rate)
