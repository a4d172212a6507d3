from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relcode.graph.dataset import load_dataset

Command = Callable[..., Any]
TURTLE = """@prefix ex: <http://ex.org/> .
ex:Ada ex:parent ex:Bea ; ex:age 36 .
ex:Bea ex:parent ex:Cleo .
"""


def ring(path: Path) -> Path:
    lines = ["from,kind,to,year"] + [f"e{i},r{step},e{(i + step) % 40},{2000 + i % 10}" for i in range(40) for step in (1, 2, 3)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_import_says_what_was_read_and_skipped(relcode: Command, tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph", reason="pyoxigraph is not installed")
    (tmp_path / "a.ttl").write_text(TURTLE, encoding="utf-8")
    done = relcode("import", tmp_path / "a.ttl", "--out", tmp_path / "d", "--no-split")
    assert done.code == 0, done.err
    assert "Turtle" in done.out and "skipped 1: literals (keep them with --literals)" in done.out
    assert "prefixes: ex: http://ex.org/" in done.out and "3 entities, 1 relations" in done.out
    assert load_dataset(tmp_path / "d").entities.names == ("ex:Ada", "ex:Bea", "ex:Cleo")
    record = json.loads(relcode("import", tmp_path / "a.ttl", "--out", tmp_path / "e", "--no-split", "--literals", "--json").out)
    assert record["facts"] == {"train": 3, "valid": 0, "test": 0} and record["sources"][0]["form"] == "Turtle"


def test_an_imported_dataset_is_like_any_other(relcode: Command, tmp_path: Path) -> None:
    source = ring(tmp_path / "ring.csv")
    done = relcode("import", source, "--out", tmp_path / "d", "--head", "from", "--relation", "kind", "--tail", "to")
    assert done.code == 0, done.err
    shown = json.loads(relcode("datasets", "show", tmp_path / "d", "--json").out)
    assert shown["facts"] == {"train": 108, "valid": 6, "test": 6}
    assert relcode("datasets", "check", tmp_path / "d").out.splitlines()[-1] == "no leaks found"


def test_import_warns_of_a_header_and_of_names_that_are_nearly_the_same(relcode: Command, tmp_path: Path) -> None:
    (tmp_path / "de.csv").write_text("Subjekt;Prädikat;Objekt\nAcme;r;b\n Acme;r;c\nb;r;c\n", encoding="utf-8")
    done = relcode("import", tmp_path / "de.csv", "--out", tmp_path / "d", "--no-split")
    assert done.code == 0, done.err
    warnings = [line for line in done.out.splitlines() if line.startswith("warning: ")]
    assert "the first row (Subjekt, Prädikat, Objekt) is read as a fact" in warnings[0] and "--header" in warnings[0]
    assert ": 1, such as 'Acme' and ' Acme'; they are kept apart, see relcode datasets check" in warnings[1] and len(warnings) == 2
    assert done.out.count("Subjekt") == 1
    again = relcode("import", tmp_path / "de.csv", "--out", tmp_path / "e", "--no-split", "--header", "--json")
    assert json.loads(again.out)["facts"]["train"] == 3 and len(json.loads(again.out)["warnings"]) == 1


def test_split_by_share_and_by_time(relcode: Command, tmp_path: Path) -> None:
    source = ring(tmp_path / "ring.csv")
    columns = ("--head", "from", "--relation", "kind", "--tail", "to")
    assert relcode("split", source, "--out", tmp_path / "a", "--valid", "0.1", "--test", "0.1", *columns).code == 0
    assert len(load_dataset(tmp_path / "a").test) == 12
    done = relcode("split", source, "--out", tmp_path / "b", "--valid", "0.1", "--test", "0.1", "--time", "year", *columns)
    assert done.code == 0, done.err
    assert "split by year: train from 2000" in done.out


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="this system has no /dev/stdin")
def test_a_dash_is_standard_input(tmp_path: Path) -> None:
    def piped(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "relcode", "import", "-", "--no-split", "--out", str(tmp_path / "made"), *options]
        return subprocess.run(command, input="Ada,parent,Bea\nBea,parent,Cleo\n", capture_output=True, text=True, check=False)

    refused = piped()
    assert refused.returncode == 2 and "say what it holds with --format" in refused.stderr and not (tmp_path / "made").exists()
    done = piped("--format", "csv")
    assert done.returncode == 0, done.stderr
    assert len(load_dataset(tmp_path / "made").train) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "ring.csv", "--out", "d"], "say with --head, --relation and --tail which are meant"),
        (["import", "ring.csv", "--out", "here"], "here exists already"),
        (["import", "none.csv", "--out", "d"], "none.csv: no such file"),
        (["import", "ring.csv", "--out", "d", "--tail", "too"], "no column 'too': did you mean 'to'"),
        (["import", "ring.csv"], "Missing option '--out'"),
        (["import", "ring.csv", "--out", "d", "--most", "plenty"], "write an amount such as 2GB"),
        (["import", "ring.csv", "--out", "d", "--most", "100", "--head", "from", "--relation", "kind", "--tail", "to"], "more than 100 bytes"),
        (
            ["split", "ring.csv", "--out", "d", "--valid", "0.9", "--test", "0.9", "--head", "1", "--relation", "2", "--tail", "3"],
            "together more than 0",
        ),
    ],
)
def test_mistakes_are_one_line(relcode: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    text = ring(tmp_path / "ring.csv").read_text(encoding="utf-8")
    if len(arguments) == 4:
        (tmp_path / "ring.csv").write_text(text.replace("from,kind,to", "a,b,c"), encoding="utf-8")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    done = relcode(*arguments)
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "d").exists()


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no /dev/fd here")
def test_a_pipe_is_read_once_its_form_is_said(relcode: Command, tmp_path: Path) -> None:
    def pipe() -> str:
        read, write = os.pipe()
        os.write(write, b"a,r,b\nb,r,a\n")
        os.close(write)
        return f"/dev/fd/{read}"

    done = relcode("import", pipe(), "--out", tmp_path / "d", "--no-split")
    assert done.code == 2 and "a pipe can be read only once, so say what it holds with --format" in done.err and done.err.count("\n") == 1
    done = relcode("import", pipe(), "--out", tmp_path / "d", "--no-split", "--format", "csv")
    assert done.code == 0 and len(load_dataset(tmp_path / "d").train) == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
def test_what_cannot_be_written_is_not_blamed_on_a_full_disk(relcode: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,r,b\n", encoding="utf-8")
    done = relcode("import", tmp_path / "a.csv", "--out", "/proc/relcode-test", "--no-split")
    assert done.code == 2 and "cannot write /proc/relcode-test" in done.err and "choose another place with --out" in done.err
    assert "free space" not in done.err


def test_check_warns_and_counts(relcode: Command, tmp_path: Path) -> None:
    for split, lines in {
        "train": [f"h{i}\tr\tt{i}" for i in range(10)] + [f"t{i}\tback\th{i}" for i in range(9)],
        "valid": ["h0\tr\tt1"],
        "test": ["t9\tback\th9"],
    }.items():
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = relcode("datasets", "check", tmp_path)
    assert done.code == 0 and "Relations that nearly invert one another (1)" in done.out
    assert "warning: 1 (100.0%) of the test facts are in train under a relation that nearly repeats or nearly inverts theirs" in done.out
    assert json.loads(relcode("datasets", "check", tmp_path, "--json").out)["leaked"] == {"valid": 0, "test": 1}
