"""Importing: any sources in, one dataset out, with a summary of what was read, skipped and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relcode.errors import DataError, ExistsAlready, SettingError
from relcode.formats import pykeen, rdf
from relcode.formats.gather import Gatherer
from relcode.formats.prefixes import choose_prefixes
from relcode.formats.reading import Batch, ReadOptions, Tally, shown
from relcode.formats.sources import TITLES, Source, find_sources, labels_beside, read_source
from relcode.formats.tables import read_table
from relcode.graph.checks import twins
from relcode.graph.dataset import Dataset, open_dataset, read_labels, save_dataset, split_lone_train
from relcode.graph.facts import table_of
from relcode.graph.split_names import SPLITS


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """What one source gave."""

    source: str
    form: str
    split: str | None
    facts: int
    skipped: Mapping[str, int]
    first_skipped: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import read, skipped and made."""

    sources: tuple[SourceSummary, ...]
    entities: int
    relations: int
    facts: Mapping[str, int]
    duplicates: Mapping[str, int]
    labels: int
    prefixes: Mapping[str, str]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]  # what may not be as it was meant


@dataclass(frozen=True, slots=True)
class Imported:
    """A dataset, and how it came about."""

    dataset: Dataset
    summary: ImportSummary


def import_facts(
    *sources: Any, out: str | Path | None = None, valid: Any = None, test: Any = None, name: str | None = None, split: bool = True, **options: Any
) -> Imported:
    """Read facts from files, folders or tables, and make a dataset of them.

    ``sources`` are paths (TSV, CSV, Parquet, Arrow, N-Triples, N-Quads, Turtle, TriG, RDF/XML, each perhaps .gz or .zst; folders of such files, of
    OpenKE or of RotatE), Arrow or pandas tables, PyKEEN's triples factories, datasets, or lists of (head, relation, tail). With ``valid`` and
    ``test`` they are train. Facts that come in no splits are split 90/5/5, every entity and relation kept in train, unless ``split`` is false. With
    ``out`` the dataset is written there, named after the folder, and is the one mapped from there. ``options`` are those of ``ReadOptions``.
    """
    given, folder = read_options(options), free_folder(out)
    gatherer, tallies = gather(sources, given, valid, test)
    dataset = finish(gatherer, tallies, name or (folder.resolve().name if folder else "") or name_after(sources))
    if split and not len(dataset.valid) and not len(dataset.test) and len(dataset.train):
        dataset = split_lone_train(dataset)
    if folder is not None:
        dataset = save_dataset(dataset, folder)
    return Imported(dataset, summary_of(dataset, tallies))


def free_folder(out: str | Path | None) -> Path | None:
    """Return the folder to write to, after making sure that it is not there yet: before the work rather than after it."""
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists():
        raise ExistsAlready(folder)
    return folder


def read_options(options: Mapping[str, Any]) -> ReadOptions:
    """Make the record of options, or say which is unknown."""
    unknown = [key for key in options if key not in ReadOptions.__dataclass_fields__]
    if unknown:
        raise SettingError(f"unknown option {unknown[0]!r}: known are {', '.join(ReadOptions.__dataclass_fields__)}")
    return ReadOptions(**options)


def gather(
    sources: Sequence[Any], options: ReadOptions, valid: Any = None, test: Any = None, keep_splits: bool = True
) -> tuple[Gatherer, list[tuple[str | None, Tally]]]:
    """Read all sources; return their facts and the tally of each with the split it is. Without ``keep_splits`` all facts become train."""
    if not sources:
        raise SettingError("nothing to read: name at least one source")
    gatherer = Gatherer()
    tallies: list[tuple[str | None, Tally]] = []
    for split, tally, batches in _readings(sources, options, valid, test):
        for batch in batches:
            gatherer.add((split if keep_splits else None) or "train", batch)
        tallies.append((split, tally))
    return gatherer, tallies


def finish(gatherer: Gatherer, tallies: Sequence[tuple[str | None, Tally]], name: str) -> Dataset:
    """Make the dataset of what was gathered; the names of RDF are shortened."""
    if not sum(gatherer.read.values()):
        raise DataError(f"{', '.join(tally.source for _, tally in tallies[:3])}: no facts{_why_none(tallies)}")
    is_rdf = [tally.form in rdf.FORMS for _, tally in tallies]
    prefixes = choose_prefixes(gatherer.names(), [tally.prefixes for _, tally in tallies]) if all(is_rdf) else None
    labels: dict[str, tuple[int, str]] = {}
    for _, tally in tallies:
        for iri, found in tally.labels.items():
            labels[iri] = min(found, labels.get(iri, found))
        tally.labels.clear()
    notes = [note for _, tally in tallies for note in _notes(tally, several=len(tallies) > 1)]
    if any(is_rdf) and not all(is_rdf):
        notes.append("IRIs are kept whole, as not all sources are RDF")
    dataset = gatherer.finish(
        name, prefixes, {iri: label for iri, (_, label) in labels.items()}, source=", ".join(tally.source for _, tally in tallies), notes=tuple(notes)
    )
    if all(tally.form == "dataset" and tally.prefixes == tallies[0][1].prefixes for _, tally in tallies):
        dataset = replace(dataset, prefixes=tallies[0][1].prefixes)  # names that are short already
    counts = [f"{count:,} repeated facts in {split} counted once" for split, count in dataset.duplicates.items() if count]
    return replace(dataset, notes=(*dataset.notes, *counts))


def _why_none(tallies: Sequence[tuple[str | None, Tally]]) -> str:
    """Say what was skipped, where nothing was left."""
    reasons = [f"{entry.count:,} {reason}" for _, tally in tallies for reason, entry in tally.skipped.items()]
    return f" (skipped: {'; '.join(reasons[:3])})" if reasons else ""


