"""The code heatmap in a terminal: a row a relation, a column a dimension, darker where the share is larger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.text import Text

from relcode.analysis.codes import RelationCodes, heatmap_order
from relcode.analysis.names import fit

SHADES = " ░▒▓█"
ASCII_SHADES = " .+#@"
STEPS = (0.05, 0.15, 0.30, 0.50)  # the shares from which each darker shade is used
NARROWEST_NAME = 8


@dataclass(frozen=True)
class _Layout:
    """Widths of the columns of text."""

    name: int
    cell: int
    dimensions: int  # how many fit

    @classmethod
    def of(cls, codes: RelationCodes, rows: list[int], width: int) -> _Layout:
        """Give names what they need if cells of three letters fit beside them, else narrower cells, else shorter names."""
        longest = max([NARROWEST_NAME, *(len(codes.short[row]) for row in rows)])
        C = codes.num_dimensions
        for cell in (3, 2):
            if longest + 1 + cell * C <= width:
                return cls(longest, cell, C)
        name = max(NARROWEST_NAME, min(longest, width - 1 - 2 * C))
        return cls(name, 2, max(1, min(C, (width - 1 - name) // 2)))


def heatmap_rows(codes: RelationCodes, most: int | None = None) -> list[int]:
    """Return the relations shown, in order: all where they are at most ``most``, else the strongest of each dimension, as many as fit."""
    everything = heatmap_order(codes)
    if most is None or len(everything) <= most:
        return everything
    if not bool(codes.share_SC.any()):
        return everything[:most]
    per_dimension = 1
    while len(heatmap_order(codes, per_dimension + 1)) <= most and per_dimension < len(everything):
        per_dimension += 1
    return heatmap_order(codes, per_dimension)[:most]


def heatmap_lines(codes: RelationCodes, width: int = 80, most: int | None = None, ascii_only: bool = False) -> list[str]:
    """Return the heatmap as lines of text no wider than ``width``, with a header of dimensions and a legend of shades."""
    return [str(line) for line in _lines(codes, max(16, width), most, ascii_only)]


@dataclass(frozen=True)
class CodeHeatmap:
    """The heatmap for rich: it takes the width and the abilities of the console it is printed on."""

    codes: RelationCodes
    most: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines that fit the console."""
        yield from _lines(self.codes, max(16, options.max_width), self.most, ascii_only=not options.encoding.startswith("utf"))


def _lines(codes: RelationCodes, width: int, most: int | None, ascii_only: bool) -> Iterator[Text]:
    """Yield title, header, one line a relation, legend."""
    rows = heatmap_rows(codes, most)
    layout = _Layout.of(codes, rows, width)
    shades = ASCII_SHADES if ascii_only else SHADES
    shown = "" if len(rows) == len(codes.names) else f", {len(rows)} of {len(codes.names)}"
    yield _line(fit(f"Relation codes (share of code in each dimension{shown})", width), "bold")
    # Two-digit numbers in cells of two would run together: there only every second one is written.
    numbers = range(1, layout.dimensions + 1)
    header = "".join(f"{number:>2} " if layout.cell > 2 else f"{number:<2}" if number % 2 else "  " for number in numbers)
    yield _line(f"{'':{layout.name}} {header}".rstrip(), "dim")
    for row in rows:
        line = _line(f"{fit(codes.short[row], layout.name):>{layout.name}} ")
        for share in codes.share_SC[row, : layout.dimensions].tolist():
            line.append(shades[_step(share)] * (layout.cell - 1) + " ", style=_STYLES[_step(share)])
        line.rstrip()
        yield line
    yield _line(_legend(shades, width, ascii_only), "dim")
    if layout.dimensions < codes.num_dimensions:
        yield _line(fit(f"{codes.num_dimensions - layout.dimensions} dimensions do not fit: widen the terminal", width), "dim")


# Light and dark differ by the shade itself; the colour only repeats it, from blue to yellow, which no common colour blindness confuses.
_STYLES = ("", "blue", "cyan", "bright_yellow", "bold bright_yellow")


def _legend(shades: str, width: int, ascii_only: bool) -> str:
    """Say what the shades mean, in as many words as fit."""
    sign = ">=" if ascii_only else "≥"
    steps = [f"{shades[place] * 2} {sign} {step:.0%}" for place, step in enumerate(STEPS, start=1)]
    forms = ("  ".join(steps) + "  of a relation's code", "  ".join(steps), " ".join(steps).replace(f" {sign} ", ""), shades.strip())
    return next(form for form in forms if len(form) <= width)


def _line(text: str, style: str = "") -> Text:
    """Return a line that is never wrapped."""
    return Text(text, style=style, no_wrap=True, overflow="crop", end="\n")


def _step(share: float) -> int:
    """Return the number of the shade for a share, 0 the lightest."""
    return sum(share >= step for step in STEPS)
