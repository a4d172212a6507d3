"""Folders of other programs: OpenKE's files of numbers, and RotatE's with .dict files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from relcode.errors import DataError
from relcode.formats.reading import Batch, Tally, shown
from relcode.graph.facts import COLUMNS, read_facts
from relcode.graph.lines import Block, read_blocks

BATCH_FACTS = 1 << 16


def is_openke(folder: Path) -> bool:
    """Tell whether a folder is OpenKE's."""
    return all((folder / name).is_file() for name in ("entity2id.txt", "relation2id.txt", "train2id.txt"))


def is_rotate(folder: Path) -> bool:
    """Tell whether a folder is RotatE's."""
    return all((folder / name).is_file() for name in ("entities.dict", "relations.dict", "train.txt"))


def read_openke(folder: Path, split: str, tally: Tally) -> Iterator[Batch]:
    """Read a split of an OpenKE folder: a first line that counts, then head, tail and relation (in this order) by number."""
    entities, relations = read_openke_names(folder / "entity2id.txt"), read_openke_names(folder / "relation2id.txt")
    path = folder / f"{split}2id.txt"
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    expected, count = 0, 0
    for number, line in _lines(path):
        fields = line.split()
        if number == 1:
            expected = _count(fields, path)
            continue
        if len(fields) != 3 or not all(field.isdigit() and len(field) < 19 for field in fields):
            raise DataError(f"{path}, line {number:,}: expected three numbers (head, tail, relation)")
        head, tail, relation = map(int, fields)
        if max(head, tail) >= len(entities) or relation >= len(relations):
            raise DataError(f"{path}, line {number:,}: a number that is not in entity2id.txt or relation2id.txt; the order is head, tail, relation")
        for column, name in zip(columns, (entities[head], relations[relation], entities[tail]), strict=True):
            column.append(name)
        count += 1
        if len(columns[0]) == BATCH_FACTS:
            yield Batch(*columns)
            columns = ([], [], [])
    if count != expected:
        raise DataError(f"{path}: the first line says {expected:,} facts, there are {count:,}; is the file whole?")
    tally.facts += count
    yield Batch(*columns)


def _count(fields: list[bytes], path: Path) -> int:
    """Return the number that the first line of a file says."""
    if len(fields) != 1 or not fields[0].isdigit() or len(fields[0]) > 18:
        raise DataError(f"{path}, line 1: expected the number of lines that follow")
    return int(fields[0])


def read_openke_names(path: Path) -> list[str]:
    """Read entity2id.txt or relation2id.txt: a first line that counts, then name and number; return the names by number."""
    names: dict[int, str] = {}
    expected = 0
    for number, line in _lines(path):
        if number == 1:
            expected = _count(line.split(), path)
            continue
        parts = line.rstrip().rsplit(None, 1)
        if len(parts) != 2 or not parts[1].isdigit() or len(parts[1]) > 18:
            raise DataError(f"{path}, line {number:,}: expected a name and its number")
        _put(names, int(parts[1]), parts[0], path, number)
    return _by_number(names, expected, path)


def read_rotate(folder: Path, split: str, tally: Tally) -> Iterator[Batch]:
    """Read a split of a RotatE folder: facts by name, each name listed in a .dict file."""
    listed = {"entity": set(read_dict(folder / "entities.dict")), "relation": set(read_dict(folder / "relations.dict"))}
    path = folder / f"{split}.txt"
    table = read_facts(path)
    for column, kind in zip(COLUMNS, ("entity", "relation", "entity"), strict=True):
        for chunk in table.column(column).chunks:
            unknown = next((name for name in chunk.dictionary.to_pylist() if name not in listed[kind]), None)
            if unknown is not None:
                raise DataError(f"{path}: the {kind} {shown(repr(unknown))} is not in the folder's .dict file")
    tally.facts += len(table)
    for batch in table.to_batches(max_chunksize=BATCH_FACTS):
        yield Batch(*(column.cast(pa.large_utf8()) for column in batch.columns))


def read_dict(path: Path) -> list[str]:
    """Read a .dict file of RotatE: number, tab, name; return the names by number."""
    names: dict[int, str] = {}
    for number, line in _lines(path):
        parts = line.split(b"\t")
        if len(parts) != 2 or not parts[0].isdigit() or len(parts[0]) > 18:
            raise DataError(f"{path}, line {number:,}: expected a number, a tab and a name")
        _put(names, int(parts[0]), parts[1], path, number)
    return _by_number(names, len(names), path)


def _put(names: dict[int, str], key: int, name: bytes, path: Path, line: int) -> None:
    """Give a number its name."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}, line {line:,}: not UTF-8; save the file as UTF-8") from None
    if not text.strip() or any(mark in text for mark in "\t\r"):
        raise DataError(f"{path}, line {line:,}: the name is empty, or holds a tab or carriage return")
    if key in names:
        raise DataError(f"{path}, line {line:,}: a second name for number {key}")
    names[key] = text


def _by_number(names: dict[int, str], expected: int, path: Path) -> list[str]:
    """Return names in order of their numbers, which must be 0, 1, …; and no name may have two."""
    if len(names) != expected:
        raise DataError(f"{path}: the first line says {expected:,} names, there are {len(names):,}; is the file whole?")
    if names and max(names) != len(names) - 1:
        raise DataError(f"{path}: {len(names):,} names with numbers up to {max(names):,}; expected every number from 0 on")
    if len(set(names.values())) != len(names):
        raise DataError(f"{path}: a name is listed twice")
    return [names[number] for number in range(len(names))]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Go through the lines of a file."""
    blocks: Iterator[Block] = read_blocks(path)
    for block in blocks:
        yield from block.lines()
