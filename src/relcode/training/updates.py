"""The counted-step SGD: how ascent directions change the parameters (the paper's section 4).

A row with counter τ has the rate rate/(1 + rate·decay·τ). For vectors that is what dividing the raw value by (1 + rate·decay·τ) gives, so raw vectors
gather rate · gradient. Updates of one row in a step are summed; where there are more than a limit, they are scaled down to weigh as much
as that many (a large batch would otherwise take one huge step where the published program takes many small ones, and diverge), and they count for as many.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.config import UpdateSettings
from relcode.model.parameters import Parameters
from relcode.model.paths import LevelGradients, PathGradients
from relcode.ops.rows import row_counts
from relcode.sampling.batches import Level


def limited(count: Tensor, limit: float, anneal: Tensor) -> Tensor:
    """Return the factor on each update of a row that gets ``count`` of them: min(1, limit/count), times the annealing."""
    return (limit / count.clamp_min(1)).clamp_max(1) * anneal


def update_heads_(parameters: Parameters, level: Level, gradient_TWD: Tensor, prefixes_E: Tensor, settings: UpdateSettings, anneal: Tensor, noises: int) -> None:
    """Add a level-1 batch's gradients to the head vectors; a head's counter rises by 1 + k for each training path from it."""
    factor_E = limited(prefixes_E, settings.vector_limit, anneal)
    head = level.source_TW.flatten()
    change = gradient_TWD.flatten(0, 1) * (settings.vector_rate * factor_E[head] * level.weight_TW.flatten())[:, None]
    parameters.head_ED.index_add_(0, head, change)
    parameters.head_count_E.add_(prefixes_E * factor_E * (1 + noises))


def update_tails_(
    parameters: Parameters, levels: tuple[Level, ...], found: PathGradients, noises: list[Tensor], settings: UpdateSettings, anneal: Tensor, k: int
) -> None:
    """Add the gradients of gold and noise tails to the tail vectors; each use raises an entity's counter by 1."""
    index: list[Tensor] = []
    weight: list[Tensor] = []
    change: list[Tensor] = []
    for level, noise_TK, gradients in zip(levels, noises, found.levels, strict=True):
        per_noise_T = level.weight_TW.sum(1) * (k / noise_TK.shape[1])
        index += [level.tail_TW.flatten(), noise_TK.flatten()]
        weight += [level.weight_TW.flatten(), per_noise_T[:, None].expand_as(noise_TK).flatten()]
        change += [gradients.tail_TWD.flatten(0, 1), gradients.noise_TKD.flatten(0, 1)]
    entity_X, weight_X = torch.cat(index), torch.cat(weight)
    count_E = row_counts(entity_X, weight_X, len(parameters.tail_ED))
    factor_E = limited(count_E, settings.vector_limit, anneal)
    parameters.tail_ED.index_add_(0, entity_X, torch.cat(change) * (settings.vector_rate * factor_E[entity_X])[:, None])
    parameters.tail_count_E.add_(count_E * factor_E)


def update_matrices_(
    parameters: Parameters, levels: tuple[Level, ...], found: tuple[LevelGradients, ...], settings: UpdateSettings, anneal: Tensor, one_matrix: bool
) -> Tensor:
    """Add the outer products to the matrices at rate η1/(1 + η1·λ1·τ_r); return how many updates each matrix got."""
    used = [level.chosen_TW if one_matrix else level.weight_TW for level in levels]
    relation_X = torch.cat([level.relation_T for level in levels])
    count_S = row_counts(relation_X, torch.cat([each.sum(1) for each in used]), len(parameters.matrix_SDD))
    factor_S = limited(count_S, settings.matrix_limit, anneal)
    rate_S = (settings.matrix_rate / (1 + settings.matrix_rate * settings.matrix_decay * parameters.matrix_count_S)).float() * factor_S
    for gradients in found:
        gradients.tiles.add_outer_(gradients.before_TWD, gradients.pull_TWD, rate_S)
    parameters.matrix_count_S.add_(count_S * factor_S)
    return count_S
