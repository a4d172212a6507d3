"""Counting a dataset: what one should know before training on it or trusting ranks from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.graph.dataset import Dataset
from relcode.graph.facts import contains
from relcode.graph.split_names import SPLITS

HELD_OUT = ("valid", "test")


@dataclass(frozen=True, slots=True)
class DatasetStatistics:
    """Counts of a dataset; mappings are by split. "Unseen" means: in valid or test, but nowhere in train."""

    name: str
    source: str
    entities: int
    relations: int
    facts: Mapping[str, int]
    labels: int
    unseen_entities: int
    unseen_relations: tuple[str, ...]
    facts_with_unseen_entities: Mapping[str, int]
    facts_with_unseen_relations: Mapping[str, int]
    duplicates: Mapping[str, int]
    repeated_from_train: Mapping[str, int]
    valid_repeated_in_test: int
    fingerprint: str
    notes: tuple[str, ...]


def describe(dataset: Dataset) -> DatasetStatistics:
    """Count entities, relations, facts, what valid and test hold that train does not, and what they should not share with it."""
    seen_relations = set(dataset.train[:, 1].unique().tolist())
    return DatasetStatistics(
        name=dataset.name,
        source=dataset.source,
        entities=dataset.num_entities,
        relations=dataset.num_relations,
        facts={split: len(dataset.split(split)) for split in SPLITS},
        labels=len(dataset.labels),
        unseen_entities=int((~dataset.seen_E).sum()),
        unseen_relations=tuple(name for number, name in enumerate(dataset.relations) if number not in seen_relations),
        facts_with_unseen_entities={split: int(has_unseen_entity(dataset, dataset.split(split)).sum()) for split in HELD_OUT},
        facts_with_unseen_relations={split: _count_outside(dataset.split(split)[:, 1], dataset.train[:, 1]) for split in HELD_OUT},
        duplicates=dict(dataset.duplicates),
        repeated_from_train={split: _count_shared(dataset, "train", split) for split in HELD_OUT},
        valid_repeated_in_test=_count_shared(dataset, "valid", "test"),
        fingerprint=dataset.fingerprint,
        notes=dataset.notes,
    )


def has_unseen_entity(dataset: Dataset, facts_N3: Tensor) -> Tensor:
    """Tell for each fact whether its head or tail never occurs in train; bool [N]."""
    return ~(dataset.seen_E[facts_N3[:, 0]] & dataset.seen_E[facts_N3[:, 2]])


def _count_shared(dataset: Dataset, left: str, right: str) -> int:
    """Count the facts of the split ``right`` that are in the split ``left`` too."""
    return int(contains(dataset.split(left), dataset.split(right), dataset.num_entities, dataset.num_relations).sum())


def _count_outside(number_N: Tensor, known_M: Tensor) -> int:
    """Count the entries of ``number_N`` that are not in ``known_M``."""
    return int((~torch.isin(number_N, known_M.unique())).sum())
