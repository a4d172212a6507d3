"""The run folder.

    run.json             version of the format, state (running, stopped, complete), the checkpoint in force with its SHA-256, data, environment
    settings.json        every setting; enough, with the data, to run it again
    entities.parquet     name and label of each entity, in the order of the vectors (relations.parquet likewise)
    facts.parquet        the facts trained and measured on, as ids, so that a run answers questions wherever it is moved
    checkpoints/         the last two states of training: parameters, counters, random stream, position
    best.safetensors     the parameters that were best on valid
    log.jsonl            one line for each thing worth knowing: losses, speed, validations

Every file is written whole or not at all, and run.json last: whatever happens, it names files that are complete (new best parameters wait as
best.next.safetensors until run.json has their checksum). What changes with the steps, such as the position and the validations, changes in one
writing of run.json, together with the checkpoint it belongs to: a run that was killed goes on from there as if it had never gone further.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from relcode.config import Settings, settings_from_json
from relcode.errors import OutputError, RunError, SettingError
from relcode.graph.dataset import Dataset
from relcode.graph.split_names import SPLITS
from relcode.model.parameters import Parameters
from relcode.runs.environment import environment
from relcode.runs.files import (
    check_plain,
    file_digest,
    finish_flushing,
    parse_file,
    parse_json,
    read_json,
    read_tensors,
    write_atomically,
    write_tensors,
    write_text,
)
from relcode.runs.lock import claim, release
from relcode.runs.status import RunStatus, State, checked_about, checked_status, of_step
from relcode.runs.tables import read_facts, read_vocab, write_facts, write_vocab
from relcode.runs.weights import gone_back, parameters_of, step_of, verify
from relcode.training.state import TrainState

__all__ = ["Run", "RunStatus", "State", "create_run", "default_folder", "open_run"]

FORMAT = 1
BEST, NEXT_BEST = "best.safetensors", "best.next.safetensors"
MOST_OF_A_LINE = 2**16  # bytes of a line of the log; ours have some hundred


CPU_STATE, CUDA_STATE = 5056, 16  # bytes of a generator's state


def generator_of(state: torch.Tensor, device: torch.device, seed: int, step: int) -> torch.Generator:
    """Return the random stream a checkpoint holds; on another kind of device than it was made on, a new one that depends on seed and step alone."""
    generator = torch.Generator(device)
    own = CPU_STATE if device.type == "cpu" else CUDA_STATE
    if state.dtype == torch.uint8 and state.shape in ((CPU_STATE,), (CUDA_STATE,)) and len(state) != own:
        return generator.manual_seed((seed + 1 + step) % (1 << 63))
    generator.set_state(state)
    return generator


@dataclass(frozen=True)
class Run:
    """One run folder, open."""

    folder: Path
    settings: Settings
    status: RunStatus
    about: Mapping[str, Any]  # data and environment, as they were when the run began
    best_waits: bool = field(default=False, compare=False)  # for the next save, which puts the best parameters in their place

    def with_status(self, **changes: Any) -> Run:
        """Change the status, in run.json too; this makes the process the run's only writer, until the status says that training has ended."""
        if claim(self.folder):
            self._check_unchanged()
        run = replace(self, status=replace(self.status, **changes))
        _write_run_json(run)
        if run.status.state != "running":
            release(self.folder)
        return run

    def _check_unchanged(self) -> None:
        """Refuse to go on from what was read, where another process has written since."""
        if not (self.folder / "run.json").exists():
            return
        found = open_run(self.folder).status
        if (found.state, found.step, found.checkpoint_sha256) != (self.status.state, self.status.step, self.status.checkpoint_sha256):
            release(self.folder)
            raise RunError(f"{self.folder} was changed by another process after it was opened: try again")

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line to the log."""
        path = self.folder / "log.jsonl"
        if path.is_symlink():
            raise OutputError(f"cannot write {path}: it is a link, and a run writes in its own folder alone")
        try:
            with path.open("a", encoding="utf-8", newline="\n") as handle:
                handle.write(json.dumps(dict(record)) + "\n")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None

    def forget_later(self) -> None:
        """Drop what a killed process left behind after its last checkpoint: drafts, new best parameters, lines of the log. They come again."""
        for draft in [*self.folder.glob(".*.part"), *(self.folder / "checkpoints").glob(".*.part")]:
            draft.unlink(missing_ok=True)
        path = self.folder / "log.jsonl"
        if os.path.lexists(path):
            check_plain(path)
            write_atomically(path, lambda draft: _copy_lines(path, draft, self.status.step))
        self.settle_best()

    def save(self, state: TrainState, /, **changes: Any) -> Run:
        """Write a checkpoint, make it the one in force, and drop all but it and the one before.

        It is flushed to the disk while training goes on. After a power cut within these seconds its checksum is wrong, and the one before is whole.
        """
        name = f"{state.step:012d}.safetensors"
        now = self.status
        saved_again = name == now.checkpoint  # no step since
        before = (now.previous, now.previous_sha256) if saved_again else (now.checkpoint, now.checkpoint_sha256)
        tensors = state.parameters.tensors() | {"generator": state.generator.get_state()}
        metadata = {"status": json.dumps({"step": state.step, **of_step(replace(now, **changes))})}  # one text: several have no fixed order
        digest = write_tensors(self.folder / "checkpoints" / name, tensors, metadata, wait=False)
        changes |= {"previous": before[0], "previous_sha256": before[1]}
        run = self.with_status(step=state.step, checkpoint=name, checkpoint_sha256=digest, **changes)
        _keep_only(self.folder / "checkpoints", "*.safetensors", {name, before[0]})
        run.settle_best()
        if run.status.state != "running":
            finish_flushing()  # whoever is told that training has ended may pull the plug
        return replace(run, best_waits=False)

    def with_best(self, parameters: Parameters, validation: Mapping[str, float]) -> Run:
        """Write the parameters that are best on valid so far; they count from the next :meth:`save` on."""
        digest = write_tensors(self.folder / NEXT_BEST, parameters.tensors(), {}, wait=False)
        return replace(self, status=replace(self.status, best=dict(validation), best_sha256=digest), best_waits=True)

    def best_path(self) -> Path:
        """Return where the best parameters are: in their place, or still waiting, where a process was killed right after run.json was written."""
        waiting = self.folder / NEXT_BEST
        try:
            return waiting if file_digest(waiting) == self.status.best_sha256 else self.folder / BEST
        except OSError:  # there is none, as nearly always
            return self.folder / BEST

    def settle_best(self) -> None:
        """Put the best parameters in their place if they wait, and drop those that run.json does not know."""
        try:
            if self.best_waits or self.best_path().name == NEXT_BEST:  # written a moment ago, it is not read again
                os.replace(self.folder / NEXT_BEST, self.folder / BEST)
            (self.folder / NEXT_BEST).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {self.folder / BEST}: {error.strerror}") from None

    def load_state(self, device: torch.device) -> TrainState:
        """Read the checkpoint in force; for a damaged one, the error says how to go on from the one before."""
        path = self.folder / "checkpoints" / self.status.checkpoint
        if not self.status.checkpoint:
            raise RunError(f"{self.folder} has no checkpoint yet: train it again with --out elsewhere")
        older = self.folder / "checkpoints" / self.status.previous
        can_go_back = self.status.state != "complete" and self.status.previous and older.is_file()
        hint = f"; remove it to go on from the state before, {older.name}" if can_go_back else ""
        verify(path, self.status.checkpoint_sha256, hint)
        tensors, metadata = read_tensors(path, device)
        try:
            generator = generator_of(tensors.pop("generator").cpu(), torch.device(device), self.settings.training.seed, self.status.step)
            if (step := step_of(metadata)) != self.status.step:
                raise ValueError(f"it is of step {step}, run.json says {self.status.step}")
            return TrainState(parameters_of(tensors, self.settings, self.about["data"]), self.status.step, generator)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"{path} is not a checkpoint of this run ({' '.join(str(error).split())[:300]})") from None

    def load_parameters(self, device: torch.device | str = "cpu") -> Parameters:
        """Read the best parameters where valid has spoken, else those of the last checkpoint."""
        if self.status.best is None:
            return self.load_state(torch.device(device)).parameters
        path = self.best_path()
        verify(path, self.status.best_sha256)
        try:
            return parameters_of(read_tensors(path, device)[0], self.settings, self.about["data"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} does not hold the weights of this run ({' '.join(str(error).split())[:300]})") from None

    def load_dataset(self) -> Dataset:
        """Read the data the run was trained on from the run itself."""
        data = self.about["data"]
        entities, labels = read_vocab(self.folder / "entities.parquet", "entity", data["entities"])
        relations, _ = read_vocab(self.folder / "relations.parquet", "relation", data["relations"])
        splits = read_facts(self.folder / "facts.parquet", len(entities), len(relations), sum(data[split] for split in SPLITS))
        dataset = Dataset(
            name=str(data.get("name", self.folder.name)),
            entities=entities,
            relations=relations,
            labels=labels,
            source=str(data.get("source", "")),
            train=splits["train"],
            valid=splits["valid"],
            test=splits["test"],
            prefixes=data.get("prefixes", {}),
        )
        if dataset.fingerprint != data.get("fingerprint"):
            raise RunError(f"{self.folder} is damaged: its names and facts are not those that run.json has the fingerprint of")
        return dataset


def check_new(folder: Path) -> None:
    """Refuse a folder that exists, in words that fit what is in it."""
    if not os.path.lexists(folder):
        return
    hint = "choose"
    if (folder / "run.json").exists():
        try:
            run = open_run(folder)
        except RunError:
            hint = "it holds a damaged run; choose"
        else:
            complete = f"it holds a complete run ({run.status.reason}), which relcode evaluate {folder} measures; choose"
            hint = complete if run.status.state == "complete" else f"go on with relcode resume {folder}, or choose"
    raise OutputError(f"{folder} exists already: {hint} another folder with --out")


def create_run(folder: Path, dataset: Dataset, settings: Settings, device: torch.device, state: TrainState) -> Run:
    """Make a new run folder with a first checkpoint; one that exists is never written over, one that cannot be filled does not stay."""
    check_new(folder)
    try:
        (folder / "checkpoints").mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; choose another with --out") from None
    try:
        return _fill_run(folder, dataset, settings, device, state)
    except BaseException:
        release(folder)
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill_run(folder: Path, dataset: Dataset, settings: Settings, device: torch.device, state: TrainState) -> Run:
    data = {
        "name": dataset.name,
        "source": dataset.source,
        "fingerprint": dataset.fingerprint,
        "entities": dataset.num_entities,
        "relations": dataset.num_relations,
        **{split: len(dataset.split(split)) for split in SPLITS},
        **({"prefixes": dict(dataset.prefixes)} if dataset.prefixes else {}),
    }
    run = Run(folder, settings, RunStatus(state="running"), {"data": data, "environment": environment(device)})
    write_text(folder / "settings.json", settings.to_json())
    write_vocab(folder / "entities.parquet", dataset.entities, dataset.labels)
    write_vocab(folder / "relations.parquet", dataset.relations, {})
    write_facts(folder / "facts.parquet", dataset)
    return run.save(state)


def open_run(folder: str | Path) -> Run:
    """Open a run folder; another format, a missing file or nonsense in one is a :class:`RunError`."""
    path = Path(folder)
    try:
        if not path.is_dir():
            raise RunError(f"there is no run folder {path}: relcode train makes one")
    except ValueError as error:
        raise RunError(f"{str(folder)[:200]!r} is no place for a run ({error})") from None
    tree = read_json(path / "run.json")
    if tree.get("format") != FORMAT or isinstance(tree["format"], bool):
        raise RunError(f"{path} has run format {repr(tree.get('format'))[:40]}, this relcode reads {FORMAT}: use the relcode version that made it")
    _check_folder(path / "checkpoints")
    settings_text = parse_file(path / "settings.json")[1]
    try:
        settings = settings_from_json(settings_text)
    except (SettingError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RunError(f"{path / 'settings.json'} is damaged: {' '.join(str(error).split())[:300]}") from None
    try:
        status, about = checked_status(tree["status"]), checked_about(tree)
    except (TypeError, KeyError, ValueError) as error:
        raise RunError(f"{path / 'run.json'} is damaged: {' '.join(str(error).split())[:300]}") from None
    return Run(path, settings, gone_back(path / "checkpoints", status), about)


def _check_folder(path: Path) -> None:
    """Refuse a folder of checkpoints that lies elsewhere: old ones are removed from it."""
    try:
        plain = stat.S_ISDIR(path.lstat().st_mode)
    except OSError as error:
        raise RunError(f"{path} is missing: the run is incomplete ({error.strerror})") from None
    if not plain:
        raise RunError(f"{path} is a link or a file: the checkpoints of a run must lie in its folder")


def _write_run_json(run: Run) -> None:
    tree = {"format": FORMAT, "status": asdict(run.status), **run.about}
    write_text(run.folder / "run.json", json.dumps(tree, indent=2) + "\n")


def _keep_only(folder: Path, pattern: str, names: set[str]) -> None:
    for path in folder.glob(pattern):
        if path.name not in names:
            path.unlink(missing_ok=True)


def _copy_lines(source: Path, target: Path, last: int) -> None:
    """Copy the lines of a log that are whole and about a step up to ``last``, however long the log is."""
    with source.open("rb") as lines, target.open("wb") as kept:
        while line := lines.readline(MOST_OF_A_LINE):
            if line.endswith(b"\n") and _is_of_step(line, last):
                kept.write(line)


def _is_of_step(line: bytes, last: int) -> bool:
    """Say whether a line of the log is about a step up to ``last``."""
    try:
        return bool(parse_json(line.decode("utf-8"))["step"] <= last)
    except (ValueError, KeyError, TypeError):
        return False


def default_folder(dataset: Dataset, settings: Settings) -> Path:
    """Return a fresh folder under runs/ named after the data and the recipe; a name that is no folder's, such as ../x, is made one."""
    stem = re.sub(r"[^\w.-]+", "-", f"{dataset.name}-{settings.recipe}").lstrip(".-")[:100] or "run"
    number = 1
    while (folder := Path("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return folder
