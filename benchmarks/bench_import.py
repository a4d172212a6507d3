"""Time the import of RDF, and the opening of what was imported: one JSON line a form.

    python benchmarks/bench_import.py [--facts N] [--entities E] [--forms ntriples turtle trig rdfxml nquads csv] [--keep FOLDER]

Facts are generated into a temporary folder (about 145 bytes each as N-Triples). First the fast reader of N-Triples is compared with pyoxigraph on
a file that mixes plain lines with literals, blank nodes, comments and odd IRIs. Then each form is imported in a process of its own, so that the peak
of memory (the whole process) is its own, and opened again in another. ``facts_per_second`` is by the clock on the wall; ``load`` tells whether the
machine was busy otherwise. ``cpu_seconds`` is what all threads computed, ``main_thread_seconds`` the one that numbers the names: the other thread
works beside it, so on two quiet cores the wall clock shows little more than that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from relcode.formats.importing import import_facts
from relcode.formats.ntriples import read_ntriples
from relcode.formats.rdf import read_rdf
from relcode.formats.reading import ReadOptions, Tally
from relcode.graph.dataset import load_dataset
from relcode.runs.environment import environment

ENTITY, RELATION = "http://dbpedia.example/resource/Entity_", "http://dbpedia.example/ontology/relation"
RELATIONS = 500
ENDINGS = {"ntriples": ".nt", "nquads": ".nq", "turtle": ".ttl", "trig": ".trig", "rdfxml": ".rdf", "csv": ".csv"}
HEADERS = {
    "turtle": f"@prefix e: <{ENTITY}> .\n@prefix r: <{RELATION}> .\n",
    "trig": f"@prefix e: <{ENTITY}> .\n@prefix r: <{RELATION}> .\n<http://dbpedia.example/graph> {{\n",
    "rdfxml": f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:r="{RELATION}">\n',
}
FOOTERS = {"trig": "}\n", "rdfxml": "</rdf:RDF>\n"}
LINES = {
    "ntriples": f"<{ENTITY}%d> <{RELATION}%d> <{ENTITY}%d> .\n",
    "nquads": f"<{ENTITY}%d> <{RELATION}%d> <{ENTITY}%d> <http://dbpedia.example/graph> .\n",
    "turtle": "e:%d r:%d e:%d .\n",
    "trig": "e:%d r:%d e:%d .\n",
    "rdfxml": f'<rdf:Description rdf:about="{ENTITY}%d"><r:_%d rdf:resource="{ENTITY}%d"/></rdf:Description>\n',
    "csv": "Entity_%d,relation%d,Entity_%d\n",
}


def numbers(count: int, entities: int) -> Iterator[list[tuple[int, int, int]]]:
    """Go through random facts, some thousands at a time, the same ones each time."""
    rng = np.random.default_rng(0)
    for start in range(0, count, 100_000):
        size = min(100_000, count - start)
        yield list(
            zip(
                rng.integers(0, entities, size).tolist(),
                rng.integers(0, RELATIONS, size).tolist(),
                rng.integers(0, entities, size).tolist(),
                strict=True,
            )
        )


def generate(path: Path, form: str, count: int, entities: int) -> None:
    """Write a file of facts."""
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.write(HEADERS.get(form, ""))
        for block in numbers(count, entities):
            handle.write("".join([LINES[form] % fact for fact in block]))
        handle.write(FOOTERS.get(form, ""))


def check_agreement() -> int:
    """Compare the fast reader with pyoxigraph on lines of many kinds; return how many facts both found."""
    odd = [
        '<http://e.x/é> <http://e.x/r> "a \\"b\\" .\\n"@en .\n',
        "_:b1 <http://e.x/r> <http://e.x/a\\u00e9> . # comment\n",
        "<http://user@e.x:8080/[1]> <urn:x:y> _:b1 .\n".replace("[1]", "%5B1%5D"),
        "\n# a comment\n",
        '<http://e.x/a> <http://e.x/r> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .\r\n',
    ]
    plain = [LINES["ntriples"] % fact for block in numbers(50_000, 5_000) for fact in block]
    text = "".join(line if number % 7 else line + odd[number // 7 % len(odd)] for number, line in enumerate(plain)).encode()
    found = []
    for reader in (read_ntriples, read_rdf):
        tally = Tally("check", "ntriples")
        options = ReadOptions(literals=True)
        found.append(Counter(fact for batch in reader(BytesIO(text), "ntriples", tally, options) for fact in batch.rows()))
    if found[0] != found[1]:
        raise SystemExit("the fast reader and pyoxigraph differ")
    return found[0].total()


def measure(path: Path, out: Path) -> dict[str, object]:
    """Import one file and return what it took."""
    start, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
    imported = import_facts(path, out=out)
    seconds, cpu, thread = time.perf_counter() - start, time.process_time() - cpu, time.thread_time() - thread
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    facts = imported.summary.sources[0].facts
    return {
        "benchmark": "import",
        "form": imported.summary.sources[0].form,
        "facts": facts,
        "entities": imported.summary.entities,
        "file_mb": round(path.stat().st_size / 1e6),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "main_thread_seconds": round(thread, 2),
        "facts_per_second": round(facts / seconds),
        "peak_mb": round(peak / 1e6),
    }


def measure_opening(out: Path) -> dict[str, object]:
    """Open an imported dataset, look one name up, and return how long that took."""
    start, cpu = time.perf_counter(), time.process_time()
    dataset = load_dataset(out)
    dataset.entities.index(dataset.entities[len(dataset.entities) // 2])
    return {"open_seconds": round(time.perf_counter() - start, 3), "open_cpu_seconds": round(time.process_time() - cpu, 3)}


def in_process(*arguments: str) -> dict[str, object]:
    """Run a part of this program in a process of its own and return the record it prints."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    record: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return record


def main() -> None:
    """Check, generate, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=10_000_000)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--forms", nargs="+", choices=list(ENDINGS), default=["ntriples", "turtle"])
    parser.add_argument("--import", nargs=2, dest="import_", help=argparse.SUPPRESS)
    parser.add_argument("--open", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.import_:
        print(json.dumps(measure(*map(Path, arguments.import_))))
        return
    if arguments.open:
        print(json.dumps(measure_opening(Path(arguments.open))))
        return
    agreed = check_agreement()
    for form in arguments.forms:
        with tempfile.TemporaryDirectory(prefix="bench-import-") as folder:
            path, out = Path(folder) / f"facts{ENDINGS[form]}", Path(folder) / "dataset"
            generate(path, form, arguments.facts, arguments.entities)
            record = in_process("--import", str(path), str(out))
            load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
            print(json.dumps({**record, **in_process("--open", str(out)), "load": load, "readers_agree_on": agreed, **environment()}), flush=True)


if __name__ == "__main__":
    main()
