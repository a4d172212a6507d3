"""The softmax objective: a question (h, r, ?) must find its answers among all entities, and vectors pay for their length.

For a question with query q = u_h M_r and n known answers a,

    loss = Σ_a −ln softmax(q·v)_a = n · ln Σ_e exp(q·v_e) − Σ_a q·v_a

which is the cross entropy of each fact, with the sum over all entities e computed once for n facts. The penalty on a fact is DURA's (Zhang et al.,
2020) with a share of its own for the images,

    λ (‖u_h‖² + ‖v_t‖² + κ ‖u_h M_r‖² + κ ‖M_r v_t‖²)

It bounds the nuclear norm of the score tensor, and since −2 u_h M_r v_t + ‖u_h M_r‖² + ‖v_t‖² = ‖u_h M_r − v_t‖², it draws the image of a head
towards its answers: with one vector an entity, a path can go on from there. That is why these matrices compose.

A two-step path h → m → t is the question (u_h M_1) · (‖v_m‖/‖u_h M_1‖) · M_2 with the one answer t. Images are shorter than vectors, and without the
factor (a constant to the gradient) logits of paths would be too small, and pull all lengths up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from relcode.ops.precision import rough_type
from relcode.ops.room import Room
from relcode.ops.softmax import softmax_
from relcode.ops.tiles import PlainTiles
from relcode.ops.workers import both

ALIGNED = 64  # entities
CACHED, CACHED_VECTORS = 1 << 18, 1 << 20  # numbers of a table of scores, and of all vectors, that stay in a core's caches
LEAST_ROWS = 16  # that a product should have
WORTH_SHARING = 1 << 24  # multiplications of a table of scores from which two cores make it sooner than one
MOST_STRETCH = 1e3  # an image that is nearly zero says nothing, and is not blown up to the length of an entity


@dataclass(frozen=True, slots=True)
class AnswerGradients:
    """Descent directions of the loss: towards queries, and towards the vectors of candidates (all entities, or those drawn) and of answers."""

    loss_B: Tensor
    query_BD: Tensor
    candidate_KD: Tensor
    answer_BMD: Tensor

    def rows(self, which: slice) -> AnswerGradients:
        """Return what belongs to some of the queries; the candidates' part is that of all."""
        return AnswerGradients(self.loss_B[which], self.query_BD[which], self.candidate_KD, self.answer_BMD[which])


def full_softmax(query_BD: Tensor, vector_ED: Tensor, answer_BM: Tensor, weight_BM: Tensor, room: Room | None = None) -> AnswerGradients:
    """Return the gradients of Σ_b (n_b ln Σ_e exp(q_b v_e) − Σ_a w_a q_b v_a), n_b = Σ_a w_a, over all entities e.

    The table of scores is large and is passed over as seldom as can be: weights are applied to its products, not to itself. On the CPU padding is
    left out, and where the vectors stay in the cache the table is made a few rows at a time, which stay there too; two cores can share a large one.
    """
    if query_BD.is_cuda:  # where shapes must not depend on the data
        loss_B, gradient_BD, candidate_ED = compare_at_once(query_BD, vector_ED, answer_BM, weight_BM)
    else:
        asked_X = (weight_BM != 0).any(1).nonzero()[:, 0]
        asked = query_BD[asked_X], vector_ED, answer_BM[asked_X], weight_BM[asked_X]
        if vector_ED.numel() <= CACHED_VECTORS:
            loss_X, gradient_XD, candidate_ED = _compare_from_caches(*asked)
        else:
            loss_X, gradient_XD, candidate_ED = compare_large(*asked, Room() if room is None else room)
        loss_B = query_BD.new_zeros(len(query_BD)).index_copy_(0, asked_X, loss_X)
        gradient_BD = torch.zeros_like(query_BD).index_copy_(0, asked_X, gradient_XD)
    return AnswerGradients(loss_B, gradient_BD, candidate_ED, -weight_BM[..., None] * query_BD[:, None])


