"""Files that were damaged, or made to do harm: read or refused clearly, never misread, and never with much memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from relcode.errors import DataError
from relcode.formats.importing import import_facts

TRIPLE = "<http://e.x/a> <http://e.x/r> <http://e.x/{}> .\n"
LINES = {".tsv": "a\tr\t{}\n", ".csv": "a,r,{}\n", ".nt": TRIPLE, ".nq": TRIPLE, ".ttl": TRIPLE, ".trig": TRIPLE}
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.x/">'


def facts_in(path: Path, data: bytes, **options: object) -> set[tuple[str, str, str]]:
    path.write_bytes(data)
    dataset = import_facts(path, split=False, **options).dataset
    return {(dataset.entities[h], dataset.relations[r], dataset.entities[t]) for h, r, t in dataset.train.tolist()}


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("ending", LINES)
@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
def test_bombs_are_refused_by_what_they_unpack_to(tmp_path: Path, ending: str, pack) -> None:
    path = tmp_path / f"bomb{ending}.{'gz' if pack is gzip.compress else 'zst'}"
    data = pack(LINES[ending].format("b").encode() * 200_000)
    assert len(data) < 100_000
    with pytest.raises(DataError, match="more than 1,000,000 bytes of text once unpacked"):
        facts_in(path, data, most_bytes=1_000_000)


def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relcode.graph.unpack.RATIO_FROM", 1 << 20)
    with pytest.raises(DataError, match="unpacks to more than 250 times its size"):
        facts_in(tmp_path / "bomb.tsv.gz", gzip.compress(b"a\tr\tb\n" * 2_000_000))


@pytest.mark.parametrize("ending", LINES)
def test_packed_files_cut_anywhere_are_refused(tmp_path: Path, ending: str) -> None:
    text = "".join(LINES[ending].format(f"b{number}") for number in range(300)).encode()
    for packed, suffix in ((gzip.compress(text), ".gz"), (zstd(text), ".zst")):
        for length in (1, 5, len(packed) // 2, len(packed) - 1):
            with pytest.raises(DataError, match=r"gzip|zstd|empty|of which format"):
                facts_in(tmp_path / f"cut{ending}{suffix}", packed[:length])


@pytest.mark.parametrize("ending", [*LINES, ".rdf"])
def test_a_name_of_ten_megabytes_is_refused(tmp_path: Path, ending: str) -> None:
    name = "b" * 10_000_000
    text = (
        LINES[ending].format(name)
        if ending != ".rdf"
        else f'{RDF}<rdf:Description rdf:about="http://e.x/{name}"><e:r rdf:resource="http://e.x/a"/></rdf:Description></rdf:RDF>'
    )
    with pytest.raises(DataError, match=r"names of more than|longer than|larger than"):
        facts_in(tmp_path / f"long{ending}", text.encode())


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".nt", ".nq"])
def test_nul_bytes_are_refused_with_their_line(tmp_path: Path, ending: str) -> None:
    text = LINES[ending].format("b") + LINES[ending].format("b\0c")
    with pytest.raises(DataError, match=f"nul{ending}, line 2: a NUL byte"):
        facts_in(tmp_path / f"nul{ending}", text.encode())


def test_a_nul_in_turtle_is_refused_or_escaped(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not Turtle"):
        facts_in(tmp_path / "nul.ttl", TRIPLE.format("b\0c").encode())
    kept = facts_in(tmp_path / "nul.ttl", b'<http://e.x/a> <http://e.x/r> "b\0c" .', literals=True)
    assert [tail for _, _, tail in kept] == ['"b\\u0000c"']


@pytest.mark.parametrize("ending", LINES)
def test_mixed_newlines_and_a_mark_make_no_difference(tmp_path: Path, ending: str) -> None:
    lines = [LINES[ending].format(name).removesuffix("\n") for name in ("b", "c", "d", "e")]
    plain = facts_in(tmp_path / f"plain{ending}", "\n".join(lines).encode())
    assert len(plain) == 4
    assert facts_in(tmp_path / f"mixed{ending}", b"\xef\xbb\xbf" + "{}\r\n{}\n{}\r\n{}\r\n".format(*lines).encode()) == plain


@pytest.mark.parametrize("ending", [*LINES, ".rdf"])
def test_another_encoding_is_refused(tmp_path: Path, ending: str) -> None:
    text = LINES.get(ending, f'{RDF}<rdf:Description rdf:about="http://e.x/{{}}"/></rdf:RDF>').format("é")
    for encoding in ("utf-16", "latin-1"):
        with pytest.raises(DataError, match=r"UTF-8|UTF-16|well-formed"):
            facts_in(tmp_path / f"other{ending}", text.encode(encoding))


def test_names_that_look_alike_stay_apart(tmp_path: Path) -> None:
    names = ["Paris", "Pаris", "Parıs", "Paris\u200b", "PARIS", "e\u0301", "é", "ﬁ", "fi", "A\u00adB"]
    for ending in (".tsv", ".csv", ".nt", ".ttl"):
        facts = facts_in(tmp_path / f"alike{ending}", "".join(LINES[ending].format(name) for name in names).encode())
        assert len(facts) == len(names), ending
    (tmp_path / "check.tsv").write_text("".join(f"a\tr\t{name}\n" for name in names), encoding="utf-8")
    from relcode.graph.checks import lookalikes

    found = lookalikes(import_facts(tmp_path / "check.tsv", split=False).dataset)
    assert {"é", "e\u0301"} in map(set, found) and {"ﬁ", "fi"} in map(set, found) and {"Paris", "PARIS", "Paris\u200b"} in map(set, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '<!DOCTYPE rdf:RDF [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>' + RDF + "<e:x e:y='&b;'/></rdf:RDF>",
            "the entity 'b' is not a short plain text",
        ),
        ('<!DOCTYPE rdf:RDF [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + RDF + "<e:x>&a;</e:x></rdf:RDF>", "the entity 'a' is not"),
        ('<!DOCTYPE rdf:RDF [<!ENTITY % a "x">]>' + RDF + "</rdf:RDF>", "the entity 'a' is not"),
        (f'<!DOCTYPE rdf:RDF [<!ENTITY a "{"a" * 600}">]>{RDF}</rdf:RDF>', "the entity 'a' is not"),
        (RDF + "<rdf:Description><e:r>" * 2000, "elements within one another"),
        (RDF + '<rdf:Description rdf:about="http://e.x/a"><e:r rdf:resource="http://e.x/b"/></rdf:Description>', "is the file whole"),
        ('<?xml version="1.0" encoding="iso-8859-1"?>' + RDF + "</rdf:RDF>", "save it as UTF-8"),
    ],
)
def test_xml_made_to_do_harm_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        facts_in(tmp_path / "bad.rdf", text.encode())


def test_nesting_without_end_in_turtle_ends_well(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not Turtle"):
        facts_in(tmp_path / "deep.ttl", b"<http://e.x/a> <http://e.x/r> " + b"(" * 100_000)


def test_names_of_files_and_folders_in_data_are_only_names(tmp_path: Path) -> None:
    imported = import_facts([("../../etc/passwd", "/dev/null", "C:\\x")], split=False, out=tmp_path / "o")
    assert imported.dataset.entities.names == ("../../etc/passwd", "C:\\x")
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        ["o", "dataset.json", "train.npy", "valid.npy", "test.npy", "entities.arrow", "relations.arrow"]
    )
