"""What a checkpoint costs at the size of FB15k's joint model: seconds for each, and the share of training time at the interval in use.

    python benchmarks/bench_checkpoint.py                       # FB15k, joint, d = 256: some 750 MB a checkpoint, beside 3 GB of memory
    python benchmarks/bench_checkpoint.py --entities 14541 --relations 237

First it is checked that what was saved comes back bit for bit; then saving is timed, into a folder that is removed again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from relcode.experiment import CHECKPOINT_SECONDS
from relcode.graph.dataset import Dataset
from relcode.graph.vocab import Vocab
from relcode.recipes import fit_to_data, recipe
from relcode.runs.environment import environment
from relcode.runs.files import finish_flushing
from relcode.runs.run import create_run, open_run
from relcode.training.advance import initial_state

CPU = torch.device("cpu")


def main() -> None:
    """Read the arguments, check, time, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=14_951)
    parser.add_argument("--relations", type=int, default=1_345)
    parser.add_argument("--recipe", default="joint")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write (a folder on the disk that runs are kept on)")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-checkpoint-", dir=options.folder))
    try:
        print(json.dumps(measure(options, place)))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def measure(options: argparse.Namespace, place: Path) -> dict[str, object]:
    """Save a state of the sizes asked for several times and return what that took."""
    settings = fit_to_data(recipe(options.recipe).with_values({"model.dim": options.dim, "training.device": "cpu"}), 483_142)
    fact_13 = torch.tensor([[0, 0, 1]])
    dataset = Dataset(
        name="sizes of FB15k",
        entities=Vocab([f"/m/{number:07d}" for number in range(options.entities)]),
        relations=Vocab([f"/r/{number:05d}" for number in range(options.relations)], "relation"),
        train=fact_13,
        valid=fact_13[:0],
        test=fact_13[:0],
    )
    state = initial_state(dataset, settings, CPU)
    run = create_run(place / "run", dataset, settings, CPU, state)
    back = open_run(run.folder).load_state(CPU).parameters.tensors()
    assert all(torch.equal(value, back[name]) for name, value in state.parameters.tensors().items()), "a checkpoint must come back bit for bit"
    del back
    seconds, cpu_seconds, best_seconds = [], [], []
    for number in range(1, options.repeat + 1):
        finish_flushing()  # in training, minutes lie between two of them
        began, worked = time.perf_counter(), time.process_time()
        run = run.save(replace(state, step=number))
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.process_time() - worked)
        finish_flushing()
        began = time.perf_counter()
        run = run.with_best(state.parameters, {"step": number, "mrr": number / 100})
        best_seconds.append(time.perf_counter() - began)
    size = (run.folder / "checkpoints" / run.status.checkpoint).stat().st_size
    median = statistics.median(seconds)
    return {
        "recipe": options.recipe,
        "dim": options.dim,
        "entities": options.entities,
        "relations": options.relations,
        "checkpoint_bytes": size,
        "checkpoint_seconds": round(median, 3),
        "checkpoint_seconds_all": [round(one, 3) for one in seconds],
        "checkpoint_cpu_seconds": round(statistics.median(cpu_seconds), 3),
        "best_seconds": round(statistics.median(best_seconds), 3),
        "interval_seconds": CHECKPOINT_SECONDS,
        "share_at_interval": round(median / (CHECKPOINT_SECONDS + median), 5),
        "bytes_per_second": round(size / median),
        "environment": environment(),
    }


if __name__ == "__main__":
    main()
