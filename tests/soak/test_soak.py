"""Some thousand of the cases that ``make soak`` has a million of; always the same ones here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from soak import guided
from soak.everything import every_target, parsers
from soak.mutations import Rolled, strategy
from soak.run import soak
from soak.targets import Target, accepted, targets

from relcode.errors import DataError

CASES, BY_HYPOTHESIS = 800, 60
SLOW = {"run folders": 200, "settings": 200}
TARGETS = {target.name: target for target in targets()}  # those of data have theirs in tests/formats/test_fuzz.py


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_only_our_errors_come_out(name: str) -> None:
    target, seen = TARGETS[name], {True: 0, False: 0}
    rules = settings(max_examples=BY_HYPOTHESIS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))

    @settings(rules, phases=(Phase.generate, Phase.shrink))
    @given(strategy(target.make))
    def meet(case: object) -> None:
        seen[target.run(case)] += 1

    meet()
    choose = Rolled(Random(1))
    for _ in range(SLOW.get(name, CASES)):
        seen[target.run(target.make(choose))] += 1
    assert seen[False] > sum(seen.values()) // 10, "hardly anything was refused: the cases are too tame to show anything"


def test_every_target_makes_cases_and_meets_them() -> None:
    assert len(every_target()) == len(TARGETS) + len(parsers()) > 20
    for target in every_target():
        assert soak(target, 5, 1)["cases"] == 5


@pytest.mark.parametrize("seed", [0, 1])
def test_the_soak_finds_what_breaks(seed: int) -> None:
    def breaks(case: int) -> bool:
        return accepted(lambda: 1 // case)

    with pytest.raises(SystemExit, match=f"bad: ZeroDivisionError in the part with --seed {seed}"):
        soak(Target("bad", lambda choose: choose.integer(0, 9), breaks), 200, seed)
    assert soak(Target("good", lambda choose: choose.integer(1, 9), breaks), 20, 1)["cases"] == 20


def test_two_lines_are_not_one() -> None:
    def two_lines() -> None:
        raise DataError("one\ntwo")

    with pytest.raises(AssertionError, match="not one line"):
        accepted(two_lines)


def test_what_coverage_guides_meets_its_examples() -> None:
    for name, (function, examples) in guided.met().items():
        assert examples and all(function(example) for example in examples), f"{name}: a sound example is refused"
        function(b"")
        function(b"\xff\0" * 20)


def test_coverage_guides(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed")
    found = guided.guided("paths", 300, 0, tmp_path)
    assert found["cases"] == 300 and int(str(found["branches"])) > 20 and int(str(found["kept"])) > 3 and list(tmp_path.iterdir()) == []
