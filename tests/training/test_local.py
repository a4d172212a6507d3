from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from training.small import CPU, same, small, snapshot

from relcode.config import Settings
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.graph.joining import Joined, join_facts
from relcode.model.parameters import Parameters, vectors_in_force
from relcode.training import local
from relcode.training.advance import advance, initial_state, make_trainer
from relcode.training.fit import fit_settings
from relcode.training.local import Extension, Still, extended_settings, fit_, local_facts, placed, touched_entities

NEW = [("Zoe", "parent", "Ada_1"), ("Zoe", "sibling", "Yan"), ("Ada_1", "admires", "Bob_1"), ("Zoe", "admires", "Bob_1")]
NAMES = ["default", "joint", "base+comp"]


def trained(family: Dataset, name: str) -> tuple[Parameters, Settings]:
    settings = fit_settings(small(name, softmax__questions=64, softmax__question_tile=8), family)
    state, _ = advance(initial_state(family, settings, CPU), 4, make_trainer(family, settings, CPU), 10)
    return state.parameters, settings


def join(family: Dataset, facts: list[tuple[str, str, str]] = NEW) -> Joined:
    return join_facts(family, dataset_from_facts(facts))


@pytest.mark.parametrize("name", NAMES)
def test_old_rows_are_placed_as_they_were(name: str, family: Dataset) -> None:
    old, settings = trained(family, name)
    joined, before = join(family), snapshot(old)
    parameters = placed(joined, old, settings, CPU)
    half, old_half = joined.dataset.num_relations, joined.old_relations
    for key, value in parameters.tensors().items():
        letter = key.rpartition("_")[2][:1]
        if letter == "S":
            assert torch.equal(value[:old_half], before[key][:old_half]) and torch.equal(value[half : half + old_half], before[key][old_half:])
        else:
            assert torch.equal(value[: joined.old_entities] if letter == "E" else value, before[key])


def test_a_new_entity_begins_at_the_mean_image_of_its_placed_neighbours(family: Dataset) -> None:
    old, settings = trained(family, "default")
    joined = join(family)
    data, parameters = joined.dataset, placed(joined, old, settings, CPU)
    zoe, yan, ada = (data.entities.index(name) for name in ("Zoe", "Yan", "Ada_1"))
    image_D = (
        old.head_ED[ada] @ parameters.matrix_SDD[data.relations.index("parent") + data.num_relations]
    )  # Bob is joined by a new relation: no image
    length = old.head_ED[family.seen_E].norm(dim=1).median()
    torch.testing.assert_close(parameters.head_ED[zoe], image_D * length / image_D.norm())
    assert parameters.head_ED[yan].norm() > 0  # joined to what has no place yet: a draw
    assert parameters.head_square_ED is not None and old.head_square_ED is not None
    torch.testing.assert_close(
        parameters.head_square_ED[zoe], (local.SQUARE_SHARE * old.head_square_ED[family.seen_E].mean()).expand(settings.model.size)
    )


@pytest.mark.parametrize("name", NAMES)
def test_fitting_moves_what_new_facts_touch_and_nothing_else(name: str, family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "FEWEST_STEPS", 3)
    monkeypatch.setattr(local, "FIT_EPOCHS", 1)
    old, settings = trained(family, name)
    joined = join(family)
    parameters = placed(joined, old, settings, CPU)
    before = snapshot(parameters)
    fit_(parameters, joined, settings, CPU, seconds=float("inf"))
    touched_E, data = touched_entities(joined), joined.dataset
    assert {data.entities[i] for i in touched_E.nonzero()[:, 0].tolist()} == {"Zoe", "Yan", "Ada_1", "Bob_1"}
    fresh = data.relations.index("admires")
    moving = {"E": touched_E, "S": torch.tensor([s % data.num_relations == fresh for s in range(data.num_directed)])}
    for key, value in parameters.tensors().items():
        rows = moving.get(key.rpartition("_")[2][:1])
        assert torch.equal(value if rows is None else value[~rows], before[key] if rows is None else before[key][~rows]), key
    assert not torch.equal(parameters.head_ED[data.entities.index("Zoe")], before["head_ED"][data.entities.index("Zoe")])
    assert not torch.equal(parameters.matrix_SDD[fresh], before["matrix_SDD"][fresh])
    assert not torch.equal(parameters.matrix_SDD[fresh + data.num_relations], before["matrix_SDD"][fresh + data.num_relations])


