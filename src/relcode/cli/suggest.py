"""``relcode suggest``: the most probable facts that are not in the knowledge base."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import DeviceOption, JsonOption, RunArgument
from relcode.cli.show import has_terminal, notice, notices, print_json, print_table, say
from relcode.errors import SettingError, counted

if TYPE_CHECKING:
    from relcode.explore.suggest import Suggester, Suggestion

SHOWN = 20  # on the screen
LINE_SECONDS = 10.0  # between two lines of progress where there is no terminal


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(suggest)


def suggest(
    run: RunArgument,
    relation: Annotated[list[str] | None, typer.Option(help="Only facts of this relation (again for more); ^R turns --head into tails.")] = None,
    head: Annotated[list[str] | None, typer.Option(help="Only facts with this head (again for more).")] = None,
    top: Annotated[int, typer.Option(help="The best N of each relation.", metavar="N")] = 100,
    min_probability: Annotated[float, typer.Option(help="Only facts at least this probable.")] = 0.0,
    any_type: Annotated[bool, typer.Option("--any-type", help="Entities unlike a relation's heads and tails, too.")] = False,
    reason: Annotated[bool, typer.Option("--reason", help="Add the best path of training facts that supports each.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write all to this file (.tsv .csv .jsonl .parquet .nt); run again, it goes on.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="tsv, csv, jsonl, parquet or nt, where the file's ending does not say.")] = None,
    memory: Annotated[str | None, typer.Option(help="Bound on the memory that the search takes, such as 2GB.")] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """List the most probable facts that are not in the knowledge base.

    Candidates look like the heads and tails that a relation has in training. Finds the best --top of each relation and shows the best 20 of them all;
    --out writes all, --json prints all, a line each.
    """
    from relcode.explore.model import Model
    from relcode.explore.probability import ensure_calibration
    from relcode.explore.suggest import Suggester, Wanted
    from relcode.formats.facts_out import form_of

    if form is not None and out is None:
        raise SettingError("--format is the form of a file: give --out too")
    if out is not None:
        form = form_of(out, form)
    wanted = Wanted(
        relations=tuple(relation or ()), heads=tuple(head or ()), top=top, min_probability=min_probability, any_type=any_type, reasons=reason
    )
    model = Model.open(run, device)
    line = ensure_calibration(model, memory)
    if line:
        notice(line)
    on_screen = out is None and not json  # where only the best are shown, only they are given reasons
    work = Suggester(model, replace(wanted, reasons=reason and not on_screen), memory)
    for note in work.notes:
        notice(note)
    if out is not None:
        _to_file(work, out, form)
        return
    with progress_bar("suggesting") as progress:
        found = work.all(progress)
    if json:
        for one in found:
            print_json(one.to_json())
        return
    _to_screen(work, found, reason)


def _to_screen(work: Suggester, found: list[Suggestion], reasons: bool) -> None:
    """Print the best as a table, and what they are the best of."""
    shown = found[:SHOWN]
    print_suggestions(work.with_reasons(shown) if reasons else shown, reasons)
    if found:
        say(f"({of_each(work, len(found))}{f'; the best {SHOWN} are shown, --out FILE writes all' if len(found) > SHOWN else ''})")
    if work.model.calibration is not None:
        say(f"({work.model.calibration.against})")


def _to_file(work: Suggester, out: Path, form: str | None) -> None:
    """Write all to a file, and say so."""
    from relcode.explore.suggest_files import partial_path, write_suggestions

    if partial_path(out).exists():
        notice(f"{partial_path(out)} is there: going on with it if it is of the same search")
    with progress_bar("suggesting") as progress:
        count = write_suggestions(work, out, form, progress)
    say(f"{counted(count, 'suggestion')} in {out} ({of_each(work, count)})")
    if work.model.calibration is not None:
        notice(f"({work.model.calibration.against})")


def of_each(work: Suggester, count: int) -> str:
    """Say what so many suggestions are: --top counts for each relation, not for all of them."""
    least = f" with a probability of {work.wanted.min_probability:g} or more" if work.wanted.min_probability > 0 else ""
    return f"the best {work.wanted.top:,} of each relation, {counted(len(work.searches), 'relation')}{least}: {count:,} found"


def print_suggestions(found: list[Suggestion], reasons: bool) -> None:
    """Print suggestions as a table."""
    if not found:
        say("no suggestions")
        return
    columns = ["head", "relation", "tail", "probability", "score", *(["reason"] if reasons else [])]
    columns = [name for name in columns if name != "probability" or any(one.probability is not None for one in found)]
    print_table(columns, [[getattr(one, name) for name in columns] for one in found], right=("probability", "score"))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far a long work is: a bar with the time left on a terminal, a line every ten seconds elsewhere."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    if not has_terminal():
        yield _lines(what)
        return
    columns = TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=notices(), transient=True, expand=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=max(1, total))


def _lines(what: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            notice(f"{what}: {done / max(1, total):.0%}")

    return show
