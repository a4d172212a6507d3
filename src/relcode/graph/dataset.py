"""A dataset: two vocabularies and three splits of facts, loaded by name, from a folder, from one file or from memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from relcode.errors import DataError, SettingError
from relcode.graph.catalogue import ENDINGS, CatalogueEntry, resolve, split_files
from relcode.graph.facts import COLUMNS, names_of, read_facts, table_of, unique_facts
from relcode.graph.headers import FEWEST_ROWS, ROLES, come_again, never_again, roles_in
from relcode.graph.lines import read_blocks
from relcode.graph.split import HELD_OUT_SHARE, SPLIT_SEED, split_facts
from relcode.graph.split_names import SPLITS
from relcode.graph.store import is_store, read_store, write_store
from relcode.graph.unpack import JSON_ENDINGS, json_refused
from relcode.graph.vocab import Vocab

# Files that formats/ knows, and that cannot be taken for tab-separated facts.
FOREIGN = tuple(
    f".{ending}{packing}"
    for ending in ("nt", "nq", "ttl", "trig", "rdf", "owl", "csv", "parquet", "arrow", "feather")
    for packing in ("", ".gz", ".zst")
)
NO_DUPLICATES: Mapping[str, int] = {split: 0 for split in SPLITS}


@dataclass(frozen=True, eq=False)
class Dataset:
    """What is known, in numbers: facts (head, relation, tail) as int64 [N, 3] on the CPU, and the names behind the numbers.

    Entities and relations are those of all splits, sorted by name; the facts of a split are distinct and sorted too. So a dataset does not depend
    on the order of lines in its files. ``duplicates`` counts the repeated lines that were dropped from each split.
    """

    name: str
    entities: Vocab
    relations: Vocab
    train: Tensor
    valid: Tensor
    test: Tensor
    labels: Mapping[str, str] = field(default_factory=dict)
    source: str = "memory"
    notes: tuple[str, ...] = ()
    duplicates: Mapping[str, int] = field(default_factory=lambda: dict(NO_DUPLICATES))
    prefixes: Mapping[str, str] = field(default_factory=dict)  # of names that stand for IRIs: what to put for the part before the colon
    warnings: tuple[str, ...] = ()  # those notes that say what may not be as it was meant

    @property
    def num_entities(self) -> int:
        """E, the entities of all splits."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """R, the relations as named."""
        return len(self.relations)

    @property
    def num_directed(self) -> int:
        """S = 2R, the relations with their inverses."""
        return 2 * len(self.relations)

    def __repr__(self) -> str:
        """Show its name and its sizes."""
        facts = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in SPLITS)
        return f"Dataset({self.name!r}: {self.num_entities:,} entities, {self.num_relations:,} relations; facts: {facts})"

    def split(self, name: str) -> Tensor:
        """Return the facts of "train", "valid" or "test"."""
        if name not in SPLITS:
            raise SettingError(f"unknown split {name!r}: known are {', '.join(SPLITS)}")
        facts: Tensor = getattr(self, name)
        return facts

    @cached_property
    def seen_E(self) -> Tensor:
        """Tell for each entity whether it occurs in train; bool [E]."""
        seen_E = torch.zeros(self.num_entities, dtype=torch.bool)
        seen_E[self.train[:, 0]] = True
        seen_E[self.train[:, 2]] = True
        return seen_E

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of names and facts in hex: equal for equal knowledge, wherever and in whatever order it was stored."""
        digest = hashlib.sha256()
        for vocab in (self.entities, self.relations):
            digest.update(f"{len(vocab)}\n".encode())
            rest = iter(vocab)
            while names := list(islice(rest, 1 << 16)):
                digest.update(("\n".join(names) + "\n").encode())
            digest.update(b"\n" * (len(vocab) == 0))
        for name in SPLITS:
            facts = self.split(name)
            digest.update(f"{name} {len(facts)}\n".encode())
            digest.update(np.ascontiguousarray(facts.numpy(), dtype="<i8").data)
        return digest.hexdigest()

    def label(self, entity: int) -> str:
        """Return the readable label of an entity number, which is its name where it has no other."""
        name = self.entities[entity]
        return self.labels.get(name, name)


def load_dataset(where: str | Path) -> Dataset:
    """Load a dataset: a name (bundled, or a folder under ``$RELCODE_DATA``), a folder, or one file of facts.

    A folder holds train, valid and test as .txt or .tsv, each perhaps .gz, and perhaps labels.tsv[.gz] (entity, tab, label). Only train, or one
    file: the facts are split 90/5/5 with every entity and relation kept in train. ``notes`` says what was decided.
    """
    entry = resolve(where)
    if entry.path.is_dir() and is_store(entry.path):
        return open_dataset(entry.path)
    return _load_folder(entry) if entry.path.is_dir() else _load_file(entry)


def open_dataset(folder: Path) -> Dataset:
    """Open a folder made by ``relcode import`` or ``relcode split``: facts and names stay in the files, which are mapped into memory."""
    return Dataset(**read_store(folder))


