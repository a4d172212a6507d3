"""New facts for a trained run, from Python: a run and facts in, a new run and its model out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from relcode import experiment
from relcode.config import Settings
from relcode.errors import DataError, RunError, SettingError
from relcode.experiment import Event, Finished
from relcode.explore.memory import check_memory, is_memory_error, not_enough_memory
from relcode.explore.model import Model
from relcode.explore.names import in_prefixes
from relcode.explore.training import Progress, watched
from relcode.formats.importing import import_facts
from relcode.formats.prefixes import expand
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.graph.joining import Joined, join_facts
from relcode.graph.vocab import Vocab
from relcode.model.parameters import Parameters
from relcode.recipes import SMALL_FACTS
from relcode.runs.files import read_tensors
from relcode.runs.run import Run, check_new, default_folder, open_run
from relcode.runs.weights import parameters_of, verify
from relcode.training.local import Extension, extended_settings

EPOCHS, SMALL_EPOCHS = 3, 6  # passes over all facts; more of them where a pass has few steps
PLURALS = {"fact": "facts", "entity": "entities", "relation": "relations"}
FIT_SHARE = 0.4  # of the time given, at most, for what is new alone


@dataclass(frozen=True, eq=False)
class Plan:
    """An extension made ready: nothing has moved, nothing is written."""

    run: Run
    joined: Joined
    settings: Settings
    folder: Path
    epochs: int
    notes: tuple[str, ...]

    def describe(self) -> str:
        """Say what joins, in one line."""
        joined, data = self.joined, self.joined.dataset
        new = [
            (len(joined.new_train), "fact"),
            (data.num_entities - joined.old_entities, "entity"),
            (data.num_relations - joined.old_relations, "relation"),
        ]
        told = ", ".join(f"{count:,} new {name if count == 1 else PLURALS[name]}" for count, name in new)
        skipped = [f"{joined.known:,} known already"] * (joined.known > 0) + [f"{joined.held_out:,} held out, and left so"] * (joined.held_out > 0)
        also = f" ({', '.join(skipped)})" if skipped else ""
        return f"{told} join {self.run.folder}{also}"

    def to_json(self) -> dict[str, object]:
        """Return what joins, as plain values."""
        joined, data = self.joined, self.joined.dataset
        return {
            "run": str(self.run.folder),
            "out": str(self.folder),
            "new_facts": len(joined.new_train),
            "known_facts": joined.known,
            "held_out_facts": joined.held_out,
            "new_entities": data.num_entities - joined.old_entities,
            "new_relations": data.num_relations - joined.old_relations,
        }


def extend(
    run: str | Path | Model,
    facts: Any,
    *,
    out: str | Path | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str | None = None,
    progress: Progress = True,
) -> Model:
    """Let new facts, entities and relations join a trained run; return the model of the new run, which is kept in the folder ``out``.

    ``facts`` are a list of (head, relation, tail), a file or folder in any form that ``relcode import`` reads, a table, or a dataset. The run of
    before is not changed. First what is new finds its place, then ``epochs`` passes over all facts follow, or as many as fit into ``minutes``.
    """
    plan = plan_extension(run.folder if isinstance(run, Model) else run, facts, out=out, epochs=epochs, minutes=minutes, device=device)
    for event in watched(extension_events(plan), progress):
        if isinstance(event, Finished):
            return Model.open(event.run.folder, plan.settings.training.device)
    raise AssertionError("training ended without saying so")


def plan_extension(
    folder: str | Path,
    facts: Any,
    *,
    out: str | Path | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str | None = None,
) -> Plan:
    """Read run and facts, and say what is new; whatever can be wrong is found here, before anything is written."""
    if out is not None:
        check_new(Path(out))
    run = open_run(folder)
    if run.status.state != "complete":
        raise RunError(f"{run.folder} is not complete (it is {run.status.state}): end its training first, with relcode resume {run.folder}")
    if epochs is not None and epochs < 1:
        raise SettingError(f"epochs cannot be {epochs}: it must be a whole number of at least 1")
    old, new = run.load_dataset(), read_new(facts)
    joined = join_facts(old, renamed(new, old))
    passes = epochs or (SMALL_EPOCHS if len(joined.dataset.train) < SMALL_FACTS else EPOCHS)
    settings = extended_settings(run.settings, passes, minutes)
    if device is not None:
        settings = settings.with_values({"training.device": device})
    return Plan(run, joined, settings, default_folder(old, settings) if out is None else Path(out), passes, new.notes)


def extension_events(plan: Plan) -> Iterator[Event]:
    """Extend into a new folder, event by event; want of memory is said in one line."""
    check_new(plan.folder)
    check_memory(plan.joined.dataset, plan.settings)
    minutes = plan.settings.training.minutes
    seconds = float("inf") if minutes is None else 60 * minutes * FIT_SHARE
    try:
        extension = Extension(plan.joined, with_squares(plan.run, experiment.choose_device(plan.settings.training.device)))
        yield from experiment.train(plan.joined.dataset, plan.settings, plan.folder, lambda trainer: extension.begin(trainer, plan.epochs, seconds))
    except BaseException as error:
        if not is_memory_error(error):
            raise
        raise not_enough_memory(plan.settings) from None


def with_squares(run: Run, device: torch.device) -> Parameters:
    """Return the parameters that answer for a run, with Adagrad's squares, which only its checkpoint has."""
    path = run.folder / "checkpoints" / run.status.checkpoint
    verify(path, run.status.checkpoint_sha256)
    tensors, _ = read_tensors(path, device)
    tensors.pop("generator", None)  # of the device that the run was trained on, which may be another
    try:
        last = parameters_of(tensors, run.settings, run.about["data"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is not a checkpoint of this run ({' '.join(str(error).split())[:300]})") from None
    if run.status.best is None or run.status.best.get("step") == run.status.step:
        return last
    best = run.load_parameters(device)
    return replace(best, head_square_ED=last.head_square_ED, tail_square_ED=last.tail_square_ED, matrix_square_SDD=last.matrix_square_SDD)


def read_new(facts: Any) -> Dataset:
    """Read the facts that are to join a run: anything ``relcode import`` reads, or splits by name."""
    if isinstance(facts, Dataset):
        return facts
    if isinstance(facts, Mapping):
        return dataset_from_facts(facts)
    if isinstance(facts, Sequence) and not isinstance(facts, str) and not facts:
        raise DataError("there are no facts in what is to join the run")
    return import_facts(facts, split=False).dataset


def renamed(new: Dataset, old: Dataset) -> Dataset:
    """Return new facts in the names of the run: IRIs written with its prefixes, however the facts' own file shortened them."""
    if not new.prefixes and not old.prefixes:
        return new

    def ours(name: str, vocab: Vocab) -> str:
        return in_prefixes(expand(name, new.prefixes), old.prefixes, vocab)

    entities, relations = [ours(name, old.entities) for name in new.entities], [ours(name, old.relations) for name in new.relations]
    labels = {ours(name, old.entities): label for name, label in new.labels.items()}
    return replace(new, entities=Vocab(entities), relations=Vocab(relations, "relation"), labels=labels, prefixes=old.prefixes)
