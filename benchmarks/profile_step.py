"""Where the time of a training step goes: milliseconds by operation of torch, and what products with a few rows cost. One JSON line each.

    python benchmarks/profile_step.py [RECIPE …] [--dataset fb15k-237] [--device cpu] [--dim 256] [--steps 10] [--set KEY=VALUE]
    python benchmarks/profile_step.py --products [--dim 256]

The first says, beside the processor's own time in all, how much each operation took itself (by torch's profiler, in wall time: on a busy machine
only the shares mean something), and how long the operations of the step would take at the speed of the bare product measured in the same process. The
second times products of 1 to 64 rows with matrices that are not in the cache, as a step has them, in processor time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from bench_training import FB15K_237, check_agreement, drawn_dataset, operations, product_gflops, wait
from torch.profiler import ProfilerActivity, profile

from relcode.config import parse_assignments
from relcode.errors import RelcodeError
from relcode.graph.dataset import Dataset, load_dataset
from relcode.ops.precision import training_precision
from relcode.recipes import recipe
from relcode.runs.environment import environment
from relcode.training.advance import advance, initial_state, make_trainer
from relcode.training.fit import fit_settings, products_are_large

TOP = 14  # operations told by name
STREAM = 1 << 26  # numbers read to measure the speed of memory


def memory_gb_per_second(device: torch.device) -> float:
    """Return how fast memory is read."""
    numbers, seconds = torch.ones(STREAM, device=device), []
    for _ in range(4):
        start = time.perf_counter()
        numbers.sum()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return 4e-9 * STREAM / min(seconds)


def measure(dataset: Dataset, name: str, given: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Take some steps, unprofiled and profiled."""
    settings = recipe(name).with_values({"model.dim": given.dim, "training.device": device.type, **parse_assignments(given.set)})
    settings = fit_settings(settings, dataset)
    trainer, state = make_trainer(dataset, settings, device), initial_state(dataset, settings, device)
    state, _ = advance(state, 3, trainer, 10**6)
    wait(device)
    start, cpu_start = time.perf_counter(), time.process_time()
    state, stats = advance(state, given.steps, trainer, 10**6)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]) as found:
        state, _ = advance(state, given.steps, trainer, 10**6)
    on_device = device.type == "cuda"
    spent = {each.key: (each.self_device_time_total if on_device else each.self_cpu_time_total) / 1e3 / given.steps for each in found.key_averages()}
    named = dict(sorted(spent.items(), key=lambda item: -item[1])[:TOP])
    gflops, bandwidth = product_gflops(device)[0], memory_gb_per_second(device)
    thousands = sum(operations(settings).values())
    return {
        "recipe": name,
        "edges_a_step": stats.edges / given.steps,
        "milliseconds_a_step": round(1e3 * wall / given.steps, 1),
        "cpu_milliseconds_a_step": round(1e3 * cpu / given.steps, 1),
        "profiled": {key: round(value, 2) for key, value in named.items()},
        "profiled_all": round(sum(spent.values()), 1),
        "product_gflops": round(gflops, 1),
        "memory_gb_per_second": round(bandwidth, 1),
        "floor_by_operations_ms": round(stats.edges / given.steps * thousands * 1e3 / gflops / 1e6, 1),
    }


def products(d: int) -> dict[str, dict[int, float]]:
    """Return microseconds of processor time for one product of n rows with a d×d matrix that is not in the cache."""
    torch.set_num_threads(1)
    matrix_SDD = torch.randn(max(64, 2**25 // (d * d)), d, d) / d**0.5
    order = torch.randperm(len(matrix_SDD), generator=torch.Generator().manual_seed(0)).tolist()
    matrices = [matrix_SDD[place] for place in order]
    found: dict[str, dict[int, float]] = {}
    for n in (1, 2, 4, 8, 16, 32, 64):
        x, y = torch.randn(n, d), torch.empty(n, d)
        cases: dict[str, Callable[[torch.Tensor], Any]] = {
            "x M": lambda matrix, x=x, y=y: torch.mm(x, matrix, out=y),
            "g Mᵀ": lambda matrix, x=x, y=y: torch.mm(x, matrix.T, out=y),
            "M gᵀ": lambda matrix, x=x: torch.mm(matrix, x.T),
            "M += xᵀ g": lambda matrix, x=x, y=y: matrix.addmm_(x.T, y, alpha=1e-9),
            "‖M‖": lambda matrix: torch.linalg.vector_norm(matrix),
        }
        for name, one in cases.items():
            best = min(_seconds(one, matrices) for _ in range(5))
            found.setdefault(name, {})[n] = round(1e6 * best / len(matrices), 1)
    return found


def _seconds(one: Callable[[torch.Tensor], Any], matrices: list[torch.Tensor]) -> float:
    start = time.process_time()
    for matrix in matrices:
        one(matrix)
    return time.process_time() - start


def main() -> None:
    """Check, then measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", default=["base", "base+comp"], metavar="RECIPE")
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    device = torch.device(given.device)
    if given.products:
        with training_precision(device, large=False):
            about = {"dim": given.dim, "precision": torch.get_float32_matmul_precision(), "environment": environment()}
            print(json.dumps({"microseconds": products(given.dim), **about}, ensure_ascii=False))
        return
    try:
        dataset = load_dataset(given.dataset)
    except RelcodeError:
        dataset = drawn_dataset(*FB15K_237)
    torch.use_deterministic_algorithms(device.type == "cpu")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    check_agreement(dataset, device)
    for name in given.recipes:
        with training_precision(device, products_are_large(recipe(name).with_values({"model.dim": given.dim}))):
            print(json.dumps({**measure(dataset, name, given, device), "dim": given.dim, "environment": environment(device)}), flush=True)


if __name__ == "__main__":
    main()
