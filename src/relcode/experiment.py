"""The whole story on one page: load, sample, train, evaluate, save.

Training is a sequence of events: whoever runs it (a command, a notebook, a study) goes through them and shows what it likes. Between two events
the state is one record, and what is on disk is complete (a large checkpoint is written while training goes on, and counts when it is all there).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from relcode.config import Settings
from relcode.errors import DataError, DeviceError, NotFinite, RunError
from relcode.evaluation.ranking import known_answers
from relcode.evaluation.report import evaluate
from relcode.graph.dataset import Dataset
from relcode.graph.known import KnownAnswers
from relcode.model.parameters import scorer_of
from relcode.model.softmax import CACHED_VECTORS
from relcode.ops.precision import LARGE_DIM, training_precision
from relcode.ops.workers import torch_alone
from relcode.runs.run import Run, State, create_run, open_run
from relcode.runs.saving import Saver
from relcode.training.advance import Trainer, advance, check_finite, initial_state, make_trainer
from relcode.training.fit import fit_settings, on_cuda, products_are_large
from relcode.training.state import StepStats, TrainState

CHUNK_SECONDS = 0.5  # how long to train between two looks at the clock, the keyboard and the progress bar
CHECKPOINT_SECONDS = 180.0
SAVING_SHARE = 0.03  # training waits for checkpoints between validations at most this share of the time: where that is long, they are rarer
CLOCK_SLACK = 0.1  # where time is a limit, the clock sets the rates only once training is later than this share of it: else seeds decide alone
INTERRUPTED = "interrupted"
IMPROVEMENT = 1e-3  # a validation counts as better when MR or MRR is better by this share


@dataclass(frozen=True, slots=True)
class Started:
    """Training begins, or goes on."""

    run: Run
    device: str
    step: int
    total_steps: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """Some steps were taken."""

    step: int
    total_steps: int
    epoch: float
    epochs: int
    seconds: float
    seconds_left: float
    edges_per_second: float
    loss: float
    coder_loss: float | None


@dataclass(frozen=True, slots=True)
class Validated:
    """The model was measured on valid (on part of it, where it is large)."""

    epoch: float
    seconds: float
    mr: float
    mrr: float
    hits10: float
    best: bool  # its parameters are kept: no MRR before was higher, of those with codes where there is an autoencoder
    codes: bool | None = None  # whether the autoencoder has begun; None where there is none


@dataclass(frozen=True, slots=True)
class Finished:
    """Training ended; ``reason`` says why, in words, and the run's state says whether more was planned."""

    run: Run
    reason: str


Event = Started | Advanced | Validated | Finished
Beginning = Callable[[Trainer], TrainState]


