from __future__ import annotations

import json
from pathlib import Path

import pytest

import relcode as package
from relcode.explore.reasons import explain

FACT = ("--head", "Ada_4", "--relation", "grandparent", "--tail", "Ada_2")


def a_fact(run: Path) -> tuple[str, str, str]:
    data = package.load(run).dataset
    h, r, t = data.test[0].tolist()
    return data.entities[h], data.relations[r], data.entities[t]


def test_an_explanation_is_printed_part_by_part(relcode, family_run: Path) -> None:
    head, relation, tail = a_fact(family_run)
    result = relcode("explain", family_run, "--head", head, "--relation", relation, "--tail", tail, "--verify")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == f"{head}  {relation}  {tail}  (known)" and "against the mean candidate; rank" in lines[1]
    for part in ("What carries it", "Paths for it", "Similar facts", "with similar codes", "Against it", "Is it needed?", "random (mean)"):
        assert part in result.out
    assert "fitted again" not in relcode("explain", family_run, "--head", head, "--relation", relation, "--tail", tail).out


def test_json_is_the_record(relcode, family_run: Path) -> None:
    fact = a_fact(family_run)
    result = relcode("explain", family_run, "--head", fact[0], "--relation", fact[1], "--tail", fact[2], "--top", 2, "--verify", "--json")
    expected = explain(package.load(family_run), *fact, top=2, verify=True)
    assert json.loads(result.out) == json.loads(json.dumps(expected.to_json()))
    assert len(expected.paths) == len(expected.similar) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--head", "Ada_9", *FACT[2:]), "unknown entity 'Ada_9'"),
        ((*FACT[:2], "--relation", "granparent", *FACT[4:]), "did you mean 'grandparent'"),
        ((*FACT, "--top", 0), "top cannot be 0"),
        (FACT[:4], "--tail"),
    ],
)
def test_mistakes_are_one_line(relcode, family_run: Path, options: tuple[object, ...], message: str) -> None:
    result = relcode("explain", family_run, *options)
    assert (result.code, result.out) == (2, "") and message in result.err and result.err.count("\n") == 1


def test_an_entity_never_trained_has_nothing_to_verify(relcode, tmp_path: Path) -> None:
    facts = {"train": [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")], "valid": [("a", "r", "c")], "test": [("z", "r", "a")]}
    package.train(package.dataset_from_facts(facts), "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, progress=False, device="cpu")
    result = relcode("explain", tmp_path / "run", "--head", "z", "--relation", "r", "--tail", "a", "--verify")
    assert result.code == 0 and "'z' never occurred in training" in result.err and "nothing to verify" in result.err
