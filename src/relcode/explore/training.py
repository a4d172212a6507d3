"""Training from Python: a dataset in, a model out, with a line of progress now and then."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relcode import experiment
from relcode.config import Settings, options
from relcode.errors import SettingError, counted, suggestion
from relcode.experiment import Advanced, Event, Finished, Started, Validated
from relcode.explore.memory import check_memory, is_memory_error, not_enough_memory
from relcode.explore.model import Model
from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset
from relcode.recipes import recipe as recipe_named
from relcode.runs.run import check_new, default_folder
from relcode.training.fit import fit_settings

LINE_SECONDS = 10.0  # at least this long between two lines about losses and speed
LOOKS = 20  # speed and time left are taken over this many looks, about ten seconds

Facts = Sequence[tuple[str, str, str]] | Mapping[str, Sequence[tuple[str, str, str]]]
Progress = bool | Callable[[Event], None]


def train(
    dataset: Dataset | str | Path | Facts,
    recipe: str = "default",
    *,
    out: str | Path | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    progress: Progress = True,
    **short: Any,
) -> Model:
    """Train on a dataset (or its name, its folder, or facts in memory) and return the model; the run is kept in the folder ``out``.

    ``settings`` are dotted values (``{"model.dim": 64}``) or a whole record; ``short`` are options by their last word (``dim=64, epochs=20``).
    ``progress`` prints lines to standard error, or is called with each event. An interrupted training returns what was learnt so far.
    """
    data = _as_dataset(dataset)
    for warning in data.warnings if progress is True else ():
        print(f"note: {warning}", file=sys.stderr)
    if isinstance(settings, Settings):
        chosen = settings.with_values(dotted(short))
    else:
        chosen = recipe_named(recipe).with_values({**(settings or {}), **dotted(short)})
    folder = default_folder(data, chosen) if out is None else Path(out)
    for event in watched(training_events(data, chosen, folder), progress):
        if isinstance(event, Finished):
            return Model.open(event.run.folder, chosen.training.device)
    raise AssertionError("training ended without saying so")


def training_events(dataset: Dataset, settings: Settings, folder: Path) -> Iterator[Event]:
    """Train into a new folder, event by event; want of memory is said in one line."""
    check_new_folder(folder)
    settings = fit_settings(settings, dataset)
    check_memory(dataset, settings)
    try:
        yield from experiment.train(dataset, settings, folder)
    except BaseException as error:
        if not is_memory_error(error):
            raise
        raise not_enough_memory(settings) from None


def dotted(short: Mapping[str, Any]) -> dict[str, Any]:
    """Return options given by their last word, such as ``dim`` for ``model.dim``, under their dotted keys."""
    found: dict[str, Any] = {}
    for word, value in short.items():
        keys = [key for key in options() if key.rpartition(".")[2] == word and "." in key]
        if not keys:
            raise SettingError(
                f"unknown setting {word!r}{suggestion(word, (key.rpartition('.')[2] for key in options())) or ': see relcode settings'}"
            )
        if len(keys) > 1:
            raise SettingError(f"{word!r} could be {' or '.join(keys)}: write settings={{{keys[0]!r}: …}}")
        found[keys[0]] = value
    return found


def watched(events: Iterable[Event], progress: Progress) -> Iterator[Event]:
    """Pass events on, showing each as ``progress`` asks."""
    show = progress if callable(progress) else LinePrinter() if progress else None
    for event in smoothed(events):
        if show is not None:
            show(event)
        yield event


def smoothed(events: Iterable[Event]) -> Iterator[Event]:
    """Pass events on with speed and time left taken over the last looks together, since one by one they jump with whatever else the machine does."""
    looks: deque[tuple[float, int, float]] = deque(maxlen=LOOKS)  # seconds, step, edges per second
    minutes = None
    for event in events:
        if isinstance(event, Started):
            minutes = event.run.settings.training.minutes
            looks.append((event.run.status.seconds, event.step, 0.0))
        if isinstance(event, Advanced):
            looks.append((event.seconds, event.step, event.edges_per_second))
            seconds, steps = event.seconds - looks[0][0], event.step - looks[0][1]
            left = (event.total_steps - event.step) * seconds / steps if steps else event.seconds_left
            left = left if minutes is None else min(left, 60 * minutes - event.seconds)
            speeds = [speed for _, _, speed in looks if speed]
            event = replace(event, edges_per_second=sum(speeds) / max(1, len(speeds)), seconds_left=max(0.0, left))
        yield event


class LinePrinter:
    """Shows training as plain lines: one for each validation, and one about losses and speed every ten seconds."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        """Write lines by ``write``, or to standard error."""
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self.last = 0.0

    def __call__(self, event: Event) -> None:
        """Show one event, or not."""
        if isinstance(event, Started):
            self.last = event.run.status.seconds
        if isinstance(event, Advanced):
            if event.seconds - self.last < LINE_SECONDS:
                return
            self.last = event.seconds
        self.write(describe_event(event))


def describe_event(event: Event) -> str:
    """Say an event in one line."""
    if isinstance(event, Started):
        data = event.run.about["data"]
        goes_on = f", from step {event.step:,}" if event.step else ""
        facts = counted(data["train"], "fact")
        return f"training {event.run.settings.recipe} on {data['name']} ({facts}, {event.device}{goes_on}) into {event.run.folder}"
    if isinstance(event, Advanced):
        return f"epoch {event.epoch:.1f}/{event.epochs} · {describe_losses(event)} · {duration(event.seconds_left)} left"
    if isinstance(event, Validated):
        return f"epoch {event.epoch:.1f} · {describe_validation(event)}{describe_kept(event)}"
    return f"{'stopped' if event.run.status.state == 'stopped' else 'done'} after {duration(event.run.status.seconds)}: {event.reason}"


def describe_losses(event: Advanced) -> str:
    """Say speed and losses."""
    codes = "" if event.coder_loss is None else f" · codes {event.coder_loss:.3f}"
    return f"{event.edges_per_second:,.0f} edges/s · loss {event.loss:.3f}{codes}"


def describe_validation(event: Validated) -> str:
    """Say a validation."""
    return f"valid MRR {event.mrr:.3f}, MR {event.mr:,.1f}, H@10 {event.hits10:.3f}"


def describe_kept(event: Validated) -> str:
    """Say whether the parameters that were measured are kept as the run's, or why they cannot be; nothing where others before were better."""
    if event.codes is False:
        return " (not kept: there are no codes yet)"
    return f" (kept: the best so far{' with codes' if event.codes else ''})" if event.best else ""


def duration(seconds: float) -> str:
    """Write seconds as 12 s, 3:05 or 1:02:03."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def check_new_folder(folder: Path) -> None:
    """Refuse early a folder that cannot be made new, before any data are read."""
    check_new(folder)


def _as_dataset(dataset: Dataset | str | Path | Facts) -> Dataset:
    if isinstance(dataset, Dataset):
        return dataset
    return load_dataset(dataset) if isinstance(dataset, str | Path) else dataset_from_facts(dataset)
