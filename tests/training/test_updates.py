"""Updates worked by hand.

Heads lie along (1, 0), tails along (0, 1) and matrices are I, so every score is 0: with k = 3 a fact pulls with ¾, and each of K = 2 noises,
which stand for three, pushes with ¼·3/2 = ⅜.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from training.small import small, snapshot
from walked import Walk, batch_of

from relcode.config import Settings
from relcode.model.parameters import Parameters, initial_parameters
from relcode.sampling.noise import NoiseSource
from relcode.training.step import take_step
from relcode.training.updates import damped

ONE = torch.ones(())


class Noise(NoiseSource):
    """Entities 2 and 3, always."""

    def __init__(self) -> None:
        pass

    def draw(self, rows: int, columns: int, generator: torch.Generator) -> Tensor:
        assert columns == 2
        return torch.tensor([[2, 3]]).expand(rows, 2)


def settings(**changes: Any) -> Settings:
    free = {"updates__factor_limit": math.inf, "updates__saturation": math.inf, "updates__vector_damping": 0.0, "updates__matrix_damping": 0.0}
    rates = {"updates__vector_rate": 0.5, "updates__vector_decay": 0.25, "updates__matrix_rate": 0.5, "updates__matrix_decay": 0.25}
    return small("base", **{**free, **rates, "updates__orthogonal_rate": 0.0, "model__dim": 2, "sampling__noise_draws": 2, **changes})


def first(settings: Settings) -> Parameters:
    """Heads (1, 0), (1, 0), (1, 0), (2, 0); tails (0, 1), (0, 2), (0, 4), (0, 8); three matrices I; all counters 0."""
    parameters = initial_parameters(4, 3, settings, torch.Generator())
    parameters.head_ED.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
    parameters.tail_ED.copy_(torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0], [0.0, 8.0]]))
    parameters.matrix_SDD.copy_(torch.eye(2).expand(3, 2, 2))
    return parameters


def changes_of(walks: list[Walk], anneal: float = 1.0, matrix_counts: tuple[float, ...] = (0.0, 0.0, 0.0), **options: Any) -> dict[str, Tensor]:
    """Take a step and return what it added to each tensor."""
    chosen = settings(**options)
    parameters = first(chosen)
    parameters.matrix_count_S.copy_(torch.tensor(matrix_counts))
    before = snapshot(parameters)
    take_step(parameters, batch_of(walks, width=4), Noise(), chosen, torch.tensor(anneal), torch.Generator())
    return {name: value - before[name] for name, value in parameters.tensors().items()}


FACTS = [Walk(1, ((0, 0, True),)), Walk(3, ((0, 2, True),)), Walk(1, ((0, 2, True),))]
# The pull on y is ¾·tail − ⅜·(4 + 8): −3.75 for tail 0 and −1.5 for tail 2.


def test_factors_by_hand() -> None:
    # Half of one at curvature 1/(damping·rate); nothing is damped where there is no curvature, or no damping.
    curve = torch.tensor([0.0, 2.0, 6.0])
    assert damped(curve, 0.5, 1.0, ONE).tolist() == [1.0, 0.5, 0.25]
    assert damped(curve, 0.5, 0.0, ONE).tolist() == [1.0, 1.0, 1.0]
    assert damped(curve, 0.5, 1.0, torch.tensor(0.5)).tolist() == [0.5, 0.25, 0.125]
    assert damped(torch.tensor([2.0, 2.0]), torch.tensor([0.5, 1.5]), 1.0, ONE).tolist() == [0.5, 0.25]


def test_heads_by_hand() -> None:
    found = changes_of(FACTS)
    assert found["head_ED"].flatten().tolist() == pytest.approx([0, 0, 0, 0.5 * (-3.75 - 1.5), 0, 0, 0, 0.5 * -1.5])
    assert found["head_count_E"].tolist() == [0, 8, 0, 4]  # 1 + k for each path


def test_tails_by_hand() -> None:
    # Facts pull tails by ¾·y, noises are pushed by −⅜·(1 + 2 + 1). Entity 2 is both; three paths with k = 3 make 9 noises, 4.5 for each of the two.
    found = changes_of(FACTS)
    assert found["tail_ED"].flatten().tolist() == pytest.approx([0.5 * 0.75, 0, 0, 0, 0.5 * (2.25 - 1.5), 0, 0.5 * -1.5, 0])
    assert found["tail_count_E"].tolist() == [1, 0, 6.5, 4.5]


def test_matrices_by_hand() -> None:
    # uᵀ g summed: 1·−3.75 + 2·−1.5 + 1·−1.5 at row 0, column 1. At τ = 8 the rate ½/(1 + ½·¼·8) has halved.
    for count, rate in ((0.0, 0.5), (8.0, 0.25)):
        found = changes_of(FACTS, matrix_counts=(count, 0.0, 0.0))
        assert found["matrix_SDD"].flatten().tolist() == pytest.approx([0, rate * -8.25, *[0] * 10])
        assert found["matrix_count_S"].tolist() == [3, 0, 0]


def test_damping_and_annealing_scale_updates_and_counters_alike() -> None:
    """By hand: Σ |w|·‖y‖² of head 1 is ¾·1 + ⅜·(16 + 64) and ¾·16 + ⅜·80, of head 3 the second alone; matrix 0 has each times its head's square."""
    first_row, second_row = 0.75 + 30, 12 + 30
    curves = {
        "head": [0, first_row + second_row, 0, second_row],
        "tail": [0.75 * 1, 0, 0.75 * 4 + 0.75 * 1 + 0.375 * (1 + 4 + 1), 0.375 * (1 + 4 + 1)],
        "matrix": [first_row * 1 + second_row * 4 + second_row * 1, 0, 0],
    }
    damping = {"head": 0.25, "tail": 0.25, "matrix": 0.125}
    free = changes_of(FACTS)
    bound = changes_of(FACTS, anneal=0.5, updates__vector_damping=0.25, updates__matrix_damping=0.125)
    for part, names in (("head", ("head_ED", "head_count_E")), ("tail", ("tail_ED", "tail_count_E")), ("matrix", ("matrix_SDD", "matrix_count_S"))):
        for name in names:
            factors = [0.5 / (1 + damping[part] * 0.5 * curve) for curve in curves[part]]
            factor = torch.tensor(factors, dtype=free[name].dtype).view(-1, *[1] * (free[name].dim() - 1))
            assert torch.allclose(bound[name], free[name] * factor), name


