"""``relcode datasets`` and ``relcode settings``: what there is to train on, and what can be set."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relcode.cli.ask import JsonOption
from relcode.cli.show import heading, print_json, print_table, say

if TYPE_CHECKING:
    from relcode.graph.checks import DatasetCheck, RelationPair
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


@datasets_app.command("check")
def check(
    dataset: Annotated[str, typer.Argument(metavar="NAME_OR_FOLDER", help="A dataset: its name, a folder, or one file of facts.")],
    top: Annotated[int, typer.Option("--top", min=1, help="How many rows of each table to show.")] = 5,
    json: JsonOption = False,
) -> None:
    """Warn of leaks between splits (relations that nearly repeat or invert one another), repeated and contradictory facts."""
    from relcode.graph.checks import check_dataset
    from relcode.graph.dataset import load_dataset

    found = check_dataset(load_dataset(dataset))
    if json:
        print_json(asdict(found))
    else:
        _print_check(found, top)


def _print_check(check: DatasetCheck, top: int) -> None:
    """Print what was found."""
    say(f"{check.name}: {', '.join(f'{count:,} {split}' for split, count in check.facts.items())}")
    _print_pairs("Relations that nearly repeat one another", check.near_duplicates, top)
    _print_pairs("Relations that nearly invert one another", check.near_inverses, top)
    if check.symmetric:
        heading(f"Symmetric relations ({len(check.symmetric)}); not counted as a leak")
        rows = [(one.relation, one.share, one.reversed_in_train["valid"], one.reversed_in_train["test"]) for one in check.symmetric[:top]]
        print_table(("relation", "symmetric", "valid reversed in train", "test"), rows, right=("symmetric", "valid reversed in train", "test"))
    for split, count in check.reversed_in_train.items():
        if count:
            say(f"{_part(count, check.facts[split])} of the {split} facts have their reverse in train under the same relation")
    if check.contradictions:
        heading(f"Facts against a relation's habit ({len(check.contradictions)})")
        found = [(one.relation, one.kind, one.keeps, one.breaks, one.examples[0]) for one in check.contradictions[:top]]
        print_table(("relation", "habit", "keeps to it", "breaks it", "for example"), found, right=("keeps to it", "breaks it"))
    if check.lookalikes:
        heading(f"Names that look alike ({len(check.lookalikes)})")
        for names in check.lookalikes[:top]:
            say("  " + " / ".join(repr(name) for name in names))
    repeated = sum(check.duplicates.values())
    say("", f"repeated lines, counted once: {repeated:,}")
    for warning in check.warnings:
        say(f"warning: {warning}")
    if not check.warnings:
        say("no leaks found")


def _print_pairs(title: str, pairs: tuple[RelationPair, ...], top: int) -> None:
    """Print relations that have nearly the same pairs."""
    if pairs:
        heading(f"{title} ({len(pairs)})")
        rows = [(one.first, one.second, one.shared, one.share_first, one.share_second, one.leaks["valid"], one.leaks["test"]) for one in pairs[:top]]
        right = ("shared pairs", "of first", "of second", "valid leaked", "test")
        print_table(("first", "second", *right), rows, right=right)


def _part(count: int, whole: int) -> str:
    """Write a count and its share."""
    return f"{count:,} ({count / whole:.1%})"


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
    recipe: Annotated[str, typer.Argument(help="The recipe whose values are shown.")] = "default",
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
