"""Pictures of the studies: held-out discovery by the part taken out, and what removing named facts does against random ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from relcode.plots.heatmap import new_figure, save_figure
from relcode.studies.discovery import DiscoveryReport
from relcode.studies.necessity import NecessityReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which no common colour blindness confuses; marker and line differ too, so that grey print does.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#555555"
WAYS = {"model": (BLUE, "o", "-"), "counting": (ORANGE, "s", "--"), "random second": (GREEN, "^", ":"), "chance": (GREY, "", "-.")}
LABELS = {
    "model": "model: cosine of M3 with M1·M2",
    "counting": "counting: confidence in the same reduced facts",
    "random second": "model, a random matrix in place of M2",
    "chance": "chance",
}


def draw_discovery(report: DiscoveryReport, *, title: str = "Held-out discovery") -> Figure:
    """Draw the mean of 1/rank of r3 against the part of its supported pairs that was taken out, for each way of ranking."""
    figure = new_figure(7.2, 5.0)
    axes: Any = figure.add_subplot()
    lines = report.lines()
    for by, (colour, marker, style) in WAYS.items():
        points = [(100 * line.part, line.mrr_allowed) for line in lines if line.by == by]
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle=style, linewidth=2, markersize=7, label=LABELS[by])
    axes.set_xlabel("pairs of r3 that r1/r2 explains, taken out of training (%)", fontsize=10)
    axes.set_ylabel("mean of 1/rank of r3 (1 is best)", fontsize=10)
    axes.set_ylim(0, 1.05)
    axes.set_xticks(sorted({100 * line.part for line in lines}))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    figure.legend(fontsize=9, frameon=False, loc="outside lower center", ncols=2)  # beside the lines, never over them
    number, seeds = lines[0].compositions, lines[0].seeds
    about = f"{number} compositions r1/r2 = r3, {seeds} seed{'s' * (seeds > 1)}; ranks among the relations other than r1, r2 and their inverses"
    axes.set_title(f"{title}\n{about}", fontsize=10)
    return figure


def draw_necessity(report: NecessityReport, *, title: str = "Are explanations needed?") -> Figure:
    """Draw each fact by how far its log-odds fall without random facts and without the named ones; above the line the named facts matter more."""
    figure = new_figure(6.4, 6.4)
    axes: Any = figure.add_subplot()
    falls = [(row.nothing_log_odds - row.random_log_odds, row.nothing_log_odds - row.named_log_odds) for row in report.rows]
    every = [value for pair in falls for value in pair]
    ends = [min([0.0, *every]), max([1.0, *every])]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1.2, zorder=1, label="equal: above it the named facts matter more")
    same = "one whose entity lost all its facts: random ones are the same"
    for emptied, look, label in ((False, (BLUE, "o"), "a fact asked about"), (True, (ORANGE, "s"), same)):
        points = [pair for row, pair in zip(report.rows, falls, strict=True) if row.emptied == emptied]
        if points:
            axes.scatter(*zip(*points, strict=True), color=look[0], marker=look[1], s=22, alpha=0.65, linewidths=0, zorder=2, label=label)
    mean = [sum(column) / len(report.rows) for column in zip(*falls, strict=True)]
    axes.scatter(mean[:1], mean[1:], color="white", marker="D", s=90, edgecolors="black", linewidths=2, zorder=3, label="mean of all")
    axes.set_xlabel("fall of the answer's log-odds without random facts (nats)", fontsize=10)
    axes.set_ylabel("fall without the facts named (nats)", fontsize=10)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    figure.legend(fontsize=9, frameon=False, loc="outside lower center", ncols=1)
    effect = next(one for one in report.effects if one.measure == "log-odds")
    about = f"{len(report.rows)} facts; mean difference {effect.difference:.2f} nats (95 % interval {effect.low:.2f} to {effect.high:.2f})"
    axes.set_title(f"{title}\n{about}", fontsize=10)
    return figure


def save_discovery(report: DiscoveryReport, path: Path, *, title: str = "Held-out discovery") -> None:
    """Draw it into a file (png, svg, pdf)."""
    save_figure(draw_discovery(report, title=title), path)


def save_necessity(report: NecessityReport, path: Path, *, title: str = "Are explanations needed?") -> None:
    """Draw it into a file (png, svg, pdf)."""
    save_figure(draw_necessity(report, title=title), path)
