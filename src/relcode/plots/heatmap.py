"""The code heatmap as a picture: the paper's figure 4, for any run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relcode.analysis.codes import Dimension, RelationCodes, Sparsity, describe_dimensions, sparsity
from relcode.errors import MissingExtra, OutputError
from relcode.plots.terminal import heatmap_rows
from relcode.runs.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "cividis"  # made for colour-blind eyes, and even in grey
FORMS = ("png", "svg", "pdf")
MOST_ROWS = 120
DPI = 160
ROW_INCHES = 0.19
WORDS_SHOWN = 2


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with its own canvas: no window system is asked for, and no global state is kept."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "analysis", "a picture file") from None
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_picture(path: Path) -> str:
    """Return the form of picture that a file's ending asks for; another ending than those of ``FORMS`` is an error."""
    form = path.suffix.lower().lstrip(".")
    if form not in FORMS:
        raise OutputError(f"{path} is no name for a picture: it must end in {', '.join(f'.{one}' for one in FORMS[:-1])} or .{FORMS[-1]}")
    return form


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the form of the file's ending."""
    form = check_picture(path)
    write_atomically(path, lambda draft: figure.savefig(draft, format=form, bbox_inches="tight"))


def draw_codes(codes: RelationCodes, *, title: str = "Relation codes", most: int | None = MOST_ROWS) -> Figure:
    """Draw the heatmap: rows are relations grouped by dominant dimension, columns are dimensions headed by the words they share."""
    rows = heatmap_rows(codes, most)
    longest = max((len(codes.short[row]) for row in rows), default=0)
    C = codes.num_dimensions
    figure = new_figure(0.075 * longest + 0.42 * C + 1.4, ROW_INCHES * len(rows) + 2.4)
    axes: Any = figure.add_subplot()
    picture = axes.imshow(codes.share_SC[rows].numpy(), aspect="auto", cmap=COLOURS, vmin=0, vmax=darkest(codes), interpolation="nearest")
    axes.set_yticks(range(len(rows)), [codes.short[row] for row in rows], fontsize=8)
    axes.set_ylabel("relation (^ is the inverse)", fontsize=9)
    axes.set_xticks(range(C), [str(number + 1) for number in range(C)], fontsize=8)
    axes.set_xlabel("dimension of the code", fontsize=9)
    _head_dimensions(axes, describe_dimensions(codes))
    _part_groups(axes, codes, rows)
    bar = figure.colorbar(picture, ax=axes, fraction=0.03, pad=0.02, aspect=40)
    bar.set_label("share of code (each row sums to 1)", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    part = "" if len(rows) == len(codes.names) else f"\nStrongest {len(rows)} of {len(codes.names)} directed relations"
    figure.suptitle(f"{title}\n{caption(sparsity(codes))}{part}", fontsize=10)
    return figure


def save_codes(codes: RelationCodes, path: Path, *, title: str = "Relation codes", most: int | None = MOST_ROWS) -> None:
    """Draw the heatmap into a file (png, svg, pdf)."""
    save_figure(draw_codes(codes, title=title, most=most), path)


def darkest(codes: RelationCodes) -> float:
    """Return the share at the end of the scale of colours: the largest there is, rounded up to a tenth."""
    return max(1, math.ceil(10 * float(codes.share_SC.max()) - 1e-9)) / 10


def heading(dimension: Dimension) -> str:
    """Return the words that head a dimension."""
    return ", ".join(dimension.words[:WORDS_SHOWN]) or "–"


def _head_dimensions(axes: Any, dimensions: tuple[Dimension, ...]) -> None:
    """Write over each column the words its relations share."""
    top = axes.secondary_xaxis("top")
    top.set_xticks(range(len(dimensions)), [heading(one) for one in dimensions], fontsize=7.5, rotation=55, ha="left", rotation_mode="anchor")
    top.tick_params(length=2)


def _part_groups(axes: Any, codes: RelationCodes, rows: list[int]) -> None:
    """Draw a thin line between relations of different dominant dimensions."""
    dominant = codes.dominant_S[rows].tolist()
    for place in range(1, len(rows)):
        if dominant[place] != dominant[place - 1]:
            axes.axhline(place - 0.5, color="white", linewidth=0.8)


def caption(figures: Sparsity) -> str:
    """Say in words how sparse codes are."""
    if figures.zero_codes == figures.relations:
        return "All codes are zero"
    zero = f"; {figures.zero_codes} codes are zero" if figures.zero_codes else ""
    return f"The two largest entries hold {figures.two_largest:.0%} of a code, {figures.over_tenth:.1f} entries exceed 10 %{zero}"
