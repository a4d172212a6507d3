"""``relcode datasets catalogue`` and ``relcode datasets download``: the benchmarks known by name, and how to get them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from relcode.cli.ask import JsonOption
from relcode.cli.data import datasets_app
from relcode.cli.show import has_terminal, notice, notices, print_json, print_table, say

if TYPE_CHECKING:
    from relcode.graph.download import Progress


def register(app: typer.Typer) -> None:
    """Add the commands to those about datasets."""
    datasets_app.command("catalogue")(catalogue)
    datasets_app.command("download")(download)


def catalogue(json: JsonOption = False) -> None:
    """List the benchmarks that can be had by name: what is in them, their licence, and whether they are here."""
    from dataclasses import asdict

    from relcode.graph.cache import datasets_folder
    from relcode.graph.catalogue import find
    from relcode.graph.known_datasets import KNOWN

    here = {name: entry.source if (entry := find(name)) else "" for name in KNOWN}
    if json:
        print_json([{**asdict(known), "size": known.size, "where": here[name] or None} for name, known in KNOWN.items()])
        return
    columns = ("name", "entities", "relations", "facts", "MB", "licence", "where")
    rows = [
        (
            name,
            known.entities,
            known.relations,
            known.train.facts + known.valid.facts + known.test.facts,
            f"{known.size / 1e6:.2f}",
            known.licence,
            here[name],
        )
        for name, known in KNOWN.items()
    ]
    print_table(columns, rows, right=("entities", "relations", "facts", "MB"))
    say(f"(relcode datasets download NAME puts one into {datasets_folder()})")


def download(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Benchmarks; relcode datasets catalogue lists them.")],
) -> None:
    """Download benchmarks into the cache folder; each split is checked against its SHA-256.

    A download that was cut goes on where it ended. Nothing is fetched that is there already.
    """
    from relcode.graph.download import download as fetch

    for name in names:
        with _shown(name) as progress:
            folder = fetch(name, progress)
        say(str(folder))


@contextmanager
def _shown(name: str) -> Iterator[Progress]:
    """Show a download: a bar on a terminal, a line for each part elsewhere."""
    if not has_terminal():
        told: set[str] = set()

        def tell(part: str, done: int, size: int) -> None:
            if part not in told:
                notice(f"{name}: {part}, {size / 1e6:.1f} MB")
            told.add(part)

        yield tell
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bars(*columns, console=notices(), transient=True) as bars:
        tasks = {}

        def move(part: str, done: int, size: int) -> None:
            if part not in tasks:
                tasks[part] = bars.add_task(f"{name} {part}", total=size)
            bars.update(tasks[part], completed=done, total=max(size, done))

        yield move
