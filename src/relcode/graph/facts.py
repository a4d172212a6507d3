"""Facts: reading one file of them, and the plain operations on tensors of them.

A fact is (head, relation, tail): three names in a file, three int64 numbers in a tensor [N, 3]. The inverse of relation r is r + R.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import torch
from torch import Tensor

from relcode.errors import DataError
from relcode.graph.lines import BYTE_ORDER_MARK, Block, read_blocks

COLUMNS = ("head", "relation", "tail")
NAME_TYPE = pa.dictionary(pa.int32(), pa.utf8())
SCHEMA = pa.schema([(column, NAME_TYPE) for column in COLUMNS])
LARGEST_KEY = 2**63 - 1


def directed(facts_N3: Tensor, num_relations: int) -> Tensor:
    """Return the facts followed by their inverses: (h, r, t) gives also (t, r+R, h), in the same order; [2N, 3]."""
    head_N, relation_N, tail_N = facts_N3.unbind(1)
    return torch.cat([facts_N3, torch.stack([tail_N, relation_N + num_relations, head_N], dim=1)])


def unique_facts(facts_N3: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """Return each distinct fact once, sorted by head, then relation, then tail.

    ``num_relations`` must exceed every relation number present (2R for directed facts). Where it fits into 63 bits a fact is sorted as one number,
    (h·R + r)·E + t, which is much faster than sorting rows.
    """
    if not len(facts_N3) or not _fits(num_entities, num_relations):
        rows_N3: Tensor = torch.unique(facts_N3, dim=0)
        return rows_N3
    key_N = torch.unique(_key(facts_N3, num_entities, num_relations))
    edge_N = key_N // num_entities
    return torch.stack([edge_N // num_relations, edge_N % num_relations, key_N % num_entities], dim=1)


def contains(facts_N3: Tensor, wanted_B3: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """Tell for each wanted fact whether it is among the facts; bool [B]."""
    if _fits(num_entities, num_relations):
        return torch.isin(_key(wanted_B3, num_entities, num_relations), _key(facts_N3, num_entities, num_relations))
    _, group = torch.unique(torch.cat([facts_N3, wanted_B3]), dim=0, return_inverse=True)
    return torch.isin(group[len(facts_N3) :], group[: len(facts_N3)])


def _fits(num_entities: int, num_relations: int) -> bool:
    """Tell whether every fact has its own number below 2**63."""
    return num_entities * num_entities * num_relations <= LARGEST_KEY


def _key(facts_N3: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """Return (h·R + r)·E + t, a number of its own for each fact, in the order of (h, r, t)."""
    head_N, relation_N, tail_N = facts_N3.unbind(1)
    return (head_N * num_relations + relation_N) * num_entities + tail_N


def read_facts(path: str | Path) -> pa.Table:
    """Read a file of facts: a line each, head TAB relation TAB tail, UTF-8, gzip'ed where its name ends in .gz.

    Returns a table of three columns of names (dictionary-encoded); row i is line i+1, repeated facts included. ``DataError`` names file and line.
    """
    path = Path(path)
    return facts_from_blocks(read_blocks(path), str(path))


def facts_from_blocks(blocks: Iterable[Block], source: str) -> pa.Table:
    """Parse blocks of lines into one table of facts; messages call the file ``source``."""
    tables = [_parse_block(block, source) for block in blocks]
    if not tables:
        raise DataError(f"{source}: empty; expected a fact on each line: head, tab, relation, tab, tail")
    return pa.concat_tables(tables)


def table_of(facts: Iterable[Sequence[str]], source: str = "facts") -> pa.Table:
    """Make the same table from facts in memory, with the same demands on names: three of them, none empty."""
    rows = []
    for number, fact in enumerate(facts, start=1):
        if isinstance(fact, str) or len(fact) != 3 or not all(isinstance(name, str) for name in fact):
            raise DataError(f"{source}, number {number}: {fact!r} is not a fact; expected three names (head, relation, tail)")
        _check_names(fact, f"{source}, number {number}")
        rows.append(fact)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    try:
        return pa.table([pa.array(column, pa.utf8()).dictionary_encode().cast(NAME_TYPE) for column in columns], schema=SCHEMA)
    except UnicodeEncodeError:
        raise DataError(f"{source}: a name holds half a surrogate pair, which is not text") from None


def names_of(table: pa.Table) -> Iterator[tuple[str, str, str]]:
    """Go through the facts of a table as three names."""
    return zip(*(table.column(column).to_pylist() for column in COLUMNS), strict=True)


def _parse_block(block: Block, source: str) -> pa.Table:
    """Parse a block by the fast reader; whatever it dislikes is read again line by line, to say what is wrong and where."""
    # The fast reader takes a lone carriage return for a line's end and drops a byte order mark at the start of any block: leave both to the slow one.
    if b"\r" in block.data or block.data.startswith(BYTE_ORDER_MARK):
        return _parse_slowly(block, source)
    try:
        table = pacsv.read_csv(
            pa.BufferReader(block.data),
            read_options=pacsv.ReadOptions(column_names=list(COLUMNS), block_size=len(block.data) + 1, use_threads=False),
            parse_options=pacsv.ParseOptions(delimiter="\t", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False),
            convert_options=pacsv.ConvertOptions(column_types=SCHEMA, strings_can_be_null=False, check_utf8=True),
        )
    except pa.ArrowInvalid:
        return _parse_slowly(block, source)
    names = (name for column in table.columns for chunk in column.chunks for name in chunk.dictionary.to_pylist())
    if all(name.strip() for name in names):
        return table
    return _parse_slowly(block, source)


def _parse_slowly(block: Block, source: str) -> pa.Table:
    """Parse a block line by line, raising ``DataError`` with the number of the first line that is not a fact."""
    rows = []
    for number, line in block.lines():
        where = f"{source}, line {number}"
        try:
            fields = line.decode("utf-8").split("\t")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: not UTF-8 (byte {line[error.start]:#04x} at position {error.start + 1}); save the file as UTF-8") from None
        if len(fields) != 3:
            raise DataError(f"{where}: {_count_of_fields(fields)}; expected three: head, tab, relation, tab, tail")
        _check_names(fields, where)
        rows.append(fields)
    return table_of(rows, source)


def _count_of_fields(fields: list[str]) -> str:
    """Say how many fields a line has, with the likely cause where it has one."""
    if len(fields) > 1:
        return f"{len(fields)} fields"
    if not fields[0].strip():
        return "blank"
    return "one field" + (" (spaces or commas do not separate fields, tabs do)" if any(mark in fields[0].strip() for mark in " ,;") else "")


def _check_names(names: Sequence[str], where: str) -> None:
    """Refuse names that are empty or would not survive being written to a file."""
    for column, name in zip(COLUMNS, names, strict=True):
        if not name.strip():
            raise DataError(f"{where}: the {column} is empty")
        if any(mark in name for mark in "\t\n\r\0"):
            raise DataError(f"{where}: the {column} {name!r} holds a tab, line break or NUL, which no name may")
