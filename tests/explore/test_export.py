from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from family import family_facts

import relcode
from relcode.cli import main
from relcode.errors import DataError, SettingError
from relcode.explore.export import FORMS, authors_model, export, import_authors, vectors_of
from relcode.explore.model import Model
from relcode.formats import authors
from relcode.graph.dataset import Dataset, dataset_from_facts


@pytest.fixture(scope="module")
def model(family_run: Path) -> Model:
    return Model.open(family_run, "cpu")


def all_scores(model: Model) -> torch.Tensor:
    """Return u M v of every head, directed relation and tail; [S, E, E]."""
    scorer = model.scorer
    return torch.einsum("hd,sde,te->sht", scorer.head_ED.double(), scorer.matrix_SDD.double(), scorer.tail_ED.double())


def test_exported_arrays_score_as_the_model_does(model: Model) -> None:
    found = vectors_of(model)
    head, relation, tail = (int(number) for number in model.dataset.test[0])
    names = [model.dataset.entities[head], model.dataset.relations[relation], model.dataset.entities[tail]]
    assert found.head_ED[head] @ found.matrix_SDD[relation] @ found.tail_ED[tail] == pytest.approx(model.score(*names), rel=1e-5)
    assert found.relations[relation + model.dataset.num_relations] == f"^{names[1]}" and found.entities[head] == names[0]
    assert np.allclose(found.code_SC, model.codes().code_SC.numpy())


def test_a_model_comes_back_from_the_authors_layout(model: Model, family: Dataset, tmp_path: Path) -> None:
    export(model, "glimvec", tmp_path / "theirs")
    back = Model.open(import_authors(tmp_path / "theirs", family, tmp_path / "back"), "cpu")
    assert torch.allclose(all_scores(back), all_scores(model), rtol=1e-4, atol=1e-5) and not torch.equal(back.scorer.head_ED, -model.scorer.head_ED)
    assert torch.allclose(back.codes().code_SC, model.codes().code_SC, rtol=1e-4, atol=1e-5)
    assert back.evaluate("test").both.mrr == pytest.approx(model.evaluate("test").both.mrr)
    assert back.run.status.state == "complete" and "imported" in back.run.status.reason


def test_counters_are_whole_and_decay_is_undone(family: Dataset, tmp_path: Path) -> None:
    settings = {"updates.rule": "counted", "sampling.noises": 3, "model.code_dim": 4}
    model = relcode.train(family, "joint", out=tmp_path / "run", dim=8, epochs=5, device="cpu", progress=False, settings=settings)
    found = authors_model(model)
    decay_rate = model.settings.updates.vector_rate * model.settings.updates.vector_decay
    assert found.vector_decay_rate == decay_rate > 0 and found.head_count_E.dtype == np.uint64 and found.head_count_E.max() > 10
    in_force = found.head_ED / (1 + decay_rate * found.head_count_E.astype(np.float64))[:, None]
    assert np.allclose(in_force, model.scorer.head_ED.numpy(), rtol=1e-5)
    assert not np.allclose(found.head_ED, model.scorer.head_ED.numpy(), rtol=1e-3), "nothing decayed: the test shows nothing"


def test_their_order_of_names_and_missing_entities_do_not_matter(model: Model, tmp_path: Path) -> None:
    """The program orders names by frequency and knows those of train alone."""
    given = authors_model(model)
    order, turn = np.arange(len(given.entities))[::-1], np.arange(len(given.relations))[::-1]
    both = np.concatenate([turn, turn + len(turn)])
    changes = {"entities": type(given.entities)([given.entities[int(n)] for n in order])}
    changes |= {"relations": type(given.relations)([given.relations[int(n)] for n in turn], "relation")}
    changes |= {name: getattr(given, name)[order] for name in ("head_ED", "tail_ED", "head_count_E", "tail_count_E")}
    changes |= {name: getattr(given, name)[both] for name in ("matrix_SDD", "matrix_count_S")}
    changes |= {"entity_facts_E": None, "relation_facts_R": None}
    authors.write(authors.AuthorsModel(**{**given.__dict__, **changes}), tmp_path / "theirs")
    facts = family_facts()
    stranger = ("Somebody new", facts["test"][0][1], facts["test"][0][2])
    wider = dataset_from_facts({**facts, "test": [*facts["test"], stranger]}, name="wider")
    back = Model.open(import_authors(tmp_path / "theirs", wider, tmp_path / "back"), "cpu")
    number = wider.entities.index("Somebody new")
    assert not back.scorer.head_ED[number].any() and not back.scorer.tail_ED[number].any()
    for head, relation, tail in facts["test"]:
        assert back.score(head, relation, tail) == pytest.approx(model.score(head, relation, tail), rel=1e-3, abs=1e-4)


