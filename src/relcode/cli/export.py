"""``relcode export`` and ``relcode import-authors``: models out, and the authors' models in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relcode.cli.ask import DeviceOption, RunArgument
from relcode.cli.show import notice, say


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("export")(export)
    app.command("import-authors")(import_authors)


def export(
    run: RunArgument,
    form: Annotated[str, typer.Option("--format", help="safetensors, npz, parquet, projector, word2vec, ntriples or glimvec.")],
    out: Annotated[Path, typer.Option(help="The new file, or the new folder (parquet, projector, glimvec).")],
    relation: Annotated[list[str] | None, typer.Option(help="ntriples: suggest facts of this relation (again for more).  [default: all]")] = None,
    top: Annotated[int, typer.Option(help="ntriples: how many facts of each relation.")] = 100,
    min_probability: Annotated[float, typer.Option(help="ntriples: leave out what is less probable; needs relcode calibrate.")] = 0.0,
    base: Annotated[str | None, typer.Option(help="ntriples: what IRIs begin with that are made of plain names.")] = None,
    device: DeviceOption = "auto",
) -> None:
    """Write a run's vectors, matrices and codes, or the facts it suggests, in another program's form.

    Vectors and matrices are those in force: head[h] @ matrix[r] @ tail[t] is the score. Where matrices are made of blocks, safetensors and npz have
    these alone: block[r] lies along the diagonal of matrix[r].
    """
    from relcode.explore.export import export as export_model
    from relcode.explore.model import Model

    written = export_model(Model.open(run, device), form, out, relations=relation or (), top=top, min_probability=min_probability, base=base)
    say(str(out))
    notice(f"{form}: {written}")


def import_authors(
    model: Annotated[Path, typer.Argument(help="A folder with cvecs.npy, tvecs.npy, mats.npy, … of the paper's released program.")],
    dataset: Annotated[str, typer.Argument(help="The dataset it was trained on: a name, a folder, or one file of facts.")],
    out: Annotated[Path, typer.Option(help="The run's new folder.")],
    vocabulary: Annotated[Path | None, typer.Option(help="The folder with vocab_entity.txt and vocab_relation.txt.  [default: MODEL]")] = None,
) -> None:
    """Make a run of a model that the paper's released program trained."""
    from relcode.explore.export import import_authors as import_model
    from relcode.graph.dataset import load_dataset

    say(str(import_model(model, load_dataset(dataset), out, vocabulary)))
    notice(f"measure it with: relcode evaluate {out}")