def _notes(tally: Tally, several: bool) -> Iterator[str]:
    """Go through what is worth saying about a source."""
    begin = f"{Path(tally.source).name}: " if several else ""
    yield from (f"{begin}{note}" for note in (*tally.notes, *tally.warnings))
    for reason, entry in tally.skipped.items():
        yield f"{begin}skipped {entry.count:,}: {reason}"
    if tally.graphs:
        yield f"{begin}{tally.graphs:,} facts were in named graphs, which are read as one"


def _readings(sources: Sequence[Any], options: ReadOptions, valid: Any, test: Any) -> Iterator[tuple[str | None, Tally, Iterator[Batch]]]:
    """Go through the sources: the split each is (None: not said), its tally, and its facts as they are read."""
    parts: list[tuple[str | None, Any]] = []
    default = "train" if valid is not None or test is not None else None
    for split, one in [
        *((default, source) for source in sources),
        *(("valid", valid),) * (valid is not None),
        *(("test", test),) * (test is not None),
    ]:
        parts += [(split or found.split, found) for found in find_sources(one, options)] if isinstance(one, str | Path) else _in_memory(split, one)
    said = [split for split, _ in parts]
    if None in said and any(said):
        raise DataError("some sources are splits (train, valid, test) and others are not: import them one by one, or use --valid and --test")
    files = [one for _, one in parts if isinstance(one, Source)]
    for split, one in parts:
        if isinstance(one, Source) and one.form == "dataset":
            yield from _of_dataset(split, open_dataset(one.path), str(one.path))
        elif isinstance(one, Source):
            tally = Tally(str(one.path), one.form)
            _take_labels(one, tally)
            yield split, tally, read_source(one, tally, options, f"{files.index(one) + 1}." if len(files) > 1 else "")
        elif isinstance(one, Dataset):
            yield from _of_dataset(split, one, one.name)
        else:
            tally = Tally("table", "table")
            yield split, tally, read_table(one, tally, options)


def _take_labels(source: Source, tally: Tally) -> None:
    """Read the labels that lie beside the train split of a folder."""
    path = labels_beside(source.path if source.path.is_dir() else source.path.parent) if source.split == "train" else None
    if path is not None:
        tally.labels.update({entity: (0, label) for entity, label in read_labels(path).items()})
        tally.notes.append(f"labels from {path.name}")


def _in_memory(split: str | None, one: Any) -> list[tuple[str | None, Any]]:
    """Return a source in memory in a form that can be read: a dataset or a table."""
    if isinstance(one, Dataset):
        return [(split, one)]
    if pykeen.is_factory(one):
        return [(split, pykeen.table_of_factory(one))]
    if isinstance(one, Sequence):
        return [(split, table_of(one, "facts"))]
    return [(split, one)]


def _of_dataset(split: str | None, dataset: Dataset, source: str) -> Iterator[tuple[str | None, Tally, Iterator[Batch]]]:
    """Hand on the facts of a dataset, in its splits where no other is asked for."""
    for own in SPLITS:
        facts_N3 = dataset.split(own)
        if len(facts_N3):
            tally = Tally(source, "dataset", prefixes=dict(dataset.prefixes), labels={name: (0, label) for name, label in dataset.labels.items()})
            yield split or own, tally, _named(facts_N3, dataset, tally)


def _named(facts_N3: Any, dataset: Dataset, tally: Tally) -> Iterator[Batch]:
    """Write facts by name again, some at a time."""
    for block_B3 in facts_N3.split(1 << 16):
        head, relation, tail = block_B3.T.tolist()
        tally.facts += len(head)
        yield Batch(
            *([vocab[n] for n in column] for vocab, column in ((dataset.entities, head), (dataset.relations, relation), (dataset.entities, tail)))
        )


def name_after(sources: Sequence[Any]) -> str:
    """Name a dataset after its first source."""
    first = sources[0]
    if not isinstance(first, str | Path):
        return str(getattr(first, "name", "facts")) if isinstance(first, Dataset) else "facts"
    return Path(first).resolve().name.partition(".")[0] or "facts"


def summary_of(dataset: Dataset, tallies: Sequence[tuple[str | None, Tally]]) -> ImportSummary:
    """Make the record of what was read."""
    sources = tuple(
        SourceSummary(
            tally.source,
            TITLES.get(tally.form, tally.form),
            split,
            tally.facts,
            {reason: entry.count for reason, entry in tally.skipped.items()},
            {reason: entry.first for reason, entry in tally.skipped.items() if entry.first},
            tuple(tally.notes),
        )
        for split, tally in tallies
    )
    facts = {split: len(dataset.split(split)) for split in SPLITS}
    return ImportSummary(
        sources,
        dataset.num_entities,
        dataset.num_relations,
        facts,
        dict(dataset.duplicates),
        len(dataset.labels),
        dict(dataset.prefixes),
        tuple(dataset.notes),
        tuple(_warnings(dataset, tallies)),
    )


def _warnings(dataset: Dataset, tallies: Sequence[tuple[str | None, Tally]]) -> Iterator[str]:
    """Go through what may not be as it was meant."""
    yield from (f"{Path(tally.source).name}: {warning}" for _, tally in tallies for warning in tally.warnings)
    pairs = twins(dataset)
    if pairs:
        written = repr if pairs[0][0].strip() == pairs[0][1].strip() else ascii  # which shows what the eye cannot
        first, second = (shown(written(name)) for name in pairs[0])
        yield (
            "names that differ from another only by spaces around them or by how Unicode writes a letter: "
            f"{len(pairs):,}, such as {first} and {second}; they are kept apart, see relcode datasets check"
        )
