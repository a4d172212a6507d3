"""New entities for a trained run: hold out a share of them with all their facts, train on the rest, add them, compare with training on everything.

    python benchmarks/bench_extend.py fb15k-237 --device cuda --out benchmarks/results/extend-fb15k-237.json
    python benchmarks/bench_extend.py codex-s --device cpu --set model.dim=32 --set training.epochs=30
    python benchmarks/bench_extend.py fb15k-237 --choose SQUARE_SHARE=0.001,0.005,0.02 --choose EPOCHS=2,3   # chosen on valid, reported on test

Three models: ``before`` (trained without them), ``extended`` (that one with their facts joined) and ``scratch`` (trained on all facts). Facts of
``--split`` (valid, test or both) that name an added entity and the rest are measured apart (filtered, both directions, protocol realistic). The
rest is asked twice: against all entities, and against those of before alone, where ``before`` and ``extended`` answer the very same questions.
Seconds are those of the whole call, with reading and writing; ``training_seconds`` are those of training. One JSON line is printed, and written
to ``--out``. With ``--choose``, every combination of the values extends the run, and the one with the best MRR on *valid*, among those that train
no longer than ``--most-time`` of the time from scratch, is the one reported: test is looked at once, after that.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from relcode.config import Settings, parse_assignments
from relcode.evaluation.ranking import known_answers
from relcode.evaluation.report import evaluate
from relcode.experiment import Finished, Validated, train
from relcode.explore import extending
from relcode.explore.extending import extension_events, plan_extension
from relcode.graph.dataset import Dataset, load_dataset
from relcode.graph.split_names import SPLITS
from relcode.graph.vocab import Vocab
from relcode.model.parameters import scorer_of
from relcode.model.score import Scorer
from relcode.recipes import recipe
from relcode.runs.environment import environment
from relcode.runs.run import Run, open_run
from relcode.training import local

CONSTANTS = {
    "EPOCHS": extending,
    "SMALL_EPOCHS": extending,
    "SQUARE_SHARE": local,
    "FIT_EPOCHS": local,
    "CONTEXT": local,
}  # by the module that has them
MEASURED = {"valid": ("valid",), "test": ("test",), "both": ("valid", "test")}


@dataclass(frozen=True)
class Trained:
    """A run and how long it took: in all, and in training."""

    run: Run
    seconds: float
    training_seconds: float
    constants: Mapping[str, float] = field(default_factory=dict)


def main() -> None:
    """Read the arguments, train three times, measure, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--share", type=float, default=0.05, help="share of the entities that are held out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--split", default="both", choices=list(MEASURED), help="facts to rank: valid to choose by, test to report")
    parser.add_argument("--extend-epochs", type=int, default=None)
    parser.add_argument("--choose", action="append", default=[], metavar="CONSTANT=VALUE,VALUE", help=f"tried on valid: {', '.join(CONSTANTS)}")
    parser.add_argument("--most-time", type=float, default=0.1, help="share of the training time from scratch that a choice may take")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="a file for the line")
    parser.add_argument(
        "--folder", type=Path, help="keep the runs here; those of before and from scratch that are here already are not trained again"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        line = json.dumps(measure(options, options.folder or Path(folder)))
    print(line)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(line + "\n", encoding="utf-8")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Train before, extended and scratch, and return how they compare."""
    values = {"training.device": options.device, "training.seed": options.seed, **parse_assignments(options.set)}
    settings = recipe(options.recipe).with_values(values)
    everything = load_dataset(options.dataset)
    old, new = hold_out(everything, options.share, options.seed)
    before = trained(old, settings, folder / "before")
    scratch = trained(everything, settings, folder / "scratch")
    device = torch.device("cuda" if torch.cuda.is_available() and options.device != "cpu" else "cpu")
    tried = []
    for constants in combinations(options.choose):
        one = extend(before.run, new, folder / f"extended-{time.time_ns()}", options, constants)
        tried.append((one, measured(one.run, old, device, "valid") if options.choose else {}))
    extended = chosen(tried, options.most_time * scratch.training_seconds)
    return {
        "dataset": options.dataset,
        "recipe": options.recipe,
        "share": options.share,
        "seed": options.seed,
        "entities": {"before": old.num_entities, "added": everything.num_entities - old.num_entities},
        "train_facts": {"before": len(old.train), "added": len(new.train)},
        "tried_on_valid": [{**one.constants, "training_seconds": one.training_seconds, **figures} for one, figures in tried if options.choose],
        "chosen_on_valid": dict(extended.constants),
        **{split: compared(before.run, extended.run, scratch.run, old, device, split) for split in MEASURED[options.split]},
        "seconds": {"before": before.seconds, "extended": extended.seconds, "scratch": scratch.seconds},
        "training_seconds": {name: one.training_seconds for name, one in (("before", before), ("extended", extended), ("scratch", scratch))},
        "share_of_time": extended.seconds / scratch.seconds,
        "share_of_training_time": extended.training_seconds / scratch.training_seconds,
        "settings": asdict(scratch.run.settings),
        "extended_settings": asdict(extended.run.settings.training),
        "environment": environment(device),
    }


def combinations(choices: list[str]) -> list[dict[str, float]]:
    """Return every combination of the values to choose among, as NAME=VALUE,VALUE; one without any where nothing is to be chosen."""
    values: dict[str, list[float]] = {}
    for choice in choices:
        name, _, texts = choice.partition("=")
        if name not in CONSTANTS:
            raise SystemExit(f"--choose knows no {name!r}, but {', '.join(CONSTANTS)}")
        values[name] = [type(getattr(CONSTANTS[name], name))(text) for text in texts.split(",")]
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


def chosen(tried: list[tuple[Trained, dict[str, float]]], seconds: float) -> Trained:
    """Return the extension that is best on valid by the MRR of all facts, among those in time; among all where none is."""
    in_time = [each for each in tried if each[0].training_seconds <= seconds] or tried
    return max(in_time, key=lambda each: each[1].get("all", 0.0))[0]


def compared(before: Run, extended: Run, scratch: Run, old: Dataset, device: torch.device, split: str) -> dict[str, object]:
    """Return how the three models rank the facts of a split."""
    models = {"scratch": measured(scratch, old, device, split), "extended": measured(extended, old, device, split)}
    rest_before = mrr(scorer(before, old, device), old, old.split(split))
    return {
        "mrr": {"before": {"rest_among_old": rest_before}, **models},
        "added_against_scratch": models["extended"]["added"] - models["scratch"]["added"],
        "rest_against_scratch": models["extended"]["rest"] - models["scratch"]["rest"],
        "rest_against_before": models["extended"]["rest_among_old"] - rest_before,
        "all_against_scratch": models["extended"]["all"] - models["scratch"]["all"],
    }


def hold_out(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Return the facts without a random share of the entities, and those that name one; the numbers of the first are its own."""
    held_E = torch.zeros(data.num_entities, dtype=torch.bool)
    held_E[torch.randperm(data.num_entities, generator=torch.Generator().manual_seed(seed))[: round(share * data.num_entities)]] = True
    parts = {split: data.split(split) for split in SPLITS}
    named = {split: held_E[facts_N3[:, 0]] | held_E[facts_N3[:, 2]] for split, facts_N3 in parts.items()}
    old = {split: facts_N3[~named[split]] for split, facts_N3 in parts.items()}
    seen_E = replace(data, train=old["train"]).seen_E
    # Entities and relations left without a training fact are added, too: their facts in valid and test wait with them.
    left = {
        split: seen_E[facts_N3[:, 0]] & seen_E[facts_N3[:, 2]] & torch.isin(facts_N3[:, 1], old["train"][:, 1]) for split, facts_N3 in old.items()
    }
    new = {split: torch.cat([parts[split][named[split]], old[split][~left[split]]]) for split in SPLITS}
    return renumbered(data, {split: old[split][left[split]] for split in SPLITS}), renumbered(data, new)


def renumbered(data: Dataset, parts: dict[str, Tensor]) -> Dataset:
    """Return a dataset of some facts, with the names that occur in them alone."""
    facts_N3 = torch.cat(list(parts.values()))
    entity_X, relation_X = torch.unique(facts_N3[:, [0, 2]]), torch.unique(facts_N3[:, 1])

    def numbers(part_N3: Tensor) -> Tensor:
        columns = zip((entity_X, relation_X, entity_X), part_N3.unbind(1), strict=True)
        return torch.stack([torch.searchsorted(known_X, column_N.contiguous()) for known_X, column_N in columns], dim=1)

    return Dataset(
        name=data.name,
        entities=Vocab([data.entities[number] for number in entity_X.tolist()]),
        relations=Vocab([data.relations[number] for number in relation_X.tolist()], "relation"),
        source=data.source,
        **{split: numbers(part_N3) for split, part_N3 in parts.items()},
    )


def trained(data: Dataset, settings: Settings, folder: Path) -> Trained:
    """Train into a folder, or take the run that is there."""
    note = folder.with_suffix(".seconds")
    if note.exists():
        run, seconds = open_run(folder), float(note.read_text())
    else:
        began = time.perf_counter()
        run = followed(train(data, settings, folder), folder.name)
        seconds = time.perf_counter() - began
        note.write_text(str(seconds))
    return Trained(run, seconds, run.status.seconds)


def extend(run: Run, new: Dataset, folder: Path, options: argparse.Namespace, constants: Mapping[str, float]) -> Trained:
    """Let the new facts join the run."""
    began = time.perf_counter()
    with in_place_of_own(constants):
        plan = plan_extension(run.folder, new, out=folder, epochs=options.extend_epochs, device=options.device)
        run = followed(extension_events(plan), " ".join(["extended", *(f"{name}={value}" for name, value in constants.items())]))
    return Trained(run, time.perf_counter() - began, run.status.seconds, constants)


@contextmanager
def in_place_of_own(constants: Mapping[str, float]) -> Iterator[None]:
    """Give constants of the program other values for a while."""
    own = {name: getattr(CONSTANTS[name], name) for name in constants}
    try:
        for name, value in constants.items():
            setattr(CONSTANTS[name], name, value)
        yield
    finally:
        for name, value in own.items():
            setattr(CONSTANTS[name], name, value)


def followed(events: object, name: str) -> Run:
    """Go through the events of a training, telling validations."""
    for event in events:  # type: ignore[attr-defined]
        if isinstance(event, Validated):
            print(f"{name}: epoch {event.epoch:.0f}, {event.seconds:.1f} s, valid MRR {event.mrr:.4f}", file=sys.stderr, flush=True)
        if isinstance(event, Finished):
            return event.run
    raise AssertionError("training ended without saying so")


def scorer(run: Run, data: Dataset, device: torch.device) -> Scorer:
    """Return what scores of a run."""
    return scorer_of(run.load_parameters(device), run.settings, data.seen_E)


def mrr(model: Scorer, data: Dataset, facts_N3: Tensor) -> float:
    """Return the filtered MRR of both directions of some facts; the filter knows all of the data."""
    return evaluate(model, replace(data, test=facts_N3), "test", known=known_answers(data)).both.mrr


def measured(run: Run, old: Dataset, device: torch.device, split: str) -> dict[str, float]:
    """Measure a model of all facts: on those that name an added entity, on the rest, on the rest among the entities of before, and on all."""
    data = run.load_dataset()
    known_E = torch.tensor([name in old.entities for name in data.entities])
    model, facts_N3 = scorer(run, data, device), data.split(split)
    is_rest_N = known_E[facts_N3[:, 0]] & known_E[facts_N3[:, 2]]
    known_X = data.entities.indices(old.entities)
    relation_R = data.relations.indices(old.relations)
    directed_S = torch.cat([relation_R, relation_R + data.num_relations])
    among = Scorer(
        model.head_ED[known_X], model.tail_ED[known_X], model.matrix_SDD[directed_S], torch.ones(len(known_X), dtype=torch.bool, device=model.device)
    )
    return {
        "added": mrr(model, data, facts_N3[~is_rest_N]),
        "rest": mrr(model, data, facts_N3[is_rest_N]),
        "rest_among_old": mrr(among, old, old.split(split)),
        "all": mrr(model, data, facts_N3),
        "facts_added": int((~is_rest_N).sum()),
        "facts_rest": int(is_rest_N.sum()),
    }


if __name__ == "__main__":
    main()
