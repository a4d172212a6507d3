"""Fuzz for long: ``make soak``, or ``python tests/soak/run.py --cases 1000000 --seed 1``.

The cases are shared out among the targets; each part of some thousand has a seed of its own, so that a failure can be met again:
``--only TARGET --seed SEED --cases 5000``. Prints a line of JSON for each target; a case that breaks something ends it with that case.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import tempfile
import time
import traceback
import typing
from collections.abc import Callable
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from soak.everything import OTHER_SHARE, SHARES, every_target  # noqa: E402
from soak.mutations import Rolled, strategy  # noqa: E402
from soak.targets import FAST, Target  # noqa: E402

PART = 5000  # cases with a seed of their own; hypothesis remembers those of one part, and forgets them with it
BY_HYPOTHESIS = 0.05  # of the cases; it takes ten times as long and looks where a random stream seldom does


def soak(target: Target, cases: int, first_seed: int) -> dict[str, object]:
    """Meet a target with many cases; return how many there were and how many were accepted."""
    met = {"cases": 0, "accepted": 0}
    began = time.perf_counter()

    def meet(case: object) -> None:
        met["cases"] += 1
        met["accepted"] += target.run(case)

    for part in range(-(-cases // PART)):
        count, number = min(PART, cases - part * PART), first_seed + part
        try:
            _by_hypothesis(target, meet, max(1, round(BY_HYPOTHESIS * count)), number)
            choose = Rolled(Random(number))
            for _ in range(count - met["cases"] + part * PART):
                meet(case := target.make(choose))
        except Exception as error:
            lines = traceback.format_exc().splitlines()
            print("\n".join(line[:1000] for line in lines[-40:]), file=sys.stderr)  # a case may be long
            if "case" in locals():
                print(f"case: {repr(case)[:4000]}", file=sys.stderr)
            raise SystemExit(f"{target.name}: {type(error).__name__} in the part with --seed {number}") from None
    return {"target": target.name, **met, "seconds": round(time.perf_counter() - began, 1), "seed": first_seed}


def _by_hypothesis(target: Target, meet: Callable[[object], None], count: int, number: int) -> None:
    """Let hypothesis make the cases of a part, and find a small one where one breaks something."""
    checks = list(HealthCheck)
    rules = settings(max_examples=count, database=None, deadline=None, phases=(Phase.generate, Phase.shrink), suppress_health_check=checks)

    @seed(number)
    @rules
    @given(strategy(target.make))
    def drawn(case: object) -> None:
        meet(case)

    drawn()


def main() -> None:
    """Read the arguments and fuzz."""
    parser = argparse.ArgumentParser(description="Fuzz parsers, run folders and weight files.")
    parser.add_argument("--cases", type=int, default=1_000_000, help="how many, all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one target alone, all cases for it")
    options = parser.parse_args()
    tempfile.tempdir = FAST  # files of a moment
    typing.get_type_hints = functools.cache(typing.get_type_hints)  # what settings spend most of their time on, always with the same answer
    chosen = [target for target in every_target() if options.only in (None, target.name)]
    weight = {target.name: SHARES.get(target.name, OTHER_SHARE) for target in chosen}
    total = 0
    for target in chosen:
        found = soak(target, math.ceil(options.cases * weight[target.name] / sum(weight.values())), options.seed)
        total += int(str(found["cases"]))
        print(json.dumps(found), flush=True)
    print(json.dumps({"target": "all", "cases": total}), flush=True)


if __name__ == "__main__":
    main()
