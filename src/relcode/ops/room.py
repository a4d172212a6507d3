"""Memory that is kept from one step to the next.

A step writes tens of megabytes of gradients and needs them no more when it ends. Given back to the system and asked for again, every page of them is
cleared and mapped anew, which takes as long as the products they are made for.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Room:
    """Tensors by name, whose memory is used again when the name is; what one holds is good until then."""

    def __init__(self) -> None:
        """Begin empty."""
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return an uninitialised tensor of this shape, of the type and on the device of ``like``."""
        size, kept = math.prod(shape), self._kept.get(name)
        if kept is None or kept.numel() < size or kept.dtype != like.dtype or kept.device != like.device:
            kept = self._kept[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return kept[:size].view(shape)
