from __future__ import annotations

from pathlib import Path

import pytest
import torch

from relcode.analysis.calibration import reliability
from relcode.plots.heatmap import save_figure
from relcode.plots.reliability import WIDTH, draw_reliability, reliability_lines

FOUND = reliability(torch.tensor([0.05, 0.05, 0.95, 1.0]), torch.tensor([False, False, True, True]))


@pytest.mark.parametrize("ascii_only", [False, True])
def test_bars_reach_the_share_of_facts(ascii_only: bool) -> None:
    header, *rows, legend = reliability_lines(FOUND, ascii_only)
    full, mark = ("#", "|") if ascii_only else ("█", "│")
    assert len(rows) == 10 and rows[0].count(full) == 0 and mark in rows[0]
    assert rows[9].count(full) == WIDTH - 1 and rows[9].endswith(mark + full)  # the mark of the mean, .975, stands in the bar
    assert "–" in rows[5] and header.index("0  ") and mark in legend
    if ascii_only:
        assert all(line.replace("–", "").isascii() for line in rows)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("matplotlib.image")
    save_figure(draw_reliability(FOUND, FOUND, title="Probabilities <of> $x$"), tmp_path / "picture.png")
    pixels = image.imread(tmp_path / "picture.png")
    assert pixels.shape[0] > 400 and pixels[..., :3].std() > 0.05
