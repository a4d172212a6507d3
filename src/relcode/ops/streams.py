"""Two pieces of work side by side on a GPU, each on a stream of its own: small kernels of one fill what large ones of the other leave idle."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")


def side_by_side(first: Callable[[], First], second: Callable[[], Second], device: torch.device) -> tuple[First, Second]:
    """Do both and return what they return: beside each other on CUDA, else one after the other. Neither may touch what the other writes.

    They begin when what was asked of the device before is done, and what is asked of it afterwards waits for both. Recorded in a CUDA graph they are
    two branches of it. All that ``second`` reads must live until this returns.
    """
    if device.type != "cuda":
        return first(), second()
    main, side = torch.cuda.current_stream(device), _side_stream(torch.cuda.current_device() if device.index is None else device.index)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        other = second()
    mine = first()
    main.wait_stream(side)
    return mine, other


@functools.cache
def _side_stream(index: int) -> torch.cuda.Stream:
    """Return the stream beside the others of a device: always the same one, so that its memory is used again."""
    return torch.cuda.Stream(index)
