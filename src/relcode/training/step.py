"""One training step: look at a batch, move the parameters; sometimes pull matrices towards orthogonal ones and let the autoencoder speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from relcode.config import Settings
from relcode.model.autoencoder import coder_gradients, flatten_matrices
from relcode.model.orthogonality import orthogonal_pull
from relcode.model.parameters import Parameters, coder_in_force, matrix_scale, shrink
from relcode.model.paths import NceRule, path_gradients
from relcode.ops.rows import cumulative, draw_rows, row_counts
from relcode.sampling.batches import PathBatch
from relcode.sampling.noise import NoiseSource
from relcode.sampling.questions import QuestionBatch
from relcode.training.adaptive import climb_
from relcode.training.updates import update_heads_, update_matrices_, update_tails_


class Stream(Protocol):
    """Serves batches: facts, walks or questions."""

    steps_per_epoch: int

    def batch(self, step: int, generator: torch.Generator) -> PathBatch | QuestionBatch:
        """Return the batch of a step."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step tells: sums on the device, nothing waited for."""

    loss: Tensor
    edges: Tensor
    coder_loss: Tensor


def take_step(
    parameters: Parameters, batch: PathBatch, noise: NoiseSource, settings: Settings, anneal: Tensor, generator: torch.Generator
) -> StepResult:
    """Move the parameters, in place, by one batch; ``anneal`` scales every rate."""
    sampling, updates = settings.sampling, settings.updates
    assert sampling.edges is not None, "fit_to_data fills this in"
    rule = NceRule(
        noises=sampling.noises,
        saturation=updates.saturation,
        factor_limit=updates.factor_limit,
        one_matrix=updates.path_matrices == "one" and len(batch.levels) > 1,
        normalise=settings.model.normalise,
        curves=updates.rule == "counted",
    )
    by_tile = sampling.noise_sharing == "tile"
    noises = [noise.draw(len(level.relation_T) if by_tile else 1, sampling.noise_draws, generator) for level in batch.levels]
    first = batch.levels[0]
    head_shrink_E = shrink(parameters.head_count_E, updates.vector_rate, updates.vector_decay)
    tail_shrink_E = shrink(parameters.tail_count_E, updates.vector_rate, updates.vector_decay)

    def rows(table_ED: Tensor, shrink_E: Tensor, entity: Tensor) -> Tensor:
        return table_ED[entity] * shrink_E[entity][..., None]

    tails = [rows(parameters.tails, tail_shrink_E, level.tail_TW) for level in batch.levels]
    noise_vectors = [rows(parameters.tails, tail_shrink_E, noise_GK) for noise_GK in noises]
    head_TWD = rows(parameters.head_ED, head_shrink_E, first.source_TW)
    found = path_gradients(batch.levels, head_TWD, tails, noise_vectors, parameters.matrix_SDD, rule)
    prefixes_E = prefixes_per_head(batch, len(parameters.head_ED))
    if updates.rule == "adagrad":
        count_S = climb_(parameters, batch.levels, found, noises, prefixes_E, settings, anneal)
    else:
        update_heads_(parameters, first, found, prefixes_E, updates, anneal, sampling.noises)
        update_tails_(parameters, batch.levels, found, noises, updates, anneal, sampling.noises)
        count_S = update_matrices_(parameters, batch.levels, found.levels, updates, anneal, rule.one_matrix)
    anneal = anneal * (count_S.sum() > 0)  # a batch of padding alone moves nothing
    if updates.orthogonal_rate > 0:
        pull_towards_orthogonal_(parameters, count_S, updates.orthogonal_rate * anneal, sampling.edges / updates.orthogonal_every, generator)
    coder_loss = found.loss.new_zeros(())
    if settings.model.autoencoder:
        assert settings.coder.every is not None, "fit_to_data fills this in"
        coder_loss = train_coder_(parameters, count_S, settings, sampling.edges / settings.coder.every, anneal, generator)
    return StepResult(found.loss, torch.stack([level.weight_TW.sum() for level in batch.levels]).sum(), coder_loss)


