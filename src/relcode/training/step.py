"""One training step: look at a batch, move the parameters; sometimes pull matrices towards orthogonal ones and let the autoencoder speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from relcode.config import SamplingSettings, Settings
from relcode.model.autoencoder import CoderGradients, coder_gradients, flatten_matrices
from relcode.model.blocks import block_gradients
from relcode.model.orthogonality import orthogonal_pull, pull_once_
from relcode.model.parameters import Parameters, coder_in_force, matrix_scale, shrink
from relcode.model.paths import NceRule, PathGradients, path_gradients
from relcode.ops.room import Room
from relcode.ops.rows import cumulative, draw_rows, row_counts
from relcode.ops.workers import share
from relcode.sampling.batches import Level, PathBatch
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
    parameters: Parameters,
    batch: PathBatch,
    noise: NoiseSource,
    settings: Settings,
    anneal: Tensor,
    generator: torch.Generator,
    room: Room | None = None,
) -> StepResult:
    """Move the parameters, in place, by one batch; ``anneal`` scales every rate, ``room`` is memory kept from the last step."""
    sampling, updates = settings.sampling, settings.updates
    assert sampling.edges is not None and sampling.noises is not None and sampling.noise_draws is not None, "fit_settings fills these in"
    counted = updates.rule == "counted"
    rule = NceRule(
        noises=sampling.noises,
        saturation=updates.saturation,
        factor_limit=updates.factor_limit,
        one_matrix=updates.path_matrices == "one" and len(batch.levels) > 1,
        normalise=settings.model.normalise,
        curves=counted,
    )
    noises = [noise.draw(noise_groups(level, sampling), sampling.noise_draws, generator) for level in batch.levels]
    found = _gradients(parameters, batch, noises, settings, rule, room or Room())
    prefixes_E = prefixes_per_head(batch, len(parameters.head_ED))
    if counted:
        update_heads_(parameters, batch.levels[0], found, prefixes_E, updates, anneal, sampling.noises)
        update_tails_(parameters, batch.levels, found, noises, updates, anneal, sampling.noises)
        count_S = update_matrices_(parameters, batch.levels, found.levels, updates, anneal, rule.one_matrix)
    else:
        count_S = climb_(parameters, batch.levels, found, noises, prefixes_E, settings, anneal)
    anneal = anneal * (count_S.sum() > 0)  # a batch of padding alone moves nothing
    if updates.orthogonal_rate > 0:
        pull_towards_orthogonal_(parameters, count_S, updates.orthogonal_rate * anneal, sampling.edges / updates.orthogonal_every, generator)
    coder_loss = found.loss.new_zeros(())
    if settings.model.autoencoder:
        assert settings.coder.every is not None, "fit_to_data fills this in"
        coder_loss = train_coder_(parameters, count_S, settings, sampling.edges / settings.coder.every, anneal, generator)
    return StepResult(found.loss, torch.stack([level.weight_TW.sum() for level in batch.levels]).sum(), coder_loss)


def _gradients(parameters: Parameters, batch: PathBatch, noises: list[Tensor], settings: Settings, rule: NceRule, room: Room) -> PathGradients:
    """Return the gradients of a batch, by the version that is fast where the parameters are."""
    if not rule.curves and not parameters.head_ED.is_cuda:
        return block_gradients(batch.levels, parameters.head_ED, parameters.tails, noises, parameters.matrix_SDD, rule, room)
    return whole_gradients(parameters, batch, noises, settings, rule)


def whole_gradients(parameters: Parameters, batch: PathBatch, noises: list[Tensor], settings: Settings, rule: NceRule) -> PathGradients:
    """Return the gradients of a batch, all its rows at once."""
    updates = settings.updates

    def rows(table_ED: Tensor, count_E: Tensor, entity: Tensor) -> Tensor:
        vectors = table_ED[entity]  # in force as they are, unless they are divided by what their counters say
        return vectors * shrink(count_E, updates.vector_rate, updates.vector_decay)[entity][..., None] if rule.curves else vectors

    tails = [rows(parameters.tails, parameters.tail_count_E, level.tail_TW) for level in batch.levels]
    noise_vectors = [rows(parameters.tails, parameters.tail_count_E, noise_GK) for noise_GK in noises]
    head_TWD = rows(parameters.head_ED, parameters.head_count_E, batch.levels[0].source_TW)
    return path_gradients(batch.levels, head_TWD, tails, noise_vectors, parameters.matrix_SDD, rule)


def noise_groups(level: Level, sampling: SamplingSettings) -> int:
    """Return how many groups of rows, all of one size, have noises of their own: as near to ``noise_rows`` as can be, and no smaller."""
    rows, width = level.weight_TW.shape
    together = sampling.noise_rows
    if sampling.noise_sharing == "tile":
        if width > 1 or sampling.tile == 1:
            return rows
        together = sampling.tile  # walks have no tiles: as many rows as would stand in one
    rows *= width
    most = rows // together if together else 1
    return next((groups for groups in range(most, 1, -1) if rows % groups == 0), 1)


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
    rate_J = rate * (expected / len(relation_J)) * repeats_J
    if not count_S.is_cuda:  # where their number may depend on the data: each matrix once
        rates = dict(zip(relation_J.tolist(), rate_J.tolist(), strict=True))
        share(lambda relation: pull_once_(parameters.matrix_SDD[relation], rates[relation]), rates)
        return
    pull_JDD, safe_J = orthogonal_pull(parameters.matrix_SDD[relation_J])
    step_J = torch.minimum(rate_J, safe_J) / repeats_J
    parameters.matrix_SDD.index_add_(0, relation_J, pull_JDD * step_J[:, None, None])


def train_coder_(parameters: Parameters, count_S: Tensor, settings: Settings, due: float, anneal: Tensor, generator: torch.Generator) -> Tensor:
    """Take the ``due`` autoencoder updates of this batch, a few relations at a time; return the loss of the last ones.

    They follow each other as in the released program: encoder and decoder are small and shared by all relations, and many updates summed up
    would overshoot and let all codes collapse.
    """
    coder, relations, device = settings.coder, len(parameters.matrix_SDD), parameters.matrix_SDD.device
    steps = max(1, round(due / coder.batch))
    shape = (steps, max(1, round(due / steps)))
    if coder.draw == "uniform":
        relation_XJ = torch.randint(relations, shape, generator=generator, device=device)
    else:
        relation_XJ = draw_matrices(count_S, steps * shape[1], generator)[0].view(shape)
    noise_XJK = torch.randint(relations, (*shape, coder.noises), generator=generator, device=device)
    factor = anneal * (due / (steps * shape[1]))
    # Counters of matrices stay as they are meanwhile, and so do their rates.
    rate_XJ = (coder.matrix_rate / (1 + coder.matrix_rate * coder.matrix_decay * parameters.matrix_count_S[relation_XJ])).float() * factor
    drawn_XIDD = parameters.matrix_SDD[torch.cat([relation_XJ, noise_XJK.flatten(1)], dim=1)]
    flat_XIQ = flatten_matrices(drawn_XIDD.flatten(0, 1)).unflatten(0, drawn_XIDD.shape[:2])
    if not settings.model.normalise:  # where a matrix keeps its own length, the pull is at that scale
        rate_XJ = rate_XJ / matrix_scale(drawn_XIDD[:, : shape[1]].flatten(0, 1), True).view(shape)
    pulls = []
    for flat_IQ in flat_XIQ:
        found = _coder_step_(parameters, flat_IQ[: shape[1]], flat_IQ[shape[1] :].unflatten(0, noise_XJK.shape[1:]), settings, factor)
        pulls.append(found.matrix_JQ)
    # What all of them pull at matrices is added at the end: matrices are looked at as they are when the first one begins.
    change_XQ = torch.cat(pulls) * rate_XJ.flatten()[:, None]
    parameters.matrix_SDD.index_add_(0, relation_XJ.flatten(), change_XQ.unflatten(1, drawn_XIDD.shape[2:]))
    return found.loss


def _coder_step_(parameters: Parameters, flat_JQ: Tensor, noise_JKQ: Tensor, settings: Settings, factor: Tensor) -> CoderGradients:
    """Move encoder and decoder, in place, by one step on the relations drawn, at their rate times ``factor``; return the gradients."""
    coder = settings.coder
    encoder_CQ, decoder_CQ = coder_in_force(parameters, coder)
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
    assert parameters.encoder_CQ is not None and parameters.decoder_CQ is not None and parameters.coder_count is not None
    parameters.encoder_CQ.addcmul_(found.encoder_CQ, coder.rate * factor)
    parameters.decoder_CQ.addcmul_(found.decoder_CQ, coder.rate * factor)
    parameters.coder_count.add_(len(flat_JQ) * factor)
    return found
