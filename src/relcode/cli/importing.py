"""``relcode import`` and ``relcode split``: facts from other people's files become a dataset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relcode.cli.ask import JsonOption
from relcode.cli.show import print_json, print_table, say

if TYPE_CHECKING:
    from relcode.formats.importing import ImportSummary, SourceSummary

SourcesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...", help="Files, folders or names of datasets, - for standard input; several are read as one.", show_default=False
    ),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", metavar="DATASET", help="The folder to write; it must not exist.", show_default=False)]
NameOption = Annotated[str | None, typer.Option("--name", help="What to call the dataset.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="tsv, csv, parquet, arrow, ntriples, nquads, turtle, trig, rdfxml, openke or rotate, if the name misleads."),
]
HeadOption = Annotated[str | None, typer.Option("--head", metavar="COLUMN", help="The column of heads, by name or by number from 1.")]
RelationOption = Annotated[str | None, typer.Option("--relation", metavar="COLUMN", help="The column of relations.")]
TailOption = Annotated[str | None, typer.Option("--tail", metavar="COLUMN", help="The column of tails.")]
HeaderOption = Annotated[bool | None, typer.Option("--header/--no-header", help="Whether the first row names the columns.", show_default="guessed")]
DelimiterOption = Annotated[str | None, typer.Option("--delimiter", help="What separates the fields of a table of text.")]
LiteralsOption = Annotated[bool, typer.Option("--literals", help="Keep RDF literals as entities.")]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be read, and count them.")]
MostOption = Annotated[str | None, typer.Option("--most", metavar="SIZE", help="Refuse files that unpack to more than this.", show_default="16GB")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("import")(import_)
    app.command()(split)


def import_(
    sources: SourcesArgument,
    out: OutOption,
    valid: Annotated[str | None, typer.Option("--valid", metavar="SOURCE", help="Facts to validate on; SOURCE is then to train on.")] = None,
    test: Annotated[str | None, typer.Option("--test", metavar="SOURCE", help="Facts to test on.")] = None,
    no_split: Annotated[bool, typer.Option("--no-split", help="Keep all facts in train where no splits are given.")] = False,
    name: NameOption = None,
    format: FormatOption = None,
    head: HeadOption = None,
    relation: RelationOption = None,
    tail: TailOption = None,
    header: HeaderOption = None,
    delimiter: DelimiterOption = None,
    literals: LiteralsOption = False,
    skip_bad: SkipBadOption = False,
    most: MostOption = None,
    json: JsonOption = False,
) -> None:
    """Make a dataset of TSV, CSV, Parquet, Arrow or RDF files (.gz, .zst), or of the folders of OpenKE and RotatE."""
    from relcode.formats.importing import import_facts

    options: dict[str, Any] = {"form": format, "head": head, "relation": relation, "tail": tail, "header": header}
    options |= {"delimiter": _delimiter(delimiter), "literals": literals, "skip_bad": skip_bad, **_most(most)}
    imported = import_facts(*sources, out=out, valid=valid, test=test, name=name, split=not no_split, **options)
    if json:
        print_json({"out": str(out), **asdict(imported.summary)})
    else:
        _print_import(imported.summary, out)


def split(
    sources: SourcesArgument,
    out: OutOption,
    valid: Annotated[float, typer.Option("--valid", metavar="SHARE", help="The share of facts to validate on.")] = 0.05,
    test: Annotated[float, typer.Option("--test", metavar="SHARE", help="The share of facts to test on.")] = 0.05,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Split by this column: the earliest facts are train, the latest test.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the random split.", show_default="a fixed one")] = None,
    name: NameOption = None,
    format: FormatOption = None,
    head: HeadOption = None,
    relation: RelationOption = None,
    tail: TailOption = None,
    header: HeaderOption = None,
    delimiter: DelimiterOption = None,
    literals: LiteralsOption = False,
    skip_bad: SkipBadOption = False,
    most: MostOption = None,
    json: JsonOption = False,
) -> None:
    """Split facts anew into train, valid and test, with every entity and relation in train: at random, or by time."""
    from relcode.formats.splitting import split_sources

    options: dict[str, Any] = {"form": format, "head": head, "relation": relation, "tail": tail, "time": time, "header": header}
    options |= {"delimiter": _delimiter(delimiter), "literals": literals, "skip_bad": skip_bad, **_most(most)}
    imported = split_sources(*sources, out=out, valid=valid, test=test, seed=seed, name=name, **options)
    if json:
        print_json({"out": str(out), **asdict(imported.summary)})
    else:
        _print_import(imported.summary, out)


def _delimiter(text: str | None) -> str | None:
    """Return a delimiter as typed: \\t and tab are a tab."""
    return "\t" if text in ("\\t", "tab") else text


def _most(text: str | None) -> dict[str, int]:
    """Return the option of the largest size, where one is given."""
    from relcode.explore.memory import parse_memory

    most = parse_memory(text)
    return {} if most is None else {"most_bytes": most}


def _print_import(summary: ImportSummary, out: Path) -> None:
    """Print what was read, skipped and made."""
    print_table(("source", "format", "split", "facts"), [_row(source) for source in summary.sources], right=("facts",))
    for source in summary.sources:
        where = f"{Path(source.source).name}: " if len(summary.sources) > 1 else ""
        for reason, count in source.skipped.items():
            first = source.first_skipped.get(reason)
            say(f"{where}skipped {count:,}: {reason}{f' (first: {first})' if first else ''}")
    skipped = {f"skipped {count:,}: {reason}" for source in summary.sources for reason, count in source.skipped.items()}
    for note in summary.notes:
        if not any(note.endswith(one) for one in skipped) and not any(warning.endswith(note) for warning in summary.warnings):
            say(f"note: {note}")
    for warning in summary.warnings:
        say(f"warning: {warning}")
    if summary.prefixes:
        few = list(summary.prefixes.items())[:5]
        say(f"prefixes: {', '.join(f'{prefix}: {namespace}' for prefix, namespace in few)}{', …' if len(summary.prefixes) > len(few) else ''}")
    counts = ", ".join(f"{count:,} {split}" for split, count in summary.facts.items())
    say(f"{summary.entities:,} entities, {summary.relations:,} relations, {summary.labels:,} labels; facts: {counts}")
    say(f"written to {out}: relcode train {out}")


def _row(source: SourceSummary) -> tuple[object, ...]:
    """Return a row of the table of sources."""
    return (source.source, source.form, source.split or "", source.facts)
