"""Maps as still pictures: one panel a run, as in the paper's figure 5, coloured by frequency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from relcode.analysis.maps import PointMap, names_to_show
from relcode.plots.heatmap import COLOURS, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 2
NAMED = 12  # names written into a panel
FEW_POINTS = 300
LETTER_WIDTH, LINE_HEIGHT, MARGIN = 0.0125, 0.035, 0.15  # in parts of a panel


def draw_maps(maps: Sequence[PointMap], *, title: str = "", named: int = NAMED) -> Figure:
    """Draw maps side by side on one scale of colours; lighter points are more frequent."""
    if not maps:
        raise ValueError("there is no map to draw")
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    columns = min(MOST_COLUMNS, len(maps))
    rows = -(-len(maps) // columns)
    figure = new_figure(6.2 * columns + 0.9, 5.4 * rows + 0.6)
    panels = figure.subplots(rows, columns, squeeze=False)
    frequencies = torch.cat([one.frequency_N for one in maps]).clamp_min(1)
    lowest, highest = int(frequencies.min()), int(frequencies.max())
    scale = LogNorm(vmin=lowest, vmax=max(lowest + 1, highest))
    dots: Any = None
    for place, panel in enumerate(panels.flat):
        if place < len(maps):
            dots = _draw_panel(panel, maps[place], scale, named)
        else:
            panel.set_visible(False)
    whole = FuncFormatter(lambda value, _: f"{value:,.0f}")
    bar = figure.colorbar(dots, ax=panels.ravel().tolist(), fraction=0.04, pad=0.02, aspect=40, format=whole)
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
    from matplotlib.patheffects import withStroke

    x_N, y_N = points.point_N2.T.numpy()
    size = 26 if len(x_N) < 300 else 14 if len(x_N) < 1500 else 6
    over = points.frequency_N.argsort(stable=True).numpy()  # the frequent ones are few, and are drawn over the others
    colour = points.frequency_N.clamp_min(1).numpy()[over]
    dots = panel.scatter(x_N[over], y_N[over], c=colour, cmap=COLOURS, norm=scale, s=size, linewidths=0.3, edgecolors="0.25", zorder=2)
    panel.set_title(panel_title(points), fontsize=9)
    panel.set_xlabel(f"axis 1, no unit ({points.method})", fontsize=8)
    panel.set_ylabel("axis 2, no unit", fontsize=8)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.margins(0.12, 0.08)
    halo = [withStroke(linewidth=2.2, foreground="white", alpha=0.85)]
    layer = 1 if len(x_N) < FEW_POINTS else 3  # a name under few points hides none of them; among many it could not be read
    for one, right in _placed_names(points, names_to_show(points, 4 * named))[:named]:
        side = {"xytext": (4, 3), "ha": "left"} if right else {"xytext": (-4, 3), "ha": "right"}
        panel.annotate(points.short[one], (x_N[one], y_N[one]), textcoords="offset points", fontsize=7.5, path_effects=halo, zorder=layer, **side)
    return dots


def _placed_names(points: PointMap, chosen: Sequence[int]) -> list[tuple[int, bool]]:
    """Keep of the chosen points those whose names would not lie on a name kept before; say for each whether its name goes to the right.

    Boxes are in parts of the panel, for letters about as large as they are drawn. A name goes where it covers fewer points, and stays inside.
    """
    low_2, high_2 = points.point_N2.amin(dim=0), points.point_N2.amax(dim=0)
    place_N2 = (points.point_N2 - low_2) / (high_2 - low_2).clamp_min(1e-9)
    kept: list[tuple[int, bool]] = []
    boxes: list[tuple[float, float, float]] = []
    for one in chosen:
        across, up = place_N2[one].tolist()
        width = LETTER_WIDTH * len(points.short[one])
        sides = []
        for right in (True, False):
            left = across if right else across - width
            inside_N = (place_N2[:, 0] > left) & (place_N2[:, 0] < left + width) & (place_N2[:, 1] > up) & (place_N2[:, 1] < up + LINE_HEIGHT)
            free = all(left + width < other or other + span < left or abs(up - line) > LINE_HEIGHT for other, span, line in boxes)
            if free and left > -MARGIN and left + width < 1 + MARGIN:
                sides.append((int(inside_N.sum()), not right, left))
        if sides:
            _, leftwards, left = min(sides)
            kept.append((one, not leftwards))
            boxes.append((left, width, up))
    return kept
