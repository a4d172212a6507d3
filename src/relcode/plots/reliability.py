"""The reliability picture: in each interval of probability, how many of the candidates were facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from relcode.analysis.calibration import Reliability
from relcode.plots.heatmap import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 40  # letters of a bar that reaches 1


def reliability_lines(found: Reliability, ascii_only: bool = False) -> Iterator[str]:
    """Go through the picture as text: a bar for the share of facts in each interval, a mark where the mean probability stands."""
    full, mark = ("#", "|") if ascii_only else ("█", "│")
    yield f"{'probability':<11}  {'n':>9}  {'mean p':>6}  {'facts':>6}  0{'':{WIDTH - 2}}1"
    for number, one in enumerate(found.bins):
        low, high = number / len(found.bins), (number + 1) / len(found.bins)
        bar = list(f"{full * round(WIDTH * one.share):<{WIDTH}}")
        if one.count:
            bar[min(WIDTH - 1, int(WIDTH * one.probability))] = mark
        figures = f"{one.probability:>6.3f}  {one.share:>6.3f}" if one.count else f"{'–':>6}  {'–':>6}"
        yield f"{low:.1f} to {high:.1f}   {one.count:>9,}  {figures}  {''.join(bar).rstrip()}".rstrip()
    yield f"(bar: share of facts, {mark}: mean probability; they meet where probabilities are right)"


def draw_reliability(before: Reliability, after: Reliability, *, title: str = "Probabilities") -> Figure:
    """Draw share of facts against mean probability, before and after calibration, over a histogram of how many candidates lie where."""
    figure = new_figure(5.2, 5.6)
    axes: Any
    counts: Any
    axes, counts = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
    for found, name, colour, sign in ((before, "before", "#b35806", "s"), (after, "after", "#2166ac", "o")):
        filled = [one for one in found.bins if one.count]
        label = f"{name}: expected calibration error {found.error:.4f}"
        axes.plot([one.probability for one in filled], [one.share for one in filled], marker=sign, color=colour, label=label)
    axes.set_ylabel("share of facts")
    axes.set_ylim(0, 1)
    axes.set_title(title, fontsize=10)
    axes.legend(loc="upper left", fontsize=8)
    step = 1 / max(1, len(after.bins))
    middles = [(number + 0.5) * step for number in range(len(after.bins))]
    counts.bar(middles, [one.count for one in after.bins], width=0.9 * step, color="#2166ac")
    counts.set_yscale("symlog")
    counts.set_ylabel("candidates")
    counts.set_xlabel("probability")
    counts.set_xlim(0, 1)
    return figure
