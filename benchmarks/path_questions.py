"""How well path questions are answered, with and without compositional training: one JSON line for each run.

    python benchmarks/path_questions.py fb15k-237 base base+comp joint joint+comp [--device cuda] [--set KEY=VALUE] [--seeds 1] [--questions 1000]
    python benchmarks/path_questions.py --runs runs/a runs/b

Trains each recipe on a dataset under $RELCODE_DATA (or ``world``), or opens runs that are there, and asks 2- and 3-step questions whose answers need
a test fact; what was chosen in training was chosen on valid. The questions are the same for all runs of a dataset.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from relcode.config import parse_assignments
from relcode.evaluation.path_questions import evaluate_paths
from relcode.evaluation.report import evaluate
from relcode.experiment import Validated, train
from relcode.explore.model import Model
from relcode.graph.dataset import load_dataset
from relcode.recipes import recipe
from relcode.runs.environment import environment


def trained(arguments: argparse.Namespace) -> Iterator[Model]:
    """Train each recipe with each seed."""
    dataset = load_dataset(arguments.dataset)
    for name in arguments.recipes:
        for seed in range(arguments.seeds):
            given = {"training.device": arguments.device, "training.seed": seed} | parse_assignments(arguments.set)
            with tempfile.TemporaryDirectory() as folder:
                for event in train(dataset, recipe(name).with_values(given), Path(folder) / "run"):
                    if isinstance(event, Validated):
                        print(f"{name} seed {seed} epoch {event.epoch:.0f}  valid MRR {event.mrr:.4f}", file=sys.stderr)
                yield Model.open(Path(folder) / "run", arguments.device)


def measured(model: Model, arguments: argparse.Namespace) -> dict[str, object]:
    """Ask one model and return the record."""
    start = time.perf_counter()
    report = evaluate_paths(model.scorer, model.dataset, "test", arguments.questions, arguments.question_seed, arguments.beam)
    seconds = time.perf_counter() - start
    single = evaluate(model.scorer, model.dataset, "test").both
    return {
        "benchmark": "path_questions",
        "dataset": model.dataset.name,
        "fingerprint": model.dataset.fingerprint,
        "recipe": model.settings.recipe,
        "seed": model.settings.training.seed,
        "epochs": model.run.status.epoch,
        "training_seconds": model.run.status.seconds,
        **report.to_json(),
        "single_facts": {"mrr": single.mrr, "hits@3": single.hits[3]},
        "asking_seconds": round(seconds, 2),
        "settings": json.loads(model.settings.to_json()),
        "environment": environment(model.scorer.device),
    }


def main() -> None:
    """Read the arguments, train or open, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--runs", nargs="+")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--question-seed", type=int, default=0)
    parser.add_argument("--beam", type=int, default=32)
    arguments = parser.parse_args()
    models = (Model.open(folder, arguments.device) for folder in arguments.runs) if arguments.runs else trained(arguments)
    for model in models:
        print(json.dumps(measured(model, arguments)), flush=True)


if __name__ == "__main__":
    main()
