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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from relcode.config import Settings, settings_from_json
from relcode.errors import DataError, OutputError, RunError, SettingError
from relcode.graph.dataset import Dataset
from relcode.graph.vocab import Vocab
from relcode.model.parameters import Parameters
from relcode.runs.environment import environment
from relcode.runs.files import file_digest, read_json, read_tensors, write_atomically, write_tensors, write_text
from relcode.training.state import TrainState

FORMAT = 1
BEST, NEXT_BEST = "best.safetensors", "best.next.safetensors"
SPLITS = ("train", "valid", "test")
State = Literal["running", "stopped", "complete"]


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """The part of run.json that changes."""

    state: State
    reason: str = ""  # why it stopped, in words
    step: int = 0
    epoch: float = 0.0
    seconds: float = 0.0  # of training, over all its sittings
    checkpoint: str = ""
    checkpoint_sha256: str = ""
    best: dict[str, float] | None = None  # the validation whose parameters are in best.safetensors
    best_sha256: str = ""
    stale_validations: int = 0  # validations since MR or MRR last improved
    best_mr: float | None = None
    best_mrr: float | None = None


@dataclass(frozen=True)
class Run:
    """One run folder, open."""

    folder: Path
    settings: Settings
    status: RunStatus
    about: Mapping[str, Any]  # data and environment, as they were when the run began

    def with_status(self, **changes: Any) -> Run:
        """Change the status, in run.json too."""
        run = replace(self, status=replace(self.status, **changes))
        _write_run_json(run)
        return run

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line to the log."""
        try:
            with (self.folder / "log.jsonl").open("a", encoding="utf-8", newline="\n") as handle:
                handle.write(json.dumps(dict(record)) + "\n")
        except OSError as error:
            raise OutputError(f"cannot write {self.folder / 'log.jsonl'}: {error.strerror}") from None

    def forget_later(self) -> None:
        """Drop what a killed process left behind after its last checkpoint: drafts, new best parameters, lines of the log. They come again."""
        for draft in [*self.folder.glob(".*.part"), *(self.folder / "checkpoints").glob(".*.part")]:
            draft.unlink(missing_ok=True)
        path = self.folder / "log.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
            write_text(path, "".join(f"{line}\n" for line in lines if _is_of_step(line, self.status.step)))
        self.settle_best()

    def save(self, state: TrainState, /, **changes: Any) -> Run:
        """Write a checkpoint, make it the one in force, and drop all but it and the one before."""
        name = f"{state.step:012d}.safetensors"
        tensors = state.parameters.tensors() | {"generator": state.generator.get_state()}
        digest = write_tensors(self.folder / "checkpoints" / name, tensors, {"step": str(state.step)})
        run = self.with_status(step=state.step, checkpoint=name, checkpoint_sha256=digest, **changes)
        _keep_only(self.folder / "checkpoints", "*.safetensors", {name, self.status.checkpoint})
        run.settle_best()
        return run

    def with_best(self, parameters: Parameters, validation: Mapping[str, float]) -> Run:
        """Write the parameters that are best on valid so far; they count from the next :meth:`save` on."""
        digest = write_tensors(self.folder / NEXT_BEST, parameters.tensors(), {})
        return replace(self, status=replace(self.status, best=dict(validation), best_sha256=digest))

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
            if self.best_path().name == NEXT_BEST:
                os.replace(self.folder / NEXT_BEST, self.folder / BEST)
            (self.folder / NEXT_BEST).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {self.folder / BEST}: {error.strerror}") from None

    def load_state(self, device: torch.device) -> TrainState:
        """Read the checkpoint in force; a damaged one is an error that names its predecessor where there is one."""
        path = self.folder / "checkpoints" / self.status.checkpoint
        if not self.status.checkpoint:
            raise RunError(f"{self.folder} has no checkpoint yet: train it again with --out elsewhere")
        _verify(path, self.status.checkpoint_sha256)
        tensors, metadata = read_tensors(path, device)
        generator = torch.Generator(device)
        try:
            generator.set_state(tensors.pop("generator").cpu())
            return TrainState(_parameters(tensors, self), int(metadata["step"]), generator)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"{path} is not a checkpoint of this run ({str(error).splitlines()[0]})") from None

    def load_parameters(self, device: torch.device | str = "cpu") -> Parameters:
        """Read the best parameters where valid has spoken, else those of the last checkpoint."""
        if self.status.best is None:
            return self.load_state(torch.device(device)).parameters
        path = self.best_path()
        _verify(path, self.status.best_sha256)
        try:
            return _parameters(read_tensors(path, device)[0], self)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} does not hold the weights of this run ({error})") from None

    def load_dataset(self) -> Dataset:
        """Read the data the run was trained on from the run itself."""
        entities, labels = _read_vocab(self.folder / "entities.parquet", "entity")
        relations, _ = _read_vocab(self.folder / "relations.parquet", "relation")
        table = _read_table(self.folder / "facts.parquet", {"split": pa.int8(), "head": pa.int32(), "relation": pa.int32(), "tail": pa.int32()})
        columns = [torch.from_numpy(table[name].to_numpy().astype("int64")) for name in ("split", "head", "relation", "tail")]
        facts_N3 = torch.stack(columns[1:], dim=1)
        limits = torch.tensor([len(entities), len(relations), len(entities)])
        if len(facts_N3) and bool(((facts_N3 < 0) | (facts_N3 >= limits)).any()):
            raise RunError(f"{self.folder / 'facts.parquet'} is damaged: it names entities or relations that are not in the run")
        train, valid, test = (facts_N3[columns[0] == number] for number in range(len(SPLITS)))
        data = self.about["data"]
        dataset = Dataset(
            name=str(data.get("name", self.folder.name)),
            entities=entities,
            relations=relations,
            labels=labels,
            source=str(data.get("source", "")),
            train=train,
            valid=valid,
            test=test,
        )
        if dataset.fingerprint != data.get("fingerprint"):
            raise RunError(f"{self.folder} is damaged: its names and facts are not those that run.json has the fingerprint of")
        return dataset


def create_run(folder: Path, dataset: Dataset, settings: Settings, device: torch.device, state: TrainState) -> Run:
    """Make a new run folder with a first checkpoint; one that exists is never written over, one that cannot be filled does not stay."""
    if folder.exists():
        hint = f"go on with relcode resume {folder}, or choose" if (folder / "run.json").exists() else "choose"
        raise OutputError(f"{folder} exists already: {hint} another folder with --out")
    try:
        (folder / "checkpoints").mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; choose another with --out") from None
    try:
        return _fill_run(folder, dataset, settings, device, state)
    except BaseException:
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
    }
    run = Run(folder, settings, RunStatus(state="running"), {"data": data, "environment": environment(device)})
    write_text(folder / "settings.json", settings.to_json())
    _write_vocab(folder / "entities.parquet", dataset.entities, dataset.labels)
    _write_vocab(folder / "relations.parquet", dataset.relations, {})
    _write_facts(folder / "facts.parquet", dataset)
    return run.save(state)


def open_run(folder: str | Path) -> Run:
    """Open a run folder; another format, a missing file or nonsense in one is a :class:`RunError`."""
    path = Path(folder)
    if not path.is_dir():
        raise RunError(f"there is no run folder {path}: relcode train makes one")
    tree = read_json(path / "run.json")
    if tree.get("format") != FORMAT:
        raise RunError(f"{path} has run format {tree.get('format')!r}, this relcode reads {FORMAT}: use the relcode version that made it")
    try:
        settings = settings_from_json((path / "settings.json").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SettingError) as error:
        raise RunError(f"{path / 'settings.json'} is damaged: {error}") from None
    try:
        status = RunStatus(**tree["status"])
        about = {"data": dict(tree["data"]), "environment": dict(tree["environment"])}
        _check_status(status)
    except (TypeError, KeyError, ValueError) as error:
        raise RunError(f"{path / 'run.json'} is damaged: {error}") from None
    return Run(path, settings, status, about)


def _check_status(status: RunStatus) -> None:
    """Refuse what no run writes, above all a name that would lead out of the run's folder."""
    if status.state not in get_args(State):
        raise ValueError(f"a run's state cannot be {status.state!r}: it is one of {', '.join(get_args(State))}")
    if not re.fullmatch(r"(\d+\.safetensors)?", status.checkpoint):
        raise ValueError(f"a checkpoint's name cannot be {status.checkpoint!r}")
    numbers = [status.step, status.epoch, status.seconds, status.stale_validations, *dict(status.best or {}).values()]
    numbers += [value for value in (status.best_mr, status.best_mrr) if value is not None]
    if not all(isinstance(value, int | float) for value in numbers):
        raise ValueError("steps, seconds and validations must be numbers")


