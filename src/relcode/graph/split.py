"""Setting facts aside for validation and test where a dataset brings none."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from relcode.errors import DataError

HELD_OUT_SHARE = 0.05  # of all facts, for valid and for test each
AT_A_TIME = 10_000
SPLIT_SEED = 20180715  # any fixed number: the same facts are split the same way everywhere


def split_facts(facts_N3: Tensor, num_entities: int, num_relations: int, seed: int = SPLIT_SEED) -> Mapping[str, Tensor]:
    """Split facts 90/5/5 into train, valid and test, with every entity and relation kept in train.

    Facts are visited in random order; one is set aside if its head, relation and tail each still occur in a fact that is not. Where fewer than 10 %
    can be spared, valid and test share what there is. The result depends on the facts and their order only; each split keeps that order.
    """
    count = len(facts_N3)
    quota = max(1, round(HELD_OUT_SHARE * count))
    order_N = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    aside = _spare_facts(facts_N3, order_N, 2 * quota, num_entities, num_relations)
    if len(aside) < 2:
        raise DataError(
            f"too few facts ({count}) can be spared for valid and test: nearly every one is the only fact of some entity or relation; "
            "give train, valid and test as three files"
        )
    half = len(aside) // 2
    valid, test = sorted(aside[:half]), sorted(aside[half:])
    kept = torch.ones(count, dtype=torch.bool)
    kept[aside] = False
    return {"train": facts_N3[kept], "valid": facts_N3[valid], "test": facts_N3[test]}


def _spare_facts(facts_N3: Tensor, order_N: Tensor, most: int, num_entities: int, num_relations: int) -> list[int]:
    """Return up to ``most`` positions of facts, taken in ``order_N``, without which every entity and relation still occurs."""
    entity_left = torch.bincount(facts_N3[:, [0, 2]].flatten(), minlength=num_entities).tolist()
    relation_left = torch.bincount(facts_N3[:, 1], minlength=num_relations).tolist()
    aside: list[int] = []
    for position_B in order_N.split(AT_A_TIME):  # most facts are never looked at, so they are not all made into lists
        for position, (head, relation, tail) in zip(position_B.tolist(), facts_N3[position_B].tolist(), strict=True):
            if len(aside) == most:
                return aside
            uses = 2 if head == tail else 1
            if entity_left[head] > uses and entity_left[tail] > uses and relation_left[relation] > 1:
                entity_left[head] -= 1
                entity_left[tail] -= 1
                relation_left[relation] -= 1
                aside.append(position)
    return aside