def prefixes_per_head(batch: PathBatch, num_entities: int) -> Tensor:
    """Return how many training paths (prefixes of walks) start at each entity."""
    prefixes_TW = batch.levels[-1].weight_TW
    for below, level in zip(reversed(batch.levels[:-1]), reversed(batch.levels[1:]), strict=True):
        grown_X = row_counts(level.source_TW, prefixes_TW * level.weight_TW, below.weight_TW.numel())
        prefixes_TW = below.weight_TW + grown_X.view_as(below.weight_TW)
    return row_counts(batch.levels[0].source_TW, prefixes_TW, num_entities)


def draw_matrices(count_S: Tensor, expected: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw about ``expected`` relations in proportion to their updates in this step, and say how often each was drawn."""
    draws = max(1, round(expected))
    relation_J = draw_rows(cumulative(count_S + 1e-30), (draws,), generator)  # so that an empty batch does not divide by zero
    return relation_J, row_counts(relation_J, count_S.new_ones(draws), len(count_S))[relation_J]


def pull_towards_orthogonal_(parameters: Parameters, count_S: Tensor, rate: Tensor, expected: float, generator: torch.Generator) -> None:
    """Move some of the matrices that were just updated by −rate·(M Mᵀ − I) M; one drawn m times goes m times as far, within what is safe."""
    relation_J, repeats_J = draw_matrices(count_S, expected, generator)
    pull_JDD, safe_J = orthogonal_pull(parameters.matrix_SDD[relation_J])
    step_J = torch.minimum(rate * (expected / len(relation_J)) * repeats_J, safe_J) / repeats_J
    parameters.matrix_SDD.index_add_(0, relation_J, pull_JDD * step_J[:, None, None])


def train_coder_(parameters: Parameters, count_S: Tensor, settings: Settings, due: float, anneal: Tensor, generator: torch.Generator) -> Tensor:
    """Take the ``due`` autoencoder updates of this batch, a few relations at a time.

    They follow each other as in the released program: encoder and decoder are small and shared by all relations, and many updates summed up
    would overshoot and let all codes collapse.
    """
    steps = max(1, round(due / settings.coder.batch))
    losses = [_coder_step_(parameters, count_S, settings, anneal, due / steps, generator) for _ in range(steps)]
    return torch.stack(losses).mean()


def _coder_step_(parameters: Parameters, count_S: Tensor, settings: Settings, anneal: Tensor, expected: float, generator: torch.Generator) -> Tensor:
    """Take one autoencoder step on some of the relations that were just updated; their matrices feel it at rate η2/(1 + η2·λ2·τ_r)."""
    coder, matrix_SDD = settings.coder, parameters.matrix_SDD
    if coder.draw == "uniform":
        relation_J = torch.randint(len(matrix_SDD), (max(1, round(expected)),), generator=generator, device=matrix_SDD.device)
    else:
        relation_J, _ = draw_matrices(count_S, expected, generator)
    noise_JK = torch.randint(len(matrix_SDD), (len(relation_J), coder.noises), generator=generator, device=matrix_SDD.device)
    encoder_CQ, decoder_CQ = coder_in_force(parameters, coder)
    drawn_JDD = matrix_SDD[relation_J]
    flat_JQ = flatten_matrices(drawn_JDD)
    noise_JKQ = flatten_matrices(matrix_SDD[noise_JK.flatten()]).unflatten(0, noise_JK.shape)
    found = coder_gradients(
        flat_JQ,
        noise_JKQ,
        encoder_CQ,
        decoder_CQ,
        smooth=coder.smooth_relu,
        saturation=settings.updates.saturation,
        scale=coder.scale,
        sparsity=coder.sparsity,
    )
    factor = anneal * (expected / len(relation_J))
    rate_J = (coder.matrix_rate / (1 + coder.matrix_rate * coder.matrix_decay * parameters.matrix_count_S[relation_J])).float()
    if not settings.model.normalise:  # where a matrix keeps its own length, the pull is at that scale
        rate_J = rate_J / matrix_scale(drawn_JDD, True)
    change_JQ = found.matrix_JQ * (factor * rate_J)[:, None]
    matrix_SDD.index_add_(0, relation_J, change_JQ.unflatten(1, matrix_SDD.shape[1:]))
    assert parameters.encoder_CQ is not None and parameters.decoder_CQ is not None and parameters.coder_count is not None
    parameters.encoder_CQ.add_(found.encoder_CQ * (coder.rate * factor))
    parameters.decoder_CQ.add_(found.decoder_CQ * (coder.rate * factor))
    parameters.coder_count.add_(len(relation_J) * factor)
    return found.loss