def save_dataset(dataset: Dataset, folder: Path) -> Dataset:
    """Write a dataset into a new folder and return it as it is opened from there."""
    write_store(folder, dataset)
    return open_dataset(folder)


def dataset_from_facts(facts: Sequence[tuple[str, str, str]] | Mapping[str, Sequence[tuple[str, str, str]]], name: str = "facts") -> Dataset:
    """Make a dataset from facts in memory: a list is train alone (valid and test empty), a mapping names the splits it has."""
    splits = facts if isinstance(facts, Mapping) else {"train": facts}
    unknown = [split for split in splits if split not in SPLITS]
    if unknown:
        raise SettingError(f"unknown split {unknown[0]!r}: known are {', '.join(SPLITS)}")
    return dataset_from_tables({split: table_of(rows, f"{name}: {split}") for split, rows in splits.items()}, name=name)


def dataset_from_tables(
    tables: Mapping[str, pa.Table], name: str, labels: Mapping[str, str] | None = None, source: str = "memory", notes: Sequence[str] = ()
) -> Dataset:
    """Make a dataset from tables of names (columns head, relation, tail), one per split; an absent split is empty."""
    encoded = {split: [_encode_column(table.column(column)) for column in COLUMNS] for split, table in tables.items()}
    entity_names = {name for head, _, tail in encoded.values() for column in (head, tail) for name in column.names}
    relation_names = {name for _, relation, _ in encoded.values() for name in relation.names}
    entities, relations = Vocab(sorted(entity_names), "entity"), Vocab(sorted(relation_names), "relation")
    splits, duplicates = {split: torch.empty((0, 3), dtype=torch.int64) for split in SPLITS}, dict(NO_DUPLICATES)
    for split, (head, relation, tail) in encoded.items():
        facts = torch.stack([_renumber(head, entities), _renumber(relation, relations), _renumber(tail, entities)], dim=1)
        splits[split] = unique_facts(facts, len(entities), len(relations))
        duplicates[split] = len(facts) - len(splits[split])
    kept_labels = {entity: label for entity, label in (labels or {}).items() if entity in entities}
    dropped = [f"{count} repeated fact{'s' * (count > 1)} in {split} counted once" for split, count in duplicates.items() if count]
    train, valid, test = (splits[split] for split in SPLITS)
    dataset = Dataset(
        name, entities, relations, train, valid, test, labels=kept_labels, source=source, notes=(*notes, *dropped), duplicates=duplicates
    )
    unseen = sorted(set(range(len(relations))) - set(dataset.train[:, 1].unique().tolist())) if len(dataset.train) else []
    if unseen:
        note = f"{len(unseen)} relation{'s' * (len(unseen) > 1)} only in valid or test, kept: {relations[unseen[0]]}{', …' * (len(unseen) > 1)}"
        dataset = replace(dataset, notes=(*dataset.notes, note))
    return dataset


def read_labels(path: Path) -> dict[str, str]:
    """Read a file of labels: a line each, entity TAB label; an entity has one label."""
    labels: dict[str, str] = {}
    for block in read_blocks(path):
        for number, line in block.lines():
            try:
                fields = line.decode("utf-8").split("\t")
            except UnicodeDecodeError:
                raise DataError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from None
            if len(fields) != 2 or not all(text.strip() for text in fields):
                raise DataError(f"{path}, line {number}: {len(fields)} field(s), none may be empty; expected two: entity, tab, label")
            if labels.setdefault(fields[0], fields[1]) != fields[1]:
                raise DataError(f"{path}, line {number}: a second label for {fields[0]!r}")
    return labels


def _load_folder(entry: CatalogueEntry) -> Dataset:
    """Load the splits and labels of a folder."""
    folder = entry.path
    if (folder / "train2id.txt").is_file() and not split_files(folder, "train"):
        raise DataError(f"{folder}: OpenKE's files of numbers; make a dataset of them with relcode import {folder} --out DATASET")
    found = {split: path for split in SPLITS if (path := _one_file(folder, split)) is not None}
    missing = [split for split in SPLITS if split not in found]
    if "train" in missing or len(missing) == 1:
        endings = ", ".join(ENDINGS)
        raise DataError(
            f"{folder}: no file of facts for {' and '.join(missing)} (looked for {missing[0]} with {endings}); "
            "a dataset is train, valid and test, or train alone, which is then split"
        )
    label_file = _one_file(folder, "labels", endings=(".tsv", ".tsv.gz"))
    labels = read_labels(label_file) if label_file else {}
    notes = [f"{split} from {path.name}" for split, path in found.items()] + ([f"labels from {label_file.name}"] if label_file else [])
    tables = {split: read_facts(path) for split, path in found.items()}
    warnings = [f"{found[split].name}: {warning}" for split, table in tables.items() for warning in _like_a_header(table)]
    dataset = dataset_from_tables(tables, entry.name, labels, entry.source, notes + warnings)
    return replace(split_lone_train(dataset) if missing else dataset, warnings=tuple(warnings))


