"""Answering paths r1/…/rl from h in two ways: by the product of their matrices, and through the best entities on the way.

    composed(a) = u_h M_1 … M_l v_a                                      (Guu et al. 2015; Takahashi et al. 2018)
    beam_1(e) = p(e | h, r1)        beam_i(e) = Σ_{m ∈ best W of beam_{i-1}} beam_{i-1}(m) · p(e | m, r_i)

p(e | m, r) = exp(u_m M_r v_e) / Σ_e' exp(u_m M_r v_e') over the trained entities. beam_l(a) is the chance that a walk which follows the model's own
beliefs ends at a, as far as it goes through the W best entities at each step; the entities of its likeliest walk are the reason for an answer.
Everything is in logarithms. B questions of one length at a time, each with a path of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.errors import NotFinite
from relcode.model.score import Scorer, relation_queries
from relcode.ops.precision import full_precision

WIDTH = 32  # entities kept at each step
NEVER = float("-inf")


@dataclass(frozen=True, eq=False)
class Beam:
    """The best entities after one step: numbers, ln beam(e), and ``origin``, the place in the beam before from which the likeliest walk comes."""

    entity_BW: Tensor
    log_BW: Tensor
    origin_BW: Tensor


@dataclass(frozen=True, eq=False)
class Ends:
    """Where walks end: ln beam_l(a) for every entity a (minus infinity for those never trained) and the same of the likeliest walk alone.

    ``origin_BE`` is the place in the last of the ``beams`` from which that walk comes; the first beam is the head itself.
    """

    log_BE: Tensor
    best_BE: Tensor
    origin_BE: Tensor
    beams: list[Beam]

    def between(self, row: int, end: int) -> list[int]:
        """Return the entities between head and ``end`` on the likeliest walk of question ``row``."""
        place, found = int(self.origin_BE[row, end]), []
        for beam in self.beams[:0:-1]:
            found.append(int(beam.entity_BW[row, place]))
            place = int(beam.origin_BW[row, place])
        return found[::-1]


def composed_scores(scorer: Scorer, head_B: Tensor, path_BL: Tensor) -> Tensor:
    """Return u_h M_1 … M_l v_a for every entity a; [B, E]."""
    vector_BD = scorer.head_ED[head_B.to(scorer.device)]
    with full_precision():
        for relation_B in path_BL.unbind(1):
            vector_BD = relation_queries(vector_BD, scorer.matrix_SDD, relation_B)
        score_BE = scorer.scores(vector_BD)
    _check(score_BE)
    return score_BE


def beam_search(scorer: Scorer, head_B: Tensor, path_BL: Tensor, width: int = WIDTH) -> Ends:
    """Walk each question's path through the ``width`` best entities of each step."""
    entity_BW = head_B.to(scorer.device)[:, None]
    start_BW = torch.zeros(entity_BW.shape, dtype=scorer.dtype, device=scorer.device)
    beams = [Beam(entity_BW, start_BW, torch.zeros_like(entity_BW))]
    for relation_B in path_BL[:, :-1].unbind(1):
        walk_BWE = _walks(scorer, beams[-1], relation_B)
        log_BW, entity_BW = walk_BWE.logsumexp(dim=1).topk(min(width, int(scorer.seen_E.sum())), dim=1)
        origin_BW = walk_BWE.gather(2, entity_BW[:, None].expand(-1, walk_BWE.shape[1], -1)).argmax(dim=1)
        beams.append(Beam(entity_BW, log_BW, origin_BW))
    walk_BWE = _walks(scorer, beams[-1], path_BL[:, -1])
    best_BE, origin_BE = walk_BWE.max(dim=1)
    return Ends(walk_BWE.logsumexp(dim=1), best_BE, origin_BE, beams)


def _walks(scorer: Scorer, beam: Beam, relation_B: Tensor) -> Tensor:
    """Return ln beam(m) + ln p(e | m, r) for every entity m of the beams and every entity e; [B, W, E]."""
    B, W = beam.entity_BW.shape
    with full_precision():
        query_XD = relation_queries(scorer.head_ED[beam.entity_BW.flatten()], scorer.matrix_SDD, relation_B.cpu().repeat_interleave(W))
        score_XE = scorer.scores(query_XD)
    _check(score_XE)
    score_XE.masked_fill_(~scorer.seen_E, NEVER)
    return score_XE.log_softmax(dim=1).view(B, W, -1) + beam.log_BW[:, :, None]


def _check(score_XE: Tensor) -> None:
    if not bool(score_XE.isfinite().all()):
        raise NotFinite("scores are NaN or infinite: the model has diverged and cannot answer")