def _write_run_json(run: Run) -> None:
    tree = {"format": FORMAT, "status": asdict(run.status), **run.about}
    write_text(run.folder / "run.json", json.dumps(tree, indent=2) + "\n")


def _keep_only(folder: Path, pattern: str, names: set[str]) -> None:
    for path in folder.glob(pattern):
        if path.name not in names:
            path.unlink(missing_ok=True)


def _is_of_step(line: str, last: int) -> bool:
    """Say whether a line of the log is whole and about a step up to ``last``."""
    try:
        return bool(json.loads(line)["step"] <= last)
    except (ValueError, KeyError, TypeError):
        return False


def _parameters(tensors: dict[str, Tensor], run: Run) -> Parameters:
    """Make the record, after checking that it has the tensors and shapes of the run."""
    parameters = Parameters(**tensors)
    data, model = run.about["data"], run.settings.model
    entities, directed, dim = int(data["entities"]), 2 * int(data["relations"]), model.dim
    expected: dict[str, tuple[int, ...]] = {"head_ED": (entities, dim), "tail_ED": (entities, dim), "matrix_SDD": (directed, dim, dim)}
    expected |= {"head_count_E": (entities,), "tail_count_E": (entities,), "matrix_count_S": (directed,)}
    if model.autoencoder:
        expected |= {"encoder_CQ": (model.code_dim, dim * dim), "decoder_CQ": (model.code_dim, dim * dim), "coder_count": ()}
    found = {name: tuple(value.shape) for name, value in parameters.tensors().items()}
    for name in sorted(expected | found):
        if found.get(name) != expected.get(name):
            raise ValueError(f"{name} has shape {found.get(name, 'none')}, the run says {expected.get(name, 'none')}")
    return parameters


