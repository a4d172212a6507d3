"""A few thousand of the cases that ``make soak`` runs by the million."""

from __future__ import annotations

import pytest
from formats.fuzz_parsers import FUZZED, run

CASES = {"lines": 400, "tsv": 200, "csv": 200, "ntriples": 400, "nquads": 400, "turtle": 300, "trig": 200, "rdfxml": 300}


@pytest.mark.parametrize("name", FUZZED)
def test_the_sound_example_is_read(name: str) -> None:
    function, example = FUZZED[name]
    assert function(example)


@pytest.mark.parametrize("name", FUZZED)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    cases = CASES.get(name, 100)
    assert run(name, cases) < cases  # some are refused, and none is worse than that
