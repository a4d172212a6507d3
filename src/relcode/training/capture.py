"""A training step recorded as a CUDA graph: the same step, replayed without Python or launch costs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def capture(body: Callable[[], None], tensors: list[Tensor], generator: torch.Generator) -> torch.cuda.CUDAGraph:
    """Record ``body`` as a CUDA graph; ``tensors`` and the generator, which the warm-up changes, are put back as they were.

    A graph replays the same kernels on the same memory: ``body`` must read its inputs from fixed tensors, have shapes that do not depend on
    the data, and never wait for the device.
    """
    kept = [tensor.clone() for tensor in tensors]
    state = generator.get_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # the first calls choose algorithms and allocate, which a recording must not
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        body()
    for tensor, before in zip(tensors, kept, strict=True):
        tensor.copy_(before)
    generator.set_state(state)
    return graph
