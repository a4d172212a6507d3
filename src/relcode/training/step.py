"""One training step: look at a batch, move the parameters; sometimes pull matrices towards orthogonal ones and let the autoencoder speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from relcode.config import SamplingSettings, Settings
from relcode.model.blocks import block_gradients
from relcode.model.orthogonality import orthogonal_pull, pull_once_
from relcode.model.parameters import Parameters, shrink
from relcode.model.paths import NceRule, PathGradients, path_gradients
from relcode.ops.precision import LARGE_DIM, training_precision
from relcode.ops.room import Room
from relcode.ops.rows import row_counts
from relcode.ops.workers import share
from relcode.sampling.batches import Level, PathBatch
from relcode.sampling.noise import NoiseSource
from relcode.sampling.questions import QuestionBatch
from relcode.training.adaptive import climb_
from relcode.training.coder import CoderTurn, draw_matrices, move_and_speak_
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
    rule = NceRule(
        noises=sampling.noises,
        saturation=updates.saturation,
        factor_limit=updates.factor_limit,
        one_matrix=updates.path_matrices == "one" and len(batch.levels) > 1,
        normalise=settings.model.normalise,
        curves=updates.rule == "counted",
    )
    noises = [noise.draw(noise_groups(level, sampling), sampling.noise_draws, generator) for level in batch.levels]
    count_S = updates_per_matrix(batch, len(parameters.matrix_SDD), rule.one_matrix)
    alive = anneal * (count_S.sum() > 0)  # a batch of padding alone moves nothing
    turn = None
    if settings.model.autoencoder:
        assert settings.coder.every is not None, "fit_to_data fills this in"
        turn = CoderTurn(parameters, count_S, settings, sampling.edges / settings.coder.every, alive, generator)

    def move() -> Tensor:
        found = _gradients(parameters, batch, noises, settings, rule, room or Room())
        _climb_(parameters, batch, found, noises, count_S, settings, rule, anneal)
        if updates.orthogonal_rate > 0:
            assert sampling.edges is not None
            pull_towards_orthogonal_(parameters, count_S, updates.orthogonal_rate * alive, sampling.edges / updates.orthogonal_every, generator)
        return found.loss

    loss, coder_loss = move_and_speak_(move, turn, anneal.device)
    return StepResult(loss, torch.stack([level.weight_TW.sum() for level in batch.levels]).sum(), coder_loss)


def _climb_(
    parameters: Parameters,
    batch: PathBatch,
    found: PathGradients,
    noises: list[Tensor],
    count_S: Tensor,
    settings: Settings,
    rule: NceRule,
    anneal: Tensor,
) -> None:
    """Move vectors and matrices along their gradients, in place, by the rule asked for."""
    updates, prefixes_E = settings.updates, prefixes_per_head(batch, len(parameters.head_ED))
    if updates.rule == "counted":
        update_heads_(parameters, batch.levels[0], found, prefixes_E, updates, anneal, rule.noises)
        update_tails_(parameters, batch.levels, found, noises, updates, anneal, rule.noises)
        update_matrices_(parameters, batch.levels, found.levels, count_S, updates, anneal)
    else:
        climb_(parameters, batch.levels, found, noises, prefixes_E, count_S, settings, anneal)


def updates_per_matrix(batch: PathBatch, num_directed: int, one_matrix: bool) -> Tensor:
    """Return how many updates each matrix gets from a batch: one for every row, or for every row that chose it."""
    used = [(level.chosen_TW if one_matrix else level.weight_TW).sum(1) for level in batch.levels]
    return row_counts(torch.cat([level.relation_T for level in batch.levels]), torch.cat(used), num_directed)


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


def pull_towards_orthogonal_(parameters: Parameters, count_S: Tensor, rate: Tensor, expected: float, generator: torch.Generator) -> None:
    """Move some of the matrices that were just updated by −rate·(M Mᵀ − I) M; one drawn m times goes m times as far, within what is safe."""
    relation_J, repeats_J = draw_matrices(count_S, expected, generator)
    rate_J = rate * (expected / len(relation_J)) * repeats_J
    if not count_S.is_cuda:  # where their number may depend on the data: each matrix once
        rates = dict(zip(relation_J.tolist(), rate_J.tolist(), strict=True))
        with training_precision(count_S.device, parameters.matrix_SDD.shape[-1] >= LARGE_DIM):
            share(lambda relation: pull_once_(parameters.matrix_SDD[relation], rates[relation]), rates)
        return
    pull_JDD, safe_J = orthogonal_pull(parameters.matrix_SDD[relation_J])
    step_J = torch.minimum(rate_J, safe_J) / repeats_J
    parameters.matrix_SDD.index_add_(0, relation_J, pull_JDD * step_J[:, None, None])
