"""Train variants of a recipe side by side and measure each on valid: what a setting gains in accuracy, codes, composition and time.

    python benchmarks/ablation.py fb15k-237 --device cuda --jobs 3 --out FILE.jsonl default: no-paths:softmax.path_weight=0
    python benchmarks/ablation.py umls --seeds 3 --table --out FILE.jsonl        (what FILE.jsonl holds of UMLS, as a table: means over seeds)

A variant is NAME:KEY=VALUE,KEY=VALUE,… . Each is a process of its own; several share one GPU, so seconds are comparable only within equal
``--jobs``. Every variant appends one JSON line with its complete settings, the history of valid, sparsity and topics of the codes, the measure of
composition (rank of M_3 by cosine with M_1·M_2) where the training facts have constraints, peak memory, hardware, versions and commit. ``--test``
looks at test as well, once, at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from relcode.analysis.codes import relation_codes, sparsity
from relcode.analysis.composition import evaluate_compositions
from relcode.analysis.topics import topic_test
from relcode.config import parse_assignments
from relcode.evaluation.report import evaluate
from relcode.graph.compositions import PairIndex, keep
from relcode.graph.compositions.mining import mine_index
from relcode.graph.dataset import Dataset, load_dataset
from relcode.model.parameters import scorer_of
from relcode.ops.precision import training_precision
from relcode.recipes import recipe
from relcode.runs.environment import environment
from relcode.training.advance import advance, initial_state, make_trainer
from relcode.training.fit import products_are_large

BEGAN = time.perf_counter()
FIGURES = ("mrr", "mr", "hits@1", "hits@3", "hits@10")


def figures(report: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of both directions together."""
    return {name: report[name] for name in FIGURES}


def constraints(matrix_SDD: torch.Tensor, dataset: Dataset) -> dict[str, Any] | None:
    """Return the ranks of the constraints that the training facts support, by the paper's filter (154 on FB15k-237)."""
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    found = keep(mine_index(index), "paper", index)
    return evaluate_compositions(matrix_SDD, found, torch.Generator().manual_seed(0)).to_json() if found else None


