"""The paper's objective with Adagrad in place of counted steps: rates fall with the gradients that each number has seen.

Counted steps, one edge after the other, are what the published program takes; summed over thousands of edges they diverge or must be damped. Adagrad
(Duchi et al., 2011) takes a sum of any size, so that a step can be large and there are few of them. What is climbed is

    L1 − penalty/2 · Σ_paths (‖u_h‖² + ‖v_t‖²)

In the published program weight decay comes with the falling rate; here it is a term of the objective. Counters of vectors stay 0, so that raw vectors
are in force; those of matrices count updates, which the autoencoder's rate depends on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relcode.config import Settings
from relcode.model.parameters import Parameters
from relcode.model.paths import PathGradients
from relcode.ops.outer import climb_outer_
from relcode.ops.rows import join_rows, row_counts
from relcode.sampling.batches import Level
from relcode.training.adagrad import adagrad_, adagrad_rows_, climb_rows_

FEW_ROWS = 4  # where entities are more than this times the rows touched, only those are moved


def climb_(
    parameters: Parameters,
    levels: tuple[Level, ...],
    found: PathGradients,
    noises: list[Tensor],
    prefixes_E: Tensor,
    count_S: Tensor,
    settings: Settings,
    anneal: Tensor,
) -> None:
    """Move all that a batch touches along its gradients, in place; ``count_S`` says how many updates each matrix gets."""
    assert parameters.head_square_ED is not None and parameters.tail_square_ED is not None and parameters.matrix_square_SDD is not None
    updates, first = settings.updates, levels[0]
    assert updates.penalty is not None and updates.adagrad_rate is not None and updates.adagrad_matrix_rate is not None, "fit_settings fills these in"
    rate, matrix_rate = updates.adagrad_rate * anneal, updates.adagrad_matrix_rate * anneal
    head_X, head_XD = first.source_TW.flatten(), found.head_TWD.flatten(0, 1)
    _climb_rows_(parameters.head_ED, parameters.head_square_ED, head_X, head_XD, prefixes_E * updates.penalty, rate)
    tail_X, weight_X = (torch.cat([part.flatten() for part in parts]) for parts in zip(*((x.tail_TW, x.weight_TW) for x in levels), strict=True))
    use_E = row_counts(tail_X, weight_X, len(parameters.tails))
    entity_X = torch.cat([tail_X, *(noise_GK.flatten() for noise_GK in noises)])
    tail_XD = join_rows([*(each.tail_TWD.flatten(0, 1) for each in found.levels), *(each.noise_GKD.flatten(0, 1) for each in found.levels)])
    _climb_rows_(parameters.tails, parameters.tail_square_ED, entity_X, tail_XD, use_E * updates.penalty, rate)
    relation_X = torch.cat([level.relation_T[:, None].expand_as(level.weight_TW).flatten() for level in levels])
    before_XD, pull_XD = (join_rows([getattr(each, name).flatten(0, 1) for each in found.levels]) for name in ("before_TWD", "pull_TWD"))
    climb_outer_(parameters.matrix_SDD, parameters.matrix_square_SDD, relation_X, before_XD, pull_XD, matrix_rate)
    parameters.matrix_count_S.add_(count_S)


def _climb_rows_(vector_ED: Tensor, square_ED: Tensor, entity_X: Tensor, gradient_XD: Tensor, decay_E: Tensor, rate: Tensor) -> None:
    """Move vectors along the sum of their gradients less decay · vector, by the version that is fast where they are."""
    if vector_ED.is_cuda:
        climb_rows_at_once_(vector_ED, square_ED, entity_X, gradient_XD, decay_E, rate)
    else:
        climb_rows_(vector_ED, square_ED, entity_X, gradient_XD, decay_E, float(rate))


def climb_rows_at_once_(vector_ED: Tensor, square_ED: Tensor, entity_X: Tensor, gradient_XD: Tensor, decay_E: Tensor, rate: Tensor) -> None:
    """Move vectors likewise, with shapes that do not depend on the data: all rows, or, where entities are many, those named alone."""
    if len(vector_ED) <= FEW_ROWS * len(entity_X):
        gradient_ED = (vector_ED * decay_E[:, None]).index_add_(0, entity_X, gradient_XD, alpha=-1)
        adagrad_(vector_ED, square_ED, gradient_ED, rate)
    else:
        uses_E = row_counts(entity_X, torch.ones_like(gradient_XD[:, 0]), len(vector_ED)).clamp_min(1)
        adagrad_rows_(vector_ED, square_ED, entity_X, vector_ED[entity_X] * (decay_E / uses_E)[entity_X][:, None] - gradient_XD, rate)
