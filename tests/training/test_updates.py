from __future__ import annotations

import math

import pytest
import torch
from walked import Walk, batch_of

from relcode.config import ModelSettings, UpdateSettings
from relcode.model.parameters import Parameters, initial_parameters
from relcode.model.paths import LevelGradients, PathGradients
from relcode.ops.tiles import tiles_of
from relcode.training.updates import limited, update_heads_, update_matrices_, update_tails_

ONE = torch.ones(())
SETTINGS = UpdateSettings(vector_rate=0.5, vector_decay=0.25, matrix_rate=0.5, matrix_decay=0.25, vector_limit=math.inf, matrix_limit=math.inf)


def blank(entities: int = 4, directed: int = 3, d: int = 2) -> Parameters:
    parameters = initial_parameters(entities, directed, ModelSettings(dim=d, autoencoder=False), torch.Generator().manual_seed(0))
    for value in parameters.tensors().values():
        value.zero_()
    return parameters


def settings(**changes: float) -> UpdateSettings:
    return UpdateSettings(**{**{name: getattr(SETTINGS, name) for name in SETTINGS.__dataclass_fields__}, **changes})


def test_limits_by_hand() -> None:
    count = torch.tensor([0.0, 0.5, 1.0, 4.0, 8.0, 16.0])
    assert limited(count, 4.0, ONE).tolist() == [1, 1, 1, 1, 0.5, 0.25]
    assert limited(count, 4.0, torch.tensor(0.5)).tolist() == [0.5, 0.5, 0.5, 0.5, 0.25, 0.125]
    assert limited(count, math.inf, ONE).tolist() == [1, 1, 1, 1, 1, 1]
    assert limited(count, 0.5, ONE).tolist() == [0.5, 0.5, 0.5, 0.125, 0.0625, 0.03125]


def test_heads_by_hand() -> None:
    # Entity 1 starts two walks of one tile and entity 3 one; the fourth place is padding, whose gradient must not count.
    level = batch_of([Walk(1, ((0, 0, True),)), Walk(3, ((0, 2, True),)), Walk(1, ((0, 2, True),))], width=4).levels[0]
    gradient_TWD = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [99.0, 99.0]]])
    prefixes_E = torch.tensor([0.0, 2.0, 0.0, 1.0])
    parameters = blank()
    update_heads_(parameters, level, gradient_TWD, prefixes_E, SETTINGS, ONE, noises=3)
    assert parameters.head_ED.tolist() == [[0, 0], [2.0, 0.5], [0, 0], [0, 1.0]]
    assert parameters.head_count_E.tolist() == [0, 8, 0, 4]  # 1 + k for each path
    assert parameters.tail_ED.abs().max() == 0 and parameters.tail_count_E.abs().max() == 0
    # No more than one update of a vector in full, at half the rate: entity 1 moves by a quarter of the sum, entity 3 by half.
    parameters = blank()
    update_heads_(parameters, level, gradient_TWD, prefixes_E, settings(vector_limit=1.0), torch.tensor(0.5), noises=3)
    assert parameters.head_ED.tolist() == [[0, 0], [0.5, 0.125], [0, 0], [0, 0.5]]
    assert parameters.head_count_E.tolist() == [0, 2, 0, 2]


def tails_case() -> tuple[tuple, PathGradients, list[torch.Tensor]]:
    """One tile of two facts and padding, with tails 2, 0 and K = 2 noises 2 and 3."""
    batch = batch_of([Walk(1, ((0, 2, True),)), Walk(3, ((0, 0, True),))], width=3)
    tail_TWD = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]])
    noise_TKD = torch.tensor([[[-4.0, 0.0], [0.0, -8.0]]])
    level = LevelGradients(tiles_of(torch.zeros(3, 2, 2), batch.levels[0].relation_T), tail_TWD, tail_TWD, tail_TWD, noise_TKD)
    return batch.levels, PathGradients(tail_TWD, (level,), torch.zeros(())), [torch.tensor([[2, 3]])]


def test_tails_by_hand() -> None:
    levels, found, noises = tails_case()
    parameters = blank()
    update_tails_(parameters, levels, found, noises, SETTINGS, ONE, k=3)
    # Entity 2 is a tail once and a noise; two paths with k = 3 make 6 noises, 3 for each of the two drawn.
    assert parameters.tail_ED.tolist() == [[0, 1.0], [0, 0], [-1.5, 0], [0, -4.0]]
    assert parameters.tail_count_E.tolist() == [1, 0, 4, 3]
    assert parameters.head_ED.abs().max() == 0
    parameters = blank()
    update_tails_(parameters, levels, found, noises, settings(vector_limit=2.0), torch.tensor(0.5), k=3)
    assert parameters.tail_ED.flatten().tolist() == pytest.approx([0, 0.5, 0, 0, -0.375, 0, 0, -4 / 3])
    assert parameters.tail_count_E.tolist() == pytest.approx([0.5, 0, 1, 1])


@pytest.mark.parametrize("one_matrix", [True, False])
def test_matrices_by_hand(one_matrix: bool) -> None:
    # One walk r0/r2, which chooses its second matrix again; another r0.
    batch = batch_of([Walk(0, ((0, 1, True), (2, 2, True))), Walk(0, ((0, 3, True), (2, 0, False)))], width=2)
    parameters = blank()
    parameters.matrix_count_S.copy_(torch.tensor([0.0, 0.0, 8.0]))  # rate ½ and decay ¼: at τ = 8 the rate has halved
    found = []
    for level in batch.levels:
        x_TWD, g_TWD = torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]), torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])
        found.append(LevelGradients(tiles_of(parameters.matrix_SDD, level.relation_T), x_TWD, g_TWD, x_TWD, x_TWD))
    count_S = update_matrices_(parameters, batch.levels, tuple(found), SETTINGS, ONE, one_matrix)
    # xᵀ g summed over the tile is [[3, 0], [6, 1]].
    assert parameters.matrix_SDD.tolist() == [[[1.5, 0], [3.0, 0.5]], [[0, 0], [0, 0]], [[0.75, 0], [1.5, 0.25]]]
    assert count_S.tolist() == ([2, 0, 1] if one_matrix else [2, 0, 2])
    assert parameters.matrix_count_S.tolist() == ([2, 0, 9] if one_matrix else [2, 0, 10])


def test_limits_and_annealing_of_matrices() -> None:
    batch = batch_of([Walk(0, ((0, 1, True),)), Walk(0, ((0, 3, True),))], width=2)
    parameters = blank()
    ones_TWD = torch.ones(1, 2, 2)
    level = LevelGradients(tiles_of(parameters.matrix_SDD, batch.levels[0].relation_T), ones_TWD, ones_TWD, ones_TWD, ones_TWD)
    count_S = update_matrices_(parameters, batch.levels, (level,), settings(matrix_limit=1.0), torch.tensor(0.5), True)
    assert count_S.tolist() == [2, 0, 0]  # as they were, before any limit
    assert parameters.matrix_SDD[0].tolist() == [[0.25, 0.25], [0.25, 0.25]]  # rate ½ · anneal ½ · limit ½ · 2 rows
    assert parameters.matrix_count_S.tolist() == [0.5, 0, 0]
