"""Filtered ranks of facts, in both directions, within a bound on memory.

A fact (h, r, t) asks two questions: (h, r, ?) with the gold answer t, and (t, r+R, ?) with the gold answer h. The gold answer is ranked against every
candidate that is not a known answer to the same question (Bordes et al. 2013):

    optimistic = 1 + |{c : s(c) > s(gold)}|       pessimistic = optimistic + |{c ≠ gold : s(c) = s(gold)}|       realistic = their mean

Questions asked by several facts are scored once. They go in blocks of rows against all candidates in one product, from which the gold scores are
read too: a gold score is the very number its rivals would be beaten with, never a separate dot product that rounds differently. Only where a few rows
of all candidates exceed the memory are the candidates divided as well; then each product is made twice, with the same rows and columns, once to read
gold scores and once to count. Nothing waits for the device until the end: questions, filters and block sizes are all prepared on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Protocol as Interface

import torch
from torch import Tensor

from relcode.errors import DataError, NotFinite, SettingError
from relcode.evaluation.protocol import REALISTIC, Protocol, most_frequent_heads, replace_unseen
from relcode.graph.dataset import Dataset
from relcode.graph.facts import directed
from relcode.graph.known import KnownAnswers
from relcode.ops.precision import full_precision
from relcode.ops.ranking import MOST_COLUMNS, count_rivals

MEMORY_BYTES = {"cpu": 2**30, "cuda": 2**32}
MOST_ROWS = {"cpu": 256, "cuda": 4096}  # enough for products at full speed; on CPU few enough that a block stays in the cache of 15,000 candidates
FEWEST_ROWS = 32  # below this a product only waits for candidates' vectors, and dividing the candidates is better
BLOCK_SHARE = 2  # half the memory holds the scores and their scratch block, the other half queries, counts and the filter: since questions are
# distinct, the filters of all blocks together hold no more pairs than the known answers themselves
NEVER = float("-inf")


class ScoreSource(Interface):
    """Anything that can score candidates: a ``Scorer``, or the most-frequent-answer baseline."""

    @property
    def num_entities(self) -> int:
        """E."""

    @property
    def num_relations(self) -> int:
        """R."""

    @property
    def seen_E(self) -> Tensor:
        """True where the entity was trained."""

    @property
    def device(self) -> torch.device:
        """Where scores are made."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the scores."""

    def queries(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        """Return one row for each question."""

    def scores(self, query_BD: Tensor, candidates: slice, out: Tensor) -> Tensor:
        """Write the score of each question with each candidate to ``out`` and return it."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """What became of each query: the two queries of N facts, first all (h, r, ?) in the order of the facts, then all (t, r+R, ?); on the CPU.

    ``candidate_N`` counts the gold answer and the rivals left by the filter; ``unseen_N`` is true for both queries of a fact that holds an entity
    never trained; ``inverse_N`` is true where the fact's head was asked for. ``relation_N`` is the relation as named.
    """

    optimistic_N: Tensor
    pessimistic_N: Tensor
    candidate_N: Tensor
    score_N: Tensor
    gold_N: Tensor
    relation_N: Tensor
    inverse_N: Tensor
    unseen_N: Tensor

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.gold_N)

    @property
    def realistic_N(self) -> Tensor:
        """Return the mean of the optimistic and the pessimistic rank; float64."""
        return (self.optimistic_N + self.pessimistic_N).double() / 2

    def rank_N(self, protocol: Protocol) -> Tensor:
        """Return the rank that the protocol counts; float64."""
        return self.optimistic_N.double() if protocol.optimistic else self.realistic_N

    def select(self, which: Tensor | slice) -> Ranks:
        """Return the queries chosen by a mask, by positions or by a slice."""
        return Ranks(**{item.name: getattr(self, item.name)[which] for item in fields(self)})


@dataclass(frozen=True, slots=True)
class Questions:
    """The distinct questions of a set of facts, sorted by relation, and the gold answers asked of each; all on the CPU.

    ``gold_G`` belongs to question ``row_G`` and was query ``order_G``; the golds of question u start at ``first_U1[u]``.
    """

    head_U: Tensor
    relation_U: Tensor
    first_U1: Tensor
    row_G: Tensor
    gold_G: Tensor
    order_G: Tensor

    @classmethod
    def of(cls, query_N3: Tensor, num_entities: int) -> Questions:
        """Gather directed facts (head, relation, gold) into distinct questions."""
        head_N, relation_N, gold_N = query_N3.unbind(1)
        key_U, row_N, size_U = torch.unique(relation_N * num_entities + head_N, return_inverse=True, return_counts=True)
        order_G = row_N.argsort(stable=True)
        first_U1 = torch.cat([size_U.new_zeros(1), size_U.cumsum(0)])
        return cls(key_U % num_entities, key_U // num_entities, first_U1, row_N[order_G], gold_N[order_G], order_G)

    def blocks(self, rows: int) -> Iterator[tuple[slice, slice]]:
        """Go through the questions in blocks of rows, with the golds of each block."""
        for start in range(0, len(self.head_U), rows):
            stop = min(start + rows, len(self.head_U))
            yield slice(start, stop), slice(int(self.first_U1[start]), int(self.first_U1[stop]))


def rank_facts(
    source: ScoreSource,
    dataset: Dataset,
    facts_N3: Tensor,
    known: KnownAnswers | None = None,
    protocol: Protocol = REALISTIC,
    memory_bytes: int | None = None,
) -> Ranks:
    """Rank the gold answers of both queries of each fact; the facts count as known themselves. ``NotFinite`` where a score is not a number.

    ``known`` are the answers to leave out, those of all splits where not given. ``memory_bytes`` bounds what ranking takes beside the model.
    """
    check_sizes(source, dataset)
    known = known_answers(dataset) if known is None else known.to("cpu")
    seen_E = source.seen_E.cpu()
    query_N3 = directed(facts_N3.cpu(), dataset.num_relations)
    questions = Questions.of(query_N3, dataset.num_entities)
    asker_U = questions.head_U
    if protocol.replace_heads and not bool(seen_E[asker_U].all()):
        frequent_S = most_frequent_heads(dataset.train, dataset.num_entities, dataset.num_relations)
        asker_U = replace_unseen(asker_U, questions.relation_U, seen_E, frequent_S)
    absent_X = (~seen_E).nonzero().squeeze(1) if protocol.trained_candidates else torch.empty(0, dtype=torch.int64)
    with torch.inference_mode(), full_precision():
        columns_G4 = _rank_questions(source, questions, asker_U, known, absent_X, memory_bytes)
    better_N, equal_N, rival_N, score_N = (torch.empty_like(part_G).index_copy_(0, questions.order_G, part_G) for part_G in columns_G4)
    unseen_N = ~(seen_E[query_N3[:, 0]] & seen_E[query_N3[:, 2]])
    inverse_N = query_N3[:, 1] >= dataset.num_relations
    relation_N = query_N3[:, 1] % max(dataset.num_relations, 1)
    return Ranks(1 + better_N, 1 + better_N + equal_N, 1 + rival_N, score_N, query_N3[:, 2], relation_N, inverse_N, unseen_N)


def known_answers(dataset: Dataset) -> KnownAnswers:
    """Return the known answers of train, valid and test together, which is what filtered ranking leaves out."""
    return KnownAnswers(torch.cat([dataset.train, dataset.valid, dataset.test]), dataset.num_entities, dataset.num_relations)


def check_sizes(source: ScoreSource, dataset: Dataset) -> None:
    """Refuse a model made for other data, whose numbers would mean other names."""
    model, data = (source.num_entities, source.num_relations), (dataset.num_entities, dataset.num_relations)
    if model != data:
        raise DataError(
            f"the model knows {model[0]} entities and {model[1]} relations, but {dataset.name} has {data[0]} and {data[1]}: "
            "evaluate a model on the data it was trained on"
        )


def block_shape(num_entities: int, device: torch.device, dtype: torch.dtype, memory_bytes: int | None = None) -> tuple[int, int]:
    """Return rows and columns of a block of scores: all candidates and as many rows as fit, or few rows and as many candidates as fit."""
    memory_bytes = MEMORY_BYTES.get(device.type, MEMORY_BYTES["cpu"]) if memory_bytes is None else memory_bytes
    fits = memory_bytes // BLOCK_SHARE // (2 * dtype.itemsize)
    if fits < FEWEST_ROWS:
        least = FEWEST_ROWS * BLOCK_SHARE * 2 * dtype.itemsize
        raise SettingError(f"{memory_bytes} bytes of memory are too few to rank in: give at least {least}, better some megabytes")
    most = MOST_ROWS.get(device.type, MOST_ROWS["cpu"])
    rows = min(most, max(fits // max(num_entities, 1), FEWEST_ROWS))
    return rows, min(num_entities, fits // rows, MOST_COLUMNS)


def _rank_questions(
    source: ScoreSource, questions: Questions, asker_U: Tensor, known: KnownAnswers, absent_X: Tensor, memory_bytes: int | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return better, equal, rivals and gold score of each gold, on the CPU, in the order of the questions."""
    rows, columns = block_shape(source.num_entities, source.device, source.dtype, memory_bytes)
    blocks = _Blocks(source, min(rows, len(questions.head_U)), columns, absent_X)
    none = torch.empty(0, dtype=torch.int64, device=source.device)
    parts: list[tuple[Tensor, ...]] = [(none, none, none, none.to(source.dtype), none.bool())]  # so that no questions give no ranks
    for asked, golds in questions.blocks(rows):
        query_BD = source.queries(_send(asker_U[asked], source.device), questions.relation_U[asked])
        known_row_X, known_X = known.pairs(questions.head_U[asked], questions.relation_U[asked])
        row_G, gold_G = questions.row_G[golds] - asked.start, questions.gold_G[golds]
        out_row_X, out_X = torch.cat([known_row_X, row_G]), torch.cat([known_X, gold_G])
        parts.append(blocks.count(query_BD, *(_send(ids, source.device) for ids in (row_G, gold_G, out_row_X, out_X))))
    better_G, equal_G, rival_G, score_G, finite_G = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
    if not bool(finite_G.all()):
        number = int((~finite_G).sum())
        raise NotFinite(f"scores are NaN or infinite in {number:,} of {len(finite_G):,} queries: the model has diverged and cannot be ranked")
    return better_G, equal_G, rival_G, score_G


class _Blocks:
    """The two blocks of memory that every product and comparison goes through, and the work on one block of questions."""

    def __init__(self, source: ScoreSource, rows: int, columns: int, absent_X: Tensor) -> None:
        """Take the memory; the scores have one place more, where writes meant for another block of candidates go."""
        self.source = source
        self.score = torch.empty(rows * columns + 1, dtype=source.dtype, device=source.device)
        self.scratch = torch.empty(rows * columns, dtype=source.dtype, device=source.device)
        starts = range(0, source.num_entities, columns)
        self.candidates = [slice(start, min(start + columns, source.num_entities)) for start in starts]
        self.absent = [_send(absent_X[(absent_X >= part.start) & (absent_X < part.stop)] - part.start, source.device) for part in self.candidates]

    def count(self, query_BD: Tensor, row_G: Tensor, gold_G: Tensor, out_row_X: Tensor, out_X: Tensor) -> tuple[Tensor, ...]:
        """Return better, equal, rivals, gold score and whether all scores were finite, for each gold of a block of questions.

        ``out_row_X, out_X`` are the pairs of question and candidate that do not compete: known answers and the golds themselves.
        """
        score_G = torch.zeros(len(row_G), dtype=self.score.dtype, device=self.score.device)
        finite_B = torch.ones(len(query_BD), dtype=torch.bool, device=self.score.device)
        score_BC = self.score[:0].view(0, 0)
        for part in self.candidates:
            score_BC = self._product(query_BD, part)
            finite_B &= score_BC.amax(dim=1).isfinite() & score_BC.amin(dim=1).isfinite()
            column_G = gold_G - part.start
            read_G = score_BC[row_G, column_G.clamp(0, score_BC.shape[1] - 1)]
            score_G = torch.where((column_G >= 0) & (column_G < score_BC.shape[1]), read_G, score_G)
        better_G, equal_G, rival_G = (torch.zeros_like(row_G) for _ in range(3))
        for part, absent in zip(self.candidates, self.absent, strict=True):
            if len(self.candidates) > 1:
                score_BC = self._product(query_BD, part)
            self._remove(score_BC, out_row_X, out_X - part.start)
            score_BC.index_fill_(1, absent, NEVER)
            scratch_BC = self.scratch[: score_BC.numel()].view_as(score_BC)
            more_better_G, more_equal_G = count_rivals(score_BC, row_G, score_G, scratch_BC)
            more_rival_B = torch.gt(score_BC, NEVER, out=scratch_BC).sum(dim=1).long()
            better_G, equal_G, rival_G = better_G + more_better_G, equal_G + more_equal_G, rival_G + more_rival_B[row_G]
        return better_G, equal_G, rival_G, score_G, finite_B[row_G]

    def _product(self, query_BD: Tensor, part: slice) -> Tensor:
        """Score the questions with a block of candidates, in the block of memory for scores."""
        width = part.stop - part.start
        return self.source.scores(query_BD, part, out=self.score[: len(query_BD) * width].view(len(query_BD), width))

    def _remove(self, score_BC: Tensor, row_X: Tensor, column_X: Tensor) -> None:
        """Set the pairs to -inf, without asking the device which of them lie in this block: the others are written past its end."""
        width = score_BC.shape[1]
        place_X = row_X * width + column_X
        if len(self.candidates) > 1:
            place_X = torch.where((column_X >= 0) & (column_X < width), place_X, score_BC.numel())
        self.score.index_fill_(0, place_X, NEVER)


def _send(ids: Tensor, device: torch.device) -> Tensor:
    """Copy numbers to the device without waiting for what it is doing, which needs page-locked memory on this side."""
    return ids.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else ids.to(device)
