"""Two pieces of work side by side: both are done, and what comes after sees what both wrote."""

from __future__ import annotations

import pytest
import torch

from relcode.ops.streams import side_by_side


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))])
def test_both_pieces_are_done_and_seen_afterwards(device: str) -> None:
    place = torch.device(device)
    x, y = torch.ones(256, 256, device=place), torch.zeros(256, device=place)
    for _ in range(3):
        total, largest = side_by_side((x @ x).sum, y.add_(1).amax, place)
        y.mul_(total > 0)
    assert total.item() == 256.0**3
    assert largest.item() == 3 and y.tolist() == [3.0] * 256


def test_what_goes_wrong_in_either_is_told() -> None:
    def wrong() -> None:
        raise ValueError("wrong")

    for pair in ((wrong, list), (list, wrong)):
        with pytest.raises(ValueError, match="wrong"):
            side_by_side(pair[0], pair[1], torch.device("cpu"))
