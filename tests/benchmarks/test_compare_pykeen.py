"""The comparison with PyKEEN on a small KB: the whole of it where PyKEEN is installed, and every part that does without it."""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from family import family_facts

from relcode.graph.dataset import Dataset

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "compare_pykeen.py"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_pykeen", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The family as a folder of facts, which the program opens as it opens a benchmark."""
    folder = tmp_path / "family"
    folder.mkdir()
    for split, facts in family_facts().items():
        (folder / f"{split}.txt").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    return folder


def their_model(entity_ED: torch.Tensor, relation_S: torch.Tensor, score: Any = None) -> SimpleNamespace:
    """What of PyKEEN's models is looked at."""
    return SimpleNamespace(entity_representations=[lambda: entity_ED], relation_representations=[lambda: relation_S], score_hrt=score)


def complex_values(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


def test_all_sides_on_a_small_kb(program: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pykeen", reason="PyKEEN is not installed: pip install '.[compare]'")
    picture = folder / "looks.png"
    program.main([str(folder), "--dim", "8", "--epochs", "2", "--pykeen-epochs", "3", "--device", "cpu", "--plot", str(picture)])
    printed = capsys.readouterr()
    records = [json.loads(line) for line in printed.out.splitlines()]
    assert [record["side"] for record in records] == ["relcode default", "PyKEEN RESCAL", "PyKEEN ComplEx"]
    assert [[look["epoch"] for look in record["history"]] for record in records] == [[1, 2], [1, 2, 3], [1, 2, 3]]
    for record in records:
        assert record["dataset"] == "family" and record["dim"] == 8
        assert all(0 < look["mrr"] < 1 and look["training_seconds"] > 0 for look in record["history"])
        assert 0 < record["test"]["mrr"] < 1 and record["test"]["mr"] >= 1
        assert ("pykeen" in record["environment"]) == record["side"].startswith("PyKEEN")
    assert printed.err.endswith(program.table(records) + "\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_our_side_is_a_look_an_epoch_and_better_for_it(program: ModuleType, family: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    looks = program.relcode_side(family, 8, 12, CPU)
    record = program.measure("relcode default", looks, family, argparse.Namespace(dim=8))
    history = record["history"]
    assert [look["epoch"] for look in history] == list(range(1, 13)) == list(range(1, record["epochs"] + 1))
    assert history[-1]["mrr"] > history[0]["mrr"]
    assert record["seconds_per_epoch"] == history[-1]["training_seconds"] / 12
    assert set(record["test"]) == {"mrr", "mr", "hits@1", "hits@10"} and "pykeen" not in record["environment"]
    assert len(capsys.readouterr().err.splitlines()) == 12


def test_matrices_of_rescal_are_taken_in_our_order(program: ModuleType, family: Dataset) -> None:
    R = family.num_relations
    entity, matrix = torch.randn(family.num_entities, 4), torch.randn(2 * R, 4, 4)
    scorer = program.as_scorer(their_model(entity, matrix), family)
    for r, number in ((1, 2), (R + 1, 3)):  # theirs: a relation is 2r, its inverse 2r + 1
        found = scorer.score_facts(torch.tensor([[0, r, 5]]))
        torch.testing.assert_close(found, (entity[0] @ matrix[number] @ entity[5])[None])


def test_complex_is_a_bilinear_form(program: ModuleType, family: Dataset) -> None:
    entity, relation = complex_values(family.num_entities, 3), complex_values(2 * family.num_relations, 3)
    scorer = program.as_scorer(their_model(entity, relation), family)
    expected = (entity[2] * relation[4] * entity[7].conj()).sum().real  # Re Σ h r t̄; not the same the other way round
    torch.testing.assert_close(scorer.score_facts(torch.tensor([[2, 2, 7]])), expected[None])
    assert abs(float(scorer.score_facts(torch.tensor([[7, 2, 2]]))) - float(expected)) > 1e-3


@pytest.mark.parametrize("shift", [0, 1])
def test_scores_that_differ_stop_it(program: ModuleType, family: Dataset, shift: int) -> None:
    """``shift``: their inverse taken for the relation."""
    entity, relation = complex_values(family.num_entities, 3), complex_values(2 * family.num_relations, 3)

    def score_hrt(facts_N3: torch.Tensor) -> torch.Tensor:
        head, number, tail = facts_N3.unbind(1)
        return (entity[head] * relation[number + shift] * entity[tail].conj()).sum(1, keepdim=True).real

    model = their_model(entity, relation, score_hrt)
    scorer = program.as_scorer(model, family)
    if shift:
        with pytest.raises(AssertionError, match="not close"):
            program.check_agreement(model, scorer, family)
    else:
        program.check_agreement(model, scorer, family)


def record_of(side: str, seconds: list[float]) -> dict[str, Any]:
    history = [{"epoch": epoch, "training_seconds": at, "mrr": 0.1 * epoch, "hits@10": 0.5} for epoch, at in enumerate(seconds, 1)]
    test = {"mrr": 0.25, "mr": 3.0, "hits@1": 0.125, "hits@10": 0.75}
    return {"side": side, "dataset": "family", "dim": 8, "seconds_per_epoch": seconds[-1] / len(seconds), "history": history, "test": test}


def test_table_and_picture(program: ModuleType, tmp_path: Path) -> None:
    records = [record_of("relcode default", [0.5, 1.0]), record_of("PyKEEN RESCAL", [3.0])]
    told = [line.split() for line in program.table(records).splitlines()]
    assert told[1:] == [["relcode", "default", "0.500", "1.0", "0.2500", "0.750"], ["PyKEEN", "RESCAL", "3.000", "3.0", "0.2500", "0.750"]]
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    program.plot(records, str(tmp_path / "looks.png"))
    assert (tmp_path / "looks.png").read_bytes().startswith(b"\x89PNG")


def test_arguments(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    given = program.read_arguments(["umls", "--dim", "32", "--device", "cpu"])
    assert (given.dataset, given.dim, given.epochs, given.pykeen_epochs, given.device, given.plot) == ("umls", 32, 20, None, "cpu", None)
    with pytest.raises(SystemExit):
        program.read_arguments(["umls", "--device", "tpu"])
    assert "invalid choice" in capsys.readouterr().err