def _verify(path: Path, digest: str) -> None:
    if not path.is_file():
        raise RunError(f"{path} is missing: the run is incomplete")
    if file_digest(path) != digest:
        older = sorted(other.name for other in path.parent.glob("*.safetensors") if other.name < path.name)
        hint = f"; an older state is there too: {older[-1]}" if older and path.parent.name == "checkpoints" else ""
        raise RunError(f"{path} is damaged: its checksum is not the one in run.json{hint}")


def _write_vocab(path: Path, vocab: Vocab, labels: Mapping[str, str]) -> None:
    table = pa.table(
        {"name": list(vocab.names), "label": [labels.get(name) for name in vocab.names]}, pa.schema([("name", pa.string()), ("label", pa.string())])
    )
    write_atomically(path, lambda draft: pq.write_table(table, draft, compression="zstd"))


def _read_vocab(path: Path, kind: Literal["entity", "relation"]) -> tuple[Vocab, dict[str, str]]:
    table = _read_table(path, {"name": pa.string(), "label": pa.string()})
    try:
        names, labels = table["name"].to_pylist(), table["label"].to_pylist()
        return Vocab(names, kind), {name: label for name, label in zip(names, labels, strict=True) if label is not None}
    except (DataError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}") from None


def _write_facts(path: Path, dataset: Dataset) -> None:
    splits = [dataset.split(name) for name in SPLITS]
    facts_N3 = torch.cat(splits).to(torch.int32).numpy()
    number = torch.cat([torch.full((len(facts),), index, dtype=torch.int8) for index, facts in enumerate(splits)]).numpy()
    table = pa.table({"split": number, "head": facts_N3[:, 0], "relation": facts_N3[:, 1], "tail": facts_N3[:, 2]})
    write_atomically(path, lambda draft: pq.write_table(table, draft, compression="zstd"))


def _read_table(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read the columns named, of the types given; no value may be missing but a label."""
    try:
        table = pq.read_table(path, columns=list(columns), partitioning=None)
        lacking = any(table[name].null_count for name in columns if name != "label")
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise RunError(f"{path} is missing or damaged ({str(error).splitlines()[0]})") from None
    if lacking or any(table.schema.field(name).type != kind for name, kind in columns.items()):
        raise RunError(f"{path} is damaged: its columns must be {', '.join(f'{name} ({kind})' for name, kind in columns.items())}")
    return table


def default_folder(dataset: Dataset, settings: Settings) -> Path:
    """Return a fresh folder under runs/ named after the data and the recipe."""
    stem = f"{dataset.name}-{settings.recipe.replace('+', '-')}"
    number = 1
    while (folder := Path("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return folder
