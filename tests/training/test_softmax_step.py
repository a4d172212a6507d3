"""One step of the softmax objective against the plain way: the loss written out fact by fact, autograd, and torch's own Adagrad."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from training.small import CPU, same, small, snapshot

from relcode.config import Settings
from relcode.errors import SettingError
from relcode.graph.dataset import Dataset
from relcode.model import softmax
from relcode.model.parameters import Parameters
from relcode.ops.diagonal import whole
from relcode.ops.room import Room
from relcode.ops.workers import torch_alone
from relcode.sampling.questions import PathTiles, QuestionBatch
from relcode.training import softmax_step
from relcode.training.advance import advance, initial_state, make_trainer
from relcode.training.fit import fit_settings
from relcode.training.softmax_step import take_softmax_step

PLAIN = {
    "model__normalise": False,
    "model__initial": "small",
    "model__autoencoder": False,
    "model__block": 0,
    "softmax__questions": 64,
    "softmax__question_tile": 8,
}


def prepared(family: Dataset, **changes: object) -> tuple[Settings, Parameters, QuestionBatch]:
    settings = fit_settings(
        small("default", **{**PLAIN, "softmax__answers": 3, "softmax__penalty": 0.1, "softmax__matrix_rate": 0.05, **changes}), family
    )
    batch = make_trainer(family, settings, CPU).stream.batch(0, torch.Generator())
    parameters = initial_state(family, settings, CPU).parameters
    for name, value in parameters.tensors().items():  # a step in the middle of a training: squares are there
        if "_square_" in name:
            value.copy_(torch.rand(value.shape, generator=torch.Generator().manual_seed(3)))
    assert isinstance(batch, QuestionBatch)
    return settings, parameters, batch


def fact_loss(head_ED: Tensor, tail_ED: Tensor, matrix_SDD: Tensor, batch: QuestionBatch, penalty: float, share: float) -> Tensor:
    total = head_ED.new_zeros(())
    for t, relation in enumerate(batch.relation_T.tolist()):
        for w, head in enumerate(batch.head_TW[t].tolist()):
            for answer, weight in zip(batch.answer_TWM[t, w].tolist(), batch.weight_TWM[t, w].tolist(), strict=True):
                if weight:
                    matrix_DD = whole(matrix_SDD[relation])
                    image, back = head_ED[head] @ matrix_DD, matrix_DD @ tail_ED[answer]
                    lengths = head_ED[head].square().sum() + tail_ED[answer].square().sum()
                    total = total + torch.nn.functional.cross_entropy((tail_ED @ image)[None], torch.tensor([answer]))
                    total = total + penalty * (lengths + share * (image.square().sum() + back.square().sum()))
    return total


def path_loss(head_ED: Tensor, tail_ED: Tensor, matrix_SDD: Tensor, paths: PathTiles) -> Tensor:
    total = head_ED.new_zeros(())
    for t in range(len(paths.first_T)):
        for h, m, e, weight in zip(*(x[t].tolist() for x in (paths.head_TW, paths.middle_TW, paths.tail_TW, paths.weight_TW)), strict=True):
            if weight:
                image = head_ED[h] @ whole(matrix_SDD[paths.first_T[t]])
                scale = (tail_ED[m].norm() / image.norm()).detach()
                query = (image * scale) @ whole(matrix_SDD[paths.second_T[t]])
                total = total + torch.nn.functional.cross_entropy((tail_ED @ query)[None], torch.tensor([e]))
    return total


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("path_weight", [0.0, 0.3])
@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("large_matrix", [1, 1 << 60])
def test_a_step_is_autograd_and_adagrad(
    family: Dataset, monkeypatch: pytest.MonkeyPatch, shared: bool, path_weight: float, block: int, large_matrix: int
) -> None:
    monkeypatch.setattr(softmax_step, "LARGE_MATRIX", large_matrix)  # from which matrices move one by one
    changes = {"model__shared": shared, "model__block": block, "softmax__path_weight": path_weight, "softmax__path_tiles": 4}
    settings, parameters, batch = prepared(family, **changes)
    before = snapshot(parameters)
    names = [name for name in ("head_ED", "tail_ED", "matrix_SDD") if name in before]
    value = {name: before[name].clone().requires_grad_() for name in names}
    tail_ED = value.get("tail_ED", value["head_ED"])
    loss = fact_loss(value["head_ED"], tail_ED, value["matrix_SDD"], batch, 0.1, settings.softmax.image_share)
    if path_weight:
        assert batch.paths is not None and float(batch.paths.weight_TW.sum()) > 4
        loss = loss + path_weight * path_loss(value["head_ED"], tail_ED, value["matrix_SDD"], batch.paths)
    gradients = dict(zip(names, torch.autograd.grad(loss, [value[name] for name in names]), strict=True))
    result = take_softmax_step(parameters, batch, settings, torch.tensor(0.5), torch.Generator())
    assert float(result.edges) == float(batch.weight_TWM.sum())
    after = parameters.tensors()
    for name in names:
        square = name.replace("_", "_square_", 1)
        rate = 0.5 * (0.05 if name == "matrix_SDD" else settings.softmax.rate)
        expected_square = before[square] + gradients[name].square()
        torch.testing.assert_close(after[square], expected_square, rtol=1e-3, atol=1e-4)
        expected = before[name] - rate * gradients[name] / expected_square.sqrt()
        torch.testing.assert_close(after[name], expected, rtol=1e-3, atol=1e-5)
        assert not torch.equal(after[name], before[name])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"softmax__path_weight": 0.0},
        {"model__shared": False},
        {"softmax__candidates": 5},
        {"model__autoencoder": True},
        {"model__autoencoder": True, "model__block": 4},
    ],
)
def test_a_step_in_halves_is_the_whole_step_and_its_bits_do_not_depend_on_threads(
    family: Dataset, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    ended = []
    for least, side_by_side in ((1 << 60, False), (1, False), (1, True)):
        settings, parameters, batch = prepared(family, **{"softmax__path_tiles": 3, "coder__every": 8.0, **changes})
        for module in (softmax, softmax_step):
            monkeypatch.setattr(module, "WORTH_SHARING", least)
        with torch_alone() if side_by_side else nullcontext():
            result = take_softmax_step(parameters, batch, settings, torch.tensor(0.5), torch.Generator().manual_seed(2))
        ended.append((result, snapshot(parameters)))
    (whole, after), (halves, of_halves), (beside, of_beside) = ended
    assert same(of_halves, of_beside)
    assert all(torch.equal(getattr(halves, name), getattr(beside, name)) for name in ("loss", "edges", "coder_loss"))
    assert float(halves.loss) == pytest.approx(float(whole.loss)) and float(halves.edges) == float(whole.edges)
    for name, value in after.items():
        torch.testing.assert_close(of_halves[name], value, rtol=1e-4, atol=1e-5)


def test_drawn_candidates_move_the_rows_they_touch_alone(family: Dataset) -> None:
    settings, parameters, batch = prepared(family, softmax__candidates=5, softmax__path_weight=0.0)
    generator = torch.Generator().manual_seed(11)
    drawn = torch.randint(family.num_entities, (5,), generator=torch.Generator().manual_seed(11))
    before = snapshot(parameters)
    take_softmax_step(parameters, batch, settings, torch.ones(()), generator)
    touched = set(drawn.tolist()) | set(batch.head_TW.flatten().tolist()) | set(batch.answer_TWM.flatten().tolist())
    moved = (parameters.head_ED != before["head_ED"]).any(1).nonzero().flatten().tolist()
    assert set(moved) <= touched and len(moved) > 5
    used = set(batch.relation_T.tolist())
    assert set((parameters.matrix_SDD != before["matrix_SDD"]).flatten(1).any(1).nonzero().flatten().tolist()) == used


def test_training_learns_the_family_and_its_codes(family: Dataset) -> None:
    changes = {"model__autoencoder": True, "coder__every": 16.0, "coder__start": 0.0, "softmax__penalty": 0.02, "softmax__matrix_rate": 0.1}
    settings = fit_settings(small("default", **{**PLAIN, **changes}), family)
    trainer, state = make_trainer(family, settings, CPU), initial_state(family, settings, CPU)
    assert trainer.settings == settings
    state, early = advance(state, 5, trainer, 200)
    state, late = advance(state, 150, trainer, 200)
    assert late.finite and late.loss < 0.8 * early.loss
    assert early.coder_loss is not None and late.coder_loss is not None and late.coder_loss < early.coder_loss


def test_the_autoencoder_pulls_at_the_scale_of_the_matrix(family: Dataset) -> None:
    """A matrix a hundred times as long is moved a hundred times as far: the pull is on its direction."""
    changes = {"model__autoencoder": True, "coder__start": 0.0, "softmax__path_weight": 0.0, "softmax__matrix_rate": 1e-12, "coder__draw": "uniform"}
    moved = []
    for size in (1.0, 100.0):
        settings, parameters, batch = prepared(family, **changes)
        parameters.matrix_SDD.mul_(size)
        before = snapshot(parameters)["matrix_SDD"]
        take_softmax_step(parameters, batch, settings, torch.ones(()), torch.Generator().manual_seed(0))
        moved.append(float((parameters.matrix_SDD - before).norm()))
    assert moved[1] == pytest.approx(100 * moved[0], rel=0.05)


def test_one_vector_an_entity_needs_the_softmax(family: Dataset) -> None:
    with pytest.raises(SettingError, match=r"model\.objective=softmax"):
        fit_settings(small("joint", model__shared=True), family)


def test_a_nan_shows_in_the_loss(family: Dataset) -> None:
    settings, parameters, batch = prepared(family)
    parameters.head_ED[int(batch.head_TW[0, 0])] = math.nan
    assert not math.isfinite(float(take_softmax_step(parameters, batch, settings, torch.ones(()), torch.Generator()).loss))


def test_memory_kept_by_the_stepper_reaches_the_table(family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spy(*parts: Any) -> softmax.AnswerGradients:
        asked.append(parts[-1])
        return softmax.full_softmax(*parts)

    monkeypatch.setattr(softmax_step, "full_softmax", spy)
    trainer = make_trainer(family, fit_settings(small("default", **PLAIN), family), CPU)
    advance(initial_state(family, trainer.settings, CPU), 2, trainer, 10)
    assert isinstance(asked[0], Room) and asked[0] is asked[1]
