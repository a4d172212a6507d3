"""``relcode study``: long experiments that ask whether what is claimed holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import DeviceOption, JsonOption, RunArgument
from relcode.cli.inspect import PngOption, check_files
from relcode.cli.judge import judge
from relcode.cli.show import heading, notice, print_json, print_table, progress_line, say
from relcode.errors import SettingError

if TYPE_CHECKING:
    from relcode.studies.discovery import DiscoveryReport, Plan
    from relcode.studies.necessity import NecessityReport

FEWEST_FACTS = 30  # from which on a bootstrap over facts gives an interval worth printing

study_app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Ask whether what is claimed of explanations, compositions and codes holds."
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    study_app.command()(judge)
    app.add_typer(study_app, name="study")


@study_app.command()
def discovery(
    dataset: Annotated[str, typer.Argument(help="A dataset: its name (see relcode datasets), a folder, or one file of facts.")],
    out: Annotated[Path, typer.Option(help="A folder for records and runs; a study that is there goes on.")],
    parts: Annotated[str, typer.Option(help="Parts of the shared pairs to take out, a training each.")] = "0,0.3,0.6,1",
    seeds: Annotated[int, typer.Option(help="Trainings of each part, with seeds 0, 1, …")] = 1,
    most: Annotated[int, typer.Option(help="Compositions held out at once, at most.")] = 20,
    min_pairs: Annotated[int, typer.Option(help="Pairs that path and relation must share.")] = 50,
    min_jaccard: Annotated[float, typer.Option(help="Their Jaccard similarity at least.")] = 0.4,
    recipe: Annotated[str, typer.Option(help="What to train; relcode settings lists the recipes.")] = "default",
    dim: Annotated[int | None, typer.Option(help="Size of entity vectors (model.dim).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the facts (training.epochs).")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda (training.device).")] = None,
    assignments: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting; relcode settings lists them.")] = None,
    png: PngOption = None,
    json: JsonOption = False,
) -> None:
    """Test whether compositions are found without support to count.

    Takes part of the pairs that r1/r2 and r3 share out of r3's training facts, trains again, and ranks r3 by nearness of its matrix to M1·M2.
    """
    from relcode.config import parse_assignments
    from relcode.explore.training import dotted
    from relcode.graph.dataset import load_dataset
    from relcode.recipes import recipe as recipe_named
    from relcode.studies.discovery import Plan

    check_files(png)
    short = {word: value for word, value in (("dim", dim), ("epochs", epochs), ("device", device)) if value is not None}
    settings = recipe_named(recipe).with_values({**parse_assignments(assignments or ()), **dotted(short)})
    data = load_dataset(dataset)
    plan = Plan.make(data, settings, _numbers(parts), range(seeds), most, min_pairs=min_pairs, min_jaccard=min_jaccard)
    notice(f"{len(plan.chosen)} compositions of {data.name} held out together, {len(plan.parts) * len(plan.seeds)} trainings")
    report = _carry_out(plan, out)
    if png is not None:
        from relcode.plots.study import save_discovery

        save_discovery(report, png, title=f"Held-out discovery on {data.name}, {settings.recipe}")
        notice(f"wrote {png}")
    if json:
        print_json(report.to_json())
        return
    print_discovery(report)


def _carry_out(plan: Plan, out: Path) -> DiscoveryReport:
    """Train what is not there yet, showing it on standard error."""
    from relcode.cli.training import Interrupted
    from relcode.experiment import Finished
    from relcode.explore.training import LinePrinter
    from relcode.studies.discovery import Discovery, DiscoveryReport, study

    rows, show = [], LinePrinter(notice)
    for event in study(plan, out):
        if isinstance(event, Discovery):
            rows.append(event)
            continue
        show(event)
        if isinstance(event, Finished) and event.run.status.state == "stopped":
            raise Interrupted(f"interrupted; saved in {out}; the same command goes on")
    return DiscoveryReport(tuple(rows))


def print_discovery(report: DiscoveryReport) -> None:
    """Print the averages, part by part, and with everything taken out each composition."""
    columns = ("MR", "MRR", "MRR allowed", "first")
    rows = [
        (
            f"{line.part:.0%}",
            line.by,
            f"{line.mr:.1f}",
            line.mrr,
            line.mrr_allowed,
            "" if line.first_allowed is None else line.first_allowed,
        )
        for line in report.lines()
    ]
    print_table(("taken out", "ranked by", *columns), rows, right=columns)
    say("(rank of r3 for r1/r2 among all directed relations; allowed: without r1, r2, their inverses and relations from entities to themselves;")
    say(" first: how often r3 is first among those allowed)")
    last = max((row.part for row in report.rows), default=0.0)
    heading(f"With {last:.0%} of the shared pairs taken out (ranks among those allowed)")
    shown = [
        (row.path, row.relation, row.removed, row.left, row.cosine, f"{row.rank_allowed:g}", f"{row.counted_rank_allowed:g}")
        for row in report.rows
        if row.part == last
    ]
    numbers = ("removed", "left", "cosine", "model", "counting")
    print_table(("path", "relation", *numbers), shown, right=numbers)


def _numbers(text: str) -> list[float]:
    """Read numbers with commas between."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"--parts takes numbers with commas between, for example 0,0.3,0.6,1; given was {text!r}") from None


