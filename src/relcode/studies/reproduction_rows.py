"""Running what is missing: several trainings at once, each a process of its own, so that one that fails leaves the others alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relcode.config import settings_from_json
from relcode.errors import DataError, SettingError
from relcode.experiment import Advanced, Event, Finished
from relcode.explore.training import LinePrinter
from relcode.graph.dataset import Dataset, load_dataset
from relcode.studies.reproduction_plan import Training
from relcode.studies.reproduction_record import Record, identity, make_record, plain_settings, read_records, write_bundle, write_record
from relcode.training.fit import fit_settings

POLL_SECONDS = 0.1


def complete(asked: Sequence[Training]) -> list[tuple[Training, str]]:
    """Return each training with its settings filled in from its dataset, and its identity; one that is asked for twice counts once."""
    datasets: dict[str, Dataset] = {}
    found: dict[str, Training] = {}
    for training in asked:
        if training.dataset not in datasets:
            datasets[training.dataset] = load_dataset(training.dataset)
        dataset = datasets[training.dataset]
        filled = Training(training.dataset, training.variant, fit_settings(training.settings, dataset))
        found.setdefault(identity(dataset.name, plain_settings(filled.settings)), filled)
    return [(training, key) for key, training in found.items()]


def missing(asked: Sequence[Training], folder: Path) -> list[Training]:
    """Return the trainings that have no record in a folder; one that diverged has."""
    here = read_records(folder)
    return [training for training, key in complete(asked) if key not in here]


def describe_row(training: Training, command: str) -> str:
    """Return a training as the JSON text that :func:`run_row` takes."""
    return json.dumps(
        {"dataset": training.dataset, "variant": training.variant, "settings": plain_settings(training.settings), "command": command},
        ensure_ascii=False,
    )


def run_row(text: str, folder: Path) -> Record:
    """Train and measure the row that the text describes, and write its record."""
    row = _read_row(text)
    dataset: Dataset = load_dataset(row["dataset"])
    label = f"{dataset.name} {row['variant']} s{row['settings']['training']['seed']}"
    lines = LinePrinter(lambda line: print(f"[{label}] {line}", file=sys.stderr, flush=True))

    def watch(event: Event) -> None:
        if not isinstance(event, Advanced | Finished):
            lines(event)

    record = make_record(dataset, row["variant"], settings_from_json(json.dumps(row["settings"])), row["command"], watch)
    write_record(folder, record)
    return record


def _read_row(text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"--row is not JSON: {error}") from None
    if not isinstance(row, dict) or not {"dataset", "variant", "settings", "command"} <= row.keys():
        raise SettingError("--row must be a JSON object with dataset, variant, settings and command")
    return row


def run_missing(
    asked: Sequence[Training], folder: Path, command: str, *, jobs: int = 1, bundle: Path | None = None, say: Callable[[str], None] = print
) -> list[str]:
    """Run the trainings that have no record yet, ``jobs`` at a time; return those that failed, in words.

    The bundle is written anew after each, so that what is done is there whenever this is ended.
    """
    todo = missing(asked, folder)
    say(f"{len(asked) - len(todo)} of {len(asked)} rows have their records already; {len(todo)} to run, {jobs} at a time")
    waiting, failed = list(reversed(todo)), list[str]()
    processes: dict[subprocess.Popen[bytes], tuple[Training, float]] = {}
    surroundings = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs)), **os.environ}  # rows at once share the cores
    try:
        while waiting or processes:
            while waiting and len(processes) < jobs:
                training = waiting.pop()
                line = [sys.executable, "-m", "relcode", "reproduce", "--results", str(folder), "--row", describe_row(training, command)]
                processes[subprocess.Popen(line, env=surroundings)] = (training, time.perf_counter())
            for process in [each for each in processes if each.poll() is not None]:
                training, began = processes.pop(process)
                outcome = "done" if process.returncode == 0 else f"failed with exit code {process.returncode}"
                if process.returncode != 0:
                    failed.append(str(training))
                say(f"{training}: {outcome} after {time.perf_counter() - began:.0f} s; {len(waiting) + len(processes)} left")
                if bundle is not None:
                    write_bundle(bundle, read_records(folder).values())
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    return failed
