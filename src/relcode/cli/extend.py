"""``relcode extend``: new facts for a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relcode.cli.ask import RunArgument
from relcode.cli.show import notice, print_json
from relcode.cli.training import follow


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("extend")(extend)


def extend(
    run: RunArgument,
    facts: Annotated[str, typer.Argument(help="New facts: a file or folder in any form that relcode import reads.")],
    out: Annotated[Path | None, typer.Option(help="The new run's folder.  [default: a fresh one under runs/]")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over all facts, once what is new has found its place.  [default: 3; 6 for a small KB]")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.  [default: as the run was trained]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what joined, and where the new run is, as JSON.")] = False,
) -> None:
    """Let new facts, entities and relations join a trained run; the result is a new run, the old one is not changed."""
    from relcode.explore.extending import extension_events, plan_extension

    plan = plan_extension(run, facts, out=out, epochs=epochs, minutes=minutes, device=device)
    for note in plan.notes:
        notice(note)
    notice(plan.describe())
    follow(extension_events(plan), quiet=as_json)
    if as_json:
        print_json(plan.to_json())
