"""A run whose matrices are made of blocks, beside the same run with its matrices whole: every answer is the same.

The whole run is the other's folder, rewritten: each matrix, encoder and decoder with its zeros, and ``model.block`` 0. Only sums of floats differ.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from runs.short import ended, short
from torch import Tensor

import relcode
from relcode.analysis.composition import joined_pairs, nearest
from relcode.analysis.maps import entity_data, relation_data
from relcode.analysis.matching import match_codes
from relcode.evaluation.path_answers import composed_scores
from relcode.evaluation.path_questions import evaluate_paths
from relcode.experiment import train
from relcode.explore.browse import Browser
from relcode.explore.compositions import constraints, evaluate_constraints
from relcode.explore.export import FORMS, authors_model, export, vectors_of
from relcode.explore.model import Model
from relcode.explore.new_facts import new_facts
from relcode.explore.reasons import explain
from relcode.graph.dataset import Dataset
from relcode.ops.diagonal import whole
from relcode.runs.files import file_digest, read_tensors, write_tensors

D, B = 32, 4
NEW = [("Zoe", "parent", "Ada_1"), ("Zoe", "gender", "female"), ("Zoe", "admires", "Bob_1"), ("Hal_2", "admires", "Zoe")]


def with_zeros(name: str, value: Tensor) -> Tensor:
    """Return a tensor of a run of blocks as one of whole matrices."""
    if name.endswith("_SDD"):
        return whole(value)
    return whole(value.unflatten(1, (D, B))).flatten(1) if name.endswith("_CQ") else value


def rewritten(folder: Path, out: Path) -> Path:
    """Copy a run of blocks as a run of whole matrices."""
    shutil.copytree(folder, out)
    settings = json.loads((out / "settings.json").read_text())
    assert (settings["model"]["dim"], settings["model"]["block"]) == (D, B)
    settings["model"]["block"] = 0
    (out / "settings.json").write_text(json.dumps(settings))
    for path in [out / "best.safetensors", *(out / "checkpoints").iterdir()]:
        tensors, told = read_tensors(path)
        path.unlink()
        write_tensors(path, {name: with_zeros(name, value).contiguous() for name, value in tensors.items()}, told)
    run = json.loads((out / "run.json").read_text())
    status = run["status"]
    for kind in ("checkpoint", "previous"):
        if status.get(kind):
            status[f"{kind}_sha256"] = file_digest(out / "checkpoints" / status[kind])
    status["best_sha256"] = file_digest(out / "best.safetensors")
    (out / "run.json").write_text(json.dumps(run))
    return out


@dataclass(frozen=True)
class Pair:
    """The two runs, opened, each with probabilities."""

    blocks: Model
    whole: Model


@pytest.fixture(scope="module")
def pair(family: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("blocks")
    settings = short("default", model__dim=D, model__block=B, model__code_dim=4, training__epochs=20)
    run = ended(train(family, settings, folder / "blocks"))
    models = [Model.open(place, "cpu") for place in (run.folder, rewritten(run.folder, folder / "whole"))]
    for model in models:
        model.calibrate()
    return Pair(*(Model.open(model.folder, "cpu") for model in models))


def plain(value: Any) -> Any:
    """Return a record of any kind as dicts, lists and numbers."""
    if isinstance(value, pa.Table):
        return value.to_pylist()
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.tolist() if isinstance(value, (Tensor, np.ndarray)) else value


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Yield each place where two plain records differ by more than rounding."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key, value in one.items():
            yield from differences(value, other[key], f"{where}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, value in enumerate(one):
            yield from differences(value, other[place], f"{where}/{place}")
    elif isinstance(one, float) and isinstance(other, float):
        if not (math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) or (one != one and other != other)):
            yield f"{where}: {one} and {other}"
    elif one != other:
        yield f"{where}: {one!r} and {other!r}"


def every_path(model: Model) -> Tensor:
    """Return the scores of all entities at the end of two steps by each relation, forwards and back."""
    relation_S = torch.arange(model.dataset.num_directed)
    return composed_scores(model.scorer, relation_S, torch.stack([relation_S, relation_S.flip(0)], dim=1))


ANSWERS: dict[str, Callable[[Model], Any]] = {
    "score": lambda model: [model.score("Ada_3", relation, "Bob_1") for relation in ("grandparent", "^parent", "gender")],
    "score_facts": lambda model: model.score_facts([("Ada_3", "grandparent", "Bob_1"), ("Bob_1", "^parent", "Ada_2")]),
    "evaluate": lambda model: model.evaluate("test").to_json(relations=True),
    "evaluate by the paper's protocol": lambda model: model.evaluate("valid", protocol="paper"),
    "evaluate_paths": lambda model: evaluate_paths(model.scorer, model.dataset, "test", 30),
    "calibration": lambda model: {name: value for name, value in asdict(model.calibration).items() if name != "weights"},  # a checksum
    "predict_tails": lambda model: model.predict_tails("Ada_3", "grandparent", top=20),
    "predict_tails, new ones": lambda model: model.predict_tails("Ada_3", "^sibling", top=20, new=True),
    "predict_heads": lambda model: model.predict_heads("Bob_1", "parent", top=20),
    "predict_relations": lambda model: model.predict_relations("Ada_3", "Bob_1", top=20),
    "answer_path, composed and by beam": lambda model: model.answer_path("Ada_3", "parent/^parent/gender", top=10),
    "composed_scores": every_path,
    "suggest": lambda model: model.suggest(top=3, reasons=True),
    "new_facts": lambda model: new_facts(model, 5),
    "codes": lambda model: [model.codes().code_SC, model.codes().table()],
    "match_codes": lambda model: match_codes(model.codes(), model.codes(), torch.Generator().manual_seed(0), shuffles=5),
    "matrix": lambda model: [model.matrix("parent"), model.matrix("^spouse"), model.matrix("parent/^sibling/parent")],
    "vector": lambda model: [model.vector("Ada_1"), model.vector("Ada_1", "tail")],
    "explain": lambda model: explain(model, "Ada_3", "grandparent", "Bob_1"),
    "explain, verified": lambda model: explain(model, "Ada_3", "parent", "Bob_2", top=2, verify=True),
    "constraints": lambda model: [plain(one) for one in constraints(model, 5, 0.2).named(2)],
    "constraints, proposed and nearest": lambda model: [plain(constraints(model, 5, 0.2).proposed(5)), constraints(model, 5, 0.2).nearest(3)],
    "evaluate_constraints": lambda model: plain(asdict(evaluate_constraints([model], "all", 5, 0.2))["runs"][0] | {"run": ""}),
    "nearest": lambda model: nearest(model.scorer.matrix_SDD, joined_pairs(constraints(model).index), 12).table(model.dataset.relations),
    "map of relations": lambda model: relation_data(model.scorer, model.dataset),
    "map of entities": lambda model: entity_data(model.scorer, model.dataset),
    "Browser.entities": lambda model: Browser(model).entities("Ada"),
    "Browser.relations": lambda model: Browser(model).relations("", "Ada_3"),
    "Browser.facts": lambda model: Browser(model).facts("Ada_3"),
    "Browser.neighbours": lambda model: Browser(model).neighbours("Ada_3"),
    "Browser.suggestions": lambda model: Browser(model).suggestions("Ada_3", 5, reasons=True),
    "Browser.codes": lambda model: Browser(model).codes(),
    "Browser.relation": lambda model: [Browser(model).relation(relation, 12) for relation in ("parent", "^grandparent")],
    "Browser.compositions": lambda model: Browser(model).compositions(5, 0.2, "all", propose=3),
    "Browser.composition": lambda model: Browser(model).composition("parent/parent", "grandparent"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_those_of_whole_matrices(pair: Pair, name: str) -> None:
    found, expected = plain(ANSWERS[name](pair.blocks)), plain(ANSWERS[name](pair.whole))
    assert expected and list(differences(found, expected)) == []


def test_the_comparison_can_fail(pair: Pair) -> None:
    """And the two runs are what they should be: one of blocks, one of whole matrices with more than zeros in them."""
    assert pair.blocks.scorer.matrix_SDD.shape == (12, D, B) and pair.whole.scorer.matrix_SDD.shape == (12, D, D)
    assert torch.equal(pair.whole.scorer.matrix_SDD, whole(pair.blocks.scorer.matrix_SDD))
    assert pair.blocks.codes().code_SC.any() and pair.blocks.predict_tails("Ada_3", "grandparent")[0].probability is not None
    assert plain(ANSWERS["explain, verified"](pair.blocks))["verification"] and plain(ANSWERS["explain"](pair.blocks))["paths"]
    tails = [plain(pair.blocks.predict_tails(name, "grandparent")) for name in ("Ada_3", "Bea_3")]
    assert len(list(differences(*tails))) > 10
    assert list(differences([1.0, {"a": 2}], [1.0, {"a": 2.5}])) == ["/1/a: 2 and 2.5"]


def test_the_size_of_blocks_is_told(pair: Pair, tmp_path: Path) -> None:
    assert (f"d={D}, b={B}, on family" in repr(pair.blocks)) and f"d={D}, on family" in repr(pair.whole)
    told, expected = Browser(pair.blocks).about(), Browser(pair.whole).about()
    assert (told.pop("block"), expected.pop("block")) == (B, None) and list(differences(told, expected)) == []
    assert export(pair.blocks, "npz", tmp_path / "blocks").endswith("12 directed relations, d = 32, matrices of blocks of 4×4")
    assert export(pair.whole, "npz", tmp_path / "whole").endswith("12 directed relations, d = 32")


@pytest.mark.parametrize("form", sorted(FORMS))
def test_exports_say_the_same(pair: Pair, form: str, tmp_path: Path) -> None:
    """Byte for byte, but for the blocks in safetensors and npz, what Parquet packs, and codes, whose last digits differ; see docs/export.md."""
    for name, model in (("blocks", pair.blocks), ("whole", pair.whole)):
        export(model, form, tmp_path / name, top=3)
    if form in ("safetensors", "npz"):
        kept, expected = vectors_of(pair.blocks).arrays(), vectors_of(pair.whole).arrays()
        block_SKbb, matrix_SDD = kept.pop("block"), expected.pop("matrix")
        assert torch.equal(whole(torch.from_numpy(block_SKbb).flatten(1, 2)), torch.from_numpy(matrix_SDD))
        assert list(differences(plain(kept), plain(expected))) == []
        return
    written = [path.relative_to(tmp_path / "whole") for path in sorted((tmp_path / "whole").rglob("*")) if path.is_file()] or [Path()]
    for path in written:
        one, other = tmp_path / "blocks" / path, tmp_path / "whole" / path
        if path.suffix == ".parquet":
            assert list(differences(plain(pq.read_table(one)), plain(pq.read_table(other)))) == []
            assert pq.read_schema(one).equals(pq.read_schema(other), check_metadata=True)
        elif "relations" not in path.name:  # whose codes in text differ in their last digits
            assert one.read_bytes() == other.read_bytes(), path
        else:
            assert [len(line.split()) for line in one.read_text().splitlines()] == [len(line.split()) for line in other.read_text().splitlines()]


def test_the_authors_layout_gets_whole_matrices_and_the_whole_autoencoder(pair: Pair) -> None:
    kept, expected = authors_model(pair.blocks), authors_model(pair.whole)
    assert kept.encoder_CQ is not None and kept.encoder_CQ.shape == (4, D * B) and expected.encoder_CQ is not None
    assert torch.equal(with_zeros("encoder_CQ", torch.from_numpy(kept.encoder_CQ)), torch.from_numpy(expected.encoder_CQ))


def test_an_extended_run_keeps_its_blocks_and_answers_as_whole_matrices_do(pair: Pair, tmp_path: Path) -> None:
    """What trains further differs, since a whole matrix learns outside the blocks too; so the extended run is rewritten in its turn."""
    more = relcode.extend(pair.blocks.folder, NEW, out=tmp_path / "more", epochs=2, device="cpu", progress=False)
    assert more.scorer.matrix_SDD.shape == (14, D, B) and more.settings.model.block == B
    other = Model.open(rewritten(more.folder, tmp_path / "whole"), "cpu")
    for ask in (lambda model: model.predict_tails("Zoe", "gender"), lambda model: model.predict_heads("Zoe", "admires"), ANSWERS["codes"]):
        assert plain(ask(more)) and list(differences(plain(ask(more)), plain(ask(other)))) == []
    again = relcode.extend(pair.whole.folder, NEW, out=tmp_path / "again", epochs=1, device="cpu", progress=False)
    assert again.scorer.matrix_SDD.shape == (14, D, D) and len(again.predict_tails("Zoe", "gender")) == 10
