from __future__ import annotations

import csv
import os
import subprocess
import sys
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relcode
import relcode.formats.rows as rows
from relcode.errors import DataError
from relcode.formats.reading import ReadOptions, Tally
from relcode.formats.rows import CheckedText, end_of_rows
from relcode.formats.tables import read_text_table

Fact = tuple[str, str, str]


def read(data: bytes, form: str = "csv", **options: object) -> tuple[list[Fact], Tally]:
    tally = Tally("x", form)
    batches = read_text_table(BytesIO(data), form, tally, ReadOptions(**options))  # type: ignore[arg-type]
    return [fact for batch in batches for fact in batch.rows()], tally


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BLOCK_BYTES", 64)
    monkeypatch.setattr(rows, "LOOKED_AT", 32)


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", b""),
        (b"a,r,b", b""),
        (b"a,r,b\nc,r,d", b"a,r,b\n"),
        (b"a,r,b\r\nc,r,d\r", b"a,r,b\r\nc,r,d\r"),
        (b'a,r,"b\nc', b""),
        (b'a,r,"b\nc"\nd,r', b'a,r,"b\nc"\n'),
        (b'a,r,"b""\nc"\n"d', b'a,r,"b""\nc"\n'),
        (b'5" disk,r,b\n"x\ny",r,z\n"', b'5" disk,r,b\n"x\ny",r,z\n'),
        (b'"a""', b""),
        (b'"a"b,r,c\n', b'"a"b,r,c\n'),
    ],
)
def test_whole_rows_by_hand(data: bytes, whole: bytes) -> None:
    assert data[: end_of_rows(data, ",")] == whole


def test_where_no_field_is_quoted_every_line_end_ends_a_row() -> None:
    data = b'a,r,"b\nc'
    assert data[: end_of_rows(data, None)] == b'a,r,"b\n'


CELL = st.text(st.sampled_from('ab ",;\n\ré🙂'), min_size=1, max_size=6)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=60)
@given(st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=30), st.booleans())
def test_no_row_is_cut_whatever_the_blocks(table: list[list[str]], quote_all: bool) -> None:
    """The standard library, which reads all at once, is the oracle."""
    text = StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL).writerows(table)
    found = []
    for block in CheckedText(BytesIO(text.getvalue().encode()), "x", quoted=True).blocks(","):
        found += [row for row in csv.reader(StringIO(block.decode(), newline="")) if row]
    assert found == table


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_rows_are_counted_through_blocks(form: str) -> None:
    mark = b"," if form == "csv" else b"\t"
    lines = [b"head,relation,tail", *(b"a%d,r,b" % number for number in range(50)), b"a,r", *(b"c%d,r,d" % number for number in range(20)), b"e,f"]
    data = b"\n".join(lines).replace(b",", mark)
    with pytest.raises(DataError, match="x, row 52: 2 fields, expected 3"):
        read(data, form)
    facts, tally = read(data, form, skip_bad=True)
    assert len(facts) == 70
    assert (
        tally.skipped["rows with another number of fields"].count == 2 and tally.skipped["rows with another number of fields"].first[:6] == "row 52"
    )
    with pytest.raises(DataError, match="x, row 73: 2 fields"):
        read(data.replace(mark.join([b"a", b"r\n"]), mark.join([b"a", b"r", b"b\n"])), form)


@pytest.mark.usefixtures("small_blocks")
def test_a_row_without_end_is_refused() -> None:
    with pytest.raises(DataError, match="x: a row longer than 64 bytes, or a quotation mark without its partner"):
        read(b'a,r,b\n"c,r,d\n' + b"e,r,f\n" * 40)


def test_blank_lines_do_not_count_as_the_header() -> None:
    assert read(b"\n\r\nhead,relation,tail\n\na,r,b\n\n")[0] == [("a", "r", "b")]
    assert read(b"head,relation,tail\n")[0] == read(b"head,relation,tail\n\n\n")[0] == []


def test_arrow_is_given_no_stream_of_ours() -> None:
    """Its threads would let go of it after the interpreter has begun to end, which aborts the process."""
    sources = Path(relcode.__file__).parent.rglob("*.py")
    calls = ("open_csv(", "PythonFile(")
    assert [str(path) for path in sources if any(call in path.read_text(encoding="utf-8") for call in calls)] == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["head,relation,tail\n", "head,relation,tail\na,r,b\nc,r\n"])
def test_a_refused_table_does_not_abort_the_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "relcode", "import", str(tmp_path / "t.csv"), "--out", str(tmp_path / "d")]
    env = {**os.environ, "PYTHONPATH": str(Path(relcode.__file__).parents[1])}
    assert [subprocess.run(command, capture_output=True, check=False, env=env).returncode for _ in range(6)] == [2] * 6
