from __future__ import annotations

from pathlib import Path

import pytest
import torch

from relcode.analysis.maps import PointMap
from relcode.plots.map import draw_maps, save_maps

pytest.importorskip("matplotlib")


def points(count: int = 8, title: str = "joint", kind: str = "relation") -> PointMap:
    names = tuple(f"r{number}" for number in range(count))
    place_N2 = torch.rand(count, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return PointMap(title, kind, names, names, place_N2, torch.arange(count), 3.25, 7, 4, "UMAP, 7 neighbours, seed 0")


def test_every_point_is_drawn_where_it_lies() -> None:
    one = points()
    panel = draw_maps([one]).axes[0]
    assert panel.collections[0].get_offsets().data.tolist() == one.point_N2.tolist()
    assert "participation ratio 3.2 of at most 7" in panel.get_title() and "joint" in panel.get_title()
    assert panel.get_xlabel() and panel.get_ylabel()


def test_runs_share_one_scale_of_colours() -> None:
    figure = draw_maps([points(), points(20, "base"), points(5, "third")], title="Three runs")
    limits = {panel.collections[0].get_clim() for panel in figure.axes[:3]}
    assert limits == {(1, 19)}
    assert figure.get_suptitle() == "Three runs"
    assert not figure.axes[3].get_visible()
    assert "training facts" in figure.axes[-1].get_ylabel()


def test_a_picture_is_written(tmp_path: Path) -> None:
    save_maps([points(kind="entity")], tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_points_on_one_spot_are_no_trouble() -> None:
    one = points(3)
    same = PointMap("x", "entity", one.names, one.short, torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), 0.0, 1, 0, "none")
    draw_maps([same])


def test_no_map_is_refused() -> None:
    with pytest.raises(ValueError, match="no map"):
        draw_maps([])
