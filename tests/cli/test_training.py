from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from family import family_facts
from rich.console import Console

import relcode as package
from relcode.cli import progress
from relcode.experiment import Advanced, Finished, Started, Validated

SMALL = ("--dim", 4, "--code-dim", 2, "--set", "sampling.edges=64", "--set", "sampling.tile=8", "--set", "sampling.noise_draws=4", "--device", "cpu")


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "family"
    folder.mkdir()
    for split, facts in family_facts().items():
        (folder / f"{split}.txt").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    return folder


def test_train_makes_a_run_and_prints_its_folder_alone(relcode, family_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = relcode("train", family_folder, "--epochs", 2, "--seed", 7, "--out", out, "--deterministic", *SMALL)
    assert (result.code, result.out) == (0, f"{out}\n")
    settings = package.load(out).settings
    assert (settings.recipe, settings.model.dim, settings.model.code_dim, settings.sampling.edges) == ("default", 4, 2, 64)
    assert (settings.training.epochs, settings.training.seed, settings.training.deterministic) == (2, 7, True)
    assert "training default on family" in result.err and f"relcode evaluate {out}" in result.err


def test_train_says_that_a_header_is_no_fact(relcode, tmp_path: Path) -> None:
    lines = ["head\trelation\ttail", *(f"e{i}\tr{step}\te{(i + step) % 40}" for i in range(40) for step in (1, 2, 3))]
    (tmp_path / "ring.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = relcode("train", tmp_path / "ring.tsv", "--epochs", 1, "--out", tmp_path / "run", *SMALL)
    assert (result.code, result.out) == (0, f"{tmp_path / 'run'}\n")
    assert "note: ring.tsv: the first line names the columns (head, relation, tail) and is left out" in result.err
    assert "head" not in package.load(tmp_path / "run").dataset.entities


def test_train_again_points_to_the_run_that_is_there(relcode, family_folder: Path, family_run: Path) -> None:
    before = sorted(path.name for path in family_run.rglob("*"))
    result = relcode("train", family_folder, "--out", family_run)
    assert result.code == 2 and f"relcode evaluate {family_run} measures" in result.err and "choose another folder" in result.err
    assert sorted(path.name for path in family_run.rglob("*")) == before


def test_without_out_the_folder_is_under_runs(relcode, family_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert relcode("train", family_folder, "--recipe", "base", "--epochs", 1, *SMALL).out == f"{Path('runs') / 'family-base'}\n"
    assert relcode("train", family_folder, "--recipe", "base", "--epochs", 1, *SMALL).out == f"{Path('runs') / 'family-base-2'}\n"


def test_minutes_end_a_training(relcode, family_folder: Path, tmp_path: Path) -> None:
    result = relcode("train", family_folder, "--epochs", 100_000, "--minutes", 0.01, "--out", tmp_path / "run", *SMALL)
    assert result.code == 0 and "the limit of 0.01 minutes is reached" in result.err


def test_a_complete_run_has_nothing_to_resume(relcode, family_run: Path) -> None:
    result = relcode("resume", family_run)
    assert result.code == 2 and "is complete" in result.err


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl-C to a console, not to a process")
def test_ctrl_c_saves_and_says_so_and_resume_goes_on(relcode, family_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "relcode", "train", family_folder, "--epochs", 100_000, "--out", out, "--set", "training.validations=0", *SMALL]
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stderr is not None and "training default" in process.stderr.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out_text, err_text = process.communicate(timeout=60)
    assert process.returncode == 130 and out_text == "" and "Traceback" not in err_text
    assert f"saved in {out}; go on with: relcode resume {out}" in err_text
    status = json.loads((out / "run.json").read_text())["status"]
    assert status["state"] == "stopped" and status["step"] > 0
    settings = json.loads((out / "settings.json").read_text())
    settings["training"]["minutes"] = status["seconds"] / 60 + 0.005
    (out / "settings.json").write_text(json.dumps(settings))
    result = relcode("resume", out)
    assert (result.code, result.out) == (0, f"{out}\n") and "from step" in result.err
    assert json.loads((out / "run.json").read_text())["status"]["state"] == "complete"


EVENTS = (
    Advanced(5, 10, 0.5, 1, 3.0, 3.0, 1234.0, 1.25, 0.5),
    Validated(0.5, 3.0, 12.0, 0.5, 0.75, True),
    Advanced(10, 10, 1.0, 1, 6.0, 0.0, 1234.0, 1.0, 0.25),
)


@pytest.mark.parametrize("width", [24, 120])
def test_a_bar_on_a_terminal_fits_its_width(family_run: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    terminal = io.StringIO()
    screen = Console(file=terminal, force_terminal=True, width=width, color_system=None, legacy_windows=False)
    monkeypatch.setattr(progress, "notices", lambda: screen)
    monkeypatch.setattr(progress, "has_terminal", lambda: True)
    run = package.load(family_run).run
    events = [Started(run, "cpu", 0, 10), *EVENTS, Finished(run, "all 1 epochs done")]
    assert list(progress.shown(events))[-1] is events[-1]
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", terminal.getvalue())
    assert max(len(line) for line in plain.splitlines() if "training joint+comp" not in line) <= width
    assert "100%" in plain and "epoch 1.0/1 · 1,234" in plain and "valid MRR 0.500" in plain


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_training_on_a_terminal_shows_a_bar(family_folder: Path, tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "relcode", "train", family_folder, "--epochs", 15, "--out", tmp_path / "run", *SMALL]
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "90"}
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as process:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side has closed
                break
            if not part:
                break
            drawn += part
        os.close(ours)
        assert process.stdout is not None and process.stdout.read() == f"{tmp_path / 'run'}\n"
    assert process.returncode == 0
    text = drawn.decode("utf-8")
    assert all(shown in text for shown in ("edges/s", "loss", "codes", "left", "valid MRR", "━", "done after"))
