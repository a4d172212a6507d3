"""``relcode calibrate``: turn scores into probabilities, and show how well they fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import DeviceOption, JsonOption, RunArgument
from relcode.cli.show import console, heading, notice, print_json, say
from relcode.errors import OutputError, SettingError, counted

if TYPE_CHECKING:
    from relcode.explore.probability import Calibration, Measured


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)


def calibrate(
    run: RunArgument,
    png: Annotated[Path | None, typer.Option(help="Draw the reliability picture into this file (png, svg or pdf).")] = None,
    memory: Annotated[str | None, typer.Option(help="Bound on the memory that the search takes, such as 2GB.")] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Calibrate probabilities on valid and measure them on test.

    Keeps them with the run, so that predict, score and suggest show them. Prints what they are calibrated on, the expected calibration error before
    and after, and the reliability picture; then, where the run's folder cannot be written, it ends with an error.
    """
    from relcode.explore.model import Model
    from relcode.explore.probability import FILE, store_calibration
    from relcode.explore.probability import calibrate as calibrate_model

    if png is not None and png.is_dir():
        raise SettingError(f"{png} is a folder: give a file to draw into")
    model = Model.open(run, device)
    found = calibrate_model(model, memory, store=False)
    refused: OutputError | None = None
    try:
        store_calibration(model, found)
    except OutputError as error:
        refused = error  # told once all else is shown
    if png is not None:
        _draw(found, model.dataset.name, png)
    if json:
        print_json(found.to_json(model.dataset.relations.names))
    else:
        print_calibration(found)
    if found.caution:
        notice(found.caution)
    if refused is not None:
        raise refused
    notice(f"kept in {run / FILE}")


def print_calibration(found: Calibration) -> None:
    """Print what probabilities mean and how well they fit."""
    from relcode.plots.reliability import reliability_lines

    missed = f"{counted(found.missed, 'valid fact')} {'is' if found.missed == 1 else 'are'} not among the candidates"
    say(f"{found.against} ({_sizes(found)}; {missed}).")
    if found.measured is None:
        notice("there is no test split, so nothing was measured")
        return
    told = found.measured
    before, after = told.before, told.after
    say(f"On test ({_sizes(told)}): expected calibration error {before.error:.4f} before, {after.error:.4f} after;")
    say(f"Brier score {before.brier:.4f} before, {after.brier:.4f} after (before: the share of both questions' answers as it is).")
    heading("How probabilities fit, on test")
    screen = console()
    for line in reliability_lines(after, ascii_only=not screen.encoding.startswith("utf")):
        say(line)


def _sizes(one: Calibration | Measured) -> str:
    """Say how many of a population are facts."""
    return f"{counted(one.facts, 'fact')}, {counted(one.others, 'other')}"


def _draw(found: Calibration, name: str, png: Path) -> None:
    """Draw the picture, where there is something to draw."""
    from relcode.plots.heatmap import save_figure
    from relcode.plots.reliability import draw_reliability

    if found.measured is None:
        raise SettingError("there is no test split to measure with, so there is no picture to draw")
    save_figure(draw_reliability(found.measured.before, found.measured.after, title=f"Probabilities on the test split of {name}"), png)
    notice(f"drawn into {png}")
