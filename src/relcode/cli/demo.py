"""``relcode demo``: train on the bundled knowledge base and look at the result from all sides."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import print_metrics
from relcode.cli.inspect import print_codes
from relcode.cli.show import heading, notice, print_table, say
from relcode.errors import MissingExtra

if TYPE_CHECKING:
    from relcode.analysis.discovery import FoundCompositions
    from relcode.explore.demo import Findings
    from relcode.explore.model import Model

HEATMAP_ROWS = 40


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[Path | None, typer.Option(help="The run's new folder.  [default: runs/demo-1, -2, …]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Train for seconds only: shows that everything works, not how well.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
) -> None:
    """Train on the bundled facts and show what comes of it.

    Takes one to two minutes: the default recipe on the dataset world, then metrics, predictions, codes and compositions.
    """
    from relcode.cli.training import follow
    from relcode.explore.demo import DATASET, demo_settings, findings, fresh_folder
    from relcode.explore.model import Model
    from relcode.explore.training import check_new_folder, training_events
    from relcode.graph.dataset import load_dataset

    folder = out or fresh_folder()
    check_new_folder(folder)
    dataset = load_dataset(DATASET)
    settings = demo_settings(quick).with_values({"training.device": device, "training.seed": seed})
    say(
        f"{DATASET}: {len(dataset.train):,} facts about {dataset.num_entities:,} things in {dataset.num_relations} relations to learn from, "
        f"{len(dataset.test):,} held out to test with."
    )
    run = follow(training_events(dataset, settings, folder), quiet=True)
    model = Model.open(run.folder, device)
    print_findings(model, findings(model))


def print_findings(model: Model, found: Findings) -> None:
    """Print everything, the run's folder and what to type next last."""
    heading("How well it completes facts it has not seen (test, both directions)")
    print_metrics("", {"most frequent answer": found.baseline.both, f"this model ({model.settings.recipe})": found.report.both})
    heading("Ten facts that are not in the data")
    rows = [(one.head, one.relation, one.tail, one.score, one.likelihood) for one in found.new_facts]
    print_table(("head", "relation", "tail", "score", "likelihood"), rows, right=("score", "likelihood"))
    say("(guesses to check, and some are wrong; likelihood: share of the answers to both of its questions, not yet a calibrated probability)")
    if found.codes is not None:
        print_codes(found.codes, HEATMAP_ROWS)
    _print_compositions(found.compositions, model.dataset.num_directed)
    picture = _save_heatmap(model, found)
    heading("Next")
    relcode = _command()
    say(f"the run is in {model.folder}" + (f", the heatmap in {picture}" if picture else ""))
    first = found.new_facts[0] if found.new_facts else None
    if first is not None:
        say(f"  {relcode} predict {model.folder} --head {_quoted(first.head)} --relation {_quoted(first.relation)}")
    if found.compositions.supported:
        example = found.compositions.supported[0]
        known = example.known[0].head if example.known else ""
        say(f"  {relcode} predict {model.folder} --head {_quoted(known)} --path {_quoted(example.path)}")
    say(f"  {relcode} suggest {model.folder} --top 1 --reason")
    say(f"  {relcode} explore {model.folder}")


def _command() -> str:
    """Return what to type for relcode: its name where the shell finds it, else the way it was started."""
    started = Path(sys.argv[0])
    is_script = started.name.removesuffix(".exe") == "relcode"
    return "relcode" if shutil.which("relcode") or not is_script else str(started)


def _print_compositions(found: FoundCompositions, num_directed: int) -> None:
    """Print the compositions that the facts support, with the place the model gives them, and what the model proposes beyond them."""
    heading("Compositions: two relations, one after the other, that amount to a third")
    columns = ("jaccard", "place")
    rows = [(one.path, one.target, one.counts.jaccard, f"{one.rank:g}") for one in found.supported]
    print_table(("path", "relation", *columns), rows, right=columns)
    say(f"(jaccard: how alike the pairs they join are; place: of the relation's matrix by nearness to the path's product, 1 to {num_directed})")
    if found.proposed:
        say("The model proposes beyond these: " + ", ".join(f"{one.path} = {one.target}" for one in found.proposed[:3]))


def _save_heatmap(model: Model, found: Findings) -> Path | None:
    """Draw the heatmap into the run's folder; where matplotlib is missing say so and go on."""
    if found.codes is None:
        return None
    from relcode.plots.heatmap import save_codes

    picture = model.folder / "codes.png"
    try:
        save_codes(found.codes, picture, title=f"Relation codes of {model.dataset.name}, {model.settings.recipe}")
    except MissingExtra as error:
        notice(str(error))
        return None
    return picture


def _quoted(text: str) -> str:
    """Quote an argument for a shell where it needs it; double quotes, which Windows understands too."""
    return text if text and all(letter.isalnum() or letter in "_-." for letter in text) else f'"{text}"'
