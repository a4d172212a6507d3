"""Interactive pages: one HTML file each, with everything in it, names on hover; nothing is fetched when it is opened."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from relcode.analysis.codes import RelationCodes, describe_dimensions, heatmap_order, sparsity
from relcode.analysis.maps import PointMap
from relcode.errors import MissingExtra
from relcode.plots.heatmap import caption, darkest, heading
from relcode.plots.map import MOST_COLUMNS, panel_title
from relcode.runs.files import write_text

COLOURS = "Cividis"
STYLE = (
    "body{font:15px system-ui,sans-serif;margin:1.5rem;color:#222;background:#fff}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}"
)


def codes_page(codes: RelationCodes, *, title: str = "Relation codes") -> str:
    """Return the heatmap of all relations as an HTML page, with a table of what each dimension stands for."""
    graph = _plotly()
    order = heatmap_order(codes)
    dimensions = describe_dimensions(codes)
    share_SC, code_SC = codes.share_SC[order], codes.code_SC[order]
    # Rows are placed by number and named by ticks: two relations can never fall into one row.
    hover = [
        [
            f"{_safe(codes.names[row])}<br>dimension {one.number} ({_safe(heading(one))})<br>share {share:.3f}, code {code:.3f}"
            for one, share, code in zip(dimensions, share_C, code_C, strict=True)
        ]
        for row, share_C, code_C in zip(order, share_SC.tolist(), code_SC.tolist(), strict=True)
    ]
    heat = graph.Heatmap(
        z=share_SC.tolist(),
        text=hover,
        hoverinfo="text",
        colorscale=COLOURS,
        zmin=0,
        zmax=darkest(codes),
        xgap=1,
        ygap=1,
        colorbar={"title": "share of code"},
    )
    figure = graph.Figure(heat)
    figure.update_layout(height=max(420, 17 * len(order) + 220), margin={"l": 10, "t": 110}, font={"size": 12})
    heads = [f"{one.number}<br>{_safe(heading(one))}" for one in dimensions]
    figure.update_xaxes(side="top", tickvals=list(range(len(heads))), ticktext=heads, tickangle=-45, title="dimension of the code")
    names = [_safe(codes.short[row]) for row in order]
    figure.update_yaxes(autorange="reversed", tickvals=list(range(len(names))), ticktext=names, automargin=True, title="relation (^ is the inverse)")
    lines = "".join(
        f"<tr><td>{one.number}</td><td>{_safe(', '.join(one.words)) or '–'}</td><td>"
        + ", ".join(f"{_safe(strong.short)} {strong.share:.2f}" for strong in one.strongest)
        + "</td></tr>"
        for one in dimensions
    )
    table = f"<h2>Dimensions</h2><table><tr><th>dimension</th><th>words shared</th><th>strongest relations, with their share</th></tr>{lines}</table>"
    return _page(title, f"{caption(sparsity(codes))}.", figure, table)


def maps_page(maps: Sequence[PointMap], *, title: str = "") -> str:
    """Return maps side by side as an HTML page: names and frequencies on hover, lighter points more frequent."""
    if not maps:
        raise ValueError("there is no map to draw")
    graph = _plotly()
    from plotly.subplots import make_subplots

    columns = min(MOST_COLUMNS, len(maps))
    rows = -(-len(maps) // columns)
    # In a narrow window two long titles would run into each other: a line for each figure.
    titles = [_safe(panel_title(one)).replace("\n", "<br>").replace("; ", "<br>") for one in maps]
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles, vertical_spacing=0.2 / rows)
    figure.update_annotations(font_size=13)
    frequencies = torch.cat([one.frequency_N for one in maps]).clamp_min(1).log10()
    lowest, highest = float(frequencies.min()), float(frequencies.max())
    for place, points in enumerate(maps):
        frequency_N = points.frequency_N.clamp_min(1).log10()
        marks = {
            "color": frequency_N.tolist(),
            "colorscale": COLOURS,
            "cmin": lowest,
            "cmax": highest,
            "size": 8,
            "line": {"width": 0.5, "color": "#444"},
        }
        if place == 0:
            powers = list(range(math.ceil(lowest), int(highest) + 1))
            marks["colorbar"] = {"title": "training facts", "tickvals": powers, "ticktext": [f"{10**power:,}" for power in powers]}
        text = [f"{_safe(name)}<br>{count:,} training facts" for name, count in zip(points.names, points.frequency_N.tolist(), strict=True)]
        x_N, y_N = points.point_N2.T.tolist()
        dots = graph.Scattergl(x=x_N, y=y_N, mode="markers", marker=marks, text=text, hoverinfo="text", showlegend=False)
        figure.add_trace(dots, row=place // columns + 1, col=place % columns + 1)
    figure.update_xaxes(title="axis 1 (no unit)", showticklabels=False)
    figure.update_yaxes(title="axis 2 (no unit)", showticklabels=False)
    figure.update_layout(height=620 * rows, margin={"t": 90}, template="plotly_white")
    note = f"Points near each other are held alike by the model ({maps[0].method}). Only nearness means something: the axes have no unit."
    return _page(title or f"Map of the {'relation matrices' if maps[0].kind == 'relation' else 'entity vectors'}", note, figure, "")


def save_page(page: str, path: Path) -> None:
    """Write a page."""
    write_text(path, page)


def _page(title: str, note: str, figure: Any, after: str) -> str:
    """Put a figure into a page that stands alone."""
    drawing = figure.to_html(full_html=False, include_plotlyjs=True, include_mathjax=False, config={"displaylogo": False, "responsive": True})
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_safe(title)}</title><style>{STYLE}</style></head>'
    return f"{head}<body><h1>{_safe(title)}</h1><p>{_safe(note)}</p>{drawing}{after}</body></html>\n"


def _plotly() -> Any:
    """Return plotly's graph objects."""
    try:
        import plotly.graph_objects as graph
    except ImportError:
        raise MissingExtra("plotly", "explorer", "an interactive page") from None
    return graph


def _safe(text: str) -> str:
    """Return text whose signs are signs, not markup: names come from anybody's data."""
    return html.escape(text)
