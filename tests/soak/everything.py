"""All targets together: run folders and weight files (here), and the parsers of data (``tests/formats/fuzz_parsers.py``)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from formats.fuzz_parsers import FUZZED, mutated
from soak.mutations import Choices, spoilt_bytes
from soak.targets import Target, targets

# How much of the cases a target gets, where that is not 0.1: a run folder takes fifty times as long as a line of text.
QUICK = {"weight files": 2.0, "strict JSON": 2.0, "archives": 1.5, "lines": 1.5, "tsv": 1.5, "csv": 1.5}
MIDDLING = {"authors' models": 0.3, "ntriples": 0.5, "nquads": 0.5, "turtle": 0.5, "trig": 0.5, "rdfxml": 0.5}
SHARES = {**QUICK, **MIDDLING, "run folders": 0.15, "settings": 0.15}
OTHER_SHARE = 0.1


def parsers() -> list[Target]:
    """Return the parsers of data as targets: any bytes are read or refused, and what is raised is caught inside unless it is no error of ours."""
    return [Target(name, _made_of(example), function) for name, (function, example) in FUZZED.items()]


def _made_of(example: bytes) -> Callable[[Choices], bytes]:
    """Return a maker of changed examples: half of them by the odd texts that parsers trip over, half by bytes."""

    def make(choose: Choices) -> bytes:
        return mutated(example, Random(choose.integer(0, 2**32))) if choose.integer(0, 1) else spoilt_bytes(choose, lambda: example)

    return make


def every_target() -> list[Target]:
    """Return all targets."""
    return targets() + parsers()
