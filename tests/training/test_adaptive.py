"""The paper's objective climbed by Adagrad: beside the slow truth, by hand, and at its edges."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from training.slow import StepOracle
from training.small import CPU, small, snapshot
from training.test_step import DIRECTED, ENTITIES, SINGLE, FixedNoise, laid_out, started
from walked import Walk, batch_of, chained, random_walks

from relcode.config import Settings
from relcode.graph.dataset import Dataset
from relcode.model.parameters import Parameters
from relcode.ops.outer import cpu_climb_outer_, plain_climb_outer_
from relcode.recipes import recipe
from relcode.sampling.batches import PathBatch
from relcode.training import adaptive
from relcode.training.advance import advance, initial_state, make_trainer
from relcode.training.step import take_step

PENALTY, RATE, MATRIX_RATE = 0.25, 0.1, 0.05


def climbing(**changes: Any) -> Settings:
    options = {"updates__rule": "adagrad", "updates__adagrad_rate": RATE, "updates__adagrad_matrix_rate": MATRIX_RATE, "updates__penalty": PENALTY}
    free = {"updates__saturation": float("inf"), "updates__factor_limit": float("inf"), "updates__orthogonal_rate": 0.0}
    return small("base", **{**options, **free, **changes})


def in_mid_training(settings: Settings) -> Parameters:
    """Return parameters with sums of squares of all sizes; counters of vectors are 0, as this rule leaves them."""
    parameters = started(settings)
    parameters.head_count_E.zero_()
    parameters.tail_count_E.zero_()
    for number, (name, value) in enumerate(parameters.tensors().items()):
        if "_square_" in name:
            value.copy_(torch.rand(value.shape, generator=torch.Generator().manual_seed(number)))
    return parameters


CASES: dict[str, tuple[list[Walk] | PathBatch, dict[str, Any], float]] = {
    "all triples in both directions": (SINGLE, {}, 1.0),
    "walks": (random_walks(25, ENTITIES, DIRECTED, 4, 0), {}, 1.0),
    "walks, all matrices": (random_walks(25, ENTITIES, DIRECTED, 4, 0), {"updates__path_matrices": "all"}, 1.0),
    "not normalised": (random_walks(25, ENTITIES, DIRECTED, 3, 1), {"model__normalise": False}, 1.0),
    "annealed": (random_walks(25, ENTITIES, DIRECTED, 4, 3), {}, 0.25),
    "relation noise": (chained(ENTITIES, DIRECTED, 0), {}, 1.0),
    "relation noise, shared by all": (chained(ENTITIES, DIRECTED, 2), {"sampling__noise_sharing": "batch"}, 0.5),
    "noises shared by all": (random_walks(25, ENTITIES, DIRECTED, 3, 5), {"sampling__noise_sharing": "batch"}, 1.0),
}


@pytest.mark.parametrize("way", ["cpu", "all rows", "rows named"])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_that_of_the_loop(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """θ + rate·g/√(G + g²), g the gradient of the objective less penalty · uses · vector, by the CPU's own way and by both ways that CUDA has."""
    walks, changes, anneal = CASES[name]
    if way != "cpu":
        monkeypatch.setattr(adaptive, "climb_rows_", lambda *given: adaptive.climb_rows_at_once_(*given[:-1], torch.tensor(given[-1])))
        monkeypatch.setattr(adaptive, "FEW_ROWS", 10**9 if way == "all rows" else 0)
    settings = climbing(**changes)
    parameters, batch = in_mid_training(settings), laid_out(walks)
    noise = FixedNoise(batch, settings)
    before = {key: value.double() for key, value in snapshot(parameters).items()}
    oracle = StepOracle(parameters, batch, noise.noises, settings, anneal)
    result = take_step(parameters, batch, noise, settings, torch.tensor(anneal), torch.Generator())
    assert result.loss.item() == pytest.approx(oracle.loss.item(), rel=1e-4)
    heads, tails = Counter(path.head for path in oracle.paths), Counter(path.tail for path in oracle.paths)
    for key, uses, rate in (("head_ED", heads, RATE), ("tail_ED", tails, RATE), ("matrix_SDD", None, MATRIX_RATE)):
        gradient = oracle.gradients[key]
        if uses is not None:
            gradient = gradient - PENALTY * torch.tensor([float(uses[e]) for e in range(ENTITIES)])[:, None] * before[key]
        square = key.replace("_", "_square_")
        seen = before[square] + gradient**2
        moved = anneal * rate * gradient / (seen.sqrt() + 1e-10)
        assert torch.allclose(parameters.tensors()[square].double(), seen, rtol=1e-3, atol=1e-5), square
        assert torch.allclose(parameters.tensors()[key].double() - before[key], moved, rtol=1e-3, atol=float(moved.abs().max()) * 1e-3), key
    assert not parameters.head_count_E.any() and not parameters.tail_count_E.any()
    assert parameters.matrix_count_S.sum() > before["matrix_count_S"].sum()


