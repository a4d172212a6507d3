"""A dataset kept ready: numbers and names in files that are mapped into memory, so that opening millions of facts takes no time.

    dataset.json      version of the format, counts, notes, prefixes, and the SHA-256 of every other file
    train.npy         facts as numbers, int64 [N, 3]; valid.npy and test.npy likewise
    entities.arrow    names of the entities, sorted, and their labels (Arrow IPC); relations.arrow likewise

A folder is written whole or not at all. It is trusted no more than any other file: checksums, the order of names and the range of every number
are checked when it is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from relcode.errors import CannotWrite, DataError, ExistsAlready
from relcode.graph.split_names import SPLITS
from relcode.graph.vocab import SortedVocab, Vocab

MANIFEST = "dataset.json"
FORMAT, VERSION = "relcode dataset", 1
FILES = (*(f"{split}.npy" for split in SPLITS), "entities.arrow", "relations.arrow")
LARGEST_MANIFEST = 16 << 20
HEADER_BYTES = 128


class StoredLabels(Mapping[str, str]):
    """Labels by entity name, read from mapped memory when asked for."""

    def __init__(self, entities: SortedVocab, labels: pa.Array) -> None:
        """Take the label of each entity, null where it has none."""
        self._entities, self._labels = entities, labels

    def __getitem__(self, name: str) -> str:
        """Return the label of an entity."""
        number = self._entities.find(name) if isinstance(name, str) else None
        label = None if number is None else self._labels[number].as_py()
        if label is None:
            raise KeyError(name)
        return str(label)

    def __iter__(self) -> Iterator[str]:
        """Go through the entities that have a label."""
        return (name for name, label in zip(self._entities, self._labels, strict=True) if label.is_valid)

    def __len__(self) -> int:
        """Return how many entities have a label."""
        return len(self._labels) - self._labels.null_count


def is_store(folder: Path) -> bool:
    """Tell whether a folder holds a dataset that was written by ``write_store``."""
    try:
        return (folder / MANIFEST).is_file()
    except OSError:
        return False


def write_store(folder: Path, dataset: Any) -> None:
    """Write a dataset into a new folder; one that exists is never written over, one that cannot be filled does not stay."""
    if folder.exists():
        raise ExistsAlready(folder)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        draft.mkdir(parents=True)
        _fill(draft, dataset)
        draft.rename(folder)
    except (OSError, pa.ArrowException) as error:
        raise CannotWrite(folder, error) from None
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(draft, ignore_errors=True)


def _fill(folder: Path, dataset: Any) -> None:
    """Write the files of a dataset, the manifest last."""
    for split in SPLITS:
        with (folder / f"{split}.npy").open("wb") as handle:
            facts_N3 = np.ascontiguousarray(dataset.split(split).numpy(), dtype="<i8")
            handle.write(_npy_header(len(facts_N3)))
            handle.write(facts_N3.data if len(facts_N3) else b"")
            handle.flush()
            os.fsync(handle.fileno())
    for file, vocab, labels in (("entities.arrow", dataset.entities, dataset.labels), ("relations.arrow", dataset.relations, {})):
        names = vocab.array if isinstance(vocab, SortedVocab) else pa.array(vocab.names, pa.large_utf8())
        label_list = [labels.get(name) for name in vocab] if labels else None
        label_array = pa.nulls(len(vocab), pa.large_utf8()) if label_list is None else pa.array(label_list, pa.large_utf8())
        table = pa.table({"name": names.cast(pa.large_utf8()), "label": label_array})
        with pa.OSFile(os.fspath(folder / file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=max(1, len(table)))  # one batch: an array that is one piece can be mapped
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "name": dataset.name,
        "source": dataset.source,
        "notes": list(dataset.notes),
        "duplicates": dict(dataset.duplicates),
        "prefixes": dict(dataset.prefixes),
        "entities": dataset.num_entities,
        "relations": dataset.num_relations,
        **{split: len(dataset.split(split)) for split in SPLITS},
        "files": {file: {"bytes": (folder / file).stat().st_size, "sha256": _digest(folder / file)} for file in FILES},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def read_store(folder: Path) -> dict[str, Any]:
    """Open a folder written by ``write_store`` and return the fields of its ``Dataset``, all checked; a fault is a ``DataError``."""
    manifest = _read_manifest(folder)
    try:
        for file in FILES:
            _check_file(folder / file, manifest["files"][file])
        entities, label_array = _read_names(folder / "entities.arrow", "entity")
        relations, _ = _read_names(folder / "relations.arrow", "relation")
        fields = {split: _read_numbers(folder / f"{split}.npy", entities, relations) for split in SPLITS}
        labels = StoredLabels(entities, label_array)
        texts = {key: str(manifest[key]) for key in ("name", "source")}
        notes = tuple(str(note) for note in manifest["notes"])
        duplicates = {split: int(manifest["duplicates"][split]) for split in SPLITS}
        prefixes = {str(prefix): str(namespace) for prefix, namespace in manifest["prefixes"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException, MemoryError) as error:
        raise DataError(f"{folder} is damaged: {' '.join(str(error).split())[:200] or type(error).__name__}; import it again") from None
    return {
        **fields,
        **texts,
        "entities": entities,
        "relations": relations,
        "labels": labels,
        "notes": notes,
        "duplicates": duplicates,
        "prefixes": prefixes,
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read dataset.json, and say so where it is not of this format or version."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise DataError(f"{path} is larger than {LARGEST_MANIFEST:,} bytes: it is not a dataset's")
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged and cannot be read ({' '.join(str(error).split())[:200]})") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{path} does not describe a dataset of relcode")
    if manifest.get("version") != VERSION:
        raise DataError(f"{path} has version {manifest.get('version')!r}, this relcode reads {VERSION}: import the data again")
    return manifest


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _check_file(path: Path, expected: Mapping[str, Any]) -> None:
    """Compare size and checksum of a file with the manifest's."""
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    if path.stat().st_size != expected["bytes"] or _digest(path) != expected["sha256"]:
        raise ValueError(f"size or checksum of {path.name} is not the one in {MANIFEST}")


