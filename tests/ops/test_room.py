from __future__ import annotations

import torch

from relcode.ops.room import Room


def test_memory_is_used_again_by_the_same_name_alone() -> None:
    room, like = Room(), torch.zeros(1)
    first = room.take("x", (4, 3), like)
    assert first.shape == (4, 3) and first.dtype == torch.float32
    assert room.take("x", (2, 5), like).data_ptr() == first.data_ptr()
    assert room.take("y", (4, 3), like).data_ptr() != first.data_ptr()


def test_a_larger_or_another_tensor_gets_memory_of_its_own() -> None:
    room, like = Room(), torch.zeros(1)
    first = room.take("x", (2, 2), like).fill_(1)
    assert room.take("x", (3, 2), like).shape == (3, 2)
    assert room.take("x", (3, 2), like.double()).dtype == torch.float64
    assert first.tolist() == [[1, 1], [1, 1]]
    assert room.take("x", (0, 2), like).shape == (0, 2)
