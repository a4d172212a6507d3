"""Functions that take any bytes and must do nothing worse than raise an error of ours; some compare two readers of the same bytes.

``FUZZED`` names them all, with a sound example each to begin mutations from. A function returns whether the bytes were read as facts.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from relcode.errors import RelcodeError
from relcode.formats.folders import read_dict, read_openke, read_openke_names
from relcode.formats.gather import Gatherer
from relcode.formats.ntriples import read_ntriples
from relcode.formats.prefixes import choose_prefixes, expand
from relcode.formats.rdf import read_rdf
from relcode.formats.reading import Batch, ReadOptions, Tally
from relcode.formats.tables import read_arrow, read_parquet, read_text_table
from relcode.graph.dataset import dataset_from_facts, open_dataset, read_labels, save_dataset
from relcode.graph.facts import facts_from_blocks
from relcode.graph.lines import split_blocks
from relcode.graph.unpack import opened

Fact = tuple[str, str, str]
MOST = 1 << 22
OPTIONS = ReadOptions(most_bytes=MOST, literals=True)


def facts_of(batches: Iterator[Batch]) -> Counter[Fact]:
    """Read all batches and check what every dataset made of them relies on."""
    gatherer, facts = Gatherer(), Counter[Fact]()
    for batch in batches:
        gatherer.add("train", batch)
        facts.update(batch.rows())
    if facts:
        names = list(gatherer.names())
        prefixes = choose_prefixes(names)
        assert all(expand(prefixes.shorten(name), prefixes.namespaces) == name for name in names)
        dataset = gatherer.finish("fuzzed", None)
        assert len(dataset.train) == len(facts)
        assert all(name.strip() and not set(name) & set("\t\n\r\0") for name in dataset.entities)
    return facts


def fuzz_lines(data: bytes) -> bool:
    """The reader of plain files of facts."""
    try:
        return len(facts_from_blocks(split_blocks(BytesIO(data), "fuzz", MOST), "fuzz")) > 0
    except RelcodeError:
        return False


def _text(form: str) -> Callable[[bytes], bool]:
    def fuzz(data: bytes) -> bool:
        try:
            return bool(facts_of(read_text_table(BytesIO(data), form, Tally("fuzz", form), OPTIONS)))
        except RelcodeError:
            return False

    return fuzz


def _rdf(form: str) -> Callable[[bytes], bool]:
    def fuzz(data: bytes) -> bool:
        read = False
        for skip_bad in (False, True):
            try:
                facts_of(read_rdf(BytesIO(data), form, Tally("fuzz", form), ReadOptions(most_bytes=MOST, literals=True, skip_bad=skip_bad)))
                read = True
            except RelcodeError:
                continue
        return read

    return fuzz


def _same(form: str) -> Callable[[bytes], bool]:
    """The fast reader against the plain one: the same facts, or an error from both."""

    def fuzz(data: bytes) -> bool:
        found = []
        for reader in (read_ntriples, read_rdf):
            tally = Tally("fuzz", form)
            try:
                found.append((facts_of(reader(BytesIO(data), form, tally, OPTIONS)), tally.graphs, tally.facts))
            except RelcodeError:
                found.append(None)
        if b"\0" in data:  # the fast one refuses NUL bytes everywhere
            return found[0] is not None
        assert found[0] == found[1], (found, data)
        return found[0] is not None

    return fuzz


@contextmanager
def file_with(data: bytes, name: str) -> Iterator[Path]:
    """Put bytes into a file for a while."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def _path(read: Callable[[Path], object], name: str) -> Callable[[bytes], bool]:
    def fuzz(data: bytes) -> bool:
        with file_with(data, name) as path:
            try:
                read(path)
                return True
            except RelcodeError:
                return False

    return fuzz


def _unpack(path: Path) -> None:
    with opened(path, MOST) as stream:
        while stream.read(1 << 16):
            pass


def _openke(path: Path) -> None:
    (path.parent / "entity2id.txt").write_text("2\na\t0\nb c\t1\n", encoding="utf-8")
    (path.parent / "relation2id.txt").write_text("1\nr\t0\n", encoding="utf-8")
    facts_of(read_openke(path.parent, "train", Tally("fuzz", "openke")))


