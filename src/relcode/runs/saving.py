"""Checkpoints that training does not wait for.

A small state is written at once. A large one is copied, which takes a fraction of a second, and written from the copy by another thread while
training goes on: what counts is still what run.json names, and that is written last. One checkpoint is written at a time; whoever asks for the
next before that waits. An error of the writing (a full disk) is raised by the next call of any method.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from relcode.model.parameters import Parameters
from relcode.runs.run import Run
from relcode.training.state import TrainState

AT_ONCE = 32 * 2**20  # bytes of a state that is written before training goes on
NICENESS = 5  # of the thread that writes: threads that train wait for one another, so what disturbs one of them disturbs all
OF_FILES = ("step", "checkpoint", "checkpoint_sha256", "previous", "previous_sha256", "best_sha256")  # of a status: what only the writer knows


class Saver:
    """Writes the checkpoints of a run; a context, at whose end all is written."""

    def __init__(self, run: Run) -> None:
        """Begin with a run as it is on disk."""
        self._run = run
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._room: dict[str, Tensor] = {}  # for the copy; kept, since memory that is new has to be made ready by the system each time

    def save(self, run: Run, state: TrainState, best: bool, /, **changes: Any) -> Run:
        """Write a state, as the best so far too where it is; return the run with the status given and the files that are there by now."""
        self.finish()
        if state_bytes(state) <= AT_ONCE or changes.get("state", "running") != "running":  # at the end nothing goes on meanwhile
            self._write(run, state, best, changes)
        else:
            self._thread = threading.Thread(target=self._try_to_write, args=(run, copied(state, self._room), best, changes), name="relcode-save")
            self._thread.start()
        return replace(run, status=replace(run.status, **changes, **self._files()))

    def check(self) -> None:
        """Raise what went wrong since, if anything did; never wait."""
        if self._thread is not None and not self._thread.is_alive():
            self.finish()

    def finish(self) -> Run:
        """Wait until all is written, and return the run as it is on disk."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._run

    def __enter__(self) -> Saver:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait for what is being written, so that nobody else finds the folder half changed; an error on the way out hides none before it."""
        if kind is None or kind is GeneratorExit:
            self.finish()
        elif self._thread is not None:
            self._thread.join()

    def _try_to_write(self, run: Run, state: TrainState, best: bool, changes: dict[str, Any]) -> None:
        if sys.platform == "linux":  # the only system where a thread has a priority of its own by this call
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
        try:
            self._write(run, state, best, changes)
        except BaseException as error:
            self._error = error

    def _write(self, run: Run, state: TrainState, best: bool, changes: dict[str, Any]) -> None:
        ahead = replace(run, status=replace(run.status, **self._files()))
        if best and run.status.best is not None:
            ahead = ahead.with_best(state.parameters.believed(), run.status.best)
        self._run = ahead.save(state, **changes)

    def _files(self) -> dict[str, Any]:
        status = self._run.status  # once: the other thread may put a new run in its place
        return {name: getattr(status, name) for name in OF_FILES}


def state_bytes(state: TrainState) -> int:
    """Return how much a checkpoint of the state holds."""
    return sum(value.nbytes for value in state.parameters.tensors().values())


def copied(state: TrainState, room: dict[str, Tensor]) -> TrainState:
    """Return a copy of a state in this machine's memory, which the next steps do not change; its tensors are those of ``room``, filled anew."""
    for name, value in state.parameters.tensors().items():
        if name not in room:
            room[name] = _room_for(value)
        room[name].copy_(value.detach())
    generator = torch.Generator(state.generator.device)
    generator.set_state(state.generator.get_state())
    return TrainState(Parameters(**room), state.step, generator)


def _room_for(value: Tensor) -> Tensor:
    """Return memory for a copy of a tensor; for one of a GPU, where that can be had, such as the GPU itself can write to."""
    if value.is_cuda:
        with contextlib.suppress(RuntimeError):
            return torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    return torch.empty(value.shape, dtype=value.dtype)
