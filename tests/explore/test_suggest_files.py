from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import relcode
from relcode.errors import OutputError
from relcode.explore.model import Model
from relcode.explore.suggest import Suggester, Wanted, suggest
from relcode.explore.suggest_files import partial_path, write_suggestions

SOURCE = Path(relcode.__file__).parents[1]


@pytest.fixture(scope="module")
def model(family_run: Path) -> Model:
    return relcode.load(family_run, device="cpu")


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_file_holds_all_in_order(model: Model, tmp_path: Path) -> None:
    out = tmp_path / "facts.jsonl"
    seen: list[tuple[int, int]] = []
    count = write_suggestions(Suggester(model, Wanted(top=9)), out, progress=lambda done, total: seen.append((done, total)))
    expected = [one.to_json() for one in suggest(model, top=9)]
    assert rows(out) == expected and count == len(expected)
    assert seen == sorted(seen) and seen[0][0] == 0 and seen[-1][0] == seen[-1][1] and not partial_path(out).exists()


class Stopped(Exception):
    """What stops a search in the midst."""


@pytest.mark.parametrize("torn", ["", '{"head": "Ada', '{"head": "Ada_1", "relation": "spouse"}\n', "\0\0\0\n"])
def test_a_stopped_search_goes_on(model: Model, tmp_path: Path, torn: str) -> None:
    out = tmp_path / "facts.jsonl"
    work = Suggester(model, Wanted(top=5))
    asked: list[int] = []

    def stop(done: int, total: int) -> None:
        asked.append(done)
        if len(asked) == 4:
            raise Stopped

    with pytest.raises(Stopped):
        write_suggestions(work, out, progress=stop)
    assert partial_path(out).exists() and not out.exists()
    with partial_path(out).open("a", encoding="utf-8") as handle:  # as a process leaves it that is killed while it writes
        handle.write(torn)
    searched: list[int] = []
    again = Suggester(model, Wanted(top=5))
    find = again.found
    again.found = lambda search: (searched.append(search.relation), find(search))[1]  # type: ignore[method-assign]
    write_suggestions(again, out)
    assert searched == [search.relation for search in work.searches[3:]]
    assert rows(out) == [one.to_json() for one in suggest(model, top=5)]


def test_another_search_begins_anew(model: Model, tmp_path: Path) -> None:
    out = tmp_path / "facts.jsonl"
    partial_path(out).write_text('{"format": 1, "wanted": "something else"}\n{"end": 0}\n', encoding="utf-8")
    write_suggestions(Suggester(model, Wanted(top=2)), out)
    assert rows(out) == [one.to_json() for one in suggest(model, top=2)]


def test_a_file_that_is_there_is_not_written_over(model: Model, tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        write_suggestions(Suggester(model, Wanted(top=2)), tmp_path / "facts.tsv")
    assert (tmp_path / "facts.tsv").read_text() == "mine"
    with pytest.raises(OutputError, match="cannot write"):
        write_suggestions(Suggester(model, Wanted(top=2)), tmp_path / "nowhere" / "facts.tsv")


def test_facts_asked_for_from_both_ends_come_once(model: Model, tmp_path: Path) -> None:
    wanted = Wanted(relations=("spouse", "^spouse"), heads=("Ada_4", "Abe_4"), top=100)
    out = tmp_path / "facts.jsonl"
    write_suggestions(Suggester(model, wanted), out)
    found = [tuple(row[name] for name in ("head", "relation", "tail")) for row in rows(out)]
    assert len(found) == len(set(found)) > 100


SLOW = """
import sys, time
from relcode.explore import suggest as module
find = module.Suggester.found
def slowly(self, search):
    time.sleep(0.4)
    return find(self, search)
module.Suggester.found = slowly
from relcode.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_killed_process_goes_on(family_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "facts.tsv"
    run = shutil.copytree(family_run, tmp_path / "run")  # the command calibrates it
    arguments = ["suggest", str(run), "--top", "4", "--out", str(out), "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen([sys.executable, "-c", SLOW, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waited = time.monotonic()
    while time.monotonic() - waited < 60 and not (partial_path(out).exists() and partial_path(out).read_text(encoding="utf-8").count('"end"') >= 2):
        assert started.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    started.kill()
    started.wait()
    kept = partial_path(out).read_text(encoding="utf-8")
    assert 2 <= kept.count('"end"') < 6 and not out.exists()
    done = subprocess.run(
        [sys.executable, "-m", "relcode", *arguments], env=environment, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.returncode == 0 and "going on with it" in done.stderr, done.stderr
    whole = tmp_path / "whole.tsv"
    subprocess.run([sys.executable, "-m", "relcode", *arguments[:5], str(whole), *arguments[6:]], env=environment, check=True, capture_output=True)
    assert out.read_bytes() == whole.read_bytes() and not partial_path(out).exists()
