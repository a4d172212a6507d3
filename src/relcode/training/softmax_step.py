"""One step of the softmax objective: ask a batch of questions (and paths), move vectors and matrices by Adagrad, let the autoencoder speak."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from relcode.config import Settings
from relcode.model.parameters import Parameters
from relcode.model.softmax import (
    WORTH_SHARING,
    AnswerGradients,
    full_softmax,
    path_backward,
    path_forward,
    question_gradients,
    sampled_softmax,
)
from relcode.ops.diagonal import outer
from relcode.ops.outer import climb_outer_
from relcode.ops.room import Room
from relcode.ops.rows import row_counts
from relcode.ops.tiles import tiles_of
from relcode.ops.triton import has_kernels
from relcode.ops.workers import both
from relcode.sampling.questions import PathTiles, QuestionBatch
from relcode.training.adagrad import adagrad_, adagrad_rows_
from relcode.training.coder import CoderTurn, move_and_speak_
from relcode.training.step import StepResult

LARGE_MATRIX = 1 << 15  # numbers of a matrix from which a CPU moves matrices one by one, and keeps no table of all their gradients


class Gathered:
    """The gradients of a step as they come in: rows of vectors, tiles of matrices, and all candidates at once."""

    def __init__(self, parameters: Parameters, candidate_K: Tensor | None, room: Room | None) -> None:
        """Begin with nothing; ``candidate_K`` are the entities drawn, None for all."""
        self.parameters, self.candidate_K, self.room = parameters, candidate_K, room
        self.head: list[tuple[Tensor, Tensor]] = []
        self.tail: list[tuple[Tensor, Tensor]] = []
        self.matrix: list[tuple[Tensor, Tensor, Tensor]] = []  # relations of tiles, and the two factors of their direction
        self.candidate_KD: Tensor | None = None

    def answer(self, query_BD: Tensor, answer_BM: Tensor, weight_BM: Tensor) -> AnswerGradients:
        """Weigh all queries of the step against the candidates, keeping what goes to these."""
        tail_ED = self.parameters.tails
        if self.candidate_K is None:
            found = full_softmax(query_BD, tail_ED, answer_BM, weight_BM, self.room)
        else:
            found = sampled_softmax(query_BD, tail_ED[self.candidate_K], tail_ED[answer_BM], weight_BM, len(tail_ED))
        self.candidate_KD = found.candidate_KD
        return found

    def descend_(self, batch: QuestionBatch, settings: Settings, anneal: Tensor) -> None:
        """Move vectors, and (in a large step beside them) matrices, which touch nothing of theirs."""
        assert settings.softmax.rate is not None and settings.softmax.matrix_rate is not None, "fit_settings fills these in"
        rate, matrix_rate = settings.softmax.rate * anneal, settings.softmax.matrix_rate * anneal
        if batch.head_TW.numel() * self.parameters.head_ED.numel() >= WORTH_SHARING:
            both(lambda: self.move_vectors_(rate), lambda: self.move_matrices_(matrix_rate))
        else:
            self.move_vectors_(rate)
            self.move_matrices_(matrix_rate)

    def move_vectors_(self, rate: Tensor) -> None:
        """Move the vectors against what was gathered."""
        parameters = self.parameters
        assert self.candidate_KD is not None and parameters.head_square_ED is not None
        if self.candidate_K is not None:
            self.tail.append((self.candidate_K, self.candidate_KD))
        if parameters.tail_ED is None:
            self._vectors_(parameters.head_ED, parameters.head_square_ED, self.head + self.tail, True, rate)
        else:
            assert parameters.tail_square_ED is not None
            self._vectors_(parameters.head_ED, parameters.head_square_ED, self.head, False, rate)
            self._vectors_(parameters.tail_ED, parameters.tail_square_ED, self.tail, True, rate)

    def move_matrices_(self, rate: Tensor) -> None:
        """Move the matrices against what was gathered: by a kernel that sums and moves in one pass, or tile by tile where there is none."""
        matrix_SDD, square_SDD = self.parameters.matrix_SDD, self.parameters.matrix_square_SDD
        assert square_SDD is not None
        if has_kernels() if matrix_SDD.is_cuda else matrix_SDD[0].numel() >= LARGE_MATRIX:
            relation_X = torch.cat([relation_T[:, None].expand(left_TYD.shape[:2]).flatten() for relation_T, left_TYD, _ in self.matrix])
            left_XD, right_XD = (torch.cat([tile[side].flatten(0, 1) for tile in self.matrix]) for side in (1, 2))
            climb_outer_(matrix_SDD, square_SDD, relation_X, left_XD, right_XD, -rate)
            return
        gradient_TDD = torch.cat([outer(left_TYD, right_TYD, matrix_SDD.shape[-1]) for _, left_TYD, right_TYD in self.matrix])
        adagrad_rows_(matrix_SDD, square_SDD, torch.cat([relation_T for relation_T, _, _ in self.matrix]), gradient_TDD, rate)

    def _vectors_(self, vector_ED: Tensor, square_ED: Tensor, rows: list[tuple[Tensor, Tensor]], has_candidates: bool, rate: Tensor) -> None:
        """Move vectors: all of them where all are candidates, else those touched."""
        entity_X = torch.cat([entity.flatten() for entity, _ in rows])
        gradient_XD = torch.cat([gradient.flatten(0, -2) for _, gradient in rows])
        if self.candidate_K is None and has_candidates:
            assert self.candidate_KD is not None
            adagrad_(vector_ED, square_ED, self.candidate_KD.index_add_(0, entity_X, gradient_XD), rate)
        else:
            adagrad_rows_(vector_ED, square_ED, entity_X, gradient_XD, rate)


def take_softmax_step(
    parameters: Parameters, batch: QuestionBatch, settings: Settings, anneal: Tensor, generator: torch.Generator, room: Room | None = None
) -> StepResult:
    """Move the parameters, in place, by one batch; ``anneal`` scales every rate, and ``room`` is memory kept from one step to the next."""
    turn = None
    if settings.model.autoencoder:
        assert settings.coder.every is not None, "fit_settings fills this in"
        count_S = row_counts(batch.relation_T, batch.weight_TWM.sum((1, 2)), len(parameters.matrix_SDD))
        turn = CoderTurn(parameters, count_S, settings, batch.head_TW.numel() / settings.coder.every, anneal, generator)
    loss, coder_loss = move_and_speak_(lambda: _ask_(parameters, batch, settings, anneal, generator, room), turn, anneal.device)
    return StepResult(loss, batch.weight_TWM.sum(), coder_loss)


def _ask_(parameters: Parameters, batch: QuestionBatch, settings: Settings, anneal: Tensor, generator: torch.Generator, room: Room | None) -> Tensor:
    """Move vectors and matrices, in place, by the questions and paths of a batch; return the loss of the questions."""
    softmax = settings.softmax
    assert softmax.penalty is not None and softmax.image_share is not None, "fit_settings fills these in"
    T, W, M = batch.answer_TWM.shape
    drawn = None
    if softmax.candidates is not None:
        drawn = torch.randint(len(parameters.head_ED), (softmax.candidates,), generator=generator, device=batch.head_TW.device)
    gathered = Gathered(parameters, drawn, room)
    tiles = tiles_of(parameters.matrix_SDD, batch.relation_T)
    head_TWD = parameters.head_ED[batch.head_TW]
    query_TWD = tiles.product(head_TWD)
    walks = None if batch.paths is None else Walks(parameters, batch.paths)
    asked = [(query_TWD.flatten(0, 1), batch.answer_TWM.flatten(0, 1), batch.weight_TWM.flatten(0, 1))]
    asked += [] if walks is None else [walks.asked(M, softmax.path_weight)]
    found = gathered.answer(*(torch.cat(part) for part in zip(*asked, strict=True)))  # questions and paths in one product with all candidates
    on_facts = found.rows(slice(None, T * W))
    answer_TX, weight_TX = batch.answer_TWM.view(T, W * M), batch.weight_TWM.view(T, W * M)
    gradients = question_gradients(tiles, head_TWD, parameters.tails[answer_TX], weight_TX, on_facts, query_TWD, softmax.penalty, softmax.image_share)
    gathered.head.append((batch.head_TW, gradients.head_TWD))
    gathered.tail.append((answer_TX, gradients.answer_TXD))
    gathered.matrix.append((batch.relation_T, gradients.left_TYD, gradients.right_TYD))
    if walks is not None:
        walks.gather(gathered, found.rows(slice(T * W, None)))
    gathered.descend_(batch, settings, anneal)
    return on_facts.loss_B.sum()


class Walks:
    """Two-step paths of a step: their queries on the way forward, their gradients on the way back."""

    def __init__(self, parameters: Parameters, paths: PathTiles) -> None:
        """Follow the paths to their queries."""
        self.paths = paths
        self.first, self.second = (tiles_of(parameters.matrix_SDD, relation_T) for relation_T in (paths.first_T, paths.second_T))
        self.head_TWD = parameters.head_ED[paths.head_TW]
        self.step = path_forward(self.first, self.second, self.head_TWD, parameters.tails[paths.middle_TW])

    def asked(self, answers: int, weight: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, answers and weights as questions have them: the one answer of a path, and padding up to ``answers``."""
        padding = (0, answers - 1)
        answer_BM = pad(self.paths.tail_TW.flatten()[:, None], padding)
        return self.step.query_TWD.flatten(0, 1), answer_BM, pad((self.paths.weight_TW * weight).flatten()[:, None], padding)

    def gather(self, gathered: Gathered, found: AnswerGradients) -> None:
        """Lead the gradients back to heads, tails and both matrices."""
        query_gradient_TWD = found.query_BD.view_as(self.head_TWD)
        image_gradient_TWD, head_gradient_TWD = path_backward(self.first, self.second, self.step, query_gradient_TWD)
        gathered.head.append((self.paths.head_TW, head_gradient_TWD))
        gathered.tail.append((self.paths.tail_TW, found.answer_BMD[:, 0].reshape(self.head_TWD.shape)))
        gathered.matrix.append((self.paths.first_T, self.head_TWD, image_gradient_TWD))
        gathered.matrix.append((self.paths.second_T, self.step.image_TWD, query_gradient_TWD))
