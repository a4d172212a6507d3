"""Train a recipe on a dataset, measure it on test under both protocols, and print one JSON line.

    python benchmarks/train_and_measure.py fb15k-237 joint --device cuda --set training.epochs=200 > benchmarks/results/NAME.json

The line holds settings, metrics, seconds of training and of evaluation, speed, how sparse the relation codes are, peak memory, hardware, versions,
seed and commit. The test split is looked at once, at the end; what is chosen (the best parameters of the run) is chosen on valid.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import torch

from relcode.analysis.codes import relation_codes, sparsity
from relcode.config import parse_assignments
from relcode.evaluation.report import evaluate
from relcode.experiment import Advanced, Finished, Validated, train
from relcode.graph.dataset import load_dataset
from relcode.model.parameters import scorer_of
from relcode.recipes import recipe
from relcode.runs.environment import environment


def main() -> None:
    """Read the arguments, train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("recipe")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    dataset = load_dataset(arguments.dataset)
    settings = recipe(arguments.recipe).with_values({"training.device": arguments.device} | parse_assignments(arguments.set))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        seconds = 0.0
        for event in train(dataset, settings, Path(folder) / "run"):
            if isinstance(event, Advanced):
                seconds = event.seconds
            elif isinstance(event, Validated):
                print(
                    f"epoch {event.epoch:.0f}  {event.seconds:.0f} s  valid MR {event.mr:.0f}  MRR {event.mrr:.4f}  H@10 {event.hits10:.4f}",
                    file=sys.stderr,
                )
            elif isinstance(event, Finished):
                run = event.run
        parameters = run.load_parameters(torch.device("cuda" if torch.cuda.is_available() and arguments.device != "cpu" else "cpu"))
    scorer = scorer_of(parameters, run.settings, dataset.seen_E)
    evaluating = time.perf_counter()
    reports = {name: evaluate(scorer, dataset, "test", name).to_json() for name in ("realistic", "paper")}
    evaluation_seconds = (time.perf_counter() - evaluating) / len(reports)
    record = {
        "dataset": dataset.name,
        "fingerprint": dataset.fingerprint,
        "recipe": settings.recipe,
        "seed": settings.training.seed,
        "settings": json.loads(run.settings.to_json()),
        "test": reports,
        "best_on_valid": run.status.best,
        "epochs": run.status.epoch,
        "training_seconds": seconds,
        "edges_per_second": run.status.epoch * 2 * len(dataset.train) / seconds,
        "evaluation_seconds": evaluation_seconds,
        "wall_seconds": time.perf_counter() - began,
        "peak_bytes": torch.cuda.max_memory_allocated() if parameters.head_ED.is_cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "codes": dataclasses.asdict(sparsity(relation_codes(parameters, run.settings, dataset.relations))) if settings.model.autoencoder else None,
        "environment": environment(parameters.head_ED.device),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
