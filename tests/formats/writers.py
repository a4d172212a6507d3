"""The same facts in every form that can be read: what a test writes, an import must give back."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

Fact = tuple[str, str, str]


def iri(name: str) -> str:
    """Return an IRI for a name: its letters, and every other character as a hexadecimal number."""
    return "http://e.x/n/" + "".join(letter if letter.isascii() and letter.isalnum() else f"_{ord(letter):x}_" for letter in name)


def table(facts: Sequence[Fact]) -> pa.Table:
    columns = list(zip(*facts, strict=True)) or [(), (), ()]
    return pa.table({name: pa.array(column, pa.utf8()) for name, column in zip(("head", "relation", "tail"), columns, strict=True)})


def triples(facts: Sequence[Fact]) -> str:
    return "".join(" ".join(f"<{iri(name)}>" for name in fact) + " .\n" for fact in facts)


def turtle(facts: Sequence[Fact]) -> str:
    return "@prefix n: <http://e.x/n/> .\n" + triples(facts)


def rdfxml(facts: Sequence[Fact]) -> str:
    rows = "".join(
        f'<rdf:Description rdf:about="{iri(h)}"><n:{iri(r).removeprefix("http://e.x/n/")} rdf:resource="{iri(t)}"/></rdf:Description>\n'
        for h, r, t in facts
    )
    return f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:n="http://e.x/n/">\n{rows}</rdf:RDF>\n'


def _text(make: Callable[[Sequence[Fact]], str], newline: str = "\n") -> Callable[[Path, Sequence[Fact]], None]:
    def write(path: Path, facts: Sequence[Fact]) -> None:
        path.write_bytes(make(facts).replace("\n", newline).encode())

    return write


def _csv(path: Path, facts: Sequence[Fact]) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as handle:
        csv.writer(handle).writerows([("subject", "predicate", "object"), *facts])


def _packed(write: Callable[[Path, Sequence[Fact]], None]) -> Callable[[Path, Sequence[Fact]], None]:
    def pack(path: Path, facts: Sequence[Fact]) -> None:
        write(path, facts)
        data = path.read_bytes()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else pa.compress(data, codec="zstd", asbytes=True))

    return pack


def _arrow(path: Path, facts: Sequence[Fact]) -> None:
    with pa.ipc.new_file(str(path), table(facts).schema) as writer:
        writer.write_table(table(facts))


def _tsv(facts: Sequence[Fact]) -> str:
    return "".join("\t".join(fact) + "\n" for fact in facts)


def _openke(path: Path, facts: Sequence[Fact]) -> None:
    path.mkdir()
    entities, relations = sorted({n for h, _, t in facts for n in (h, t)}), sorted({r for _, r, _ in facts})
    for file, names in (("entity2id.txt", entities), ("relation2id.txt", relations)):
        (path / file).write_text(f"{len(names)}\n" + "".join(f"{name}\t{number}\n" for number, name in enumerate(names)), encoding="utf-8")
    rows = "".join(f"{entities.index(h)} {entities.index(t)} {relations.index(r)}\n" for h, r, t in facts)
    (path / "train2id.txt").write_text(f"{len(facts)}\n{rows}", encoding="utf-8")


def _rotate(path: Path, facts: Sequence[Fact]) -> None:
    path.mkdir()
    names = (("entities.dict", {n for h, _, t in facts for n in (h, t)}), ("relations.dict", {r for _, r, _ in facts}))
    for file, some in names:
        (path / file).write_text("".join(f"{number}\t{name}\n" for number, name in enumerate(sorted(some))), encoding="utf-8")
    (path / "train.txt").write_text(_tsv(facts), encoding="utf-8")


# File name: (writer, whether names become IRIs).
WRITERS: dict[str, tuple[Callable[[Path, Sequence[Fact]], None], bool]] = {
    "a.tsv": (_text(_tsv), False),
    "b.tsv": (_text(_tsv, "\r\n"), False),
    "a.txt.gz": (_packed(_text(_tsv)), False),
    "a.csv": (_csv, False),
    "a.csv.zst": (_packed(_csv), False),
    "a.parquet": (lambda path, facts: pq.write_table(table(facts), path), False),
    "a.feather": (lambda path, facts: feather.write_feather(table(facts), str(path), compression="zstd"), False),
    "a.arrow": (_arrow, False),
    "a.nt": (_text(triples), True),
    "a.nt.gz": (_packed(_text(triples)), True),
    "a.nt.zst": (_packed(_text(triples)), True),
    "a.nq": (_text(lambda facts: triples(facts).replace(" .\n", " <http://g/> .\n")), True),
    "a.ttl": (_text(turtle), True),
    "a.trig": (_text(turtle), True),
    "a.rdf": (_text(rdfxml), True),
    "openke": (_openke, False),
    "rotate": (_rotate, False),
}
