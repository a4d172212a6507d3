"""``relcode datasets`` and ``relcode settings``: what there is to train on, and what can be set."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relcode.cli.ask import JsonOption
from relcode.cli.show import heading, print_json, print_table, say

if TYPE_CHECKING:
    from relcode.graph.statistics import DatasetStatistics

datasets_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None, help="List the datasets known by name, or count one.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(datasets_app, name="datasets")
    app.command()(settings)


@datasets_app.callback()
def datasets(context: typer.Context, json: JsonOption = False) -> None:
    """List the bundled datasets and those under $RELCODE_DATA."""
    if context.invoked_subcommand is not None:
        return
    from relcode.graph.catalogue import DATA_VARIABLE, available

    entries = available()
    if json:
        print_json([{"name": entry.name, "source": entry.source, "bundled": entry.bundled} for entry in entries])
        return
    print_table(("name", "where"), [(entry.name, entry.source) for entry in entries])
    if all(entry.bundled for entry in entries):
        say(f"(set {DATA_VARIABLE} to a folder of datasets to see them here; train also takes any folder or file of facts)")


@datasets_app.command("show")
def show(
    dataset: Annotated[str, typer.Argument(metavar="NAME_OR_FOLDER", help="A dataset: its name, a folder, or one file of facts.")],
    json: JsonOption = False,
) -> None:
    """Count a dataset: entities, relations, splits, unseen entities, duplicates, facts of train repeated elsewhere."""
    from relcode.graph.dataset import load_dataset
    from relcode.graph.statistics import describe

    statistics = describe(load_dataset(dataset))
    if json:
        print_json(asdict(statistics))
    else:
        _print_statistics(statistics)


def _print_statistics(statistics: DatasetStatistics) -> None:
    """Print the counts of a dataset."""
    say(f"{statistics.name} ({statistics.source})")
    say(f"{statistics.entities:,} entities, {statistics.relations:,} relations, {statistics.labels:,} labels")
    held_out = ("valid", "test")
    rows: list[tuple[object, ...]] = [
        ("facts", *(statistics.facts[split] for split in ("train", *held_out))),
        ("repeated lines, dropped", *(statistics.duplicates[split] for split in ("train", *held_out))),
        ("facts also in train", "", *(statistics.repeated_from_train[split] for split in held_out)),
        ("facts also in valid", "", "", statistics.valid_repeated_in_test),
        ("facts with an unseen entity", "", *(statistics.facts_with_unseen_entities[split] for split in held_out)),
        ("facts with an unseen relation", "", *(statistics.facts_with_unseen_relations[split] for split in held_out)),
    ]
    print_table(("", "train", *held_out), rows, right=("train", *held_out))
    say(f"entities never in train: {statistics.unseen_entities:,}")
    if statistics.unseen_relations:
        say(f"relations never in train: {', '.join(statistics.unseen_relations)}")
    for note in statistics.notes:
        say(f"note: {note}")
    say(f"fingerprint: {statistics.fingerprint}")


def settings(
    recipe: Annotated[str, typer.Argument(help="The recipe whose values are shown.")] = "joint+comp",
    json: JsonOption = False,
) -> None:
    """List every setting of a recipe with its meaning."""
    from relcode.config import options
    from relcode.recipes import RECIPES
    from relcode.recipes import recipe as recipe_named

    known = options()
    chosen = recipe_named(recipe)
    values = {name: {key: _value(recipe_named(name), key) for key in known} for name in RECIPES}
    shown = {key: _value(chosen, key) for key in known}
    if json:
        print_json(
            {key: {"value": shown[key], "help": text, "recipes": {name: values[name][key] for name in RECIPES}} for key, (_, text) in known.items()}
        )
        return
    say(f"recipe {recipe}; change a value with relcode train --set KEY=VALUE")
    for section in dict.fromkeys(key.partition(".")[0] for key in known if "." in key):
        heading(section)
        keys = [key for key in known if key.startswith(f"{section}.")]
        print_table(("setting", "value", "meaning"), [(key, _written(shown[key]), _meaning(key, known[key][1], shown, values)) for key in keys])


def _meaning(key: str, text: str, shown: dict[str, Any], values: dict[str, dict[str, Any]]) -> str:
    """Say what an option means, and its value in the recipes that differ from the one shown."""
    others = ", ".join(f"{name}: {_written(of_recipe[key])}" for name, of_recipe in values.items() if of_recipe[key] != shown[key])
    return f"{text} ({others})" if others else text


def _value(settings: Any, key: str) -> Any:
    """Return the value of a dotted option, infinity as text."""
    for part in key.split("."):
        settings = getattr(settings, part)
    return "inf" if settings == float("inf") else settings


def _written(value: Any) -> str:
    """Write a setting's value as --set reads it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
