"""The record of one training: everything the tables read, in one JSON file; how it is made, found again, and merged.

A record holds, for valid and test and under both protocols, the metrics of all facts and without entities never seen (``seen_only``), the ranks of
the mined compositions (with M_2 and with random ones), how sparse the codes are, and where, how fast and by which command it was made. A training
that diverged has a record that says so, and no figures.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from relcode.analysis.codes import relation_codes, sparsity
from relcode.analysis.composition import evaluate_compositions
from relcode.config import Settings, settings_from_json
from relcode.errors import DataError, NotFinite, SettingError
from relcode.evaluation.protocol import PROTOCOLS
from relcode.evaluation.ranking import known_answers
from relcode.evaluation.report import evaluate
from relcode.experiment import Advanced, Event, Finished, train
from relcode.graph.compositions import PairIndex, keep, mine_index
from relcode.graph.dataset import Dataset
from relcode.model.parameters import Parameters, scorer_of
from relcode.runs.environment import environment
from relcode.runs.files import write_text
from relcode.runs.run import Run
from relcode.training.fit import fit_settings

Record = dict[str, Any]
FORMAT = 1
CONSTRAINT_FILTERS = ("paper", "not-inverse")  # 154 and 194 compositions on FB15k-237
RANDOM_DRAWS = 5


class Unfinished(Exception):
    """Training was stopped before its end; nothing is recorded."""


def plain_settings(settings: Settings) -> dict[str, Any]:
    """Return settings as plain values."""
    return json.loads(settings.to_json())


def identity(dataset: str, settings: Mapping[str, Any]) -> str:
    """Return what makes a training the same one: its dataset and what :func:`comparable` leaves of its settings."""
    return hashlib.sha256(json.dumps([dataset, comparable(settings)], sort_keys=True).encode()).hexdigest()[:12]


def comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return complete settings with the seed, but neither the recipe's name nor the device
    (noises that were chosen by the device are settings, though: rows of a CPU and of CUDA are not the same trainings).

    Settings of an older record are read first, so that an option added since has its default; where that fails, they stand as they are. Sections that
    have no part in it (of the other objective, of an autoencoder that is not there) are left out.
    """
    tree = _with_a_part(json.loads(json.dumps(settings)))
    with contextlib.suppress(SettingError):
        tree = _with_a_part(plain_settings(settings_from_json(json.dumps(tree))))
    tree.pop("recipe", None)
    tree.get("training", {}).pop("device", None)
    return tree


def _with_a_part(tree: dict[str, Any]) -> dict[str, Any]:
    """Return settings without the sections that their model does not read."""
    model = tree.get("model", {})
    idle = {"softmax"} if model.get("objective", "nce") == "nce" else set()
    idle |= set() if model.get("autoencoder", True) else {"coder"}
    return {name: part for name, part in tree.items() if name not in idle}


def identity_of(record: Record) -> str:
    """Return the identity of a record."""
    return identity(record["dataset"], record["settings"])


def file_name(record: Record) -> str:
    """Return the name of a record's file: readable, and the identity last."""
    return f"{record['dataset']}-{record['variant'].replace('@', '-')}-s{record['seed']}-{identity_of(record)}.json"


def make_record(dataset: Dataset, variant: str, settings: Settings, command: str, watch: Callable[[Event], None] | None = None) -> Record:
    """Train once and measure; a training that diverges is recorded as such. ``command`` is what repeats it."""
    began = time.perf_counter()
    settings = fit_settings(settings, dataset)
    about: Record = {"format": FORMAT, "dataset": dataset.name, "fingerprint": dataset.fingerprint, "variant": variant, "recipe": settings.recipe}
    about |= {"seed": settings.training.seed, "settings": plain_settings(settings)}
    speeds: list[float] = []
    seconds, epochs, peak = 0.0, 0.0, 0
    device = "cuda" if torch.cuda.is_available() and settings.training.device != "cpu" else "cpu"
    run: Run | None = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            for event in train(dataset, settings, Path(folder) / "run"):
                if isinstance(event, Advanced):
                    seconds, epochs = event.seconds, event.epoch
                    speeds.append(event.edges_per_second)
                elif isinstance(event, Finished):
                    run, peak = event.run, peak_bytes(device)  # of training, its validations included
                if watch:
                    watch(event)
            if run is None or run.status.state != "complete":
                raise Unfinished
            figures = measure(run.load_parameters(torch.device(device)), run, dataset)
        except NotFinite as error:
            figures = {"status": "diverged", "reason": " ".join(str(error).split()).replace(folder, "…")}
    used = {"epochs": epochs, "training_seconds": seconds, "edges_per_second": epochs * 2 * len(dataset.train) / seconds if seconds else None}
    used |= {"stepping_edges_per_second": statistics.median(speeds) if speeds else None}  # without validations and checkpoints
    made_by = environment(device) | {"command": command, "made": datetime.now(UTC).isoformat(timespec="seconds")}
    return about | figures | used | {"wall_seconds": time.perf_counter() - began, "peak_bytes": peak, "environment": made_by}


