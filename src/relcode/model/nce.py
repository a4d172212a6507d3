"""The noise-contrastive objective of facts and paths, and its gradients.

For a path with score s = exp(x) against k noises (Gutmann and Hyvärinen, 2012; the paper's section 2) maximise

    ln s/(k+s) + Σ_noise ln k/(k+s*)  =  ln σ(x − ln k) + Σ_noise ln σ(ln k − x*)

whose gradient weights are σ(ln k − x) towards x and −σ(x* − ln k) towards x*.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import logsigmoid

from relcode.ops.rows import saturating_sigmoid


def gold_weight(x: Tensor, noises: int, saturation: float = math.inf) -> Tensor:
    """Return ∂/∂x ln σ(x − ln k) = σ(ln k − x), the pull of a fact."""
    return saturating_sigmoid(math.log(noises) - x, saturation)


def noise_weight(x: Tensor, noises: int, saturation: float = math.inf) -> Tensor:
    """Return ∂/∂x ln σ(ln k − x) = −σ(x − ln k), the push of one noise."""
    return -saturating_sigmoid(x - math.log(noises), saturation)


def gold_loss(x: Tensor, noises: int) -> Tensor:
    """Return −ln σ(x − ln k), the fact's part of the loss."""
    return -logsigmoid(x - math.log(noises))


def nce_loss(gold: Tensor, noise: Tensor, noises: int) -> Tensor:
    """Return −ln σ(x − ln k) − (k/K) Σ_K ln σ(ln k − x*) for each row; the K draws together weigh as much as k noises."""
    return gold_loss(gold, noises) - noises * logsigmoid(math.log(noises) - noise).mean(-1)