@pytest.mark.parametrize("times", [1, 10, 1000])
def test_a_popular_row_moves_no_farther_than_damping_lets_it(times: int) -> None:
    """However often a fact comes in one step: the change stays below 1/(damping·‖y‖), y the shortest of the other factors."""
    found = changes_of([Walk(1, ((0, 0, True),))] * times, updates__vector_damping=0.5, updates__matrix_damping=0.5)
    assert 0 < found["head_ED"][1].norm() < 1 / (0.5 * 1)
    assert 0 < found["tail_ED"][0].norm() < 1 / (0.5 * 1)
    assert torch.isfinite(found["matrix_SDD"]).all() and found["matrix_SDD"].norm() < 1 / 0.5


def test_vectors_and_matrices_are_damped_each_by_its_own_setting() -> None:
    free = changes_of(FACTS)
    vectors, matrices = changes_of(FACTS, updates__vector_damping=1.0), changes_of(FACTS, updates__matrix_damping=1.0)
    assert torch.equal(vectors["matrix_SDD"], free["matrix_SDD"]) and not torch.equal(vectors["head_ED"], free["head_ED"])
    assert torch.equal(matrices["head_ED"], free["head_ED"]) and torch.equal(matrices["tail_ED"], free["tail_ED"])
    assert not torch.equal(matrices["matrix_SDD"], free["matrix_SDD"])


def test_annealed_to_nothing_nothing_moves_and_nothing_is_counted() -> None:
    assert all(change.abs().max() == 0 for change in changes_of(FACTS, anneal=0.0).values())


def test_rows_no_path_touches_stay_as_they_are() -> None:
    found = changes_of(FACTS)
    assert found["head_ED"][[0, 2]].abs().max() == 0 and found["tail_ED"][1].abs().max() == 0 and found["matrix_SDD"][1:].abs().max() == 0


@pytest.mark.parametrize(("second", "one", "every"), [(True, [-1.5, 0, -3.75], [-5.25, 0, -3.75]), (False, [-5.25, 0, 0], [-5.25, 0, -3.75])])
def test_which_matrix_of_a_path_moves(second: bool, one: list[float], every: list[float]) -> None:
    """The walk r0/r2 from entity 0 reaches 2, then 0: pulls −1.5 and −3.75. The second path updates r2, or keeps the first one's choice, r0."""
    walk = [Walk(0, ((0, 2, True), (2, 0, second)))]
    for mode, pulls in (("one", one), ("all", every)):
        found = changes_of(walk, updates__path_matrices=mode)
        assert found["matrix_SDD"][:, 0, 1].tolist() == pytest.approx([0.5 * pull for pull in pulls])
        assert found["matrix_SDD"].abs().sum().item() == pytest.approx(0.5 * sum(map(abs, pulls)))
        assert found["head_ED"][0].tolist() == pytest.approx([0, 0.5 * -5.25])  # the head feels both, whatever is chosen
        assert found["head_count_E"].tolist() == [8, 0, 0, 0]


def test_a_counter_counts_the_rows_a_matrix_was_updated_with() -> None:
    twice = [Walk(0, ((0, 2, True), (2, 0, True))), Walk(0, ((0, 2, True), (2, 0, False)))]
    assert changes_of(twice, updates__path_matrices="one")["matrix_count_S"].tolist() == [2, 0, 1]
    assert changes_of(twice, updates__path_matrices="all")["matrix_count_S"].tolist() == [2, 0, 2]


def test_long_factors_of_a_matrix_update_are_scaled_down() -> None:
    # −3.75 and −1.5 are cut to length 1, and the head (2, 0) too; vectors move as before.
    found = changes_of(FACTS, updates__factor_limit=1.0)
    assert found["matrix_SDD"].flatten()[:2].tolist() == pytest.approx([0, 0.5 * -3])
    assert torch.equal(found["head_ED"], changes_of(FACTS)["head_ED"])
    assert torch.equal(found["tail_ED"], changes_of(FACTS)["tail_ED"])
