"""``relcode card``: what a run is, how good it is and what it is not good for, as a model card."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from relcode.cli.ask import DeviceOption, MemoryOption, RunArgument
from relcode.cli.show import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("card")(card)


def card(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="A new file for it, such as RUN/README.md.  [default: print it]")] = None,
    name: Annotated[str | None, typer.Option(help="What the model is called.  [default: its folder's name]")] = None,
    licence: Annotated[str | None, typer.Option(help="The model's licence, such as mit or cc-by-4.0.  [default: unknown]")] = None,
    split: Annotated[str, typer.Option(help="What to measure on: valid or test.")] = "test",
    memory: MemoryOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Write a model card: data, recipe, measured metrics, use, limits and licence, in Markdown with a YAML head."""
    from relcode.explore.card import card as card_of
    from relcode.explore.model import Model
    from relcode.formats.place import new_place

    text = card_of(Model.open(run, device), name, licence, split, memory)
    if out is None:
        sys.stdout.write(text)
        return
    with new_place(out) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
    say(str(out))
