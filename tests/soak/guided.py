"""Fuzz guided by coverage: ``python tests/soak/guided.py --cases 300000 --seed 1``, as ``make soak`` does after its other cases.

Atheris (libFuzzer for Python) changes bytes, sees which branches of ours they reach, and goes on from those that reach new ones. It needs a Python
that it has a wheel for; where it is not installed, that is said and nothing is done. Readers that are Python are met this way (in those of C++ and
Rust it sees no branches), each in a process of its own, beginning with sound examples. Prints a line of JSON for each; what breaks something is
shown, and left in ``--keep``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

LONGEST = 4096  # bytes of a case, or those of the example where it is longer
SLOW = 5  # a run folder takes so many times as long: fewer cases of it
SECONDS_A_CASE = 60  # one that takes longer counts as broken
OURS = ["relcode", "numpy.lib"]  # whose branches guide: ours, and the readers of NumPy's headers, which are Python too
PARSERS = ("lines", "tsv", "csv", "ntriples", "turtle", "rdfxml", "openke facts", "openke names", "rotate names", "labels", "stored manifest")
KEYS = ("format", "status", "step", "best", "checkpoint", "previous", "data", "entities", "dtype", "shape", "data_offsets", "__metadata__")
MARKS = ("null", "1e999", "NaN", "\\u0000", "../", "^", "@prefix ", "_:", "^^<", "<!ENTITY ", "<![CDATA[", "rdf:about=", '""', "\r\n", "\ufeff")
WORDS = (*(f'"{key}":' for key in KEYS), *MARKS, "{'descr': '<f4', 'fortran_order': False, 'shape': (", "head\trelation\ttail")
Met = tuple[Callable[[bytes], object], tuple[bytes, ...]]


def met() -> dict[str, Met]:
    """Return what is met, by name: a function that takes any bytes, and sound examples."""
    from formats.fuzz_parsers import FUZZED
    from soak import targets

    in_run, in_authors = (*targets.JSONS, *targets.TABLES, *targets.WEIGHTS), targets.AUTHORS_FILES
    return {
        **{name: (FUZZED[name][0], (FUZZED[name][1],)) for name in PARSERS},
        "strict JSON": (targets.strict_json, (targets.original("run.json"),)),
        "settings": (targets.settings_text, (targets.original("settings.json"),)),
        "weight files": (targets.tensors, (targets.original("best.safetensors"),)),
        "paths": (_path, (b"parent/^sibling/<spouse>", b"/film/film/country", b"^<a b> / parent")),
        "run folders": (
            _one_of(in_run, lambda name, content: targets.run_folder({name: content}, question=False)),
            tuple(bytes([place]) + targets.original(name) for place, name in enumerate(in_run)),
        ),
        "authors' models": (
            _one_of(in_authors, lambda name, content: targets.authors_folder((name, content))),
            tuple(bytes([place]) + targets._authors_original(name) for place, name in enumerate(in_authors)),
        ),
    }


def _one_of(names: Sequence[str], meet: Callable[[str, bytes], bool]) -> Callable[[bytes], bool]:
    """Return a function of bytes the first of which says which file the others are put into."""
    return lambda data: meet(names[data[0] % len(names)], data[1:]) if data else False


def _path(content: bytes) -> bool:
    """A path of relations as a user types it, read and written out again."""
    from soak.targets import accepted

    from relcode.graph.paths import format_path, parse_path
    from relcode.graph.vocab import Vocab

    relations = Vocab(["parent", "sibling", "spouse", "/film/film/country", "^odd", "a b", "<x>"], "relation")

    def read() -> None:
        path = parse_path(content.decode("utf-8", "replace"), relations)
        assert parse_path(format_path(path, relations), relations) == path

    return accepted(read)


def child(name: str, arguments: list[str]) -> None:
    """Meet one target in this process, as libFuzzer's ``arguments`` say; it ends the process."""
    import atheris

    typing.get_type_hints = functools.cache(typing.get_type_hints)  # as in run.py
    with atheris.instrument_imports(include=OURS):
        function, _ = met()[name]
        from soak.targets import FAST
    tempfile.tempdir = FAST
    atheris.Setup([sys.argv[0], *arguments], lambda data: function(data) and None)
    atheris.Fuzz()


def guided(name: str, count: int, seed: int, keep: Path) -> dict[str, object]:
    """Meet one target in a process of its own; a ``SystemExit`` where something breaks."""
    examples = met()[name][1]
    longest = max(LONGEST, 2 * max(map(len, examples)))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="guided-") as folder:
        corpus, words = Path(folder) / "corpus", Path(folder) / "words"
        corpus.mkdir()
        for place, example in enumerate(examples):
            (corpus / f"{place}").write_bytes(example)
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS), encoding="ascii")
        limits = [f"-runs={count}", f"-seed={seed + 1}", f"-timeout={SECONDS_A_CASE}", f"-max_len={longest}", "-rss_limit_mb=4096"]
        told = [f"-dict={words}", f"-artifact_prefix={keep}/", "-print_final_stats=1", "-verbosity=1"]
        command = [sys.executable, __file__, "--child", name, *limits, *told, str(corpus)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env={**os.environ, "OMP_NUM_THREADS": "1"})
        kept = len(list(corpus.iterdir()))
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-6000:], sep="\n", file=sys.stderr)
        raise SystemExit(f"{name}: broken by a case that is kept in {keep}")
    (executed,) = re.findall(r"number_of_executed_units: (\d+)", done.stderr)
    branches = re.findall(r"cov: (\d+)", done.stderr)[-1]
    seconds = round(time.perf_counter() - began, 1)
    return {"target": name, "cases": int(executed), "branches": int(branches), "kept": kept, "seconds": seconds}


def _escaped(word: str) -> str:
    """Write a word as libFuzzer's dictionaries have it."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word.encode())


def main() -> None:
    """Read the arguments and fuzz."""
    parser = argparse.ArgumentParser(description="Fuzz guided by coverage.")
    parser.add_argument("--cases", type=int, default=300_000, help="how many, all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one target alone, all cases for it")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()), help="where what breaks something is left")
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("not guided by coverage: atheris is not installed (it has wheels for Linux)", file=sys.stderr)
        return
    chosen = [name for name in met() if options.only in (None, name)]
    weight = {name: 1 / SLOW if name in ("run folders", "stored manifest") else 1.0 for name in chosen}
    total = 0
    for name in chosen:
        found = guided(name, max(1, round(options.cases * weight[name] / sum(weight.values()))), options.seed, options.keep)
        total += int(str(found["cases"]))
        print(json.dumps(found), flush=True)
    print(json.dumps({"target": "all, guided", "cases": total}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    else:
        main()
