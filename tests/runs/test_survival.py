"""Runs that survive: killed processes, full disks, two writers, lost checkpoints, older versions."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from runs.short import CPU, ended, lasting, short

import relcode
from relcode import experiment
from relcode.config import Settings
from relcode.errors import OutputError, RelcodeError, RunError
from relcode.experiment import Advanced, Event, resume, train
from relcode.explore.model import Model
from relcode.graph.dataset import Dataset
from relcode.recipes import RECIPES
from relcode.runs import files, saving
from relcode.runs.lock import claim, release
from relcode.runs.run import Run, create_run, open_run
from relcode.training.advance import initial_state

resource = pytest.importorskip("resource", reason="limits on files are set here")
OLD_RUNS = sorted((Path(__file__).parents[1] / "data" / "runs").iterdir())
KILLS = 20
LONG = {"joint+comp": short("joint+comp", training__epochs=40, training__validations=20)}
if "default" in RECIPES:  # Adagrad: sums of squares are part of the state
    LONG["default"] = short("default", training__epochs=8, training__validations=4, softmax__questions=64)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="real processes are forked here")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at every step and write all the time, so that most moments are in the middle of a writing."""
    monkeypatch.setattr(experiment, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(experiment, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(experiment, "SAVING_SHARE", 1e9)


def in_child(work: Callable[[], None]) -> tuple[int, int]:
    """Do something in a process of its own; return its number and an open pipe that gets an x for each call of ``sys.stdout.write``."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        torch.set_num_threads(1)
        os.dup2(writing, 1)
        work()
        code = 0
    except RelcodeError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(2, f"{error}\n".encode())
        code = error.exit_code
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        code = 99
    os._exit(code)


def steps_shown(events: Iterator[Event], most: int = 10**9) -> None:
    """Write an x for each step, and wait for what may come after ``most``."""
    for number, _ in enumerate((event for event in events if isinstance(event, Advanced)), start=1):
        os.write(1, b"x")
        if number >= most:
            time.sleep(600)


def life(folder: Path, dataset: Dataset, settings: Settings, steps: int, delay: float) -> bool:
    """Train or resume in a process of its own and kill it ``delay`` seconds after it has taken ``steps`` steps; False where it ended before."""
    child, pipe = in_child(lambda: steps_shown(resume(folder) if folder.exists() else train(dataset, settings, folder), steps + 2))
    seen = 0
    while seen < steps and (got := os.read(pipe, 1)):
        seen += len(got)
    ends = time.monotonic() + delay
    while (left := ends - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0] and os.read(pipe, 4096):
        pass
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(pipe)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize(("name", "times"), [("joint+comp", KILLS), ("default", 5)][: len(LONG)])
@pytest.mark.parametrize("lag", [0, 1], ids=["at once", "meanwhile"])
def test_a_process_killed_twenty_times_goes_on_to_the_same_bits(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, times: int, lag: int
) -> None:
    """Each life takes some steps and is killed within the step and the checkpoint that follow, wherever it is by then.

    ``lag`` is how many checkpoints may be under way while training goes on.
    Whether a kill meets a writing is luck; the next test does not leave it to that.
    """
    if lag:
        monkeypatch.setattr(saving, "AT_ONCE", 0)
    whole = ended(train(family, LONG[name], tmp_path / "whole"))
    folder, rng, kills, last = tmp_path / "run", random.Random(0), 0, 0
    per_life = min(10, whole.status.step // times - 3 - lag)  # they take two more at most
    while kills < times:
        killed = life(folder, family, LONG[name], per_life, rng.uniform(0, 0.02))
        run = open_run(folder)
        assert killed, f"ended by itself after {kills} kills"
        assert run.status.state == "running" and run.status.step >= last + per_life - 1 - lag, "more is lost than the steps since the checkpoint"
        run.load_parameters(), run.load_state(CPU)
        kills, last = kills + 1, run.status.step
    ended(resume(folder))
    assert lasting(folder) == lasting(tmp_path / "whole")
    assert not list(folder.rglob("*.part")) and not (folder / ".lock").exists()


@pytest.mark.parametrize("place", ["write", "fsync", "replace", "replaced"])
@pytest.mark.parametrize(("number", "at_once"), [(1, 2**30), (3, 2**30), (3, 0)])
def test_killed_in_the_middle_of_a_checkpoint(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int, at_once: int
) -> None:
    """The process kills itself at a place inside the n-th writing of a checkpoint: half written, not flushed, not renamed, not yet counted."""
    monkeypatch.setattr(saving, "AT_ONCE", at_once)
    settings = short(training__epochs=3)
    ended(train(family, settings, tmp_path / "whole"))

    def die_there() -> None:
        count = 0

        def maybe_die(path: object, first: Callable[[], None] = lambda: None) -> None:
            nonlocal count
            count += "checkpoints" in str(path) and ".safetensors" in str(path)
            if count == number + 1:  # the first is the run's own beginning
                first()
                os.kill(os.getpid(), signal.SIGKILL)

        save_file, replace, fsync = files.save_file, os.replace, os.fsync

        def half(tensors: dict[str, torch.Tensor], draft: Path, metadata: dict[str, str]) -> str:
            digest = save_file(tensors, draft, metadata)
            if place == "write":
                maybe_die(draft, lambda: os.truncate(draft, os.path.getsize(draft) // 2))
            return digest

        files.save_file = half
        if place == "replace":
            os.replace = lambda source, target: (maybe_die(target), replace(source, target))[1]  # type: ignore[assignment]
        if place == "replaced":
            os.replace = lambda source, target: (replace(source, target), maybe_die(target))[0]  # type: ignore[assignment]
        if place == "fsync":
            os.fsync = lambda handle: (maybe_die(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))[1]
        steps_shown(train(family, settings, tmp_path / "run"))

    if place == "fsync" and not Path("/proc/self/fd").exists():
        pytest.skip("open files cannot be named here")
    child, pipe = in_child(die_there)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    os.close(pipe)
    run = open_run(tmp_path / "run")
    assert run.status.state == "running" and run.load_state(CPU).step == run.status.step
    ended(resume(tmp_path / "run"))
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole")


# -- two at once


def test_two_processes_never_write_one_run(family: Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    child, pipe = in_child(lambda: steps_shown(train(family, LONG["joint+comp"], folder)))
    os.read(pipe, 1)
    os.kill(child, signal.SIGSTOP)
    try:
        before = (folder / "run.json").read_bytes()
        with pytest.raises(RunError, match=rf"run is being trained by another process \(process {child} on .*\): wait for it, or stop it") as caught:
            list(resume(folder))
        assert "\n" not in str(caught.value) and (folder / "run.json").read_bytes() == before
        Model.open(folder, "cpu")  # reading is free
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(pipe)
    events = resume(folder)  # a dead process holds nothing
    next(events)
    events.close()
    release(folder)


def test_what_another_process_has_changed_is_not_overwritten(family: Dataset, tmp_path: Path) -> None:
    state = initial_state(family, short(), CPU)
    create_run(tmp_path / "run", family, short(), CPU, state).with_status(state="stopped")
    mine = open_run(tmp_path / "run")
    child, pipe = in_child(lambda: open_run(tmp_path / "run").with_status(state="complete", reason="done elsewhere") and None)
    assert os.waitpid(child, 0)[1] == 0
    os.close(pipe)
    with pytest.raises(RunError, match="was changed by another process after it was opened: try again"):
        mine.with_status(state="running")
    assert open_run(tmp_path / "run").status.reason == "done elsewhere" and not (tmp_path / "run" / ".lock").exists()


def test_a_lock_is_this_processs_own(tmp_path: Path) -> None:
    assert claim(tmp_path) and not claim(tmp_path)
    child, pipe = in_child(lambda: claim(tmp_path) and None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == RunError.exit_code
    os.close(pipe)
    release(tmp_path)
    release(tmp_path)
    assert list(tmp_path.iterdir()) == [] and claim(tmp_path)
    release(tmp_path)


def test_a_lock_that_is_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match=r"cannot write .*\.lock"):
        claim(tmp_path / "run")
    assert not (tmp_path / "elsewhere").exists()


# -- full disks


@pytest.mark.parametrize(("room", "lag"), [(0, 0), (3000, 0), (9000, 0), (3000, 1)])
def test_a_disk_that_fills_up_leaves_the_last_good_state(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], room: int, lag: int
) -> None:
    """No file may grow beyond ``room`` bytes any more, as the system itself sees to it; then there is room again."""
    if lag:
        monkeypatch.setattr(saving, "AT_ONCE", 0)
    ended(train(family, short(), tmp_path / "whole"))

    def work() -> None:
        events = train(family, short(), tmp_path / "run")
        for event in events:
            if isinstance(event, Advanced) and event.step >= 9:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    child, pipe = in_child(work)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == OutputError.exit_code
    os.close(pipe)
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "cannot write" in said and str(tmp_path / "run") in said
    run = open_run(tmp_path / "run")
    assert 8 - lag <= run.status.step <= 9 and run.load_state(CPU).step == run.status.step and not list(run.folder.rglob("*.part"))
    ended(resume(tmp_path / "run"))
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole")


def test_no_room_for_a_new_run_leaves_nothing(family: Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
        list(train(family, short(), tmp_path / "run"))

    child, pipe = in_child(work)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == OutputError.exit_code
    os.close(pipe)
    assert capfd.readouterr().err.count("\n") == 1 and list(tmp_path.iterdir()) == []


# -- back to the state before


def stopped_at(step: int, dataset: Dataset, folder: Path) -> Run:
    for event in (events := train(dataset, short("joint+comp"), folder)):
        if isinstance(event, Advanced) and event.step >= step:
            signal.raise_signal(signal.SIGINT)
            break
    return ended(events)


@pytest.mark.parametrize("step", [3, 17])
@pytest.mark.parametrize("damage", ["flipped", "truncated"])
def test_a_damaged_checkpoint_can_be_removed_to_go_on_from_the_one_before(family: Dataset, tmp_path: Path, step: int, damage: str) -> None:
    ended(train(family, short("joint+comp"), tmp_path / "whole"))
    run = stopped_at(step, family, tmp_path / "run")
    older, newer = sorted((run.folder / "checkpoints").iterdir())
    content = newer.read_bytes()
    newer.write_bytes(content[:-1] if damage == "truncated" else content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(RunError, match=f"{newer.name} is damaged.*; remove it to go on from the state before, {older.name}$"):
        list(resume(run.folder))
    newer.unlink()
    back = open_run(run.folder)
    assert back.status.step < run.status.step and back.load_state(CPU).step == back.status.step == int(older.stem)
    ended(resume(run.folder))
    assert lasting(run.folder) == lasting(tmp_path / "whole")


def test_a_checkpoint_before_that_is_damaged_too_is_refused(family: Dataset, tmp_path: Path) -> None:
    run = stopped_at(9, family, tmp_path / "run")
    older, newer = sorted((run.folder / "checkpoints").iterdir())
    newer.unlink()
    content = older.read_bytes()
    older.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(RunError, match=f"{older.name} is damaged: its checksum"):
        list(resume(run.folder))
    older.write_bytes(content[:100])
    with pytest.raises(RunError, match=f"{older.name} is damaged"):
        open_run(run.folder)


def test_a_complete_run_without_its_checkpoints_still_answers(family: Dataset, tmp_path: Path) -> None:
    run = ended(train(family, short(), tmp_path / "run"))
    for path in (run.folder / "checkpoints").iterdir():
        path.unlink()
    assert open_run(run.folder).status == run.status
    Model.open(run.folder, "cpu").evaluate("test")


# -- older versions


@pytest.mark.parametrize("old", OLD_RUNS, ids=lambda path: path.name)
def test_a_run_of_each_past_version_opens_evaluates_and_goes_on(old: Path, tmp_path: Path, family: Dataset) -> None:
    folder = shutil.copytree(old / "stopped", tmp_path / "run")
    model = Model.open(folder, "cpu")
    status = model.run.status
    assert model.dataset.fingerprint == family.fingerprint and status.best is not None and status.state == "stopped"
    assert model.evaluate("valid").both.mrr == pytest.approx(status.best["mrr"], rel=1e-3), "the weights mean something else by now"
    run = ended(resume(folder))
    assert run.status.state == "complete" and run.status.step > status.step
    assert f"v{relcode.__version__}" in {path.name for path in OLD_RUNS}, "keep a small run of this version in tests/data/runs"


def test_a_run_of_a_newer_version_says_what_to_do(tmp_path: Path) -> None:
    folder = shutil.copytree(OLD_RUNS[0] / "stopped", tmp_path / "run")
    (folder / "run.json").write_text((folder / "run.json").read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(RunError, match="has run format 2, this relcode reads 1: use the relcode version that made it"):
        open_run(folder)
