"""The push of noises in the noise-contrastive objective: a table of scores becomes a table of weights, passed over once where that matters.

    push = −σ(x − ln k) · w · k/K          loss = w · k/K · Σ_K ln(1 + exp(x − ln k))

of a row of weight w against K drawn noises that together weigh as much as k (:mod:`relcode.model.nce` has where this comes from).
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import softplus

from relcode.ops.rows import saturating_sigmoid
from relcode.ops.triton import kernels


def plain_noise_push(score_GXK: Tensor, weight_GX: Tensor, noises: int, saturation: float) -> tuple[Tensor, Tensor]:
    """Return weights and losses: the equations as written."""
    z_GXK = score_GXK - math.log(noises)
    share_GX = weight_GX * (noises / score_GXK.shape[-1])
    return saturating_sigmoid(z_GXK, saturation) * -share_GX[..., None], softplus(z_GXK).sum(-1) * share_GX


def cpu_noise_push_(score_GXK: Tensor, weight_GX: Tensor, noises: int, saturation: float) -> tuple[Tensor, Tensor]:
    """Return weights, in the place of the scores, and losses: fewer passes, and no new memory but the loss's."""
    z_GXK, share_GX = score_GXK.sub_(math.log(noises)), weight_GX * (noises / score_GXK.shape[-1])
    loss_GX = softplus(z_GXK).sum(-1).mul_(share_GX)
    push_GXK = z_GXK.sigmoid_() if math.isinf(saturation) else saturating_sigmoid(z_GXK, saturation)
    return push_GXK.mul_(-share_GX[..., None]), loss_GX


def noise_push(score_GXK: Tensor, weight_GX: Tensor, noises: int, saturation: float) -> tuple[Tensor, Tensor]:
    """Return the weights of all noises, which may take the place of the scores, and the loss of each row."""
    if not score_GXK.is_cuda:
        return cpu_noise_push_(score_GXK, weight_GX, noises, saturation)
    share = noises / score_GXK.shape[-1]
    loss_X = kernels().noise_push_(score_GXK.flatten(0, 1), weight_GX.flatten(), math.log(noises), share, saturation)
    return score_GXK, loss_X.view_as(weight_GX)