def test_a_model_of_other_data_is_refused(model: Model, tmp_path: Path) -> None:
    export(model, "glimvec", tmp_path / "theirs")
    with pytest.raises(DataError, match=r"entity names are not in other, first .*: other data\?"):
        import_authors(tmp_path / "theirs", dataset_from_facts([("a", "r", "b")], name="other"), tmp_path / "back")
    facts = family_facts()
    more = dataset_from_facts({**facts, "train": [*facts["train"], (facts["train"][0][0], "new_relation", facts["train"][0][2])]}, name="more")
    with pytest.raises(DataError, match=r"knows 6 relations, more has 7: other data\?"):
        import_authors(tmp_path / "theirs", more, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_format_is_written_by_the_command(family_run: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", str(family_run), "--format", form, "--out", str(out), "--top", "3", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.strip() == str(out) and out.exists()
    assert main(["export", str(family_run), "--format", form, "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_suggested_facts_are_new_ones(family_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(family_run), "--format", "ntriples", "--out", str(tmp_path / "x.nt"), "--top", "5", "--relation", "sibling"]) == 0
    lines = (tmp_path / "x.nt").read_text().splitlines()
    assert len(lines) == 5 and all("<urn:relcode:relation:sibling>" in line for line in lines)
    stated = {fact for facts in family_facts().values() for fact in facts}
    pairs = [[part.removeprefix("<urn:relcode:entity:").rstrip(">") for part in line.split()[:3:2]] for line in lines]
    assert not any((head, "sibling", tail) in stated for head, tail in pairs)


def test_import_by_the_command(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(model, "glimvec", tmp_path / "theirs")
    for split, facts in family_facts().items():
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{split}.txt").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    assert main(["import-authors", str(tmp_path / "theirs"), str(tmp_path / "data"), "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["mrr"] == pytest.approx(model.evaluate("test").both.mrr)


def test_an_unknown_format_tells_the_known_ones(model: Model, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="unknown format 'safetensor': did you mean 'safetensors'"):
        export(model, "safetensor", tmp_path / "x")


@pytest.mark.parametrize(("name", "normalise"), [("base", True), ("base", False), ("default", False)])
def test_other_recipes_are_exported_and_come_back_too(family: Dataset, tmp_path: Path, name: str, normalise: bool) -> None:
    """Without an autoencoder; with matrices of any norm; with one vector an entity."""
    from runs.short import ended, short

    from relcode.experiment import train

    run = ended(train(family, short(name, model__normalise=normalise, training__epochs=2), tmp_path / "run"))
    base = Model.open(run.folder, "cpu")
    for form in ("safetensors", "npz", "parquet", "projector", "glimvec"):
        export(base, form, tmp_path / form)
    back = Model.open(import_authors(tmp_path / "glimvec", family, tmp_path / "back"), "cpu")
    assert (back.parameters.encoder_CQ is None) == (name == "base") and torch.allclose(all_scores(back), all_scores(base), rtol=1e-4, atol=1e-5)


def test_a_run_of_blocks_comes_back_whole(family: Dataset, tmp_path: Path) -> None:
    """With the same scores and codes: their layout has whole matrices, and so has the autoencoder."""
    from runs.short import ended, short

    from relcode.experiment import train

    run = ended(train(family, short("default", model__dim=16, model__block=4), tmp_path / "run"))
    model = Model.open(run.folder, "cpu")
    export(model, "glimvec", tmp_path / "theirs")
    back = Model.open(import_authors(tmp_path / "theirs", family, tmp_path / "back"), "cpu")
    assert back.parameters.matrix_SDD.shape == (12, 16, 16) and model.parameters.matrix_SDD.shape == (12, 16, 4)
    for head, relation, tail in family_facts()["test"]:
        assert back.score(head, relation, tail) == pytest.approx(model.score(head, relation, tail), rel=1e-4, abs=1e-5)
    assert model.codes().code_SC.any() and torch.allclose(back.codes().code_SC, model.codes().code_SC, rtol=1e-4, atol=1e-5)
