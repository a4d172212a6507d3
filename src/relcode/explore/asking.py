"""Answering in numbers: the best candidates of a query vector, and what the facts say already."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relcode.errors import NotFinite, SettingError
from relcode.evaluation.path_questions import reached as reached
from relcode.graph.known import KnownAnswers
from relcode.model.score import Scorer
from relcode.ops.diagonal import times

MOST_ANSWERS = 100_000  # to one question


def check_top(top: int) -> None:
    """Refuse a number of answers below 1, or one that nobody can read."""
    if not 1 <= top <= MOST_ANSWERS:
        raise SettingError(f"top cannot be {top}: it must be a whole number of at least 1 and at most {MOST_ANSWERS:,}")


def entity_scores(scorer: Scorer, query_D: Tensor) -> Tensor:
    """Return q·v_t for every entity t; [E]."""
    score_E = scorer.scores(query_D[None])[0]
    check_finite(score_E)
    return score_E


def best_entities(scorer: Scorer, score_E: Tensor, known_X: Tensor, top: int, new: bool) -> tuple[list[int], list[float]]:
    """Return the ``top`` entities with the highest scores, and these; of equals the lower number comes first.

    Entities never trained have no vector of their own and are no candidates; with ``new``, neither are the known answers.
    """
    score_E = score_E.masked_fill(~scorer.seen_E, -math.inf)
    if new:
        score_E[known_X.to(score_E.device)] = -math.inf
    kept = min(top, int((score_E > -math.inf).sum()))
    if not kept:
        return [], []
    near_X = (score_E >= score_E.topk(kept).values[-1]).nonzero()[:, 0]  # with all that tie with the last: a full sort takes three times as long
    score_X, order_X = score_E[near_X].sort(descending=True, stable=True)
    return near_X[order_X[:kept]].tolist(), score_X[:kept].tolist()


def relation_scores(scorer: Scorer, head: int, tail: int) -> Tensor:
    """Return u_h M_s v_t for every directed relation s; [S]."""
    score_S = times(scorer.head_ED[head], scorer.matrix_SDD) @ scorer.tail_ED[tail]
    check_finite(score_S)
    return score_S


def check_finite(score_X: Tensor) -> None:
    """Raise ``NotFinite`` where a score is NaN or infinite."""
    if score_X.numel() and not all(map(math.isfinite, torch.stack(score_X.aminmax()).tolist())):  # one pass, and no table of truths
        raise NotFinite("scores are NaN or infinite: the model has diverged and cannot answer")


def joined_by(known: KnownAnswers, head: int, tail: int, num_directed: int) -> Tensor:
    """Tell for each directed relation s whether (head, s, tail) is known; bool [S]."""
    relation_X, entity_X = known.pairs(torch.full((num_directed,), head), torch.arange(num_directed))
    is_joined_S = torch.zeros(num_directed, dtype=torch.bool)
    is_joined_S[relation_X[entity_X == tail]] = True
    return is_joined_S