def test_a_first_step_worked_by_hand() -> None:
    # Where nothing was seen yet, g/√(g²) = ±1: every number moves by the whole rate, in the direction of its gradient, and stays where that is zero.
    value, square = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.zeros(1, 2, 2)
    x, y = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.0]])
    for climb_ in (plain_climb_outer_, cpu_climb_outer_):
        found, seen = value.clone(), square.clone()
        climb_(found, seen, torch.tensor([0]), x, y, torch.tensor(0.5))
        assert found.tolist() == [[[1.5, 2.0], [2.5, 4.0]]]
        assert seen.tolist() == [[[9.0, 0.0], [36.0, 0.0]]]


@pytest.mark.parametrize("relations", [[0], [2, 2, 2], [0, 0, 1, 3, 3], [3, 0, 3, 1, 0, 0]])
def test_sums_of_outer_products_agree_with_the_plain_version(relations: list[int]) -> None:
    generator, rows = torch.Generator().manual_seed(0), len(relations)
    value, square = torch.randn(5, 3, 3, generator=generator), torch.rand(5, 3, 3, generator=generator)
    x, y = torch.randn(rows, 3, generator=generator), torch.randn(rows, 3, generator=generator)
    expected, expected_square = value.clone(), square.clone()
    plain_climb_outer_(expected, expected_square, torch.tensor(relations), x, y, torch.tensor(0.3))
    cpu_climb_outer_(value, square, torch.tensor(relations), x, y, torch.tensor(0.3))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(square, expected_square)


def test_a_batch_of_padding_moves_nothing() -> None:
    settings = climbing()
    parameters, batch = in_mid_training(settings), batch_of([Walk(0, ((0, 0, True),))], width=2)
    batch.levels[0].weight_TW.zero_()
    batch.levels[0].chosen_TW.zero_()
    before = snapshot(parameters)
    result = take_step(parameters, batch, FixedNoise(batch, settings), settings, torch.ones(()), torch.Generator())
    assert result.edges.item() == result.loss.item() == 0
    assert all(torch.equal(value, before[name]) for name, value in parameters.tensors().items())


@pytest.mark.parametrize("name", ["base", "joint", "base+comp", "joint+comp"])
def test_the_recipes_learn(name: str, family: Dataset) -> None:
    small_steps = {"sampling.edges": 64, "sampling.noise_draws": 32, "sampling.noises": 8}
    settings = recipe(name).with_values({"model.dim": 12, "model.code_dim": 4, **small_steps})
    trainer, state = make_trainer(family, settings, CPU), initial_state(family, settings, CPU)
    per_epoch = trainer.stream.steps_per_epoch
    state, first = advance(state, 2 * per_epoch, trainer, 40 * per_epoch)
    state, last = advance(state, 30 * per_epoch, trainer, 40 * per_epoch)
    assert first.finite and last.finite
    assert last.loss < 0.9 * first.loss
