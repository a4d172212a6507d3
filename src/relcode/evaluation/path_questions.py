"""Path questions whose answers need a held-out fact, and how well they are answered.

A question is a head h and a path r1/…/rl of two or three directed relations; the gold answer a is reached by a walk over all facts that uses a fact
of the held-out split, and is not reached from h along the path over the facts of the other splits. So whoever knows those alone cannot look it up.
Walks: a held-out fact in a random direction, at a random place of the path, extended at both ends by facts drawn at random; no step undoes the one
before it, and the walk does not end where it began.

Ranks are filtered: the other entities that all facts together lead to along the path do not compete (Hamilton et al. 2018; Arakelyan et al. 2021). A
tie counts half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.errors import DataError, SettingError
from relcode.evaluation.metrics import hits_at, mean_reciprocal_rank
from relcode.evaluation.path_answers import WIDTH, beam_search, composed_scores
from relcode.graph.adjacency import Adjacency
from relcode.graph.dataset import Dataset
from relcode.graph.known import KnownAnswers
from relcode.graph.split_names import SPLITS
from relcode.model.score import Scorer

LENGTHS = (2, 3)
QUESTIONS = 1000  # of each length
TRIES = 40  # walks drawn for each question wanted, before there are taken to be no more
BLOCK_NUMBERS = 2**23  # scores held at a time
HITS = (1, 3, 10)


@dataclass(frozen=True, eq=False)
class PathQuestions:
    """Questions of one length: heads, paths of directed relations, and a gold answer each."""

    head_B: Tensor
    path_BL: Tensor
    gold_B: Tensor

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.head_B)


@dataclass(frozen=True, slots=True)
class PathMetrics:
    """How well questions of one length were answered one way."""

    length: int
    way: str  # "composed" or "beam"
    n: int
    mrr: float
    hits: dict[int, float]

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return {"length": self.length, "way": self.way, "n": self.n, "mrr": self.mrr, **{f"hits@{most}": share for most, share in self.hits.items()}}


@dataclass(frozen=True)
class PathReport:
    """How well a split's path questions were answered: a row for each length and way."""

    split: str
    seed: int
    width: int
    rows: tuple[PathMetrics, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return {"split": self.split, "seed": self.seed, "beam": self.width, "paths": [row.to_json() for row in self.rows]}


def draw_questions(dataset: Dataset, split: str, length: int, count: int, generator: torch.Generator) -> PathQuestions:
    """Draw up to ``count`` distinct questions of a length; fewer where the facts do not have as many."""
    held_out = dataset.split(split)
    others = torch.cat([dataset.split(name) for name in SPLITS if name != split])
    sizes = dataset.num_entities, dataset.num_relations
    every = Adjacency.build(torch.cat([others, held_out]), *sizes)
    given = KnownAnswers(others, *sizes)
    found: dict[tuple[int, ...], None] = {}
    for _ in range(TRIES):
        walks = _walks(held_out, every, length, count, generator) if len(held_out) else []
        for walk in walks:
            # A walk is entity, relation, entity, …; the question is its head and relations, the answer its end.
            key = (walk[0], *walk[1::2], walk[-1])
            if len(found) < count and walk[0] != walk[-1] and key not in found and walk[-1] not in reached(given, walk[0], walk[1::2]).tolist():
                found[key] = None
        if len(found) >= count or not walks:
            break
    table = torch.tensor(list(found), dtype=torch.int64).reshape(-1, length + 2)
    return PathQuestions(table[:, 0], table[:, 1:-1], table[:, -1])


def _walks(held_out_N3: Tensor, every: Adjacency, length: int, count: int, generator: torch.Generator) -> list[tuple[int, ...]]:
    """Draw walks of a length over all facts, each through a held-out fact; those that would undo a step are left out."""
    R = every.num_relations
    fact_B3 = held_out_N3[torch.randint(len(held_out_N3), (count,), generator=generator)]
    turned_B = torch.rand(count, generator=generator) < 0.5
    head_B, tail_B = torch.where(turned_B, fact_B3[:, 2], fact_B3[:, 0]), torch.where(turned_B, fact_B3[:, 0], fact_B3[:, 2])
    relation_B = fact_B3[:, 1] + R * turned_B
    place_B = torch.randint(length, (count,), generator=generator)
    walks: list[list[int]] = [list(row) for row in torch.stack([head_B, relation_B, tail_B], dim=1).tolist()]
    for step in range(length - 1):
        draw_B = torch.rand(count, generator=generator).tolist()
        for walk, place, draw in zip(walks, place_B.tolist(), draw_B, strict=True):
            # Steps before the held-out fact are walked backwards from its head.
            before = step < place
            start = walk[0] if before else walk[-1]
            first, last = int(every.offset_E1[start]), int(every.offset_E1[start + 1])
            edge = first + int(draw * (last - first))
            relation, entity = int(every.relation_N[edge]), int(every.tail_N[edge])
            if before:
                walk[:0] = [entity, (relation + R) % (2 * R)]
            else:
                walk += [relation, entity]
    return [tuple(walk) for walk in walks if not any((a + R) % (2 * R) == b for a, b in zip(walk[1::2], walk[3::2], strict=False))]


def reached(known: KnownAnswers, head: int, path: Sequence[int]) -> Tensor:
    """Return the entities that known facts lead to from ``head`` along the path, each once, sorted."""
    entity_X = known.of(head, path[0]) if path else torch.tensor([head])
    for relation in path[1:]:
        entity_X = known.pairs(entity_X, torch.full_like(entity_X, relation))[1].unique()
    return entity_X


def rank_questions(scorer: Scorer, questions: PathQuestions, known: KnownAnswers, way: str, width: int = WIDTH) -> Tensor:
    """Return the filtered rank of each gold answer, by composed matrices or by the beam; float64 [B]. ``known`` are the facts of all splits."""
    rows = max(1, BLOCK_NUMBERS // max(1, scorer.num_entities * (width if way == "beam" else 1)))
    ranks = [torch.empty(0, dtype=torch.float64)]
    with torch.inference_mode():
        for low in range(0, len(questions), rows):
            part = slice(low, low + rows)
            head_B, path_BL, gold_B = questions.head_B[part], questions.path_BL[part], questions.gold_B[part]
            if way == "composed":
                score_BE = composed_scores(scorer, head_B, path_BL)
            else:
                score_BE = beam_search(scorer, head_B, path_BL, width).log_BE
            ranks.append(_filtered_ranks(score_BE, head_B, path_BL, gold_B, known))
    return torch.cat(ranks)


def _filtered_ranks(score_BE: Tensor, head_B: Tensor, path_BL: Tensor, gold_B: Tensor, known: KnownAnswers) -> Tensor:
    """Return 1 + how many rivals score above the gold answer + half of those that score the same."""
    gold_score_B1 = score_BE.gather(1, gold_B.to(score_BE.device)[:, None])
    above_BE, same_BE = score_BE > gold_score_B1, score_BE == gold_score_B1
    for row, (head, path) in enumerate(zip(head_B.tolist(), path_BL.tolist(), strict=True)):
        answer_X = reached(known, head, path).to(score_BE.device)  # the gold answer among them
        above_BE[row, answer_X], same_BE[row, answer_X] = False, False
    return (1 + above_BE.sum(dim=1) + same_BE.sum(dim=1) / 2).double().cpu()


def evaluate_paths(scorer: Scorer, dataset: Dataset, split: str = "test", count: int = QUESTIONS, seed: int = 0, width: int = WIDTH) -> PathReport:
    """Draw 2- and 3-step questions that need a held-out fact, and measure how well both ways answer them."""
    if not 1 <= count <= 100_000 or not 1 <= width <= 1024:
        raise SettingError(f"cannot ask {count} questions with a beam of {width}: 1 to 100,000 questions, a beam of 1 to 1,024")
    if split == "train":
        raise SettingError("train is not held out: path questions are made of valid or test")
    if not len(dataset.split(split)):
        raise DataError(f"{dataset.name} has no facts in its {split} split, so there are no questions that need one")
    scorer = scorer.with_unseen_zero()
    known = KnownAnswers(torch.cat([dataset.split(name) for name in SPLITS]), dataset.num_entities, dataset.num_relations)
    return PathReport(split, seed, width, tuple(_rows(scorer, dataset, split, known, count, seed, width)))


def _rows(scorer: Scorer, dataset: Dataset, split: str, known: KnownAnswers, count: int, seed: int, width: int) -> Iterator[PathMetrics]:
    for length in LENGTHS:
        questions = draw_questions(dataset, split, length, count, torch.Generator().manual_seed(seed))
        for way in ("composed", "beam"):
            rank_B = rank_questions(scorer, questions, known, way, width)
            yield PathMetrics(length, way, len(questions), mean_reciprocal_rank(rank_B), {most: hits_at(rank_B, most) for most in HITS})