def peak_bytes(device: str) -> int:
    """Return the most memory this process had: of the GPU's, or of the machine's (0 where the system does not tell)."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(parameters: Parameters, run: Run, dataset: Dataset) -> Record:
    """Return all figures of a trained model: metrics by split and protocol, constraints, codes."""
    scorer, known = scorer_of(parameters, run.settings, dataset.seen_E), known_answers(dataset)
    began = time.perf_counter()
    reports = {
        split: {protocol: evaluate(scorer, dataset, split, protocol, known=known).to_json() for protocol in PROTOCOLS} for split in ("valid", "test")
    }
    seconds = (time.perf_counter() - began) / (2 * len(PROTOCOLS))
    codes = asdict(sparsity(relation_codes(parameters, run.settings, dataset.relations))) if run.settings.model.autoencoder else None
    return {
        "status": "finished",
        "reason": run.status.reason,
        **reports,
        "constraints": measure_constraints(scorer.matrix_SDD, dataset, run.settings.training.seed),
        "codes": codes,
        "best_on_valid": run.status.best,
        "evaluation_seconds": seconds,
    }


def measure_constraints(matrix_SDD: torch.Tensor, dataset: Dataset, seed: int) -> Record:
    """Return for each filter the ranks of M_3 by cosine with M_1·M_2, and with random matrices in place of M_2."""
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    mined = mine_index(index)
    found: Record = {}
    for name in CONSTRAINT_FILTERS:
        if kept := keep(mined, name, index):
            found[name] = evaluate_compositions(matrix_SDD, kept, torch.Generator().manual_seed(seed), RANDOM_DRAWS).to_json()
    return found


def read_files(folder: Path) -> dict[str, Record]:
    """Return the records of a folder by file name; a file that holds none is an error."""
    return {path.name: _checked(path.read_text(encoding="utf-8"), path) for path in sorted(folder.glob("*.json"))}


def read_records(folder: Path) -> dict[str, Record]:
    """Return the records of a folder by identity."""
    return {identity_of(record): record for record in read_files(folder).values()}


def read_bundle(path: Path) -> list[Record]:
    """Return the records of a bundle, one JSON line each."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    return [_checked(line, path) for line in lines if line.strip()]


def _checked(text: str, path: Path) -> Record:
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    missing = [key for key in ("dataset", "variant", "seed", "settings", "status", "environment") if key not in record]
    if missing or record.get("format") != FORMAT:
        raise DataError(f"{path} is no record of a reproduced row: {', '.join(missing) or 'another format'}")
    return record


def write_record(folder: Path, record: Record) -> Path:
    """Write a record, in place of an older one of the same training."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(record)
    stem = "-".join(path.stem.split("-")[:-1])
    for other in folder.glob(f"{stem}-*.json"):  # the same training may have had another identity, before an option was added
        if other != path and identity_of(_checked(other.read_text(encoding="utf-8"), other)) == identity_of(record):
            other.unlink()
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False, sort_keys=False) + "\n")
    return path


def write_bundle(path: Path, records: Iterable[Record]) -> None:
    """Write records into one file, a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def merge(folder: Path, bundles: Iterable[Path]) -> int:
    """Take over the records of bundles: those that are missing here, and those made later than ours; return how many."""
    here, taken = read_records(folder), 0
    for record in (record for path in bundles for record in read_bundle(path)):
        ours = here.get(identity_of(record))
        if ours is None or record["environment"]["made"] > ours["environment"]["made"]:
            write_record(folder, record)
            here[identity_of(record)] = record
            taken += 1
    return taken
