"""Tables of facts: TSV and CSV text, Parquet, Arrow files, and tables in memory (Arrow, pandas, polars)."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from relcode.errors import DataError, SettingError
from relcode.formats.columns import Columns, choose_columns
from relcode.formats.reading import Batch, ReadOptions, Tally, clean_batch, shown
from relcode.formats.rows import CheckedText
from relcode.graph.headers import FEWEST_ROWS, again_below, come_again, never_again

LOOKED_AT_LINE = 1 << 16  # characters of the first line
BATCH_ROWS = 1 << 16
DELIMITERS = (",", ";", "\t", "|")
TEXT = pa.large_utf8()
FIRST_LINE = re.compile(rb"\A[\r\n]*[^\r\n]*")
ROW = re.compile(rb"[^\r\n]")


@dataclass(frozen=True, slots=True)
class _Text:
    """How a table of text is laid out."""

    delimiter: str
    quoted: bool
    columns: Columns
    first: Sequence[str]  # the fields of the first row


def read_text_table(stream: BinaryIO, form: str, tally: Tally, options: ReadOptions) -> Iterator[Batch]:
    """Read TSV (fields as they are) or CSV (fields perhaps in quotes); what was guessed is noted."""
    text = CheckedText(stream, tally.source, quoted=form == "csv")
    if not text.beginning.strip():
        raise DataError(f"{tally.source}: empty; expected rows of head, relation and tail")
    layout = _layout(text.beginning, form, tally, options)
    batches = _batches(_parsed(text, layout, tally, options), layout.columns, tally, first_row=1 + int(layout.columns.header))
    told = options.header is not None or (layout.columns.header and options.head is not None)
    yield from batches if told else _suspecting(batches, layout, tally)


def _suspecting(batches: Iterable[Batch], layout: _Text, tally: Tally) -> Iterator[Batch]:
    """Pass batches on, and warn at the end where the first row was perhaps guessed wrongly.

    That is where it is a fact whose names never came again, and may be those of the columns; or names the columns, and one of them came again.
    """
    names = [layout.first[number] for number in layout.columns.numbers[:3] if number is not None]
    header, rows, again = layout.columns.header, 0, False
    for batch in batches:
        columns: list[Any] = [batch.head, batch.relation, batch.tail]
        if not header and not rows and len(batch):
            again = [column[0].as_py() for column in columns] != names  # it was left out: nothing is known of it
            columns = [column[1:] for column in columns]
        again = again or come_again(names, columns)
        rows += len(batch)
        yield batch
    told = [shown(name) for name in names]
    if header and again:
        tally.warnings.append(again_below(told, "read it again with --no-header"))
    if not header and not again and rows >= FEWEST_ROWS:
        tally.warnings.append(never_again(told, "read it again with --header"))


def _parsed(text: CheckedText, layout: _Text, tally: Tally, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Parse a table of text block by block; what comes out are the columns of head, relation, tail and perhaps time."""
    wanted = [f"f{number}" for number in layout.columns.numbers if number is not None]
    parse = {"quote_char": '"' if layout.quoted else False, "double_quote": layout.quoted, "newlines_in_values": layout.quoted}
    convert = pacsv.ConvertOptions(include_columns=wanted, column_types={name: TEXT for name in wanted}, strings_can_be_null=False)
    names, rows, is_header = [f"f{number}" for number in range(len(layout.first))], 0, layout.columns.header
    for block in text.blocks(layout.delimiter):
        if is_header:
            block, rows, is_header = FIRST_LINE.sub(b"", block, count=1), 1, False
        if not ROW.search(block):
            continue  # blank lines alone
        handler = _RowHandler(tally, options, rows)
        try:
            table = pacsv.read_csv(
                pa.BufferReader(block),
                read_options=pacsv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
                parse_options=pacsv.ParseOptions(delimiter=layout.delimiter, invalid_row_handler=handler, **parse),
                convert_options=convert,
            )
        except pa.ArrowException as error:
            raise DataError(handler.message or f"{tally.source}: {shown(str(error))}") from None
        rows += len(table) + handler.skipped
        yield from table.to_batches()


class _RowHandler:
    """What Arrow calls for a row with too few or too many fields; ``rows`` came before its block."""

    def __init__(self, tally: Tally, options: ReadOptions, rows: int) -> None:
        self._tally, self._options, self._rows = tally, options, rows
        self.message, self.skipped = "", 0

    def __call__(self, row: Any) -> str:
        place = "" if row.number is None else f"row {self._rows + row.number:,}: "
        message = f"{place}{row.actual_columns} fields, expected {row.expected_columns}"
        if self._options.skip_bad:
            self._tally.skip("rows with another number of fields", f"{message}: {row.text}")
            self.skipped += 1
            return "skip"
        self.message = f"{self._tally.source}, {message} ({shown(row.text)}); --skip-bad leaves such rows out"
        return "error"