def _stored() -> dict[str, bytes]:
    """Return the files of a stored dataset."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "stored"
        save_dataset(dataset_from_facts({"train": [("a", "r", "b"), ("b", "s", "é")], "test": [("a", "r", "c")]}), where)
        return {path.name: path.read_bytes() for path in where.iterdir()}


STORED = _stored()


def _store(name: str) -> Callable[[Path], None]:
    """A stored dataset with one file changed and its checksum made right: what a careful attacker would do."""

    def read(path: Path) -> None:
        data = path.read_bytes()
        files = {**STORED, name: data}
        if name != "dataset.json":
            manifest = json.loads(files["dataset.json"])
            manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            files["dataset.json"] = json.dumps(manifest).encode()
        folder = path.parent / "stored"
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        dataset = open_dataset(folder)
        assert len(dataset.fingerprint) == 64
        assert all(dataset.entities.find(entity) == number for number, entity in enumerate(dataset.entities))

    return read


TABLE = pa.table({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "é"]})


def _parquet_bytes() -> bytes:
    sink = BytesIO()
    pq.write_table(TABLE, sink)
    return sink.getvalue()


def _arrow_bytes() -> bytes:
    sink = BytesIO()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue()


NT = (
    '<http://e.x/a> <http://e.x/r> <http://e.x/é#b> .\n# c\n_:b1 <urn:x:r> "l\\n\\u00e9"@en .\n'
    '<http://e.x:80/?q=1> <http://e.x/%41> "5"^^<http://e.x/i> .\n'
)
TTL = '@prefix e: <http://e.x/> .\ne:a e:r e:b , [ e:r "x"@en , 5 ] ; a e:T .\n<http://e.x/é> e:r ( e:a e:b ) .\n'
XML = (
    '<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY e "http://e.x/">]>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:e="http://e.x/"><rdf:Description rdf:about="&e;a"><e:r rdf:resource="&e;b"/><e:r>text</e:r></rdf:Description></rdf:RDF>\n'
)

# Name: (function, a sound example). The second column of the table is where mutations start.
FUZZED: dict[str, tuple[Callable[[bytes], bool], bytes]] = {
    "lines": (fuzz_lines, "a\tr\tb\né\tr\ta\r\n".encode()),
    "tsv": (_text("tsv"), "head\trelation\ttail\na\tr\tb\né\tr\ta\r\n".encode()),
    "csv": (_text("csv"), 'a,r,"b ""c"", d"\né,r,a\n'.encode()),
    "ntriples": (_same("ntriples"), NT.encode()),
    "nquads": (_same("nquads"), (NT + "<http://e.x/a> <http://e.x/r> <http://e.x/b> <http://g/> .\n").encode()),
    "turtle": (_rdf("turtle"), TTL.encode()),
    "trig": (_rdf("trig"), (TTL + "e:g { e:a e:r e:c }\n").encode()),
    "rdfxml": (_rdf("rdfxml"), XML.encode()),
    "parquet": (_path(lambda path: facts_of(read_parquet(path, Tally("fuzz", "parquet"), OPTIONS)), "a.parquet"), _parquet_bytes()),
    "arrow": (_path(lambda path: facts_of(read_arrow(path, Tally("fuzz", "arrow"), OPTIONS)), "a.arrow"), _arrow_bytes()),
    "openke facts": (_path(_openke, "train2id.txt"), b"2\n0 1 0\n1 1 0\n"),
    "openke names": (_path(read_openke_names, "entity2id.txt"), "2\na\t0\né c\t1\n".encode()),
    "rotate names": (_path(read_dict, "entities.dict"), "0\ta\n1\té c\n".encode()),
    "labels": (_path(read_labels, "labels.tsv"), "a\tAda\nb\té\n".encode()),
    "gzip": (_path(_unpack, "a.gz"), gzip.compress(NT.encode())),
    "zstd": (_path(_unpack, "a.zst"), pa.compress(NT.encode(), codec="zstd", asbytes=True)),
    "stored manifest": (_path(_store("dataset.json"), "changed"), STORED["dataset.json"]),
    "stored facts": (_path(_store("train.npy"), "changed"), STORED["train.npy"]),
    "stored names": (_path(_store("entities.arrow"), "changed"), STORED["entities.arrow"]),
}


def mutated(example: bytes, rng: random.Random) -> bytes:
    """Change an example a little: bytes replaced, removed, doubled, or exchanged for the odd ones that parsers trip over."""
    odd = (
        b"\0",
        b"\r",
        b"\n",
        b"\t",
        b'"',
        b"<",
        b">",
        b"\\",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3",
        "é".encode(),
        b" ",
        b".",
        b"&",
        b"#",
        b"%",
        b"_:",
        b"\\u0041",
    )
    data = bytearray(example)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[place % len(data)] = rng.randrange(256)
        elif kind == 1:
            data[place:place] = rng.choice(odd)
        elif kind == 2:
            del data[place : place + rng.choice((1, 1, 4, 40))]
        elif kind == 3:
            other = rng.randrange(len(data) + 1)
            data[place:place] = data[other : other + rng.choice((1, 8, 40))]
        else:
            data[place : place + 8] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 8))))
    return bytes(data)


def run(name: str, cases: int, seed: int = 0) -> int:
    """Run one function on mutations of its example; return how many were read as facts. What crashes is shown with its seed."""
    function, example = FUZZED[name]
    rng = random.Random(f"{name} {seed}")
    read = 0
    for case in range(cases):
        data = mutated(example, rng)
        try:
            read += function(data)
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}, case {case}: {data!r}")
            raise
    return read
