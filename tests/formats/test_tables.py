from __future__ import annotations

import csv
import datetime
from io import BytesIO, StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relcode.errors import DataError, SettingError
from relcode.formats.importing import import_facts
from relcode.formats.reading import ReadOptions, Tally
from relcode.formats.tables import read_text_table

Fact = tuple[str, str, str]


def read(text: str | bytes, form: str = "csv", **options: object) -> tuple[list[Fact], Tally]:
    tally = Tally("x", form)
    data = text.encode() if isinstance(text, str) else text
    facts = [fact for batch in read_text_table(BytesIO(data), form, tally, ReadOptions(**options)) for fact in batch.rows()]  # type: ignore[arg-type]
    return facts, tally


@pytest.mark.parametrize(
    ("text", "form", "options", "facts"),
    [
        ("a,r,b\n", "csv", {}, [("a", "r", "b")]),
        ("subject,predicate,object\na,r,b\n", "csv", {}, [("a", "r", "b")]),
        ("object;predicate;subject\nb;r;a\n", "csv", {}, [("a", "r", "b")]),
        ("id,from,to,type\n1,a,b,r\n", "csv", {}, [("a", "r", "b")]),
        (":START_ID,name,:END_ID,:TYPE\na,x,b,r\n", "csv", {}, [("a", "r", "b")]),
        ("person,relation,company\na,r,b\n", "csv", {}, [("a", "r", "b")]),
        ("person,employer,company\na,r,b\n", "csv", {}, [("person", "employer", "company"), ("a", "r", "b")]),
        ("x,y,z,w\n1,b,a,r\n", "csv", {"head": "z", "relation": "w", "tail": "y"}, [("a", "r", "b")]),
        ("1,b,a,r\n", "csv", {"head": "3", "relation": "4", "tail": "2"}, [("a", "r", "b")]),
        ("head\trelation\ttail\na\tr\tb\n", "tsv", {}, [("a", "r", "b")]),
        ("head\trelation\ttail\na\tr\tb\n", "tsv", {"header": False}, [("head", "relation", "tail"), ("a", "r", "b")]),
        ('a\t"r\tb"\n', "tsv", {}, [("a", '"r', 'b"')]),
        ('"a, b",r,"c ""d"""\n', "csv", {}, [("a, b", "r", 'c "d"')]),
        ("a|r|b\n", "csv", {}, [("a", "r", "b")]),
        ("a r b\n", "csv", {"delimiter": " "}, [("a", "r", "b")]),
        ('5" disk,r,b\n', "tsv", {"delimiter": ","}, [('5" disk', "r", "b")]),
        ("\ufeffa,r,b\r\n\r\nc,r,d\r", "csv", {}, [("a", "r", "b"), ("c", "r", "d")]),
        ("a,r,b\nNA,r,null\n", "csv", {}, [("a", "r", "b"), ("NA", "r", "null")]),
        ("0012,r,1.0\n", "csv", {}, [("0012", "r", "1.0")]),
        ('{"a": 1}\tr\t[1, 2]\n', "tsv", {}, [('{"a": 1}', "r", "[1, 2]")]),
        ("[a],r,{b}\n", "csv", {}, [("[a]", "r", "{b}")]),
    ],
)
def test_tables_of_text_by_hand(text: str, form: str, options: dict[str, object], facts: list[Fact]) -> None:
    assert read(text, form, **options)[0] == facts


def test_what_was_guessed_is_said() -> None:
    assert read("from;kind;to\na;r;b\n")[1].notes == [
        "fields are separated by ';' (guessed)",
        "head, relation, tail are from, kind, to (guessed, the first row names the columns)",
    ]
    assert read("a,r,b\n")[1].notes == ["head, relation, tail are column 1, column 2, column 3 (guessed, the first row is a fact)"]
    assert read("x,y,z\nb,r,a\n", head="z", relation="y", tail="x")[1].notes == []
    people, notes = read("person,relation,other\na,r,b\n")
    assert people == [("a", "r", "b")] and notes.notes == [
        "head, relation, tail are person, relation, other (guessed, the first row names the columns)"
    ]


def test_a_header_whose_names_come_again_is_warned_of() -> None:
    facts, tally = read("object,type,Thing\nn0,type,C0\nn1,type,C1\n")
    assert facts == [("C0", "type", "n0"), ("C1", "type", "n1")]
    assert len(tally.warnings) == 1 and "comes again in its column" in tally.warnings[0] and "--no-header" in tally.warnings[0]
    assert read("object,type,Thing\nn0,is,C0\n")[1].warnings == []
    assert read("object,type,Thing\nn0,type,C0\n", header=True)[1].warnings == []