def _layout(beginning: bytes, form: str, tally: Tally, options: ReadOptions) -> _Text:
    """Find delimiter, header and columns, from the first line and the options."""
    line = beginning.replace(b"\r\n", b"\n").replace(b"\r", b"\n").lstrip(b"\n").split(b"\n")[0]
    try:
        first = line.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{tally.source}, line 1: not UTF-8; save the file as UTF-8") from None
    delimiter = options.delimiter or ("\t" if form == "tsv" else _guess_delimiter(first))
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise SettingError(f"the delimiter {delimiter!r} cannot be one: a single ASCII character such as , ; | or a tab")
    quoted = form == "csv"
    fields = _fields(first, delimiter, quoted, tally.source)
    if form == "csv" and not options.delimiter and delimiter != ",":
        tally.notes.append(f"fields are separated by {delimiter!r} (guessed)")
    columns = choose_columns(fields, options, tally, is_header=None)
    return _Text(delimiter, quoted, columns, fields)


def _fields(line: str, delimiter: str, quoted: bool, source: str) -> list[str]:
    """Take one line apart, by the standard library's reader."""
    if not quoted:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except (csv.Error, StopIteration) as error:
        raise DataError(f"{source}, line 1: {error}") from None


def _guess_delimiter(line: str) -> str:
    """Return the delimiter that makes most fields of a line, a comma where none does."""
    start = line[:LOOKED_AT_LINE]
    return max(DELIMITERS, key=lambda mark: (len(_fields(start, mark, True, "")), mark == ","))


def read_parquet(path: Path, tally: Tally, options: ReadOptions) -> Iterator[Batch]:
    """Read a Parquet file, some rows at a time."""
    try:
        file = pq.ParquetFile(os.fspath(path), memory_map=True)
        _refuse_many(file.metadata.num_rows, tally, options)
        columns = choose_columns(list(file.schema_arrow.names), options, tally, is_header=True)
        names = [file.schema_arrow.names[number] for number in columns.numbers if number is not None]
        batches = file.iter_batches(batch_size=BATCH_ROWS, columns=names, use_threads=False)
        yield from _batches((batch.select(names) for batch in batches), columns, tally, 1)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise _unreadable(tally, "Parquet", error) from None


def read_arrow(path: Path, tally: Tally, options: ReadOptions) -> Iterator[Batch]:
    """Read an Arrow file (Feather, version 2) or Arrow stream, some rows at a time."""
    try:
        source = pa.memory_map(os.fspath(path))
        magic = source.read(6)
        source.seek(0)
        opened: Any = pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)
        columns = choose_columns(list(opened.schema.names), options, tally, is_header=True)
        count = getattr(opened, "num_record_batches", None)
        batches = opened if count is None else (opened.get_batch(number) for number in range(count))
        yield from _batches(_picked(batches, columns, tally, options), columns, tally, 1)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise _unreadable(tally, "Arrow", error) from None


def read_table(table: Any, tally: Tally, options: ReadOptions) -> Iterator[Batch]:
    """Read a table in memory: of Arrow, pandas, polars, or anything else that hands its columns over as Arrow does."""
    try:
        arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False) if _is_pandas(table) else pa.table(table)
        columns = choose_columns(list(arrow.schema.names), options, tally, is_header=True)
        yield from _batches(_picked(arrow.to_batches(max_chunksize=BATCH_ROWS), columns, tally, options), columns, tally, 1)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise _unreadable(tally, "table", error) from None


def _is_pandas(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas"


def _picked(batches: Iterable[pa.RecordBatch], columns: Columns, tally: Tally, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Take the wanted columns of batches, once their bounds are checked: in a file they are numbers that could point anywhere."""
    rows = 0
    for batch in batches:
        picked = [batch.column(number) for number in columns.numbers if number is not None]
        for column in picked:
            column.validate(full=True)
        rows += len(batch)
        _refuse_many(rows, tally, options)
        for start in range(0, len(batch), BATCH_ROWS):
            yield pa.RecordBatch.from_arrays([column[start : start + BATCH_ROWS] for column in picked], [f"f{n}" for n in range(len(picked))])


def _refuse_many(rows: int, tally: Tally, options: ReadOptions) -> None:
    """Refuse tables of more rows than could be meant: a few bytes of Parquet can stand for billions of equal rows."""
    most = options.most_bytes // 16
    if rows > most:
        raise DataError(f"{tally.source}: {rows:,} rows; no more than {most:,} are read")


def _batches(batches: Iterable[pa.RecordBatch], columns: Columns, tally: Tally, first_row: int) -> Iterator[Batch]:
    """Turn record batches, whose columns are head, relation, tail and perhaps time, into batches of facts."""
    row = first_row
    for batch in batches:
        texts = [_as_text(batch.column(number)) for number in range(3)]
        time = batch.column(3) if columns.numbers[3] is not None else None
        facts = clean_batch(texts, tally, row, time)
        row += len(batch)
        tally.facts += len(facts)
        yield facts


def _as_text(column: pa.Array) -> pa.Array:
    """Return a column as text: numbers are written out, bytes must be UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(TEXT)


def _unreadable(tally: Tally, kind: str, error: Exception) -> DataError:
    """Say that a file is not what it seems to be."""
    message = cast("str", getattr(error, "strerror", None)) or " ".join(str(error).split())
    return DataError(f"{tally.source}: cannot be read as {kind} ({shown(message)})")
