"""Time training, sampling included: directed edges (path steps) a second for each recipe, one JSON line for each recipe and number of threads.

    python benchmarks/bench_training.py [RECIPE[:KEY=VALUE,…] …] [--dataset fb15k-237] [--device cpu] [--threads 1,2] [--dim 256] [--seconds 5]

First one step of the fast products is compared with one of the plain ones, on the same device. Then steps are taken for some seconds; before and
after, the bare matrix product is timed in the same process, since a figure means little without knowing how busy the machine was.
What begins with ``cpu_`` counts the processor's own time (of all threads together) instead of the wall clock's. Without the dataset, facts are drawn
in its numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import replace

import torch

import relcode.model.paths as paths_module
import relcode.training.step as step_module
from relcode.config import Settings, parse_assignments
from relcode.errors import RelcodeError
from relcode.graph.dataset import Dataset, load_dataset
from relcode.graph.vocab import Vocab
from relcode.model.parameters import Parameters
from relcode.ops.precision import full_precision, training_precision
from relcode.ops.tiles import PlainTiles
from relcode.recipes import recipe
from relcode.runs.environment import environment
from relcode.training.advance import advance, check_finite, initial_state, make_trainer
from relcode.training.fit import fit_settings, products_are_large
from relcode.training.step import take_step, whole_gradients

FB15K_237 = (14_541, 237, 272_115)
PRODUCT = 2048  # rows and columns of the bare product


def drawn_dataset(E: int, R: int, facts: int) -> Dataset:
    """Return distinct random facts, some entities and relations more frequent than others, as in real data."""
    generator = torch.Generator().manual_seed(0)
    columns = [torch.multinomial(1.0 / (10 + torch.arange(size)), 2 * facts, replacement=True, generator=generator) for size in (E, R, E)]
    train_N3 = torch.stack(columns, dim=1).unique(dim=0)
    train_N3 = train_N3[torch.randperm(len(train_N3), generator=generator)[:facts]]
    entities, relations = Vocab([f"e{i:08}" for i in range(E)], "entity"), Vocab([f"r{i:05}" for i in range(R)], "relation")
    return Dataset("drawn", entities, relations, train_N3, train_N3[:0], train_N3[:0])


def steps_apart(dataset: Dataset, settings: Settings, device: torch.device) -> float:
    """Return how far the parameters after one step of the fast products are from those of the plain ones, as a share of the longest change."""

    def after(plain: bool) -> tuple[Parameters, Parameters]:
        fast, chooser = paths_module.tiles_of, step_module._gradients
        trainer, state = make_trainer(dataset, settings, device), initial_state(dataset, settings, device)
        for name, value in state.parameters.tensors().items():
            if "_square_" in name:  # as in mid-training: the first step of Adagrad has one length wherever a gradient is not zero, however small
                value.fill_(1.0)
        before = Parameters(**{name: value.clone() for name, value in state.parameters.tensors().items()})
        generator = torch.Generator(device).manual_seed(1)
        batch = trainer.stream.batch(0, generator)
        try:
            if plain:
                step_module._gradients = lambda *given: whole_gradients(*given[:-1])  # all but the room
                paths_module.tiles_of = lambda matrix_SDD, relation_T, scale_S, width: PlainTiles(matrix_SDD, relation_T, scale_S)  # type: ignore[assignment,misc]
            take_step(state.parameters, batch, trainer.noise, trainer.settings, torch.ones((), device=device), generator)
        finally:
            paths_module.tiles_of, step_module._gradients = fast, chooser
        return before, state.parameters

    (before, fast), (_, plain) = after(False), after(True)
    apart = [(fast.tensors()[name] - value).abs().max() for name, value in plain.tensors().items() if value.numel()]
    moved = [(value - before.tensors()[name]).abs().max() for name, value in plain.tensors().items() if value.numel()]
    return max(float(one / most.clamp_min(1e-30)) for one, most in zip(apart, moved, strict=True))


def check_agreement(dataset: Dataset, device: torch.device) -> None:
    """Stop where the fast and the plain step differ by more than rounding (TF32 products of CUDA round at 1e-3)."""
    for name in ("base", "joint+comp"):
        settings = recipe(name).with_values({"model.dim": 32, "model.code_dim": 4, "sampling.edges": 512, "training.device": device.type})
        with training_precision(device, True) if device.type == "cpu" else full_precision():
            apart = steps_apart(dataset, settings, device)
        if not apart < 1e-3:
            raise SystemExit(f"{name}: a fast step is {apart:.2g} of its length away from the plain one")


def product_gflops(device: torch.device) -> tuple[float, float]:
    """Return the speed of the bare product now, by the clock on the wall and by the processor's own time."""
    left, right = torch.randn(PRODUCT, PRODUCT, device=device), torch.randn(PRODUCT, PRODUCT, device=device)
    seconds, cpu_seconds = [], []
    for _ in range(4):
        start, cpu_start = time.perf_counter(), time.process_time()
        torch.mm(left, right)
        wait(device)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(max(time.process_time() - cpu_start, 1e-9))
    return 2e-9 * PRODUCT**3 / min(seconds), 2e-9 * PRODUCT**3 / min(cpu_seconds)


