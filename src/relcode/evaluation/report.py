"""The report of an evaluation: metrics of all queries, by direction, by relation, and without the facts that hold entities never trained."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from relcode.errors import DataError
from relcode.evaluation.metrics import Metrics
from relcode.evaluation.protocol import Protocol, protocol_named
from relcode.evaluation.ranking import Ranks, ScoreSource, rank_facts
from relcode.graph.dataset import Dataset
from relcode.graph.known import KnownAnswers
from relcode.graph.split_names import SPLITS
from relcode.model.score import Scorer


@dataclass(frozen=True, slots=True)
class Directions:
    """Metrics of a set of facts: of both their queries, of the head queries (?, r, t) and of the tail queries (h, r, ?)."""

    both: Metrics
    head: Metrics
    tail: Metrics

    @classmethod
    def of(cls, ranks: Ranks, protocol: Protocol) -> Directions:
        """Measure the queries together and by direction."""
        head, tail = ranks.select(ranks.inverse_N), ranks.select(~ranks.inverse_N)
        return cls(Metrics.of(ranks, protocol), Metrics.of(head, protocol), Metrics.of(tail, protocol))

    def to_json(self) -> dict[str, object]:
        """Return the metrics of both, with ``head`` and ``tail`` inside."""
        return {**self.both.to_json(), "head": self.head.to_json(), "tail": self.tail.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How well a split's facts are ranked under a protocol.

    ``seen_only`` leaves out each fact that holds an entity never trained ("adjusted" in the paper). In every ``Metrics``, n counts queries: 2 × facts
    here and in ``seen_only``, 1 × facts in ``head`` and ``tail``.
    """

    protocol: Protocol
    split: str
    both: Metrics
    head: Metrics
    tail: Metrics
    seen_only: Metrics
    ranks: Ranks = field(repr=False)
    relations: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, ranks: Ranks, protocol: Protocol, split: str, relations: tuple[str, ...]) -> Report:
        """Measure ranks; ``relations`` are the names behind their relation numbers."""
        all_facts = Directions.of(ranks, protocol)
        seen_only = Metrics.of(ranks.select(~ranks.unseen_N), protocol)
        return cls(
            protocol=protocol,
            split=split,
            both=all_facts.both,
            head=all_facts.head,
            tail=all_facts.tail,
            seen_only=seen_only,
            ranks=ranks,
            relations=relations,
        )

    def per_relation(self) -> dict[str, Directions]:
        """Return the metrics of each relation that the split has, by its name."""
        relation_X, size_X = torch.unique(self.ranks.relation_N, return_counts=True)
        order_N = self.ranks.relation_N.argsort(stable=True)
        parts = zip(relation_X.tolist(), order_N.split(size_X.tolist()), strict=True)
        return {self.relations[relation]: Directions.of(self.ranks.select(which), self.protocol) for relation, which in parts}

    def to_json(self, relations: bool = False) -> dict[str, object]:
        """Return the report as plain values, ready for JSON; with ``relations``, each relation's metrics under that key."""
        report: dict[str, object] = {"protocol": self.protocol.name, "split": self.split, **self.both.to_json()}
        report |= {"head": self.head.to_json(), "tail": self.tail.to_json(), "seen_only": self.seen_only.to_json()}
        if relations:
            report["relations"] = {name: metrics.to_json() for name, metrics in self.per_relation().items()}
        return report


def evaluate(
    source: ScoreSource,
    dataset: Dataset,
    split: str = "test",
    protocol: str | Protocol = "realistic",
    memory_bytes: int | None = None,
    known: KnownAnswers | None = None,
) -> Report:
    """Rank the facts of a split in both directions and measure the ranks.

    ``source`` is a ``Scorer``, whose entities never trained are given the zero vector here, or another source of scores. ``known``, the answers that
    the filter leaves out, are those of all splits; give them where you evaluate often. ``memory_bytes`` bounds the memory beside the model's.
    """
    rule = protocol_named(protocol)
    facts_N3 = dataset.split(split)
    if not len(facts_N3):
        filled = [name for name in SPLITS if len(dataset.split(name))]
        raise DataError(f"{dataset.name} has no facts in its {split} split, so there is nothing to evaluate; it has facts in: {', '.join(filled)}")
    if isinstance(source, Scorer):
        source = source.with_unseen_zero()
    return Report.of(rank_facts(source, dataset, facts_N3, known, rule, memory_bytes), rule, split, dataset.relations.names)