def choose_device(name: str) -> torch.device:
    """Return the device a setting names; auto takes CUDA where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device cuda was asked for, but this machine or this build of torch has none: use --device cpu or auto")
    return torch.device("cuda" if on_cuda(name) else "cpu")


def train(dataset: Dataset, settings: Settings, folder: Path, begin: Beginning | None = None) -> Iterator[Event]:
    """Train on a dataset into a new run folder, event by event; from the seed, or from the state that ``begin`` makes (in time that counts)."""
    if not len(dataset.train):
        raise DataError(f"dataset {dataset.name} has no training facts")
    settings = fit_settings(settings, dataset)
    device = choose_device(settings.training.device)
    with _numerics(settings, device, dataset.num_entities):
        trainer, began = make_trainer(dataset, settings, device), time.perf_counter()
        state = initial_state(dataset, settings, device) if begin is None else begin(trainer)
        seconds = time.perf_counter() - began
        run = create_run(folder, dataset, settings, device, state)  # after what may fail for want of memory
        yield from _training(replace(run, status=replace(run.status, seconds=seconds)), dataset, trainer, state)


def resume(folder: Path | str) -> Iterator[Event]:
    """Go on with a run that was stopped, from its last checkpoint."""
    run = open_run(folder)
    if run.status.state == "complete":
        raise RunError(f"{run.folder} is complete ({run.status.reason}): nothing is left to do; relcode evaluate {run.folder} measures it")
    device = choose_device(run.settings.training.device)
    dataset = run.load_dataset()
    with _numerics(run.settings, device, dataset.num_entities):
        state, trainer = run.load_state(device), make_trainer(dataset, run.settings, device)
        if state.step >= run.settings.training.length * trainer.stream.steps_per_epoch:
            raise RunError(f"{run.folder} has done all of its {run.settings.training.length} epochs: nothing is left to do")
        run = run.with_status(state="running", reason="")
        run.forget_later()
        yield from _training(run, dataset, trainer, state)


@dataclass
class _Clock:
    """Seconds of training before this sitting, and since it began."""

    before: float
    began: float

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.began


def _training(run: Run, dataset: Dataset, trainer: Trainer, state: TrainState) -> Iterator[Event]:
    """Train until the epochs, the time, the patience or the user end it."""
    options = run.settings.training
    per_epoch = trainer.stream.steps_per_epoch
    total = options.length * per_epoch
    validate_every = max(1, total // options.validations) if options.validations and len(dataset.valid) else total + 1
    clock, known = _Clock(run.status.seconds, time.perf_counter()), known_answers(dataset)
    saved_at, saving, chunk = time.perf_counter(), 0.0, 1
    yield Started(run, str(trainer.device), state.step, total)
    with _interruptible() as interrupted, Saver(run) as saver:
        reason = ""
        while not reason:
            steps = min(chunk, total - state.step, validate_every - state.step % validate_every)
            began = time.perf_counter()
            progress = max(0.0, (clock.seconds() / (60 * options.minutes) - CLOCK_SLACK) / (1 - CLOCK_SLACK)) if options.minutes else 0.0
            with _stopped_where_it_diverges(saver):
                state, stats = advance(state, steps, trainer, total, progress)
                check_finite(stats, state.step)
            saver.check()
            took = max(time.perf_counter() - began, 1e-6)
            chunk = max(1, round(steps * min(2.0, CHUNK_SECONDS / took)))
            event = _advanced(state, total, per_epoch, options.length, options.minutes, clock.seconds(), stats, took)
            yield event
            reason = _limit_reached(run, state.step, total, clock.seconds()) or (INTERRUPTED if interrupted.is_set() else "")
            is_due = state.step % validate_every == 0 and total - state.step >= validate_every
            validated = None
            if is_due or reason not in ("", INTERRUPTED):
                run.log({"event": "advanced", **_plain(event)})
                with _stopped_where_it_diverges(saver):
                    run, validated = _validate(run, dataset, known, state, event.epoch, clock.seconds())
                if reason in ("", INTERRUPTED):
                    reason = _patience_lost(run) or reason
            if reason or time.perf_counter() - saved_at > max(CHECKPOINT_SECONDS, saving / SAVING_SHARE) or state.step % validate_every == 0:
                began = time.perf_counter()
                changes = {"epoch": state.step / per_epoch, "seconds": clock.seconds(), "state": _state_after(reason), "reason": reason}
                run = saver.save(run, state, validated is not None and validated.best, **changes)
                saved_at = time.perf_counter()
                saving = saved_at - began
            if validated is not None:
                yield validated  # after its checkpoint is under way: who stops listening here has lost nothing
        run = saver.finish()
    yield Finished(run, reason)


@contextmanager
def _stopped_where_it_diverges(saver: Saver) -> Iterator[None]:
    """Where a loss, parameter or score is not finite, leave the run stopped at its last good checkpoint, and say so."""
    try:
        yield
    except NotFinite as error:
        run = saver.finish()
        run.with_status(state="stopped", reason=str(error))
        raise NotFinite(f"{error}; {run.folder} keeps the last good state, step {run.status.step}") from None


def _state_after(reason: str) -> State:
    if not reason:
        return "running"
    return "stopped" if reason == INTERRUPTED else "complete"


def _advanced(
    state: TrainState, total: int, per_epoch: int, epochs: int, minutes: float | None, seconds: float, stats: StepStats, took: float
) -> Advanced:
    left = (total - state.step) * took / stats.steps
    if minutes:
        left = min(left, 60 * minutes - seconds)
    return Advanced(
        step=state.step,
        total_steps=total,
        epoch=state.step / per_epoch,
        epochs=epochs,
        seconds=seconds,
        seconds_left=max(0.0, left),
        edges_per_second=stats.edges / took,
        loss=stats.loss,
        coder_loss=stats.coder_loss,
    )


def _validate(run: Run, dataset: Dataset, known: KnownAnswers, state: TrainState, epoch: float, seconds: float) -> tuple[Run, Validated | None]:
    """Measure on (a fixed part of) valid; keep the parameters where MRR is the best so far.

    A run with an autoencoder promises codes, so nothing is kept before that has begun, however good; patience compares with all of them.
    The status changes in memory alone: what a validation says is part of the state, and is saved with the checkpoint of its step. On disk before
    that, a run killed in between would count the validation twice.
    """
    options, status = run.settings.training, run.status
    if not options.validations or not len(dataset.valid):
        return run, None
    chosen = torch.randperm(len(dataset.valid), generator=torch.Generator().manual_seed(0))[: options.validation_facts]
    part = replace(dataset, valid=dataset.valid[chosen.sort().values])
    report = evaluate(scorer_of(state.parameters, run.settings, dataset.seen_E), part, "valid", known=known)
    metrics = report.both
    better_mr = status.best_mr is None or metrics.mr < status.best_mr * (1 - IMPROVEMENT)
    better_mrr = status.best_mrr is None or metrics.mrr > status.best_mrr * (1 + IMPROVEMENT)
    codes = bool(state.parameters.coder_count) if run.settings.model.autoencoder else None
    ready = codes is not False  # before the autoencoder has begun, codes would mean nothing
    best = ready and (status.best is None or metrics.mrr > status.best["mrr"])
    validated = Validated(epoch, seconds, metrics.mr, metrics.mrr, metrics.hits[10], best, codes)
    run.log({"event": "validated", "step": state.step, **_plain(validated)})
    measured = {"step": state.step, "epoch": epoch, "mr": metrics.mr, "mrr": metrics.mrr, "hits@10": metrics.hits[10]}
    counted = replace(
        run.status,
        best=measured if best else status.best,
        best_mr=metrics.mr if status.best_mr is None else min(metrics.mr, status.best_mr),
        best_mrr=metrics.mrr if status.best_mrr is None else max(metrics.mrr, status.best_mrr),
        stale_validations=0 if better_mr or better_mrr or not ready else status.stale_validations + 1,
    )
    return replace(run, status=counted), validated


def _limit_reached(run: Run, step: int, total: int, seconds: float) -> str:
    """Return which limit ends training here, or nothing."""
    options = run.settings.training
    if step >= total:
        return f"all {options.epochs} epochs done"
    if options.minutes and seconds >= 60 * options.minutes:
        return f"the limit of {options.minutes:g} minutes is reached"
    return ""


def _patience_lost(run: Run) -> str:
    """Return that valid has stopped improving, where it has."""
    patience = run.settings.training.patience
    if patience and run.status.stale_validations >= patience:
        return f"neither MR nor MRR on valid improved in {patience} validations"
    return ""


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C (or a polite kill) into a flag, so that the step under way is finished and saved; a second one ends at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        flag.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, stop)
    try:
        yield flag
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _numerics(settings: Settings, device: torch.device, entities: int) -> Iterator[None]:
    """Set torch up for the run, and put back what was: threads, deterministic algorithms where asked, how products are made."""
    deterministic = torch.get_deterministic_debug_mode()
    filling = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    exact = settings.training.deterministic or device.type == "cpu"
    if exact and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    alone: AbstractContextManager[object] = nullcontext()
    softmax = settings.model.objective == "softmax"
    if device.type == "cpu" and (entities * settings.model.size <= CACHED_VECTORS if softmax else settings.model.size < LARGE_DIM):
        alone = torch_alone(None if softmax else 1)  # too small to share; another thread takes half of the softmax's tables instead
    torch.set_deterministic_debug_mode("error" if exact else "default")  # as use_deterministic_algorithms, which loads torch's compiler: a second
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it takes time, and nothing is read before it is written
    try:
        with training_precision(device, products_are_large(settings)), alone:
            yield
    finally:
        torch.set_deterministic_debug_mode(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]


def _plain(event: Advanced | Validated) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__slots__}
