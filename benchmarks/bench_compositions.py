"""Time the exact mining of compositions: one JSON line a dataset.

    python benchmarks/bench_compositions.py [DATASET …]          default: fb15k-237 fb15k

First the fast miner is compared with a plain count by sets on a small generated knowledge base; then each dataset is mined in a process of its own,
so that the peak of memory (the whole process, Python and torch included) is its own. Datasets lie under $RELCODE_DATA; absent ones are named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from relcode.errors import RelcodeError
from relcode.graph.compositions import FILTERS, MIN_JACCARD, MIN_PAIRS, Composition, PairIndex, keep, mine, mine_index
from relcode.graph.dataset import load_dataset


def plain_mine(facts: list[tuple[int, int, int]], num_relations: int, min_pairs: int, min_jaccard: float) -> set[Composition]:
    """Count every triple of directed relations by Python sets: the truth, and slow."""
    tails: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for head, relation, tail in facts:
        tails[relation][head].add(tail)
        tails[relation + num_relations][tail].add(head)
    pairs = {relation: {(head, tail) for head, ends in tails[relation].items() for tail in ends} for relation in range(2 * num_relations)}
    found = set()
    for r1 in pairs:
        for r2 in pairs:
            if r2 == (r1 + num_relations) % (2 * num_relations):
                continue
            path = {(head, tail) for head, middle in pairs[r1] for tail in tails[r2].get(middle, ())}
            for r3, direct in pairs.items():
                shared = len(path & direct)
                if shared >= min_pairs and shared / len(path | direct) >= min_jaccard:
                    found.add(Composition(r1, r2, r3, shared, len(path), len(direct)))
    return found


def check_agreement() -> int:
    """Compare the miner with the plain count; return how many compositions both found."""
    chance = random.Random(0)
    facts = [(chance.randrange(40), chance.randrange(8), chance.randrange(40)) for _ in range(2500)]
    fast, plain = mine(torch.tensor(facts), 40, 8, min_pairs=20, min_jaccard=0.15), plain_mine(facts, 8, 20, 0.15)
    if set(fast) != plain or not plain:
        raise SystemExit(f"the fast miner found {len(fast)} compositions, the plain count {len(plain)}, and they differ")
    return len(plain)


def measure(name: str) -> dict[str, object]:
    """Mine one dataset and return what it took and gave."""
    dataset = load_dataset(name)
    start = time.perf_counter()
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    found = mine_index(index)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "benchmark": "compositions",
        "dataset": dataset.name,
        "facts": len(dataset.train),
        "directed_relations": dataset.num_directed,
        "min_pairs": MIN_PAIRS,
        "min_jaccard": MIN_JACCARD,
        "seconds": round(seconds, 3),
        "peak_mb": round(peak / 1e6),
        "found": {one: len(keep(found, one, index)) for one in FILTERS},
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "commit": commit(),
    }


def commit() -> str:
    """Return the commit of the checkout this program lies in."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    """Check, then measure each dataset in a process of its own."""
    parser = argparse.ArgumentParser(description="Time the mining of compositions.")
    parser.add_argument("datasets", nargs="*", default=["fb15k-237", "fb15k"])
    parser.add_argument("--alone", action="store_true", help="measure in this process (what the program calls itself with)")
    given = parser.parse_args()
    if given.alone:
        try:
            print(json.dumps(measure(given.datasets[0])))
        except RelcodeError as error:
            print(f"left out: {error}", file=sys.stderr)
        return
    print(f"# the fast miner and the plain count agree on {check_agreement()} compositions of a generated knowledge base", flush=True)
    for name in given.datasets:
        subprocess.run([sys.executable, __file__, "--alone", name], check=True)


if __name__ == "__main__":
    main()
