"""``relcode reproduce``: the paper's tables beside ours."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from relcode.cli.show import notice, print_json, say
from relcode.errors import RelcodeError, SettingError

RESULTS, PAGE = Path("benchmarks/results/reproduction"), Path("docs/reproduction.md")
PLACES = {"--results", "--page", "--bundle", "--merge"}


class RowsFailed(RelcodeError):
    """Some rows could not be run; the others are done."""

    exit_code = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce")(reproduce)


def reproduce(
    table: Annotated[str | None, typer.Argument(help="main, adjusted, ablation, paths or constraints; none only merges and renders.")] = None,
    datasets: Annotated[str, typer.Option(help="Only these datasets, separated by commas.")] = "",
    recipes: Annotated[str, typer.Option(help="Only these rows (base, joint, base+comp, …), separated by commas.")] = "",
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds 0 to N-1 of every row.  [default: 1, for constraints 5]")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Rows to train at once, each a process.")] = 1,
    minutes_per_row: Annotated[float | None, typer.Option(help="Stop each training after this many minutes.")] = None,
    assignments: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, for all rows.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = RESULTS,
    page: Annotated[Path | None, typer.Option(help="The page to render.  [default: docs/reproduction.md, or beside other RESULTS]")] = None,
    bundle: Annotated[Path | None, typer.Option(help="Also write all records into this file, a line each.")] = None,
    merge: Annotated[list[Path] | None, typer.Option(help="Take over the records of a bundle made elsewhere.")] = None,
    row: Annotated[str | None, typer.Option(help="Train the one row that this JSON describes (what the command calls itself with).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON lines.")] = False,
) -> None:
    """Train what is missing for a table of the paper, and set its figures beside ours."""
    from relcode.config import parse_assignments
    from relcode.studies import reproduction_page, reproduction_plan, reproduction_record, reproduction_rows

    if row is not None:
        try:
            reproduction_rows.run_row(row, results)
        except reproduction_record.Unfinished:
            raise RowsFailed("interrupted; nothing is recorded for this row") from None
        return
    if table is None and not merge and not results.is_dir():
        raise SettingError(f"name a table ({', '.join(reproduction_plan.TABLES)}) or a bundle to --merge")
    if merge:
        notice(f"{reproduction_record.merge(results, merge)} records taken over")
    failed: list[str] = []
    if table is not None:
        given = parse_assignments(assignments or ()) | {"training.device": device}
        if minutes_per_row is not None:
            given["training.minutes"] = str(minutes_per_row)
        asked = reproduction_plan.trainings(reproduction_plan.table_named(table), given, _names(datasets), _names(recipes), seeds)
        failed = reproduction_rows.run_missing(asked, results, _command(), jobs=jobs, bundle=bundle, say=notice)
    records = reproduction_record.read_records(results)
    if bundle is not None:
        reproduction_record.write_bundle(bundle, records.values())
    target = page or (PAGE if results == RESULTS else results / "reproduction.md")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(reproduction_page.render_folder(results, target), encoding="utf-8")
    if as_json:
        for record in records.values():
            print_json(record)
    else:
        say(str(target))
    if failed:
        raise RowsFailed(f"not run: {', '.join(failed)}; the same command tries them again")


def _names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _command() -> str:
    """Return the command as it was typed, under its usual name and without the options that only say where things are written."""
    words, kept = iter(sys.argv[1:]), ["relcode"]
    for word in words:
        if word in PLACES:
            next(words, None)
        elif word.partition("=")[0] not in PLACES:
            kept.append(word)
    return shlex.join(kept)