@pytest.mark.parametrize(
    ("rows", "options", "warned"),
    [
        ("a;r;b\nb;r;c\n", {}, True),
        ("a;r;b\n", {}, False),  # too few to tell
        ("a;r;b\nb;r;Objekt\n", {}, False),
        ("a;Prädikat;b\nb;r;c\n", {}, False),
        ("Objekt;Subjekt;Prädikat\nb;r;c\n", {}, True),  # only the own column counts
        ("a;r;b\nb;r;c\n", {"header": False}, False),
        ("a;r;b\nb;r;c\n", {"header": True}, False),
        ("a;r;b\nb;r;c\n", {"head": "1", "relation": "2", "tail": "3"}, True),
        ("a;r;b\n" * 20 + "a;r;Objekt\n", {}, False),  # in a later block
        ("a;r;b\n" * 20, {}, True),
    ],
)
def test_a_first_row_that_stands_alone_is_warned_of(monkeypatch: pytest.MonkeyPatch, rows: str, options: dict[str, object], warned: bool) -> None:
    monkeypatch.setattr("relcode.formats.rows.BLOCK_BYTES", 64)
    monkeypatch.setattr("relcode.formats.rows.LOOKED_AT", 32)
    _, tally = read("Subjekt;Prädikat;Objekt\n" + rows, **options)
    assert [warning[:43] for warning in tally.warnings] == ["the first row (Subjekt, Prädikat, Objekt) i"] * warned
    assert all(warning.endswith("read it again with --header") for warning in tally.warnings)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,c,d\n", {}, "x: 4 columns; say with --head, --relation and --tail which are meant"),
        ("just words\n", {}, "one column"),
        ("a,r,b\nc,d\n", {}, "x, row 2: 2 fields, expected 3"),
        ("a,r,b\n", {"head": "1", "relation": "2"}, "name all three columns or none: --tail not given"),
        ("Subject,Verb,Object\na,r,b\n", {"tail": "Objct"}, "x: no column 'Objct': did you mean 'Object'"),
        ("Subject,Verb,Object\na,r,b\n", {"tail": "Object"}, "--head and --relation not given .there are Subject, Verb, Object."),
        ("a,r,b\n", {"head": "1", "relation": "2", "tail": "2"}, "must be different columns"),
        ("a,r,b\n", {"head": "1", "relation": "2", "tail": "9"}, "no column '9'; there are 1 to 3|no column '9': known are a, r, b"),
        ("a,r,b\n", {"delimiter": "xx"}, "the delimiter 'xx' cannot be one"),
        ("", {}, "empty"),
        (b"a,r,b\nc,\xff,d\n", {}, "x, line 2: not UTF-8"),
        (b"a,r,b\nc,\0,d\n", {}, "x, line 2: a NUL byte"),
        ('a,r,"b\nc"\n', {}, "holds a tab, line break or NUL"),
        ('head,relation,tail,note\na,r,b,"x\nc,r,d,y\n', {}, "a quotation mark without its partner"),
    ],
)
def test_tables_that_are_refused(text: str | bytes, options: dict[str, object], message: str) -> None:
    with pytest.raises((DataError, SettingError), match=message):
        read(text, **options)


def test_empty_cells_are_skipped_and_counted() -> None:
    facts, tally = read("a,r,b\n,r,b\nc, ,d\n")
    assert facts == [("a", "r", "b")]
    assert {reason: (entry.count, entry.first) for reason, entry in tally.skipped.items()} == {
        "the head is empty": (1, "row 2"),
        "the relation is empty": (1, "row 3"),
    }


CELL = st.text(st.sampled_from('ab ",;é🙂'), min_size=1, max_size=5).filter(str.strip)


@settings(max_examples=60)
@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_csv_is_read_as_the_standard_library_writes_it(rows: list[Fact], newline: str, quote_all: bool) -> None:
    text = StringIO()
    csv.writer(text, lineterminator=newline, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL).writerows(rows)
    assert read(text.getvalue(), delimiter=",", header=False)[0] == rows


def test_parquet_with_other_types_and_missing_names(tmp_path: Path) -> None:
    table = pa.table(
        {
            "when": [datetime.date(2020, 1, 1)] * 3,
            "target": pa.array([1, 2, None], pa.int32()),
            "predicate": pa.array(["r", "r", "s"]).dictionary_encode(),
            "source": pa.array([b"a", b"b", b"c"], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    imported = import_facts(tmp_path / "t.parquet", split=False)
    assert imported.dataset.entities.names == ("1", "2", "a", "b")
    assert imported.summary.sources[0].skipped == {"the tail is empty": 1}
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        pq.write_table(table.set_column(3, "source", pa.array([[1], [2], [3]])), tmp_path / "l.parquet")
        import_facts(tmp_path / "l.parquet", split=False)


def test_a_table_of_billions_of_equal_rows_is_refused(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int8()), pa.array(["a"]))
    pq.write_table(pa.table({"head": column, "relation": column, "tail": column}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10_000
    with pytest.raises(DataError, match="100,000 rows; no more than 62,500 are read"):
        import_facts(tmp_path / "t.parquet", most_bytes=1_000_000)
