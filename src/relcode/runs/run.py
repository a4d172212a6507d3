"""The run folder.

    run.json             version of the format, state (running, stopped, complete), the checkpoint in force with its SHA-256, data, environment
    settings.json        every setting; enough, with the data, to run it again
    entities.parquet     name and label of each entity, in the order of the vectors (relations.parquet likewise)
    facts.parquet        the facts trained and measured on, as ids, so that a run answers questions wherever it is moved
    checkpoints/         the last two states of training: parameters, counters, random stream, position
    best.safetensors     the parameters that were best on valid
    log.jsonl            one line for each thing worth knowing: losses, speed, validations

Every file is written whole or not at all, and run.json last: whatever happens, it names files that are complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from relcode.config import Settings, settings_from_json
from relcode.errors import OutputError, RunError, SettingError
from relcode.graph.dataset import Dataset
from relcode.graph.vocab import Vocab
from relcode.model.parameters import Parameters
from relcode.runs.environment import environment
from relcode.runs.files import file_digest, read_json, read_tensors, write_atomically, write_tensors, write_text
from relcode.training.state import TrainState

FORMAT = 1
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

    def save(self, state: TrainState, **changes: Any) -> Run:
        """Write a checkpoint, make it the one in force, and drop all but the last two."""
        name = f"{state.step:012d}.safetensors"
        tensors = state.parameters.tensors() | {"generator": state.generator.get_state()}
        digest = write_tensors(self.folder / "checkpoints" / name, tensors, {"step": str(state.step)})
        run = self.with_status(step=state.step, checkpoint=name, checkpoint_sha256=digest, **changes)
        for old in sorted((self.folder / "checkpoints").glob("*.safetensors"))[:-2]:
            old.unlink(missing_ok=True)
        return run

    def save_best(self, parameters: Parameters, validation: Mapping[str, float]) -> Run:
        """Write the parameters that are best on valid so far."""
        digest = write_tensors(self.folder / "best.safetensors", parameters.tensors(), {})
        return self.with_status(best=dict(validation), best_sha256=digest)

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
        path = self.folder / "best.safetensors"
        _verify(path, self.status.best_sha256)
        try:
            return _parameters(read_tensors(path, device)[0], self)
        except (TypeError, ValueError) as error:
            raise RunError(f"{path} does not hold the weights of this run ({error})") from None

    def load_dataset(self) -> Dataset:
        """Read the data the run was trained on from the run itself."""
        entities, labels = _read_vocab(self.folder / "entities.parquet", "entity")
        relations, _ = _read_vocab(self.folder / "relations.parquet", "relation")
        table = _read_table(self.folder / "facts.parquet", ("split", "head", "relation", "tail"))
        columns = [torch.from_numpy(table[name].to_numpy().astype("int64")) for name in ("split", "head", "relation", "tail")]
        facts_N3 = torch.stack(columns[1:], dim=1)
        limits = torch.tensor([len(entities), len(relations), len(entities)])
        if len(facts_N3) and bool(((facts_N3 < 0) | (facts_N3 >= limits)).any()):
            raise RunError(f"{self.folder / 'facts.parquet'} is damaged: it names entities or relations that are not in the run")
        train, valid, test = (facts_N3[columns[0] == number] for number in range(len(SPLITS)))
        data = self.about.get("data", {})
        return Dataset(
            name=str(data.get("name", self.folder.name)),
            entities=entities,
            relations=relations,
            labels=labels,
            source=str(data.get("source", "")),
            train=train,
            valid=valid,
            test=test,
        )


def create_run(folder: Path, dataset: Dataset, settings: Settings, device: torch.device) -> Run:
    """Make a new run folder; one that exists is never written over."""
    if folder.exists():
        hint = f"go on with relcode resume {folder}, or choose" if (folder / "run.json").exists() else "choose"
        raise OutputError(f"{folder} exists already: {hint} another folder with --out")
    try:
        (folder / "checkpoints").mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; choose another with --out") from None
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
    _write_run_json(run)
    return run


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
        status = RunStatus(**tree["status"])
    except (OSError, UnicodeDecodeError, SettingError, TypeError, KeyError) as error:
        raise RunError(f"{path} is damaged: {error}") from None
    if Path(status.checkpoint).name != status.checkpoint:
        raise RunError(f"{path / 'run.json'} is damaged: a checkpoint's name cannot be {status.checkpoint!r}")
    return Run(path, settings, status, {key: tree.get(key, {}) for key in ("data", "environment")})


def _write_run_json(run: Run) -> None:
    tree = {"format": FORMAT, "status": asdict(run.status), **run.about}
    write_text(run.folder / "run.json", json.dumps(tree, indent=2) + "\n")


def _parameters(tensors: dict[str, Tensor], run: Run) -> Parameters:
    """Make the record, after checking that the shapes are those of the run."""
    parameters = Parameters(**tensors)
    data, model = run.about["data"], run.settings.model
    entities, directed = int(data["entities"]), 2 * int(data["relations"])
    expected = {"head_ED": (entities, model.dim), "tail_ED": (entities, model.dim), "matrix_SDD": (directed, model.dim, model.dim)}
    for name, shape in expected.items():
        if tuple(getattr(parameters, name).shape) != shape:
            raise ValueError(f"{name} has shape {tuple(getattr(parameters, name).shape)}, the run says {shape}")
    return parameters


def _verify(path: Path, digest: str) -> None:
    if not path.exists():
        raise RunError(f"{path} is missing: the run is incomplete")
    if file_digest(path) != digest:
        older = sorted(other.name for other in path.parent.glob("*.safetensors") if other != path)
        hint = f"; an older state is there too: {older[-1]}" if older and path.parent.name == "checkpoints" else ""
        raise RunError(f"{path} is damaged: its checksum is not the one in run.json{hint}")


def _write_vocab(path: Path, vocab: Vocab, labels: Mapping[str, str]) -> None:
    table = pa.table(
        {"name": list(vocab.names), "label": [labels.get(name) for name in vocab.names]}, pa.schema([("name", pa.string()), ("label", pa.string())])
    )
    write_atomically(path, lambda draft: pq.write_table(table, draft, compression="zstd"))


def _read_vocab(path: Path, kind: Literal["entity", "relation"]) -> tuple[Vocab, dict[str, str]]:
    table = _read_table(path, ("name", "label"))
    names, labels = table["name"].to_pylist(), table["label"].to_pylist()
    return Vocab(names, kind), {name: label for name, label in zip(names, labels, strict=True) if label is not None}


def _write_facts(path: Path, dataset: Dataset) -> None:
    splits = [dataset.split(name) for name in SPLITS]
    facts_N3 = torch.cat(splits).to(torch.int32).numpy()
    number = torch.cat([torch.full((len(facts),), index, dtype=torch.int8) for index, facts in enumerate(splits)]).numpy()
    table = pa.table({"split": number, "head": facts_N3[:, 0], "relation": facts_N3[:, 1], "tail": facts_N3[:, 2]})
    write_atomically(path, lambda draft: pq.write_table(table, draft, compression="zstd"))


def _read_table(path: Path, columns: tuple[str, ...]) -> pa.Table:
    try:
        return pq.read_table(path, columns=list(columns), partitioning=None)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise RunError(f"{path} is missing or damaged ({str(error).splitlines()[0]})") from None


def default_folder(dataset: Dataset, settings: Settings) -> Path:
    """Return a fresh folder under runs/ named after the data and the recipe."""
    stem = f"{dataset.name}-{settings.recipe.replace('+', '-')}"
    number = 1
    while (folder := Path("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return folder


def is_writable_parent(folder: Path) -> bool:
    """Say whether ``folder`` could be made: its nearest existing parent can be written."""
    parent = folder.absolute().parent
    while not parent.exists():
        parent = parent.parent
    return os.access(parent, os.W_OK)
