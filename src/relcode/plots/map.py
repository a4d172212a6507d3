"""Maps as still pictures: one panel a run, as in the paper's figure 5, coloured by frequency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relcode.analysis.maps import PointMap, names_to_show
from relcode.plots.heatmap import COLOURS, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 2
NAMED = 12  # names written into a panel


def draw_maps(maps: Sequence[PointMap], *, title: str = "", named: int = NAMED) -> Figure:
    """Draw maps side by side on one scale of colours; lighter points are more frequent."""
    if not maps:
        raise ValueError("there is no map to draw")
    from matplotlib.colors import LogNorm

    columns = min(MOST_COLUMNS, len(maps))
    rows = -(-len(maps) // columns)
    figure = new_figure(6.2 * columns + 0.9, 5.4 * rows + 0.6)
    panels = figure.subplots(rows, columns, squeeze=False)
    highest = max(int(one.frequency_N.max()) for one in maps)
    scale = LogNorm(vmin=1, vmax=max(2, highest))
    dots: Any = None
    for place, panel in enumerate(panels.flat):
        if place < len(maps):
            dots = _draw_panel(panel, maps[place], scale, named)
        else:
            panel.set_visible(False)
    bar = figure.colorbar(dots, ax=panels.ravel().tolist(), fraction=0.04, pad=0.02, aspect=40)
    bar.set_label(f"training facts of the {maps[0].kind} (logarithmic)", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    figure.suptitle(title or f"Map of the {'relation matrices' if maps[0].kind == 'relation' else 'entity vectors'}", fontsize=11)
    return figure


def save_maps(maps: Sequence[PointMap], path: Path, *, title: str = "", named: int = NAMED) -> None:
    """Draw maps into a file (png, svg, pdf)."""
    save_figure(draw_maps(maps, title=title, named=named), path)


def panel_title(points: PointMap) -> str:
    """Say what a panel shows and how low-dimensional it is."""
    ratio = f"participation ratio {points.participation_ratio:.1f} of at most {points.most_ratio}"
    return f"{points.title}\n{ratio}; 90 % of the variance in {points.dimensions_90} dimensions"


def _draw_panel(panel: Any, points: PointMap, scale: Any, named: int) -> Any:
    """Draw one map, with the names of its most frequent points where they do not cover each other."""
    x_N, y_N = points.point_N2.T.numpy()
    size = 26 if len(x_N) < 300 else 14 if len(x_N) < 1500 else 5
    dots = panel.scatter(x_N, y_N, c=points.frequency_N.clamp_min(1).numpy(), cmap=COLOURS, norm=scale, s=size, linewidths=0.3, edgecolors="0.25")
    panel.set_title(panel_title(points), fontsize=9)
    panel.set_xlabel(f"axis 1, no unit ({points.method})", fontsize=8)
    panel.set_ylabel("axis 2, no unit", fontsize=8)
    panel.tick_params(labelsize=7)
    panel.margins(0.12, 0.08)
    for one in _apart(points, names_to_show(points, 4 * named))[:named]:
        right = x_N[one] > (x_N.min() + x_N.max()) / 2
        side = {"xytext": (-4, 3), "ha": "right"} if right else {"xytext": (4, 3), "ha": "left"}
        panel.annotate(points.short[one], (x_N[one], y_N[one]), textcoords="offset points", fontsize=6.5, **side)
    return dots


def _apart(points: PointMap, chosen: Sequence[int]) -> list[int]:
    """Keep of the chosen points those whose names would not lie on a name kept before."""
    low_2, high_2 = points.point_N2.amin(dim=0), points.point_N2.amax(dim=0)
    place_N2 = (points.point_N2 - low_2) / (high_2 - low_2).clamp_min(1e-9)
    kept: list[int] = []
    for one in chosen:
        across, up = place_N2[one].tolist()
        others = [place_N2[other].tolist() for other in kept]
        if all(abs(up - other_up) > 0.035 or abs(across - other_across) > 0.45 for other_across, other_up in others):
            kept.append(one)
    return kept
