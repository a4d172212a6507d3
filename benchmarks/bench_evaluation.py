"""Time filtered ranking in both directions with a random model: one JSON line a dataset.

    python benchmarks/bench_evaluation.py [DATASET …] [--device cpu] [--threads 2] [--dim 256] [--memory MEGABYTES]

A DATASET lies under $RELCODE_DATA; ``synthetic`` (the default) draws facts in the numbers of FB15k-237. First the blocked ranks are compared with
ranks by the plain definition in double precision on a small case, on the same device; then the test split is ranked, a first time to warm up. Each
dataset has a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from relcode.evaluation.baseline import most_frequent_answers
from relcode.evaluation.protocol import REALISTIC
from relcode.evaluation.ranking import block_shape, known_answers, rank_facts
from relcode.evaluation.report import evaluate
from relcode.graph.dataset import Dataset, load_dataset
from relcode.graph.vocab import Vocab
from relcode.model.score import Scorer
from relcode.ops.precision import full_precision
from relcode.runs.environment import environment

FB15K_237 = (14_541, 237, {"train": 272_115, "valid": 17_535, "test": 20_466})
SLACK = 1e-4  # scores here are of size 16; neighbours nearer than this may change places by rounding


def synthetic(E: int, R: int, sizes: dict[str, int], name: str = "synthetic") -> Dataset:
    """Return distinct random facts, some entities and relations more frequent than others, as in real data."""
    generator = torch.Generator().manual_seed(0)
    entity_p, relation_p = 1 / (10 + torch.arange(E)), 1 / (10 + torch.arange(R))

    def draw(weights: torch.Tensor, count: int) -> torch.Tensor:
        return torch.multinomial(weights, count, replacement=True, generator=generator)

    total = sum(sizes.values())
    facts_N3 = torch.stack([draw(entity_p, 2 * total), draw(relation_p, 2 * total), draw(entity_p, 2 * total)], dim=1).unique(dim=0)
    splits = facts_N3[torch.randperm(len(facts_N3), generator=generator)[:total]].split(list(sizes.values()))
    entities, relations = Vocab([f"e{i:08}" for i in range(E)], "entity"), Vocab([f"r{i:05}" for i in range(R)], "relation")
    return Dataset(name, entities, relations, *splits)


def random_scorer(dataset: Dataset, D: int, device: torch.device) -> Scorer:
    """Return a random model with scores of size √D."""
    generator = torch.Generator().manual_seed(0)
    head_ED, tail_ED = (torch.randn(dataset.num_entities, D, generator=generator) for _ in range(2))
    matrix_SDD = torch.randn(dataset.num_directed, D, D, generator=generator) / D**0.5
    return Scorer(head_ED, tail_ED, matrix_SDD, dataset.seen_E).to(device).with_unseen_zero()


def check_agreement(device: torch.device) -> int:
    """Compare ranks in several sizes of blocks with the definition in double precision; return how many queries were compared."""
    dataset = synthetic(300, 5, {"train": 1_000, "valid": 100, "test": 200})
    scorer = random_scorer(dataset, 16, device)
    known = known_answers(dataset)
    asked = [*dataset.test.tolist(), *([t, r + 5, h] for h, r, t in dataset.test.tolist())]
    exact = Scorer(scorer.head_ED.double().cpu(), scorer.tail_ED.double().cpu(), scorer.matrix_SDD.double().cpu(), dataset.seen_E)
    bounds = []
    for head, relation, gold in asked:
        score_E = exact.head_ED[head] @ exact.matrix_SDD[relation] @ exact.tail_ED.T
        rivals = torch.ones(300, dtype=torch.bool)
        rivals[known.of(head, relation)] = False
        bounds.append((1 + int((score_E[rivals] > score_E[gold] + SLACK).sum()), 1 + int((score_E[rivals] >= score_E[gold] - SLACK).sum())))
    low_N, high_N = torch.tensor(bounds).unbind(1)
    for memory in (None, 100_000, 10_000):
        ranks = rank_facts(scorer, dataset, dataset.test, known, memory_bytes=memory)
        if not bool(((low_N <= ranks.optimistic_N) & (ranks.pessimistic_N <= high_N)).all()):
            raise SystemExit(f"ranks within {memory} bytes differ from the definition in double precision")
    if not bool((high_N - low_N <= 1).float().mean() > 0.9):
        raise SystemExit("the comparison is too loose to mean anything")
    return len(asked)


def product_gflops(D: int, columns: int, device: torch.device) -> float:
    """Return the speed of the bare product in this very run: what ranking could at best reach on this machine as busy as it is."""
    query, candidate = torch.randn(256, D, device=device), torch.randn(columns, D, device=device)
    out = torch.empty(256, columns, device=device)
    seconds = []
    for _ in range(10):
        _wait(device)
        start = time.perf_counter()
        for _ in range(5):
            with full_precision():
                torch.mm(query, candidate.T, out=out)
        _wait(device)
        seconds.append((time.perf_counter() - start) / 5)
    return 2e-9 * 256 * columns * D / min(seconds)


def measure(dataset: Dataset, arguments: argparse.Namespace, device: torch.device) -> dict[str, object]:
    """Rank the test split several times and return what it took."""
    scorer = random_scorer(dataset, arguments.dim, device)
    start = time.perf_counter()
    known = known_answers(dataset)
    known_seconds = time.perf_counter() - start
    memory = arguments.memory * 2**20 if arguments.memory else None
    seconds, cpu_seconds, extra = [], [], []
    for _ in range(arguments.repeats + 1):
        before = _memory_before(device)
        start, cpu_start = time.perf_counter(), time.process_time()
        report = evaluate(scorer, dataset, known=known, memory_bytes=memory)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
        extra.append(_memory_peak(device) - before)
    rows, columns = block_shape(dataset.num_entities, device, scorer.dtype, memory)
    start = time.perf_counter()
    baseline = evaluate(most_frequent_answers(dataset), dataset, known=known)
    return {
        "benchmark": "evaluation",
        "dataset": dataset.name,
        "entities": dataset.num_entities,
        "directed_relations": dataset.num_directed,
        "queries": len(report.ranks),
        "dim": arguments.dim,
        "protocol": REALISTIC.name,
        "block": [rows, columns],
        "seconds": round(min(seconds[1:]), 4),
        "seconds_all": [round(each, 4) for each in seconds],
        "cpu_seconds": round(min(cpu_seconds[1:]), 3),
        "known_seconds": round(known_seconds, 3),
        "memory_bound_mb": arguments.memory,
        "extra_memory_mb": round(max(extra) / 2**20, 1),
        "product_gflops": round(product_gflops(arguments.dim, dataset.num_entities, device)),
        "baseline_mrr": round(baseline.both.mrr, 4),
        "baseline_seconds": round(time.perf_counter() - start, 3),
    }


def _wait(device: torch.device) -> None:
    """Wait for the device to finish."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def _status(field: str) -> int:
    """Return a size from Linux's record of this process, 0 elsewhere."""
    record = Path("/proc/self/status")
    lines = record.read_text().splitlines() if record.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def _memory_before(device: torch.device) -> int:
    """Return the memory in use, and start watching its peak."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    watch = Path("/proc/self/clear_refs")
    if watch.exists():
        watch.write_text("5")  # resets the peak
    return _status("VmRSS")


def _memory_peak(device: torch.device) -> int:
    """Return the most memory in use since then."""
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else _status("VmHWM")


def main() -> None:
    """Check, then measure each dataset asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("datasets", nargs="*", default=["synthetic"], metavar="DATASET")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--memory", type=int, default=None, metavar="MEGABYTES")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if len(arguments.datasets) > 1:
        options = [option for option in sys.argv[1:] if option not in arguments.datasets]
        for name in arguments.datasets:
            subprocess.run([sys.executable, __file__, name, *options], check=True)
        return
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    print(f"ranks of {check_agreement(device)} queries agree with the definition", file=sys.stderr)
    (name,) = arguments.datasets
    dataset = synthetic(*FB15K_237) if name == "synthetic" else load_dataset(name)
    print(json.dumps({**measure(dataset, arguments, device), "environment": environment(device)}), flush=True)


if __name__ == "__main__":
    main()
