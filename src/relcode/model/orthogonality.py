"""The regulariser that keeps relation matrices nearly orthogonal (the paper's section 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonal_pull(matrix_XDD: Tensor) -> Tensor:
    """Return −(N Nᵀ − I) N · s for M = s N with tr(N Nᵀ) = d, half the downhill direction of ‖N Nᵀ − I‖²/2.

    Minimising ‖MᵀM − (tr(MᵀM)/d) I‖ drives M towards a multiple of an orthogonal matrix; the trace scale s = ‖M‖/√d is divided out.
    """
    d = matrix_XDD.shape[-1]
    scale_X = (matrix_XDD.flatten(1).norm(dim=1) / d**0.5).clamp_min(1e-30)[:, None, None]
    unit_XDD = matrix_XDD / scale_X
    gram_XDD = torch.bmm(unit_XDD, unit_XDD.transpose(1, 2))
    return scale_X * (unit_XDD - torch.bmm(gram_XDD, unit_XDD))
