"""The most-frequent-answer baseline: answer each question with what its relation is most often answered with in train, whatever the head.

    score(h, s, t) = |{h' : (h', s, t) in train}|        for a directed relation s

It is ranked by the same code as a model, so the figures can be compared: ``evaluate(most_frequent_answers(dataset), dataset)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.graph.dataset import Dataset
from relcode.graph.facts import directed

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """How often each entity answers each directed relation in train: the answers of s are ``answer_X[offset_S1[s] : offset_S1[s + 1]]``, sorted."""

    offset_S1: Tensor
    answer_X: Tensor
    count_X: Tensor
    seen_E: Tensor

    @property
    def num_entities(self) -> int:
        """Return E."""
        return len(self.seen_E)

    @property
    def num_relations(self) -> int:
        """Return R."""
        return (len(self.offset_S1) - 1) // 2

    @property
    def device(self) -> torch.device:
        """Return the CPU, the only place it is needed."""
        return CPU

    @property
    def dtype(self) -> torch.dtype:
        """Return float32, which holds counts up to 2²⁴ exactly."""
        return torch.float32

    def queries(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        """Return the relation of each question, which is all that counts; [B]."""
        return relation_B.expand_as(head_B)

    def scores(self, query_BD: Tensor, candidates: slice, out: Tensor) -> Tensor:
        """Write to ``out`` how often each candidate answers each question's relation; [B, E']."""
        relation_U, which_B = torch.unique(query_BD, return_inverse=True)
        for number, relation in enumerate(relation_U.tolist()):
            answers = slice(int(self.offset_S1[relation]), int(self.offset_S1[relation + 1]))
            answer_X, count_X = self.answer_X[answers], self.count_X[answers]
            here_X = (answer_X >= candidates.start) & (answer_X < candidates.stop)
            row_C = torch.zeros(candidates.stop - candidates.start)
            row_C[answer_X[here_X] - candidates.start] = count_X[here_X]
            out[which_B == number] = row_C
        return out


def most_frequent_answers(dataset: Dataset) -> AnswerCounts:
    """Count the answers of each directed relation in train."""
    _, relation_N, tail_N = directed(dataset.train, dataset.num_relations).unbind(1)
    pair_X, count_X = torch.unique(relation_N * dataset.num_entities + tail_N, return_counts=True)
    size_S = torch.bincount(pair_X // dataset.num_entities, minlength=dataset.num_directed)
    offset_S1 = torch.cat([size_S.new_zeros(1), size_S.cumsum(0)])
    return AnswerCounts(offset_S1, pair_X % dataset.num_entities, count_X.float(), dataset.seen_E)
