"""Facts that contradict what a relation otherwise keeps to.

Nothing in a set of facts says what is impossible, so a relation's own habit is taken for its rule:

    functional     nearly every head has one tail (a birthplace): a head with two contradicts it
    one-way        hardly ever both (a, r, b) and (b, r, a) (a parent): a pair that has both contradicts it
    never a loop   hardly ever (a, r, a): one that is contradicts it

A contradiction is a reason to look, not an error: people have two birthplaces in data because one source says a town and another its country.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.graph.dataset import Dataset
from relcode.graph.facts import contains, unique_facts
from relcode.graph.split_names import SPLITS

FEWEST_FACTS = 50  # of a relation, before a habit is made out
HABIT = 0.95  # of its heads, pairs or facts
NAMED = 2  # examples


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A habit of a relation and what breaks it."""

    relation: str
    kind: str  # "functional", "inverse functional", "one-way" or "never a loop"
    keeps: float  # the share of heads (tails, facts, facts) that keep to it
    breaks: int  # those that do not
    examples: tuple[str, ...]


def all_facts(dataset: Dataset) -> Tensor:
    """Return the facts of all splits, each once; [N, 3]."""
    return unique_facts(torch.cat([dataset.split(split) for split in SPLITS]), dataset.num_entities, dataset.num_relations)


def contradictions(dataset: Dataset) -> list[Contradiction]:
    """Find what breaks the habits of each relation, over all splits; the most frequent first."""
    facts_N3 = all_facts(dataset)
    facts_N3 = facts_N3[torch.argsort(facts_N3[:, 1], stable=True)]
    count_R = torch.bincount(facts_N3[:, 1], minlength=dataset.num_relations)
    reverse_N = contains(facts_N3, facts_N3.flip(1), dataset.num_entities, dataset.num_relations)
    found: list[Contradiction] = []
    end = 0
    for relation, count in enumerate(count_R.tolist()):
        begin, end = end, end + count
        if count >= FEWEST_FACTS:
            found += _of_relation(dataset, relation, facts_N3[begin:end], reverse_N[begin:end])
    return sorted(found, key=lambda one: (-one.breaks, one.relation, one.kind))


def _of_relation(dataset: Dataset, relation: int, facts_N3: Tensor, reverse_N: Tensor) -> Iterator[Contradiction]:
    """Look at the facts of one relation; ``reverse_N`` tells whether the reverse of each is a fact too."""
    name = dataset.relations[relation]
    for column, kind in ((0, "functional"), (2, "inverse functional")):
        end, place_N, count = facts_N3[:, column].unique(return_inverse=True, return_counts=True)
        several = count > 1
        broken_N = several[place_N]
        yield from _contradiction(dataset, name, kind, len(end), int(several.sum()), facts_N3[broken_N])
    loop_N = facts_N3[:, 0] == facts_N3[:, 2]
    both_N = reverse_N & ~loop_N
    yield from _contradiction(dataset, name, "one-way", len(facts_N3), int(both_N.sum()), facts_N3[both_N])
    yield from _contradiction(dataset, name, "never a loop", len(facts_N3), int(loop_N.sum()), facts_N3[loop_N])


def _contradiction(dataset: Dataset, name: str, kind: str, whole: int, breaks: int, broken_N3: Tensor) -> Iterator[Contradiction]:
    """Make the record, where there is a habit and something breaks it."""
    keeps = 1 - breaks / whole
    if breaks and keeps >= HABIT:
        column = 2 if kind == "inverse functional" else 0
        order = torch.argsort(broken_N3[:, column], stable=True)[: NAMED if kind != "never a loop" else 1]
        examples = tuple(f"{dataset.entities[h]} {name} {dataset.entities[t]}" for h, _, t in broken_N3[order].tolist())
        yield Contradiction(name, kind, keeps, breaks, examples)
