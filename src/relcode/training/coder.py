"""The autoencoder's turn in a training step: relations are drawn, encoder and decoder learn from their matrices, and pull at them.

A turn looks at the matrices as they are before the step, and what it pulls is added after it. Between the two it touches nothing that the rest of the
step touches, so that on CUDA, where it is many small kernels with little in them, it runs beside the rest (:mod:`relcode.ops.streams`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from relcode.config import Settings
from relcode.model.autoencoder import CoderGradients, coder_gradients, flatten_matrices, without_identity
from relcode.model.parameters import Parameters, coder_in_force, matrix_scale
from relcode.ops.rows import cumulative, draw_rows, row_counts
from relcode.ops.streams import side_by_side
from relcode.ops.workers import torch_alone


def draw_matrices(count_S: Tensor, expected: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw about ``expected`` relations in proportion to their updates in this step, and say how often each was drawn."""
    draws = max(1, round(expected))
    relation_J = draw_rows(cumulative(count_S + 1e-30), (draws,), generator)  # so that an empty batch does not divide by zero
    return relation_J, row_counts(relation_J, count_S.new_ones(draws), len(count_S))[relation_J]


class CoderTurn:
    """The ``due`` autoencoder updates of a step, a few relations at a time, X times J relations with K noises each.

    They follow each other as in the released program: encoder and decoder are small and shared by all relations, and many updates summed up
    would overshoot and let all codes collapse.
    """

    def __init__(self, parameters: Parameters, count_S: Tensor, settings: Settings, due: float, anneal: Tensor, generator: torch.Generator) -> None:
        """Draw the relations, by ``count_S`` (their updates in this step) or uniformly, and take their matrices as they are now."""
        self.parameters, self.settings = parameters, settings
        coder, relations, device = settings.coder, len(parameters.matrix_SDD), parameters.matrix_SDD.device
        steps = max(1, round(due / coder.batch))
        shape = (steps, max(1, round(due / steps)))
        if coder.draw == "uniform":
            self.relation_XJ = torch.randint(relations, shape, generator=generator, device=device)
        else:
            self.relation_XJ = draw_matrices(count_S, steps * shape[1], generator)[0].view(shape)
        noise_XJK = torch.randint(relations, (*shape, coder.noises), generator=generator, device=device)
        self.factor = anneal * (due / (steps * shape[1]))
        rate_XJ = coder.matrix_rate / (1 + coder.matrix_rate * coder.matrix_decay * parameters.matrix_count_S[self.relation_XJ])
        drawn_XIDD = parameters.matrix_SDD[torch.cat([self.relation_XJ, noise_XJK.flatten(1)], dim=1)]
        if coder.traceless:
            drawn_XIDD = without_identity(drawn_XIDD)
        self.flat_XIQ = flatten_matrices(drawn_XIDD.flatten(0, 1)).unflatten(0, drawn_XIDD.shape[:2])
        self.rate_XJ = rate_XJ.float() * self.factor
        if not settings.model.normalise:  # where a matrix keeps its own length, the pull is at that scale
            self.rate_XJ = self.rate_XJ / matrix_scale(drawn_XIDD[:, : shape[1]].flatten(0, 1), True).view(shape)

    def learn_(self) -> list[CoderGradients]:
        """Move encoder and decoder, in place, by one step after the other; return the gradients of each.

        On the CPU on one thread: torch would share the sums over a whole matrix, and another number of threads adds up in another order.
        """
        relations = self.relation_XJ.shape[1]
        with nullcontext() if self.flat_XIQ.is_cuda else torch_alone(1):
            return [self._learn_once_(flat_IQ[:relations], flat_IQ[relations:].unflatten(0, (relations, -1))) for flat_IQ in self.flat_XIQ]

    def _learn_once_(self, flat_JQ: Tensor, noise_JKQ: Tensor) -> CoderGradients:
        parameters, coder = self.parameters, self.settings.coder
        assert coder.scale is not None, "fit_settings fills this in"
        encoder_CQ, decoder_CQ = coder_in_force(parameters, coder)
        found = coder_gradients(
            flat_JQ,
            noise_JKQ,
            encoder_CQ,
            decoder_CQ,
            dim=self.settings.model.size,
            smooth=coder.smooth_relu,
            saturation=self.settings.updates.saturation,
            scale=coder.scale,
            sparsity=coder.sparsity,
        )
        assert parameters.encoder_CQ is not None and parameters.decoder_CQ is not None and parameters.coder_count is not None
        parameters.encoder_CQ.addcmul_(found.encoder_CQ, coder.first_rate * self.factor)
        parameters.decoder_CQ.addcmul_(found.decoder_CQ, coder.first_rate * self.factor)
        parameters.coder_count.add_(len(flat_JQ) * self.factor)
        return found

    def pull_(self, found: list[CoderGradients]) -> Tensor:
        """Add what the reconstructions pull to the matrices, in place; return the loss of the last relations."""
        change_XQ = torch.cat([each.matrix_JQ for each in found]) * self.rate_XJ.flatten()[:, None]
        matrix_SDD = self.parameters.matrix_SDD
        matrix_SDD.index_add_(0, self.relation_XJ.flatten(), change_XQ.unflatten(1, matrix_SDD.shape[1:]))
        return found[-1].loss


def move_and_speak_(move: Callable[[], Tensor], turn: CoderTurn | None, device: torch.device) -> tuple[Tensor, Tensor]:
    """Move all else of a step by ``move``, which returns its loss, with the autoencoder's turn (if it has one) beside it; return both losses."""
    if turn is None:
        loss = move()
        return loss, loss.new_zeros(())
    loss, found = side_by_side(move, turn.learn_, device)
    return loss, turn.pull_(found)