def _read_names(path: Path, kind: str) -> tuple[SortedVocab, pa.Array]:
    """Map names and labels into memory."""
    table = pa.ipc.open_file(pa.memory_map(os.fspath(path))).read_all()
    if table.schema.names != ["name", "label"] or any(field.type != pa.large_utf8() for field in table.schema):
        raise ValueError(f"{path.name} must hold the texts name and label")
    table.validate(full=True)  # a text's bounds are numbers in the file: unchecked they could point anywhere
    names, labels = (column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns)
    try:
        return SortedVocab(names, kind), labels
    except DataError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _npy_header(count: int) -> bytes:
    """Return the first 128 bytes of a .npy file (version 1.0) of int64 [count, 3], which numpy's own reader opens too."""
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({count}, 3), }}"
    return b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117).encode() + b"\n"


def _read_numbers(path: Path, entities: Vocab, relations: Vocab) -> Tensor:
    """Map facts into memory, privately: whoever writes into the tensor does not write into the file.

    The header must be the one that belongs to the file's size: numpy's reader evaluates what it finds there, which is more than needs be.
    """
    count, rest = divmod(path.stat().st_size - HEADER_BYTES, 24)
    with path.open("rb") as handle:
        if count < 0 or rest or handle.read(HEADER_BYTES) != _npy_header(count):
            raise ValueError(f"{path.name} must be int64 [N, 3]")
    if not count:
        return torch.empty((0, 3), dtype=torch.int64)
    facts_N3 = np.memmap(path, dtype="<i8", mode="c", offset=HEADER_BYTES, shape=(count, 3))
    limits = (len(entities), len(relations), len(entities))
    if any(facts_N3[:, i].min() < 0 or facts_N3[:, i].max() >= limits[i] for i in range(3)):
        raise ValueError(f"{path.name} names entities or relations that are not there")
    return torch.from_numpy(np.asarray(facts_N3))