def wait(device: torch.device) -> None:
    """Wait for the device to finish."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def operations(settings: Settings) -> dict[str, float]:
    """Return the multiplications and additions of one edge, in thousands: three products with a matrix, three with noises, and the regulariser.

    Every draw of the regulariser counts; on the CPU a matrix that is drawn several times in a step is multiplied once.
    """
    d, sampling = settings.model.size, settings.sampling
    assert sampling.noise_draws is not None, "the settings are complete"
    matrices, noises = 6 * d * d, 6 * d * sampling.noise_draws
    orthogonal = 4 * d**3 / settings.updates.orthogonal_every if settings.updates.orthogonal_rate else 0.0
    return {"matrices": matrices / 1e3, "noises": noises / 1e3, "orthogonality": orthogonal / 1e3}


def measure(dataset: Dataset, settings: Settings, device: torch.device, seconds: float) -> dict[str, object]:
    """Take steps for some seconds and return what they took."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    trainer, state = make_trainer(dataset, settings, device), initial_state(dataset, settings, device)
    total = 10**6  # rates hardly fall: the work of a step does not depend on them
    state, stats = advance(state, 3, trainer, total)
    wait(device)
    ready, products = time.perf_counter() - began, [product_gflops(device)]
    speeds, cpu_speeds, steps, spent = [], [], 1, 0.0
    while spent < seconds:
        start, cpu_start = time.perf_counter(), time.process_time()
        state, stats = advance(state, steps, trainer, total)
        took = time.perf_counter() - start
        check_finite(stats, state.step)
        speeds.append(stats.edges / took)
        cpu_speeds.append(stats.edges / max(time.process_time() - cpu_start, 1e-9))
        spent += took
        steps = max(1, round(steps * min(4.0, seconds / 6 / took)))
    products.append(product_gflops(device))
    speed, cpu_speed, work = statistics.median(speeds), statistics.median(cpu_speeds), sum(operations(settings).values()) * 1e-6
    by_wall, by_cpu = zip(*products, strict=True)
    on_cpu = device.type == "cpu"
    return {
        "edges_per_second": round(speed),
        "edges_per_second_all": [round(each) for each in speeds],
        "cpu_edges_per_second": round(cpu_speed) if on_cpu else None,
        "product_gflops": [round(each, 1) for each in by_wall],
        "cpu_product_gflops": [round(each, 1) for each in by_cpu] if on_cpu else None,
        "thousand_operations_an_edge": operations(settings),
        "share_of_product_speed": round(speed * work / statistics.fmean(by_wall), 3),
        "cpu_share_of_product_speed": round(cpu_speed * work / statistics.fmean(by_cpu), 3) if on_cpu else None,
        "seconds_to_get_ready": round(ready, 2),
        "peak_mb": round(torch.cuda.max_memory_allocated() / 1e6) if device.type == "cuda" else None,
    }


def main() -> None:
    """Check, then measure each recipe with each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", default=["base", "joint", "joint+comp"], metavar="RECIPE[:KEY=VALUE,…]")
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", default="1,2", help="on the CPU, separated by commas")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="of stepping, for each line")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    device = torch.device(given.device)
    try:
        dataset = load_dataset(given.dataset)
    except RelcodeError as error:
        print(f"facts are drawn in the numbers of FB15k-237: {error}", file=sys.stderr)
        dataset = drawn_dataset(*FB15K_237)
    torch.use_deterministic_algorithms(device.type == "cpu")  # as training has it
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    check_agreement(dataset, device)
    print("a fast step and a plain one agree", file=sys.stderr)
    for variant in given.recipes:
        name, _, changes = variant.partition(":")
        assignments = [*given.set, *(part for part in changes.split(",") if part)]
        values = {"model.dim": given.dim, "training.device": given.device, **parse_assignments(assignments)}
        settings = fit_settings(recipe(name).with_values(values), dataset)
        for threads in [int(word) for word in given.threads.split(",")] if device.type == "cpu" else [torch.get_num_threads()]:
            torch.set_num_threads(threads)
            with training_precision(device, products_are_large(settings)):
                about = {"precision": torch.get_float32_matmul_precision()}
                figures = measure(dataset, replace(settings), device, given.seconds)
            about |= {"benchmark": "training", "dataset": dataset.name, "recipe": name, "changes": changes}
            about |= {"dim": settings.model.dim, "block": settings.model.block, "threads": threads}
            about |= {"edges_a_step": settings.sampling.edges, "tile": settings.sampling.tile}
            about |= {"noise_draws": settings.sampling.noise_draws, "noise_rows": settings.sampling.noise_rows, "load": round(os.getloadavg()[0], 1)}
            print(json.dumps({**about, **figures, "environment": environment(device) | {"threads": threads}}), flush=True)


if __name__ == "__main__":
    main()
