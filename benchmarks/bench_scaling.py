"""How the cost of training grows: edges a second against batch size, dimension, number of relations and of entities, on drawn facts.

    python benchmarks/bench_scaling.py [--device cuda] [--entities 10000,100000,…] [--out scaling.json] [--plot scaling.png]
    python benchmarks/bench_scaling.py --from scaling.json --plot scaling.png

One thing varies at a time, the others stay at --at (edges a step, dimension, relations, entities). First a fast step is compared with a plain one.
Prints one JSON line with all points, and writes it to --out; --plot draws it (needs matplotlib), also later and elsewhere, from a file. Parameters
are drawn on the device itself: here only the time of steps counts.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from bench_training import check_agreement, drawn_dataset, product_gflops, wait

from relcode.config import Settings
from relcode.model.parameters import Parameters
from relcode.ops.precision import training_precision
from relcode.recipes import DataShape, fit_nce, fit_to_device, recipe
from relcode.runs.environment import environment
from relcode.sampling.facts import FactStream
from relcode.sampling.noise import NoiseSource
from relcode.training.advance import Trainer, advance, check_finite
from relcode.training.state import TrainState

AXES = ("edges", "dim", "relations", "entities")
LABELS = {"edges": "edges a step", "dim": "dimension d", "relations": "relations", "entities": "entities"}
SIZES = {
    "cuda": {
        "edges": (1024, 4096, 16384, 65536),
        "dim": (32, 64, 128, 256, 512),
        "relations": (10, 50, 237, 1000, 4000),
        "entities": (10_000, 100_000, 1_000_000, 10_000_000),
    },
    "cpu": {
        "edges": (512, 1024, 2048, 4096, 8192),
        "dim": (32, 64, 128, 256),
        "relations": (10, 50, 237, 500),
        "entities": (10_000, 100_000, 1_000_000),
    },
}
AT = {"cuda": "16384,256,237,14541", "cpu": "4096,128,237,14541"}


def drawn_parameters(E: int, S: int, D: int, device: torch.device) -> Parameters:
    """Return parameters as training begins with, drawn on the device."""
    head_ED = torch.randn(E, D, device=device) / math.sqrt(D)
    matrix_SDD = (torch.randn(S, D, D, device=device) / math.sqrt(D) + torch.eye(D, device=device)) / 2
    counts = {name: torch.zeros(size, dtype=torch.float64, device=device) for name, size in (("head", E), ("tail", E))}
    return Parameters(
        head_ED=head_ED,
        tail_ED=head_ED.clone(),
        matrix_SDD=matrix_SDD,
        head_count_E=counts["head"],
        tail_count_E=counts["tail"],
        matrix_count_S=torch.zeros(S, dtype=torch.float64, device=device),
        head_square_ED=torch.zeros_like(head_ED),
        tail_square_ED=torch.zeros_like(head_ED),
        matrix_square_SDD=torch.zeros_like(matrix_SDD),
    )


def drawn_facts(E: int, S: int, count: int) -> torch.Tensor:
    """Return directed facts: entities alike, relations by 1/(10 + number); int64 [N, 3]."""
    generator = torch.Generator().manual_seed(0)
    relation_N = torch.multinomial(1.0 / (10 + torch.arange(S)), count, replacement=True, generator=generator)
    return torch.stack([torch.randint(E, (count,), generator=generator), relation_N, torch.randint(E, (count,), generator=generator)], dim=1)


def point(sizes: dict[str, int], facts: int, device: torch.device, seconds: float) -> dict[str, Any]:
    """Train one configuration for some seconds and return its speed and memory."""
    settings: Settings = recipe("base").with_values({"model.dim": sizes["dim"], "sampling.edges": sizes["edges"], "training.device": device.type})
    shape = DataShape(facts=facts // 2, entities=sizes["entities"], relations=sizes["relations"], pairs=facts // 2, questions=facts)
    settings = fit_to_device(fit_nce(settings, shape), device.type == "cuda")
    S = 2 * sizes["relations"]
    facts_N3 = drawn_facts(sizes["entities"], S, facts)
    sampling = settings.sampling
    stream = FactStream(facts_N3, S, edges=sizes["edges"], tile=sampling.tile, seed=0, device=device, power=sampling.head_power)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    trainer = Trainer(stream, NoiseSource(facts_N3, sampling.noise, device), settings, device)
    state = TrainState(drawn_parameters(sizes["entities"], S, sizes["dim"], device), 0, torch.Generator(device).manual_seed(1))
    state, stats = advance(state, 3, trainer, 10**6)
    wait(device)
    speeds, steps, spent = [], 1, 0.0
    while spent < seconds:
        start = time.perf_counter()
        state, stats = advance(state, steps, trainer, 10**6)
        took = time.perf_counter() - start
        check_finite(stats, state.step)
        speeds.append(stats.edges / took)
        spent += took
        steps = max(1, round(steps * min(4.0, seconds / 4 / took)))
    peak = torch.cuda.max_memory_allocated() / 1e6 if device.type == "cuda" else None
    return {**sizes, "facts": facts, "edges_per_second": round(statistics.median(speeds[-3:])), "peak_mb": peak and round(peak)}


def short(number: int) -> str:
    """Write 16384 as 16 K, and ten million as 10 M."""
    for size, letter in ((10**6, " M"), (10**3, " K")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)


def draw(record: dict[str, Any], path: Path) -> None:
    """Draw the points, one panel for each thing that varies."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(14, 3.4), sharey=True)
    for axis, name in zip(axes, AXES, strict=True):
        points = sorted((one[name], one["edges_per_second"]) for one in record["points"][name])
        axis.plot(*zip(*points, strict=True), marker="o")
        axis.set(xscale="log", yscale="log", xlabel=LABELS[name])
        axis.set_xticks([size for size, _ in points], [short(size) for size, _ in points])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    speeds = [one["edges_per_second"] for name in AXES for one in record["points"][name]]
    ticks = [lead * 10**power for power in range(12) for lead in (1, 2, 5) if min(speeds) / 2 <= lead * 10**power <= 2 * max(speeds)]
    axes[0].set_yticks(ticks, [short(tick) for tick in ticks])
    axes[0].set_ylabel("directed edges/s")
    edges, dim, relations, entities = record["at"].values()
    fixed = f"{edges:,} edges a step, d = {dim}, {relations:,} relations, {entities:,} entities but for what varies"
    figure.suptitle(f"base on {record['environment']['device']}: {fixed}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def numbers(text: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    return tuple(int(word) for word in text.split(",") if word)


def main() -> None:
    """Check, measure every point, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--at", default=None, help="edges a step, dimension, relations, entities where they do not vary")
    for name in AXES:
        parser.add_argument(f"--{name}", default=None, help=f"sizes of {LABELS[name]}, separated by commas")
    parser.add_argument("--facts", type=int, default=544_230, help="directed facts drawn")
    parser.add_argument("--seconds", type=float, default=1.5, help="of stepping, for each point")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--from", type=Path, default=None, dest="source", help="draw this earlier record instead of measuring")
    given = parser.parse_args()
    if given.source is not None:
        draw(json.loads(given.source.read_text(encoding="utf-8")), given.plot or given.source.with_suffix(".png"))
        return
    device = torch.device(given.device)
    torch.use_deterministic_algorithms(device.type == "cpu")
    check_agreement(drawn_dataset(500, 8, 4000), device)
    print("a fast step and a plain one agree", file=sys.stderr)
    at = dict(zip(AXES, numbers(given.at or AT[device.type]), strict=True))
    points: dict[str, list[dict[str, Any]]] = {}
    for name in AXES:
        chosen = getattr(given, name)
        for size in SIZES[device.type][name] if chosen is None else numbers(chosen):
            with training_precision(device, large=False):
                points.setdefault(name, []).append(point({**at, name: size}, given.facts, device, given.seconds))
            print(f"{LABELS[name]} {size:,}: {points[name][-1]['edges_per_second']:,} edges/s", file=sys.stderr, flush=True)
    record = {"benchmark": "scaling", "recipe": "base", "at": at, "points": points, "product_gflops": round(product_gflops(device)[0], 1)}
    record["environment"] = environment(device)
    print(json.dumps(record), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if given.plot is not None:
        draw(record, given.plot)


if __name__ == "__main__":
    main()
