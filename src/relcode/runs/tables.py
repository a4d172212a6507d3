"""Names and facts of a run as Parquet; read with limits, since a few bytes of Parquet can stand for any number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from relcode.errors import DataError, RunError
from relcode.graph.dataset import Dataset
from relcode.graph.split_names import SPLITS
from relcode.graph.vocab import Vocab
from relcode.runs.files import check_plain, write_atomically

NAMES = {"name": pa.string(), "label": pa.string()}
FACTS = {"split": pa.int8(), "head": pa.int32(), "relation": pa.int32(), "tail": pa.int32()}
ROWS_AT_ONCE = 2**16
ALWAYS_FINE = 64 * 2**20  # bytes that a table may take in memory, whatever its size on disk …
MOST_GROWTH = 1000  # … and how many more for each byte on disk; names and facts shrink by 2 to 20


def write_vocab(path: Path, vocab: Vocab, labels: Mapping[str, str]) -> None:
    """Write names and labels in the order of their numbers."""
    table = pa.table({"name": list(vocab.names), "label": [labels.get(name) for name in vocab.names]}, pa.schema(list(NAMES.items())))
    write_atomically(path, lambda draft: pq.write_table(table, draft, compression="zstd"))


def read_vocab(path: Path, kind: Literal["entity", "relation"], rows: int) -> tuple[Vocab, dict[str, str]]:
    """Read names and labels; there must be as many as the run says."""
    table = _read_table(path, NAMES, rows)
    try:
        names, labels = table["name"].to_pylist(), table["label"].to_pylist()
        return Vocab(names, kind), {name: label for name, label in zip(names, labels, strict=True) if label is not None}
    except (DataError, UnicodeDecodeError, pa.ArrowException) as error:
        raise RunError(f"{path} is damaged: {' '.join(str(error).split())[:300]}") from None


def write_facts(path: Path, dataset: Dataset) -> None:
    """Write the facts of all splits as numbers."""
    splits = [dataset.split(name) for name in SPLITS]
    facts_N3 = torch.cat(splits).to(torch.int32).numpy()
    number = torch.cat([torch.full((len(facts),), index, dtype=torch.int8) for index, facts in enumerate(splits)]).numpy()
    table = pa.table({"split": number, "head": facts_N3[:, 0], "relation": facts_N3[:, 1], "tail": facts_N3[:, 2]})
    write_atomically(path, lambda draft: pq.write_table(table, draft, compression="zstd"))


def read_facts(path: Path, num_entities: int, num_relations: int, rows: int) -> dict[str, Tensor]:
    """Read the facts of the splits as int64 [N, 3]; numbers that stand for nothing are refused."""
    table = _read_table(path, FACTS, rows)
    columns = [torch.from_numpy(table[name].to_numpy().astype("int64")) for name in FACTS]
    facts_N3 = torch.stack(columns[1:], dim=1)
    limits = torch.tensor([num_entities, num_relations, num_entities])
    if len(facts_N3) and bool(((facts_N3 < 0) | (facts_N3 >= limits)).any()):
        raise RunError(f"{path} is damaged: it names entities or relations that are not in the run")
    return {split: facts_N3[columns[0] == number] for number, split in enumerate(SPLITS)}


def _read_table(path: Path, columns: Mapping[str, pa.DataType], rows: int) -> pa.Table:
    """Read the columns named, of the types given and as many rows as said; no value may be missing but a label."""
    most = ALWAYS_FINE + MOST_GROWTH * check_plain(path)
    expected = f"its columns must be {', '.join(f'{name} ({kind})' for name, kind in columns.items())}"
    try:
        with pq.ParquetFile(path) as file:
            if {name: file.schema_arrow.field(name).type for name in columns} != dict(columns):
                raise RunError(f"{path} is damaged: {expected}")
            if file.metadata.num_rows != rows:
                raise RunError(f"{path} is damaged: it has {file.metadata.num_rows:,} rows, run.json says {rows:,}")
            batches = []
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(columns), use_threads=False):
                batches.append(batch)
                most -= batch.nbytes
                if most < 0:
                    raise RunError(f"{path} is damaged: it grows beyond all measure when it is unpacked")
            table = pa.Table.from_batches(batches, pa.schema(list(columns.items())))
            table.validate(full=True)
            lacking = any(table[name].null_count for name in columns if name != "label")
    except (OSError, KeyError, ValueError, OverflowError, MemoryError, pa.ArrowException) as error:
        raise RunError(f"{path} is damaged ({(str(error).splitlines() or [type(error).__name__])[0][:200]})") from None
    if lacking or len(table) != rows:
        raise RunError(f"{path} is damaged: {expected}, with no value missing")
    return table
