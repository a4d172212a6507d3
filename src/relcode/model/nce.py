"""The noise-contrastive objective of facts and paths, and its gradients.

For a path with score s = exp(x) against k noises (Gutmann and Hyvärinen, 2012; the paper's section 2) maximise

    ln s/(k+s) + Σ_noise ln k/(k+s*)  =  ln σ(x − ln k) + Σ_noise ln σ(ln k − x*)

whose gradient weights are σ(ln k − x) towards x and −σ(x* − ln k) towards x*.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def saturating_sigmoid(x: Tensor, limit: float) -> Tensor:
    """Return σ(x), exactly 0 for x ≤ −limit and exactly 1 for x ≥ limit, as the released program's table has it."""
    sigmoid = torch.sigmoid(x)
    if math.isinf(limit):
        return sigmoid
    return torch.where(x <= -limit, 0.0, torch.where(x >= limit, 1.0, sigmoid))


def gold_weight(x: Tensor, noises: int, saturation: float = math.inf) -> Tensor:
    """Return ∂/∂x ln σ(x − ln k) = σ(ln k − x), the pull of a fact."""
    return saturating_sigmoid(math.log(noises) - x, saturation)


def noise_weight(x: Tensor, noises: int, saturation: float = math.inf) -> Tensor:
    """Return ∂/∂x ln σ(ln k − x) = −σ(x − ln k), the push of one noise."""
    return -saturating_sigmoid(x - math.log(noises), saturation)


def nce_loss(gold: Tensor, noise: Tensor, noises: int) -> Tensor:
    """Return −ln σ(x − ln k) − (k/K) Σ_K ln σ(ln k − x*) for each row; the K draws together weigh as much as k noises."""
    log_k = math.log(noises)
    return -logsigmoid(gold - log_k) - noises * logsigmoid(log_k - noise).mean(-1)