def train_one(arguments: argparse.Namespace, variant: str) -> dict[str, Any]:
    """Train one variant without checkpoints and return its record."""
    name, _, changes = variant.partition(":")
    values = parse_assignments(part for part in changes.split(",") if part)
    device = torch.device(arguments.device)
    dataset = load_dataset(arguments.dataset)
    settings = recipe(arguments.recipe).with_values({"training.device": arguments.device, "training.epochs": arguments.epochs, **values})
    trainer = make_trainer(dataset, settings, device)
    settings, per_epoch = trainer.settings, trainer.stream.steps_per_epoch
    state = initial_state(dataset, settings, device)
    total, seconds, history = settings.training.length * per_epoch, 0.0, []
    for look in range(1, arguments.looks + 1):
        began = time.perf_counter()
        with training_precision(device, products_are_large(settings)):
            state, stats = advance(state, total * look // arguments.looks - state.step, trainer, total)
        seconds += time.perf_counter() - began
        if not stats.finite:
            return {"variant": name, "changes": values, "diverged_at_step": state.step, "settings": json.loads(settings.to_json())}
        scorer = scorer_of(state.parameters, settings, dataset.seen_E)
        valid = figures(evaluate(scorer, dataset, "valid").to_json())
        history.append(
            {"epoch": state.step / per_epoch, "training_seconds": seconds, "since_start": time.perf_counter() - BEGAN, "loss": stats.loss, **valid}
        )
        print(f"{name}  epoch {state.step / per_epoch:.0f}  {seconds:.1f} s  loss {stats.loss:.3f}  {valid}", file=sys.stderr, flush=True)
    codes = relation_codes(state.parameters, settings, dataset.relations) if settings.model.autoencoder else None
    topics = None if codes is None else topic_test(codes, dataset.relations, torch.Generator().manual_seed(0))
    return {
        "variant": name,
        "changes": values,
        "dataset": dataset.name,
        "seed": settings.training.seed,
        "jobs": arguments.jobs,
        "seconds_per_epoch": seconds / settings.training.length,
        "valid": valid,
        "test": evaluate(scorer, dataset, "test").to_json() if arguments.test else None,
        "codes": None if codes is None else dataclasses.asdict(sparsity(codes)),
        "topics": None if topics is None else {name: getattr(topics, name) for name in ("agreement", "chance", "p_value")},
        "constraints": constraints(state.parameters.matrix_SDD, dataset),
        "peak_bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
        "history": history,
        "settings": json.loads(settings.to_json()),
        "environment": environment(device),
    }


def run_all(arguments: argparse.Namespace) -> None:
    """Run every variant as a process, at most ``jobs`` at once, each appending its line."""
    waiting = [f"{variant},training.seed={seed}" if seed else variant for variant in arguments.variants for seed in range(arguments.seeds)]
    running = list[subprocess.Popen[bytes]]()
    shared = [arguments.dataset, "--recipe", arguments.recipe, "--epochs", str(arguments.epochs), "--device", arguments.device]
    shared += ["--jobs", str(arguments.jobs), "--looks", str(arguments.looks), "--out", str(arguments.out), *(["--test"] if arguments.test else [])]
    while waiting or running:
        while waiting and len(running) < arguments.jobs:
            running.append(subprocess.Popen([sys.executable, __file__, *shared, "--one", waiting.pop(0)]))
        time.sleep(0.1)
        running = [process for process in running if process.poll() is None]


def show(record: dict[str, Any]) -> str:
    """Say a record in one line."""
    if "valid" not in record:
        return f"{record['variant']:16} diverged at step {record['diverged_at_step']}"
    valid, codes, found = record["valid"], record["codes"] or {}, record["constraints"] or {}
    told = f"{record['variant']:16} {record['dataset']:10} {record['seconds_per_epoch']:.3f} s/epoch  valid MRR {valid['mrr']:.4f}"
    told += f" H@10 {valid['hits@10']:.4f} MR {valid['mr']:.1f}  codes {codes}  topics {record['topics']}"
    told += f"  constraints MR {found.get('mr')} MRR {found.get('mrr')} random {found.get('random_mrr')}"
    return told + (f"  test {figures(record['test'])}" if record["test"] else "")


def table(records: list[dict[str, Any]]) -> str:
    """Return a Markdown table of means over seeds, one line for each variant."""
    lines = ["| variant | valid MRR | difference | Hits@10 | two largest | constraints MRR | s/epoch | seeds |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    variants = {record["variant"]: [each for each in records if each["variant"] == record["variant"]] for record in records}
    first: float | None = None
    for name, runs in variants.items():
        if any("valid" not in run for run in runs):
            lines.append(f"| {name} | diverged | | | | | | {len(runs)} |")
            continue
        mrr, hits = (statistics.fmean(run["valid"][key] for run in runs) for key in ("mrr", "hits@10"))
        first = mrr if first is None else first
        sparse = f"{statistics.fmean(run['codes']['two_largest'] for run in runs):.0%}" if all(run["codes"] for run in runs) else ""
        found = f"{statistics.fmean(run['constraints']['mrr'] for run in runs):.3f}" if all(run["constraints"] for run in runs) else ""
        seconds = statistics.fmean(run["seconds_per_epoch"] for run in runs)
        lines.append(f"| {name} | {mrr:.4f} | {mrr - first:+.4f} | {hits:.1%} | {sparse} | {found} | {seconds:.2f} | {len(runs)} |")
    return "\n".join(lines)


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("variants", nargs="*", metavar="NAME:KEY=VALUE,…")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--looks", type=int, default=4, help="how often to measure on valid")
    parser.add_argument("--out", type=Path, required=True, help="the file lines are appended to")
    parser.add_argument("--test", action="store_true", help="measure on test too, at the end")
    parser.add_argument("--seeds", type=int, default=1, help="train every variant with seeds 0 to this less one")
    parser.add_argument("--table", action="store_true", help="train nothing: print what --out holds of this dataset")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()
    if arguments.table:
        records = [json.loads(line) for line in arguments.out.read_text(encoding="utf-8").splitlines()]
        print(table([record for record in records if record.get("dataset", arguments.dataset) == arguments.dataset]))
        return
    if arguments.one is None:
        run_all(arguments)
        return
    record = train_one(arguments, arguments.one)
    with arguments.out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(show(record), flush=True)


if __name__ == "__main__":
    main()