def compare_at_once(query_BD: Tensor, vector_ED: Tensor, answer_BM: Tensor, weight_BM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return losses, and gradients towards queries and all entities, from one table.

    It is padded to a multiple of ``ALIGNED`` entities: cuBLAS has fast products for such sizes alone, others take two to three times as long.
    """
    E = len(vector_ED)
    wide_ED, count_B1 = pad(vector_ED, (0, 0, 0, -E % ALIGNED)), weight_BM.sum(1, keepdim=True)
    share_BE = query_BD @ wide_ED.T
    gold_BM = share_BE.gather(1, answer_BM)
    total_B = softmax_(share_BE, E)
    loss_B = count_B1[:, 0] * total_B - (weight_BM * gold_BM).sum(1)
    gradient_BD = count_B1 * (share_BE @ wide_ED) - torch.einsum("bm,bmd->bd", weight_BM, vector_ED[answer_BM])
    return loss_B, gradient_BD, (share_BE.T @ (count_B1 * query_BD))[:E]


def _compare_from_caches(query_BD: Tensor, vector_ED: Tensor, answer_BM: Tensor, weight_BM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what :func:`compare_at_once` does; of a large table each core, where there are two, makes one half."""
    if len(query_BD) * vector_ED.numel() < WORTH_SHARING:
        return _compare_by_rows(query_BD, vector_ED, answer_BM, weight_BM)
    middle = (len(query_BD) + 1) // 2

    def half(rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        return _compare_by_rows(query_BD[rows], vector_ED, answer_BM[rows], weight_BM[rows])

    (loss_X, gradient_XD, candidate_ED), (loss_Y, gradient_YD, other_ED) = both(lambda: half(slice(middle)), lambda: half(slice(middle, None)))
    return torch.cat([loss_X, loss_Y]), torch.cat([gradient_XD, gradient_YD]), candidate_ED.add_(other_ED)


def _compare_by_rows(query_BD: Tensor, vector_ED: Tensor, answer_BM: Tensor, weight_BM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what :func:`compare_at_once` does, of a few queries at a time, whose tables lie in the same memory.

    The logarithm of the sum is the largest score less the logarithm of its share (which is at least 1/E).
    """
    rows = max(LEAST_ROWS, CACHED // max(1, len(vector_ED)))
    tables = [query_BD.new_empty(min(rows, len(query_BD)), len(vector_ED)) for _ in range(2)]
    total_B, gold_BM, mean_BD = query_BD.new_empty(len(query_BD)), torch.empty_like(weight_BM), torch.empty_like(query_BD)
    count_B1 = weight_BM.sum(1, keepdim=True)
    weighted_BD, candidate_ED = count_B1 * query_BD, None
    for start in range(0, max(1, len(query_BD)), rows):
        block = slice(start, start + rows)
        score_RE, share_RE = (table[: len(query_BD[block])] for table in tables)
        torch.mm(query_BD[block], vector_ED.T, out=score_RE)
        torch.softmax(score_RE, 1, out=share_RE)
        torch.sub(score_RE.amax(1), share_RE.amax(1).log(), out=total_B[block])
        torch.gather(score_RE, 1, answer_BM[block], out=gold_BM[block])
        torch.mm(share_RE, vector_ED, out=mean_BD[block])
        here_RD = weighted_BD[block]
        candidate_ED = share_RE.T @ here_RD if candidate_ED is None else candidate_ED.addmm_(share_RE.T, here_RD)
    assert candidate_ED is not None, "there is a block, if only an empty one"
    loss_B = count_B1[:, 0] * total_B - (weight_BM * gold_BM).sum(1)
    return loss_B, count_B1 * mean_BD - torch.einsum("bm,bmd->bd", weight_BM, vector_ED[answer_BM]), candidate_ED


def table_type(vector_ED: Tensor) -> torch.dtype:
    """Return the type of the numbers of a large table on the CPU."""
    return (rough_type("cpu") if vector_ED.dtype == torch.float32 else None) or vector_ED.dtype


def compare_large(query_BD: Tensor, vector_ED: Tensor, answer_BM: Tensor, weight_BM: Tensor, room: Room) -> tuple[Tensor, Tensor, Tensor]:
    """Return what :func:`compare_at_once` does, from a table that is larger than the caches, in memory that is kept from step to step.

    It has numbers of 16 bits where the processor multiplies them: products and passes take half of the time or less. Sums are kept in 32 bits and
    scores of answers are exact, but shares of entities are not: where answers are all but certain, what is left of a gradient is rounding, and a loss
    may come out a little below 0.
    """
    kind = table_type(vector_ED)
    asked_BD, rough_ED, table = query_BD.to(kind), vector_ED.to(kind), (len(query_BD), len(vector_ED))
    score_BE = torch.mm(asked_BD, rough_ED.T, out=room.take("scores", table, asked_BD))
    share_BE = torch.softmax(score_BE, 1, out=room.take("shares", table, asked_BD))
    total_B = score_BE.amax(1).to(query_BD) - share_BE.amax(1).to(query_BD).log()
    count_B1, gold_BMD = weight_BM.sum(1, keepdim=True), vector_ED[answer_BM]
    loss_B = count_B1[:, 0] * total_B - torch.einsum("bm,bd,bmd->b", weight_BM, query_BD, gold_BMD)
    gradient_BD = count_B1 * (share_BE @ rough_ED).to(query_BD) - torch.einsum("bm,bmd->bd", weight_BM, gold_BMD)
    return loss_B, gradient_BD, (share_BE.T @ (count_B1 * query_BD).to(kind)).to(query_BD)


def sampled_softmax(query_BD: Tensor, candidate_KD: Tensor, answer_BMD: Tensor, weight_BM: Tensor, num_entities: int) -> AnswerGradients:
    """Return the gradients with K entities drawn uniformly standing for all E: Σ_e exp(q·v_e) ≈ Σ_a exp(q·v_a) + (E/K) Σ_k exp(q·v_k).

    An answer that is drawn as well counts twice; with K ≪ E, which is what this is for, that is rare.
    """
    score_BK = query_BD @ candidate_KD.T
    gold_BM = torch.einsum("bd,bmd->bm", query_BD, answer_BMD)
    lift = torch.log(torch.tensor(num_entities / len(candidate_KD), device=query_BD.device))
    score_BX = torch.cat([gold_BM.masked_fill(weight_BM == 0, -torch.inf), score_BK + lift], dim=1)
    total_B1, count_B1 = torch.logsumexp(score_BX, dim=1, keepdim=True), weight_BM.sum(1, keepdim=True)
    loss_B = (count_B1 * total_B1)[:, 0] - (weight_BM * gold_BM).sum(1)
    share_BX = (score_BX - total_B1).exp() * count_B1
    own_BM, share_BK = share_BX[:, : weight_BM.shape[1]] - weight_BM, share_BX[:, weight_BM.shape[1] :]
    query_gradient_BD = share_BK @ candidate_KD + torch.einsum("bm,bmd->bd", own_BM, answer_BMD)
    return AnswerGradients(loss_B, query_gradient_BD, share_BK.T @ query_BD, own_BM[..., None] * query_BD[:, None])


@dataclass(frozen=True, slots=True)
class QuestionGradients:
    """Descent directions of a batch of questions: heads, answers, and the factors of the tiles' matrices, whose direction is leftᵀ right."""

    head_TWD: Tensor
    answer_TXD: Tensor  # X = W·M
    left_TYD: Tensor  # Y = W + X
    right_TYD: Tensor


def question_gradients(
    tiles: PlainTiles,
    head_TWD: Tensor,
    answer_TXD: Tensor,
    weight_TX: Tensor,
    found: AnswerGradients,
    query_TWD: Tensor,
    penalty: float,
    share: float,
) -> QuestionGradients:
    """Lead the gradients of the softmax back to heads and matrices, and add those of the penalty; ``query_TWD`` is u_h M_r."""
    T, W, D = head_TWD.shape
    count_TW1 = weight_TX.view(T, W, -1).sum(2)[..., None]
    push, image_push = 2 * penalty, 2 * penalty * share
    query_gradient_TWD = found.query_BD.view(T, W, D) + image_push * count_TW1 * query_TWD
    image_TXD = tiles.back(answer_TXD) * weight_TX[..., None]  # M_r v_t
    own_TXD = found.answer_BMD.reshape(T, -1, D) + push * weight_TX[..., None] * answer_TXD
    return QuestionGradients(
        head_TWD=tiles.back(query_gradient_TWD) + push * count_TW1 * head_TWD,
        answer_TXD=own_TXD + image_push * tiles.product(image_TXD),
        left_TYD=torch.cat([head_TWD, image_push * image_TXD], dim=1),
        right_TYD=torch.cat([query_gradient_TWD, answer_TXD], dim=1),
    )


@dataclass(frozen=True, slots=True)
class PathStep:
    """A path's way forward: the image of the head at the scale of the middle entity, and the query of the whole path."""

    scale_TW1: Tensor
    image_TWD: Tensor
    query_TWD: Tensor


def path_forward(first: PlainTiles, second: PlainTiles, head_TWD: Tensor, middle_TWD: Tensor) -> PathStep:
    """Return q = s (u_h M_1) M_2 with s = ‖v_m‖/‖u_h M_1‖, a constant to the gradient."""
    raw_TWD = first.product(head_TWD)
    length_TW1 = middle_TWD.norm(dim=-1, keepdim=True)
    scale_TW1 = length_TW1 / torch.maximum(raw_TWD.norm(dim=-1, keepdim=True), length_TW1 / MOST_STRETCH + 1e-30)
    image_TWD = raw_TWD * scale_TW1
    return PathStep(scale_TW1, image_TWD, second.product(image_TWD))


def path_backward(first: PlainTiles, second: PlainTiles, step: PathStep, query_gradient_TWD: Tensor) -> tuple[Tensor, Tensor]:
    """Lead the gradient of a path's query back to the image of the first step, as M_1 makes it, and to the head.

    Directions of the matrices are u_hᵀ times the first for M_1, and imageᵀ times the query's for M_2.
    """
    image_gradient_TWD = second.back(query_gradient_TWD) * step.scale_TW1
    return image_gradient_TWD, first.back(image_gradient_TWD)
