"""``relcode train`` and ``relcode resume``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.show import notice, say
from relcode.errors import RelcodeError

if TYPE_CHECKING:
    from relcode.experiment import Event
    from relcode.runs.run import Run

INTERRUPTED = 130


class Interrupted(RelcodeError):
    """Ctrl-C ended the command, and all that was done is saved."""

    exit_code = INTERRUPTED


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("train")(train)
    app.command("resume")(resume)


def train(
    dataset: Annotated[str, typer.Argument(help="A dataset: its name (see relcode datasets), a folder, or one file of facts.")],
    recipe: Annotated[str, typer.Option(help="default, or one of the paper's: base, joint, base+comp, joint+comp.")] = "default",
    dim: Annotated[int | None, typer.Option(help="Size of entity vectors (model.dim).")] = None,
    code_dim: Annotated[int | None, typer.Option(help="Entries of a relation's code (model.code_dim).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the facts (training.epochs).")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes (training.minutes).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice (training.seed).")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda (training.device).")] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Deterministic algorithms on CUDA too (training.deterministic).")] = False,
    out: Annotated[Path | None, typer.Option(help="The run's new folder.  [default: runs/DATASET-RECIPE]")] = None,
    assignments: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting; relcode settings lists them.")] = None,
) -> None:
    """Train a model on a dataset into a new run folder."""
    from relcode.config import parse_assignments
    from relcode.explore.training import check_new_folder, dotted, training_events
    from relcode.graph.dataset import load_dataset
    from relcode.recipes import recipe as recipe_named
    from relcode.runs.run import default_folder

    given = {"dim": dim, "code_dim": code_dim, "epochs": epochs, "minutes": minutes, "seed": seed, "device": device}
    short = {word: value for word, value in given.items() if value is not None} | ({"deterministic": True} if deterministic else {})
    settings = recipe_named(recipe).with_values({**parse_assignments(assignments or ()), **dotted(short)})
    if out is not None:
        check_new_folder(out)
    data = load_dataset(dataset)
    for warning in data.warnings:
        notice(f"note: {warning}")
    follow(training_events(data, settings, out or default_folder(data, settings)))


def resume(run: Annotated[Path, typer.Argument(help="The folder of a run that was stopped.")]) -> None:
    """Go on with a run that was stopped."""
    from relcode.experiment import resume as resume_run

    follow(resume_run(run))


def follow(events: Iterator[Event], quiet: bool = False) -> Run:
    """Show training to its end, say where it lies (not when ``quiet``), and return the run; one that was interrupted ends the command."""
    from relcode.cli.progress import shown
    from relcode.experiment import Finished

    for event in shown(events):
        if isinstance(event, Finished):
            finished = event
    folder = finished.run.folder
    if finished.run.status.state == "stopped":
        raise Interrupted(f"interrupted; saved in {folder}; go on with: relcode resume {folder}")
    if not quiet:
        say(str(folder))
        notice(f"measure it with: relcode evaluate {folder}")
    return finished.run
