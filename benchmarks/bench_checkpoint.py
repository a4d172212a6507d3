"""What checkpoints cost the training of FB15k's joint model: seconds of training lost for each, and the share of a whole run.

    python benchmarks/bench_checkpoint.py                    # FB15k, joint, d = 256: 744 MB a checkpoint, beside 4 GB of memory; some five minutes
    python benchmarks/bench_checkpoint.py fb15k-237 --recipe default --device cuda

First it is checked that what was saved comes back bit for bit. Then real steps are taken at the recipe's own settings, in windows of ``--seconds``:
without a checkpoint, with one as the clock makes them, and with one as a validation makes them, where the parameters are the best so far and are
written too. What a checkpoint costs is the time its window took beyond that of as many steps in the windows without one around it; it holds what
training waits for (``waited``) and what the writing takes away from it on the same cores. Where the machine is busy otherwise, the clock says
little (``spread_without`` tells: how windows without a checkpoint differ), so the cost is computed, too: what training waits for, and what the
writing thread computes, as if all cores that train stood still meanwhile. The share is that of a run of the recipe's epochs with a checkpoint every
three minutes and all of its validations the best so far. One JSON line is printed, and written to ``--out``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from relcode.experiment import CHECKPOINT_SECONDS, _numerics, choose_device
from relcode.graph.dataset import load_dataset
from relcode.recipes import recipe
from relcode.runs.environment import environment
from relcode.runs.files import finish_flushing
from relcode.runs.run import Run, create_run, open_run
from relcode.runs.saving import Saver
from relcode.training.advance import Trainer, advance, initial_state, make_trainer
from relcode.training.fit import fit_settings
from relcode.training.state import TrainState

KINDS = {"timed": False, "validation": True}  # whether the parameters are written as the best, too


def main() -> None:
    """Read the arguments, check, time, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="fb15k")
    parser.add_argument("--recipe", default="joint")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a window")
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where to write (a folder on the disk that runs are kept on)")
    parser.add_argument("--out", type=Path, help="a file for the line")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-checkpoint-", dir=options.folder))
    try:
        line = json.dumps(measure(options, place))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(line)
    if options.out is not None:
        options.out.write_text(line + "\n", encoding="utf-8")


@dataclass
class Window:
    """Some seconds of training."""

    steps: int
    seconds: float
    waited: float = 0.0  # for a checkpoint
    written: float = 0.0  # until it was all there
    worked: float = 0.0  # by the thread that writes, in seconds of a core


class TimedSaver(Saver):
    """Counts what writing computes."""

    worked = 0.0

    def _write(self, *arguments: Any) -> None:
        began = time.thread_time()
        super()._write(*arguments)
        self.worked += time.thread_time() - began


def measure(options: argparse.Namespace, place: Path) -> dict[str, object]:
    """Train in windows with and without checkpoints, and return what these cost."""
    dataset, device = load_dataset(options.dataset), choose_device(options.device)
    settings = fit_settings(recipe(options.recipe).with_values({"training.device": options.device}), dataset)
    with _numerics(settings, device):
        trainer = make_trainer(dataset, settings, device)
        state = initial_state(dataset, settings, device)
        run = create_run(place / "run", dataset, settings, device, state)
        check_bits(run, state)
        windows, size = go_through(options, trainer, run, state)
        threads = torch.get_num_threads()
    plain = [window for kind, window in windows if kind == "none"]
    step_seconds = statistics.median(window.seconds / window.steps for window in plain)
    length = settings.training.length * trainer.stream.steps_per_epoch * step_seconds
    costs = {kind: [cost(windows, place) for place, (each, _) in enumerate(windows) if each == kind] for kind in KINDS}
    lost = {kind: statistics.median(each) for kind, each in costs.items()}
    medians = {
        kind: {name: statistics.median(getattr(window, name) for each, window in windows if each == kind) for name in ("waited", "written", "worked")}
        for kind in KINDS
    }
    computed = {kind: each["waited"] + each["worked"] for kind, each in medians.items()}

    def share(cost: dict[str, float]) -> float:
        return round(cost["timed"] / CHECKPOINT_SECONDS + cost["validation"] * settings.training.validations / length, 5)

    return {
        "dataset": options.dataset,
        "recipe": options.recipe,
        "dim": settings.model.size,
        "checkpoint_bytes": size,
        "step_seconds": step_seconds,
        "run_seconds": length,
        "interval_seconds": CHECKPOINT_SECONDS,
        "validations": settings.training.validations,
        "seconds": {kind: {name: round(value, 3) for name, value in each.items()} for kind, each in medians.items()},
        "lost_seconds": {kind: [round(one, 3) for one in each] for kind, each in costs.items()},
        "spread_without": round(statistics.pstdev(window.seconds / window.steps for window in plain) / step_seconds, 4),
        "share_of_run": share(lost),
        "share_of_run_computed": share(computed),
        "threads": threads,
        "environment": environment(device),
    }


def check_bits(run: Run, state: TrainState) -> None:
    """Refuse to time what does not come back."""
    back = open_run(run.folder).load_state(state.parameters.head_ED.device).parameters.tensors()
    assert all(torch.equal(value, back[name]) for name, value in state.parameters.tensors().items()), "a checkpoint must come back bit for bit"


def go_through(options: argparse.Namespace, trainer: Trainer, run: Run, state: TrainState) -> tuple[list[tuple[str, Window]], int]:
    """Take windows in turn: none, timed, none, validation, …, none; return them and the size of a checkpoint."""
    finish_flushing()
    state, _ = advance(state, 20, trainer, 10**9)
    windows: list[tuple[str, Window]] = []
    with TimedSaver(run) as saver:
        for kind in [each for _ in range(options.repeat) for one in KINDS for each in ("none", one)] + ["none"]:
            state, window = take(trainer, state, options.seconds, run, None if kind == "none" else saver, KINDS.get(kind, False))
            windows.append((kind, window))
        saved = saver.finish()
    return windows, (saved.folder / "checkpoints" / saved.status.checkpoint).stat().st_size


def take(trainer: Trainer, state: TrainState, seconds: float, run: Run, saver: TimedSaver | None, best: bool) -> tuple[TrainState, Window]:
    """Train for some seconds, and until what is being written is on disk."""
    window, began = Window(0, 0.0), time.perf_counter()
    if saver is not None:
        step = state.step
        saver.worked = 0.0
        saver.save(replace(run, status=replace(run.status, best={"step": step, "mrr": step / 1e9} if best else None)), state, best)
        window.waited = time.perf_counter() - began
    while True:
        state, stats = advance(state, 4, trainer, 10**9)
        window.steps += stats.steps
        window.seconds = time.perf_counter() - began
        if saver is not None and saver._thread is not None:
            saver.check()
            window.written = window.seconds
        elif window.seconds >= seconds:
            window.worked = 0.0 if saver is None else saver.worked
            finish_flushing()
            return state, window


def cost(windows: list[tuple[str, Window]], place: int) -> float:
    """Return the seconds that a window took beyond those of its steps in the two without a checkpoint around it."""
    around = [windows[place - 1][1], windows[place + 1][1]]
    window = windows[place][1]
    return window.seconds - window.steps * sum(one.seconds for one in around) / sum(one.steps for one in around)


if __name__ == "__main__":
    main()