def test_fitting_makes_new_facts_likelier(family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "FIT_EPOCHS", 10)
    old, settings = trained(family, "default")
    joined = join(family)

    def mean_score(parameters: Parameters) -> float:
        head_N, relation_N, tail_N = joined.new_train.unbind(1)
        vector_ED = vectors_in_force(parameters.head_ED, parameters.head_count_E, settings.updates)
        image_ND = torch.einsum("nd,nde->ne", vector_ED[head_N], parameters.matrix_SDD[relation_N])
        score_NE = (image_ND @ vector_ED.T).log_softmax(dim=1)
        return float(score_NE.gather(1, tail_N[:, None]).mean())

    parameters = placed(joined, old, settings, CPU)
    before = mean_score(parameters)
    fit_(parameters, joined, settings, CPU, seconds=float("inf"))
    assert mean_score(parameters) > before + 0.5


def test_no_time_no_fit(family: Dataset) -> None:
    old, settings = trained(family, "default")
    joined = join(family)
    parameters = placed(joined, old, settings, CPU)
    before = snapshot(parameters)
    fit_(parameters, joined, settings, CPU, seconds=1e-9)
    assert same(before, parameters.tensors())


def test_local_facts_are_the_new_ones_and_old_ones_around_them(family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    joined, generator = join(family), torch.Generator().manual_seed(0)
    touched_E = touched_entities(joined)
    facts_N3 = local_facts(joined, generator)
    assert facts_N3[: len(NEW)].tolist() == joined.new_train.tolist()
    old_N3 = family.train[touched_E[family.train[:, 0]] | touched_E[family.train[:, 2]]]  # old numbers are the numbers still
    assert sorted(facts_N3[len(NEW) :].tolist()) == sorted(old_N3.tolist())
    monkeypatch.setattr(local, "FEWEST_CONTEXT", 2)
    monkeypatch.setattr(local, "CONTEXT", 1.0)
    assert len(local_facts(joined, generator)) == 2 * len(NEW)


def test_still_puts_back_rows_and_leaves_the_others() -> None:
    zeros = {"head_count_E": torch.zeros(3), "tail_count_E": torch.zeros(3), "matrix_count_S": torch.zeros(2)}
    parameters = Parameters(head_ED=torch.zeros(3, 2), matrix_SDD=torch.zeros(2, 2, 2), encoder_CQ=torch.zeros(1, 4), **zeros)
    still = Still(parameters, torch.tensor([False, True, False]), torch.tensor([True, False]))
    for value in parameters.tensors().values():
        value.add_(1)
    still.put_back_()
    assert parameters.head_ED.tolist() == [[0, 0], [1, 1], [0, 0]] and parameters.head_count_E.tolist() == [0, 1, 0]
    assert parameters.matrix_SDD[:, 0, 0].tolist() == [1, 0] and parameters.encoder_CQ is not None and not parameters.encoder_CQ.any()


def test_the_state_stands_where_the_epochs_asked_for_are_left(family: Dataset) -> None:
    old, settings = trained(family, "default")
    joined, chosen = join(family), extended_settings(settings, 3, None)
    trainer = make_trainer(joined.dataset, chosen, CPU)
    state = Extension(joined, old).begin(trainer, 3)
    per_epoch = trainer.stream.steps_per_epoch
    assert chosen.training.epochs * per_epoch - state.step == 3 * per_epoch
    assert 1 - state.step / (chosen.training.epochs * per_epoch) == pytest.approx(1, abs=0.15)
    again = Extension(joined, trained(family, "default")[0]).begin(trainer, 3)
    assert same(state.parameters.tensors(), again.parameters.tensors())


def test_an_entity_known_from_test_alone_begins_anew(family: Dataset) -> None:
    old, settings = trained(family, "default")
    name = family.entities[int(family.train[0, 0])]
    without = replace(family, train=family.train[(family.train[:, 0] != 0) & (family.train[:, 2] != 0)])
    joined = join_facts(without, dataset_from_facts([(family.entities[0], "parent", name if name != family.entities[0] else "Ada_1")]))
    assert joined.fresh_E.nonzero()[:, 0].tolist() == [0]
    parameters = placed(joined, old, settings, CPU)
    assert parameters.head_square_ED is not None
    assert len(parameters.head_square_ED[0].unique()) == 1  # the share of a square that new rows have
