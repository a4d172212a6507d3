"""The softmax of a table of scores, in place, and the logarithm of the sum it divides by: on CUDA in one pass where torch would need four.

total = ln Σ_e exp(x_e)          x_e ← exp(x_e − total)          over the first E columns; those behind them are padding, and become 0
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.ops.triton import has_kernels, kernels


def plain_softmax_(score_BE: Tensor, columns: int) -> Tensor:
    """Turn scores into shares, in place, and return the logarithms of the sums: the equations as written."""
    total_B = torch.logsumexp(score_BE[:, :columns], dim=1)
    score_BE[:, :columns].sub_(total_B[:, None]).exp_()
    score_BE[:, columns:] = 0
    return total_B


def softmax_(score_BE: Tensor, columns: int) -> Tensor:
    """Do the same by the version that is fast where the scores are."""
    if score_BE.is_cuda and has_kernels():
        total_B: Tensor = kernels().softmax_(score_BE, columns)
        return total_B
    return plain_softmax_(score_BE, columns)
