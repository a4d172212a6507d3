"""Printing records: results to standard output, notices and progress to standard error."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 1000  # in a pipe nothing is cut or wrapped: whoever reads it can
NARROW_TEXT = 16  # where a column of text would get less than this, and less than it needs, rows are printed one value a line
LINE_SECONDS = 10.0  # between two lines of progress where there is no terminal


def console(stream: IO[str] | None = None) -> Console:
    """Return a console on standard output (or ``stream``) that shows names as they are: no markup, no highlighting, no emoji codes."""
    target = sys.stdout if stream is None else stream
    width = None if target.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return Console(file=target, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def notices() -> Console:
    """Return the console on standard error."""
    return console(sys.stderr)


def print_json(record: Any) -> None:
    """Print one JSON value on one line, and nothing else."""
    print(json.dumps(record, ensure_ascii=False, allow_nan=False))


def say(*lines: str) -> None:
    """Print lines of text; a long one is left to the terminal to wrap, so that paths and commands can be copied."""
    screen = console()
    for line in lines:
        screen.print(Text(line), soft_wrap=True)


def notice(line: str) -> None:
    """Print a line to standard error."""
    notices().print(Text(line), soft_wrap=True)


def heading(text: str) -> None:
    """Print a heading with a blank line before it."""
    console().print(Text(f"\n{text}", style="bold"))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = (), styles: Sequence[str | None] = ()) -> None:
    """Print a plain table; ``right`` names the columns of numbers, ``styles`` colours rows. Where it is too narrow for one, a line a value."""
    written = [[_written(value) for value in row] for row in rows]
    screen = console()
    if _too_narrow(columns, written, right, screen.width):
        _print_records(columns, written, screen, styles)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    for number, row in enumerate(written):
        table.add_row(*map(Text, row), style=styles[number] if number < len(styles) else None)
    if screen.is_terminal:
        screen.print(table)
        return
    with screen.capture() as capture:  # a pipe gets no spaces at the ends of lines
        screen.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _too_narrow(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str], width: int) -> bool:
    """Tell whether the columns of numbers leave too little for those of text."""
    longest = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    numbers = [size for name, size in zip(columns, longest, strict=True) if name in right]
    texts = [size for name, size in zip(columns, longest, strict=True) if name not in right]
    room = width - sum(numbers) - 2 * (len(columns) - 1)
    return room < sum(min(size, NARROW_TEXT) for size in texts)


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]], screen: Console, styles: Sequence[str | None]) -> None:
    """Print each row as lines of a column's name and its value, a blank line after each; empty values are left out."""
    margin = max(map(len, columns)) + 2
    for number, row in enumerate(rows):
        style = styles[number] if number < len(styles) else None
        for name, value in zip(columns, row, strict=True):
            if value:
                screen.print(Text(f"{name:<{margin}}{value}", style=style or ""), soft_wrap=True)
        screen.print()


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function to be told how many of how many are done: it moves a bar on a terminal, and elsewhere writes a line now and then."""
    if has_terminal():
        from rich.progress import Progress

        with Progress(console=notices(), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, of: bar.update(task, completed=done, total=of)
        return
    last = time.monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            notice(f"{done:,} of {of:,} {what}")

    yield tell


def print_tsv(rows: Iterable[Sequence[object]]) -> None:
    """Print rows as tab-separated text."""
    for row in rows:
        print("\t".join(_written(value) for value in row))


def has_terminal() -> bool:
    """Say whether standard error is a terminal, where a progress bar can move."""
    return sys.stderr.isatty()


def _written(value: object) -> str:
    """Write a value for people: fractions with three or four digits, whole numbers with separators, yes for true, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
