"""The fast reader against pyoxigraph, which is the truth."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relcode.errors import DataError
from relcode.formats.ntriples import read_ntriples, take_apart
from relcode.formats.rdf import read_rdf
from relcode.formats.reading import ReadOptions, Tally
from relcode.graph.lines import Block

pytest.importorskip("pyoxigraph", reason="pyoxigraph is not installed")
LITERALS = ReadOptions(literals=True)


def read(reader, data: bytes, form: str = "ntriples", **more: int) -> tuple[Counter, int, dict[str, int]]:
    tally = Tally("x", form)
    facts = Counter(fact for batch in reader(BytesIO(data), form, tally, LITERALS, **more) for fact in batch.rows())
    assert tally.facts == facts.total()
    return facts, tally.graphs, {reason: entry.count for reason, entry in tally.skipped.items()}


# Pieces of IRIs that are allowed, doubtful and forbidden, so that both sides of every border are met.
PIECES = st.sampled_from(
    "a é 漢 %41 %4 %zz / // # ? : @ ! [ ] | ^ ` { } \\u00e9 \\u0020 \\n   . - _ ~ ' ( ) * + , ; = & $ 🙂 \ufdd0 \ue000 \xa0 // :80 :8x a@b".split(" ")  # noqa: SIM905
)
IRI = st.builds(
    lambda scheme, rest: f"<{scheme}:{''.join(rest)}>",
    st.sampled_from(["http", "http://h", "urn", "x+y.z-1", "1a", ""]),
    st.lists(PIECES, max_size=5),
)
LITERAL = st.sampled_from(['"a"', '"a b"@en', '"\\"\\n"', '"5"^^<http://e.x/i>', '"open', '""'])
BLANK = st.sampled_from(["_:a", "_:a.b", "_:1", "_:é", "_:"])
SPACE = st.sampled_from([" ", " ", " ", "\t", "  ", ""])
END = st.sampled_from([" .\n", " .\n", ".\n", " . \r\n", " . # c\n", "\n", " .", " .\r", " <http://g/> .\n", " _:g .\n"])
LINE = st.builds(lambda *parts: "".join(parts), IRI | BLANK, SPACE, IRI, SPACE, IRI | BLANK | LITERAL, END)


@settings(max_examples=300)
@given(st.lists(LINE, min_size=1, max_size=3).map("".join), st.sampled_from(["ntriples", "nquads"]), st.integers(10, 200))
def test_both_readers_agree_or_both_refuse(text: str, form: str, block_bytes: int) -> None:
    found = []
    for reader, more in ((read_rdf, {}), (read_ntriples, {"block_bytes": block_bytes})):
        try:
            found.append(read(reader, text.encode(), form, **more))
        except DataError:
            found.append(None)
    assert found[0] == found[1]


@settings(max_examples=100)
@given(st.lists(LINE, min_size=1, max_size=6).map("".join))
def test_bad_lines_are_skipped_alike(text: str) -> None:
    found = []
    for reader in (read_rdf, read_ntriples):
        tally = Tally("x", "ntriples")
        options = ReadOptions(literals=True, skip_bad=True)
        found.append(Counter(fact for batch in reader(BytesIO(text.encode()), "ntriples", tally, options) for fact in batch.rows()))
    assert found[0] == found[1]


def test_simple_lines_need_no_second_reader() -> None:
    lines = [
        "<http://e.x/a> <http://e.x/r> <http://e.x/b> .",
        "<http://e.x:80/é/漢?q=1#f%20> <urn:isbn:123> <mailto:a@b.c> .",
        "<http://e.x>\t<http://e.x/>\t<http://e.x/b>.\r",
    ]
    parsed = take_apart(Block(1, "\n".join([*lines, ""]).encode()), "ntriples")
    assert len(parsed.batch) == 3 and parsed.other == b""
    assert list(parsed.batch.rows())[1] == ("http://e.x:80/é/漢?q=1#f%20", "urn:isbn:123", "mailto:a@b.c")


def test_the_number_of_a_bad_line_is_the_files(tmp_path: Path) -> None:
    good, bad = "<http://e.x/a> <http://e.x/r> <http://e.x/b> .\n", "<http://e.x/a> <http://e.x/r> <b> .\n"
    for place in (0, 1, 57, 99):
        data = (good * place + "# comment\n" + bad + good * (99 - place)).encode()
        with pytest.raises(DataError, match=f"x, line {place + 2}: not N-Triples"):
            read(read_ntriples, data, block_bytes=500)


def test_a_mark_at_the_beginning_is_dropped_and_only_there() -> None:
    line = b"<http://e.x/a> <http://e.x/r> <http://e.x/b> .\n"
    for reader in (read_ntriples, read_rdf):
        assert read(reader, b"\xef\xbb\xbf" + line)[0].total() == 1
        with pytest.raises(DataError, match="line 2"):
            read(reader, line + b"\xef\xbb\xbf" + line)