def _like_a_header(table: pa.Table) -> list[str]:
    """Warn of a first line of a split that looks like the names of columns: by convention such files have none, so it stays a fact."""
    (first,) = names_of(table.slice(0, 1))
    return [f"the first line ({', '.join(first)}) looks like names of columns, and is read as a fact; take it out if it is none"] * bool(
        roles_in(first)
    )


def _load_file(entry: CatalogueEntry) -> Dataset:
    """Load one file of facts, which is split."""
    if entry.path.name.lower().endswith(JSON_ENDINGS):
        raise json_refused(entry.path)
    if entry.path.name.lower().endswith(FOREIGN):
        raise DataError(f"{entry.path}: not a file of tab-separated facts; make a dataset of it with relcode import {entry.path} --out DATASET")
    table, warnings = _without_header(read_facts(entry.path), entry.path)
    dataset = dataset_from_tables({"train": table}, entry.name, source=entry.source, notes=[f"all facts from {entry.path.name}", *warnings])
    return replace(split_lone_train(dataset), warnings=tuple(warnings))


def _without_header(table: pa.Table, path: Path) -> tuple[pa.Table, list[str]]:
    """Leave out a first line that names the columns, by the same words as in ``relcode import``; and say what was decided, or suspected."""
    (first,), rest = names_of(table.slice(0, 1)), table.slice(1)
    roles, again = roles_in(first), f"make a dataset of it with relcode import {path} --out DATASET"
    repeated = come_again(first, rest.columns)
    if not roles:
        alone = len(table) >= FEWEST_ROWS and not repeated
        return table, [f"{path.name}: {never_again(first, f'{again} --header')}"] if alone else []
    if repeated:
        told = f"the first line ({', '.join(first)}) could name the columns, but a name comes again in its column: it is read as a fact"
        return table, [f"{path.name}: {told}; if it is none, {again} --header"]
    if not len(rest):
        raise DataError(f"{path}: no facts after its first line, which names the columns ({', '.join(first)})")
    names = ", ".join(first[roles[role]] for role in ROLES)
    order = "" if [roles[role] for role in ROLES] == [0, 1, 2] else f"; head, relation, tail are {names}"
    note = f"{path.name}: the first line names the columns ({', '.join(first)}) and is left out{order}; if it is a fact, {again} --no-header"
    return pa.table([rest.column(roles[role]) for role in ROLES], schema=table.schema), [note]


def split_lone_train(
    dataset: Dataset,
    valid_share: float = HELD_OUT_SHARE,
    test_share: float = HELD_OUT_SHARE,
    seed: int = SPLIT_SEED,
    why: str = "no valid and test given: ",
) -> Dataset:
    """Set some of train aside as valid and test (a twentieth each), and say so."""
    try:
        splits = split_facts(dataset.train, dataset.num_entities, dataset.num_relations, seed, valid_share, test_share)
    except DataError as error:
        raise DataError(f"{dataset.source}: {error}") from None
    counts = "/".join(str(len(splits[split])) for split in SPLITS)
    seeded = "a fixed seed" if seed == SPLIT_SEED else f"seed {seed}"
    note = f"{why}split into {counts} facts by {seeded}, every entity and relation kept in train"
    return replace(dataset, train=splits["train"], valid=splits["valid"], test=splits["test"], notes=(*dataset.notes, note))


def _one_file(folder: Path, stem: str, endings: Iterable[str] = ENDINGS) -> Path | None:
    """Return the one file ``stem`` with an allowed ending, None if there is none; two are an error, as either might be meant."""
    paths = split_files(folder, stem, endings)
    if len(paths) > 1:
        raise DataError(f"{folder}: both {paths[0].name} and {paths[1].name}; keep one file for {stem}")
    return paths[0] if paths else None


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of names: the names that occur, and for each row the position of its name among them."""

    names: list[str]
    position_N: np.ndarray[Any, np.dtype[np.int64]]


def _encode_column(column: pa.ChunkedArray) -> _Column:
    """Bring a column of names, plain or dictionary-encoded in chunks, to distinct names and positions."""
    if column.null_count:
        raise DataError(f"{column.null_count} of the facts lack a name; every fact needs head, relation and tail")
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_utf8()).dictionary_encode()
    array = pa.chunked_array(column.unify_dictionaries().chunks, column.type).combine_chunks()
    # A dictionary may list names that no row uses; they would become entities nobody knows anything about.
    index_N = array.indices.to_numpy(zero_copy_only=False)
    used = np.bincount(index_N, minlength=len(array.dictionary)) > 0
    new_number = np.cumsum(used) - 1
    return _Column(array.dictionary.filter(pa.array(used)).to_pylist(), new_number[index_N])


def _renumber(column: _Column, vocab: Vocab) -> Tensor:
    """Return the numbers that a vocabulary gives to the names of a column; int64 [N]."""
    return vocab.indices(column.names)[torch.from_numpy(column.position_N)]
