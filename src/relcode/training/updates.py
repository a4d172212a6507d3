"""The counted-step SGD: how ascent directions change the parameters (the paper's section 4).

A row with counter τ has the rate rate/(1 + rate·decay·τ). For vectors that is what dividing the raw value by (1 + rate·decay·τ) gives, so raw vectors
gather rate · gradient.

All updates of a row in a step are summed, where the published program takes one small step after the other; a popular row would take one huge
step, overshoot and diverge. So a row's summed update Σ w_i y_i is damped as an implicit (proximal) step is,

    change = rate · Σ w_i y_i / (1 + damping · rate · Σ |w_i| ‖y_i‖²)

w_i being the objective's weights and y_i the other factors: |w| bounds the curvature σ(1 − σ) from above, so the sum bounds the curvature along the
step (for heads and matrices it estimates it, taking matrices as orthogonal). A rare row moves as published, a popular one at most about
1/(damping·‖y‖), at any rate and any batch size. A damped update counts for as much less.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.config import UpdateSettings
from relcode.model.parameters import Parameters
from relcode.model.paths import LevelCurves, LevelGradients, PathGradients
from relcode.ops.rows import row_counts
from relcode.sampling.batches import Level


def damped(curve: Tensor, rate: float | Tensor, damping: float, anneal: Tensor) -> Tensor:
    """Return the factor on each row's summed updates: annealing / (1 + damping·rate·curvature)."""
    return anneal / (1 + damping * rate * curve)


def curves_of(gradients: LevelGradients) -> LevelCurves:
    """Return the curvatures, which counted steps ask for."""
    assert gradients.curves is not None
    return gradients.curves


def update_heads_(
    parameters: Parameters, level: Level, found: PathGradients, prefixes_E: Tensor, settings: UpdateSettings, anneal: Tensor, noises: int
) -> None:
    """Add a level-1 batch's gradients to the head vectors; a head's counter rises by 1 + k for each training path from it."""
    head = level.source_TW.flatten()
    curve_E = row_counts(head, curves_of(found.levels[0]).row_TW * level.weight_TW, len(parameters.head_ED))
    factor_E = damped(curve_E, settings.vector_rate, settings.vector_damping, anneal)
    change = found.head_TWD.flatten(0, 1) * (settings.vector_rate * factor_E[head] * level.weight_TW.flatten())[:, None]
    parameters.head_ED.index_add_(0, head, change)
    parameters.head_count_E.add_(prefixes_E * factor_E * (1 + noises))


def update_tails_(
    parameters: Parameters, levels: tuple[Level, ...], found: PathGradients, noises: list[Tensor], settings: UpdateSettings, anneal: Tensor, k: int
) -> None:
    """Add the gradients of gold and noise tails to the tail vectors; each use raises an entity's counter by 1."""
    index: list[Tensor] = []
    weight: list[Tensor] = []
    change: list[Tensor] = []
    curve: list[Tensor] = []
    for level, noise_GK, gradients in zip(levels, noises, found.levels, strict=True):
        per_noise_G = level.noise_TW.view(len(noise_GK), -1).sum(1) * (k / noise_GK.shape[1])
        index += [level.tail_TW.flatten(), noise_GK.flatten()]
        weight += [level.weight_TW.flatten(), per_noise_G[:, None].expand_as(noise_GK).flatten()]
        change += [gradients.tail_TWD.flatten(0, 1), gradients.noise_GKD.flatten(0, 1)]
        curve += [curves_of(gradients).tail_TW.flatten(), curves_of(gradients).noise_GK.flatten()]
    entity_X, weight_X = torch.cat(index), torch.cat(weight)
    count_E = row_counts(entity_X, weight_X, len(parameters.head_ED))
    curve_E = row_counts(entity_X, torch.cat(curve), len(parameters.head_ED))
    factor_E = damped(curve_E, settings.vector_rate, settings.vector_damping, anneal)
    parameters.tails.index_add_(0, entity_X, torch.cat(change) * (settings.vector_rate * factor_E[entity_X])[:, None])
    parameters.tail_count_E.add_(count_E * factor_E)


def update_matrices_(
    parameters: Parameters, levels: tuple[Level, ...], found: tuple[LevelGradients, ...], count_S: Tensor, settings: UpdateSettings, anneal: Tensor
) -> None:
    """Add the outer products to the matrices at rate η1/(1 + η1·λ1·τ_r), and raise their counters by their ``count_S`` updates."""
    relation_X = torch.cat([level.relation_T for level in levels])
    curve_S = row_counts(relation_X, torch.cat([curves_of(each).matrix_T for each in found]), len(parameters.matrix_SDD))
    rate_S = (settings.matrix_rate / (1 + settings.matrix_rate * settings.matrix_decay * parameters.matrix_count_S)).float()
    factor_S = damped(curve_S, rate_S, settings.matrix_damping, anneal)
    rate_S = rate_S * factor_S
    for gradients in found:
        gradients.tiles.add_outer_(gradients.before_TWD, gradients.pull_TWD, rate_S)
    parameters.matrix_count_S.add_(count_S * factor_S)
