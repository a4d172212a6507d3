"""``relcode study``: long experiments that ask whether what is claimed holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import DeviceOption, JsonOption, RunArgument
from relcode.cli.show import notice, print_json, print_table, progress_line, say

if TYPE_CHECKING:
    from relcode.studies.necessity import NecessityReport

study_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Ask whether what is claimed of explanations and compositions holds.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(study_app, name="study")


@study_app.command()
def necessity(
    run: RunArgument,
    facts: Annotated[int, typer.Option(help="How many facts to explain.")] = 200,
    top: Annotated[int, typer.Option(help="How many facts an explanation names.")] = 5,
    draws: Annotated[int, typer.Option(help="Random removals that each is compared with.")] = 5,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    seed: Annotated[int, typer.Option(help="Seed of the facts chosen and of the random removals.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the record (JSON) into this file.")] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Test whether explanations name what is needed.

    Removes the facts that carry an answer, fits its two entities again, and compares with removing as many random facts of the same entities.
    """
    from relcode.explore.model import Model
    from relcode.runs.environment import environment
    from relcode.runs.files import write_text
    from relcode.studies.necessity import necessity as study

    model = Model.open(run, device)
    with progress_line("facts explained") as progress:
        report = study(model, facts, top, draws, seed, split, progress)
    record = {"study": "necessity", "dataset": model.dataset.name, "recipe": model.settings.recipe, "split": split} | report.to_json()
    record["environment"] = environment(model.scorer.device)
    if out is not None:
        from json import dumps

        write_text(out, dumps(record, indent=1) + "\n")
        notice(f"wrote {out}")
    if json:
        print_json(record)
        return
    say(f"{len(report.rows)} facts of {model.dataset.name} {split}, each without {top} facts that carry it, and without as many random ones")
    print_necessity(report)


def print_necessity(report: NecessityReport) -> None:
    """Print the averages."""
    rows = [(one.measure, one.named, one.random, one.difference, f"{one.low:.3f} to {one.high:.3f}") for one in report.effects]
    columns = ("without named", "without random", "difference", "95 % interval")
    print_table(("how far it falls", *columns), rows, right=columns)
    say(f"the named facts were the more needed for {report.worse:.0%} of the facts asked about")
