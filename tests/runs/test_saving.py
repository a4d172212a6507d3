"""Checkpoints that are written while training goes on: the same bytes, one at a time, and nothing that goes wrong is lost."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs.short import CPU, ended, lasting, short

from relcode.errors import NotFinite, OutputError
from relcode.experiment import Advanced, Validated, resume, train
from relcode.graph.dataset import Dataset
from relcode.runs import files, saving
from relcode.runs.lock import release
from relcode.runs.run import Run, create_run, open_run
from relcode.runs.saving import Saver, copied, state_bytes
from relcode.training.advance import initial_state
from relcode.training.state import TrainState


@pytest.fixture(autouse=True)
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every state count as large."""
    monkeypatch.setattr(saving, "AT_ONCE", 0)


@pytest.fixture
def fresh(family: Dataset, tmp_path: Path) -> Iterator[tuple[Run, TrainState]]:
    state = initial_state(family, short(), CPU)
    yield create_run(tmp_path / "run", family, short(), CPU, state), state
    release(tmp_path / "run")


class Gate:
    """A disk that is slow: nothing is written before it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.reached, save_file = threading.Event(), threading.Event(), files.save_file

        def slow(*arguments: object) -> str:
            self.reached.set()
            assert self.opened.wait(60)
            return save_file(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(files, "save_file", slow)


def writing() -> bool:
    return any(thread.name == "relcode-save" for thread in threading.enumerate())


def test_training_goes_on_while_a_checkpoint_is_written_and_does_not_change_it(
    fresh: tuple[Run, TrainState], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, state = fresh
    expected, random = state.parameters.head_ED.clone(), state.generator.get_state()
    gate = Gate(monkeypatch)
    with Saver(run) as saver:
        run = saver.save(run, replace(state, step=3), False, epoch=0.5)
        assert gate.reached.wait(60) and run.status.epoch == 0.5
        assert open_run(run.folder).status.step == 0, "what is not all there does not count"
        saver.check()
        state.parameters.head_ED.add_(1)
        torch.rand(9, generator=state.generator)
        gate.opened.set()
        assert saver.finish().status.step == 3
    back = open_run(run.folder)
    assert back.status.epoch == 0.5 and torch.equal(back.load_state(CPU).parameters.head_ED, expected)
    assert torch.equal(back.load_state(CPU).generator.get_state(), random)


def test_one_is_written_at_a_time_and_two_are_kept(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    with Saver(run) as saver:
        for step in range(1, 8):
            run = saver.save(run, replace(state, step=step), False)
            assert sum(thread.name == "relcode-save" for thread in threading.enumerate()) <= 1
    names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
    assert names == ["000000000006.safetensors", "000000000007.safetensors"] and open_run(run.folder).status.previous == names[0]


def test_the_last_one_is_written_at_once(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    with Saver(run) as saver:
        run = saver.save(run, replace(state, step=3), False, state="complete", reason="done")
        assert not writing() and open_run(run.folder).status == run.status and run.status.step == 3


def test_the_best_parameters_come_with_their_checkpoint_and_stay(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    with Saver(run) as saver:
        run = replace(run, status=replace(run.status, best={"step": 2, "mrr": 0.5}, best_mrr=0.5))
        run = saver.save(run, replace(state, step=2), True)
        expected = state.parameters.head_ED.clone()
        state.parameters.head_ED.add_(1)
        run = saver.save(run, replace(state, step=3), False)
    back = open_run(run.folder)
    assert back.status.step == 3 and back.status.best == {"step": 2, "mrr": 0.5} and back.status.best_mrr == 0.5
    assert torch.equal(back.load_parameters().head_ED, expected) and not (run.folder / "best.next.safetensors").exists()
    assert torch.equal(back.load_state(CPU).parameters.head_ED, expected + 1)


def test_what_goes_wrong_is_said_once_by_the_next_call(fresh: tuple[Run, TrainState], monkeypatch: pytest.MonkeyPatch) -> None:
    run, state = fresh

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Saver(run) as saver:
        for call in (saver.check, saver.finish, lambda: saver.save(run, replace(state, step=8), False)):
            with monkeypatch.context() as patched:
                patched.setattr(files, "save_file", full)
                saver.save(run, replace(state, step=7), False)
                saver._thread.join()  # type: ignore[union-attr]
            with pytest.raises(OutputError, match=r"cannot write .*000000000007\.safetensors"):
                call()
            saver.check()
        saver.save(run, replace(state, step=9), False)
    assert open_run(run.folder).load_state(CPU).step == 9
    with pytest.raises(KeyError, match="first"), monkeypatch.context() as patched, Saver(run) as saver:
        patched.setattr(files, "save_file", full)
        saver.save(run, replace(state, step=10), False)
        raise KeyError("first")
    assert not writing()


@pytest.mark.parametrize("name", ["joint+comp", "default"])
def test_it_ends_with_the_same_bytes_as_at_once(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ended(train(family, short(name), tmp_path / "meanwhile"))
    monkeypatch.setattr(saving, "AT_ONCE", 2**40)
    ended(train(family, short(name), tmp_path / "once"))
    assert lasting(tmp_path / "meanwhile") == lasting(tmp_path / "once")


def test_who_stops_listening_has_lost_nothing(family: Dataset, tmp_path: Path) -> None:
    ended(train(family, short(), tmp_path / "whole"))
    for event in (events := train(family, short(), tmp_path / "run")):
        if isinstance(event, Validated):
            break
    events.close()
    assert not writing()
    assert open_run(tmp_path / "run").status.epoch == event.epoch
    ended(resume(tmp_path / "run"))
    assert lasting(tmp_path / "run") == lasting(tmp_path / "whole")


def test_a_run_that_diverges_while_a_checkpoint_is_written_keeps_it(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = train(family, short(), tmp_path / "run")
    validated = next(event for event in events if isinstance(event, Validated))
    monkeypatch.setattr("relcode.experiment.check_finite", lambda *_: (_ for _ in ()).throw(NotFinite("the loss is not finite")))
    with pytest.raises(NotFinite, match="keeps the last good state, step"):
        list(events)
    run = open_run(tmp_path / "run")
    assert run.status.state == "stopped" and run.status.epoch == validated.epoch and run.load_state(CPU).step == run.status.step


def test_a_full_disk_ends_training_soon(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = train(family, short(training__epochs=200, training__validations=100), tmp_path / "run")
    next(event for event in events if isinstance(event, Advanced))
    monkeypatch.setattr(files, "save_file", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(OutputError, match="No space left"):
        list(events)
    assert open_run(tmp_path / "run").load_state(CPU).step < 100 and not list((tmp_path / "run").rglob("*.part"))


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own here")
def test_the_thread_that_writes_is_nice_and_the_one_that_trains_is_not(fresh: tuple[Run, TrainState], monkeypatch: pytest.MonkeyPatch) -> None:
    run, state = fresh
    seen: list[int] = []
    save_file = files.save_file

    def listen(*given: object) -> str:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return save_file(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "save_file", listen)
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    with Saver(run) as saver:
        saver.save(run, replace(state, step=3), False)
    assert seen == [max(before, saving.NICENESS)] and os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_a_copy_shares_nothing(family: Dataset) -> None:
    state = initial_state(family, short("default"), CPU)
    room: dict[str, torch.Tensor] = {}
    copy = copied(state, room)
    mine, theirs = state.parameters.tensors(), copy.parameters.tensors()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine) and copy.step == state.step
    assert not {value.data_ptr() for value in mine.values()} & {value.data_ptr() for value in theirs.values()}
    state.parameters.head_ED.add_(1)
    again = copied(state, room)
    assert torch.equal(again.parameters.head_ED, state.parameters.head_ED)
    assert all(value.data_ptr() == theirs[name].data_ptr() for name, value in again.parameters.tensors().items()), "the room is used again"
    assert state_bytes(state) == sum(value.numel() * value.element_size() for value in mine.values())