@study_app.command()
def necessity(
    run: RunArgument,
    facts: Annotated[int, typer.Option(help="How many facts to explain.")] = 200,
    top: Annotated[int, typer.Option(help="How many facts an explanation names.")] = 5,
    draws: Annotated[int, typer.Option(help="Random removals that each is compared with.")] = 5,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    seed: Annotated[int, typer.Option(help="Seed of the facts chosen and of the random removals.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the record (JSON) into this file.")] = None,
    png: PngOption = None,
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

    check_files(png)
    model = Model.open(run, device)
    with progress_line("facts explained") as progress:
        report = study(model, facts, top, draws, seed, split, progress)
    record = {"study": "necessity", "dataset": model.dataset.name, "recipe": model.settings.recipe, "split": split} | report.to_json()
    record["environment"] = environment(model.scorer.device)
    if out is not None:
        from json import dumps

        write_text(out, dumps(record, indent=1) + "\n")
        notice(f"wrote {out}")
    if png is not None:
        from relcode.plots.study import save_necessity

        save_necessity(report, png, title=f"Are explanations needed? {model.dataset.name}, {model.settings.recipe}")
        notice(f"wrote {png}")
    if json:
        print_json(record)
        return
    say(f"{len(report.rows)} facts of {model.dataset.name} {split}, each without {top} facts that carry it, and without as many random ones")
    print_necessity(report)


def print_necessity(report: NecessityReport) -> None:
    """Print the averages; intervals only where there are facts enough for them to mean something."""
    enough = len(report.rows) >= FEWEST_FACTS
    columns = ("without named", "without random", "difference", *(["95 % interval"] if enough else []))
    kept = sum(not row.emptied for row in report.rows)
    parts = [("", report.effects)] + ([(f", {kept} facts whose entities keep some", report.kept)] if 0 < kept < len(report.rows) else [])
    some = [(which, one) for which, found in parts for one in found]
    interval = [[f"{one.low:.3f} to {one.high:.3f}"] if enough else [] for _, one in some]
    rows = [(f"{one.measure}{which}", one.named, one.random, one.difference, *more) for (which, one), more in zip(some, interval, strict=True)]
    print_table(("how far it falls", *columns), rows, right=columns)
    say(f"the named facts were the more needed for {report.worse:.0%} of the facts asked about")
    if not enough:
        say(f"({len(report.rows)} facts are too few to tell an effect from chance: no interval below {FEWEST_FACTS}; --facts 200 is usual)")
