"""Setting facts aside for validation and test where a dataset brings none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relcode.errors import DataError, SettingError

HELD_OUT_SHARE = 0.05  # of all facts, for valid and for test each
AT_A_TIME = 10_000
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Times = np.ndarray[Any, np.dtype[Any]]
SPLIT_SEED = 20180715  # any fixed number: the same facts are split the same way everywhere


def split_facts(
    facts_N3: Tensor,
    num_entities: int,
    num_relations: int,
    seed: int = SPLIT_SEED,
    valid_share: float = HELD_OUT_SHARE,
    test_share: float = HELD_OUT_SHARE,
) -> Mapping[str, Tensor]:
    """Split facts (90/5/5 where no shares are given) into train, valid and test, with every entity and relation kept in train.

    Facts are visited in random order; one is set aside if its head, relation and tail each still occur in a fact that is not. Where fewer than wanted
    can be spared, valid and test share what there is. The result depends on the facts and their order only; each split keeps that order.
    """
    count = len(facts_N3)
    quota = _quotas(count, valid_share, test_share)
    order_N = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    aside = spare_facts(facts_N3, order_N, sum(quota), num_entities, num_relations)
    if len(aside) < sum(share > 0 for share in quota):
        raise DataError(
            f"too few of the {count:,} facts can be spared for valid and test: nearly every one is the only fact of some entity or relation; "
            "give train, valid and test as three files, or keep all in train with relcode import --no-split"
        )
    cut = len(aside) * quota[0] // sum(quota)
    kept = torch.ones(count, dtype=torch.bool)
    kept[aside] = False
    return {"train": facts_N3[kept], "valid": facts_N3[aside[:cut].sort().values], "test": facts_N3[aside[cut:].sort().values]}


def _quotas(count: int, valid_share: float, test_share: float) -> tuple[int, int]:
    """Return how many facts valid and test are to have; at least one each, but for a share of 0."""
    if not (0 <= valid_share < 1 and 0 <= test_share < 1 and 0 < valid_share + test_share < 1):
        raise SettingError(f"shares of {valid_share} for valid and {test_share} for test: each is at least 0, together more than 0 and less than 1")
    valid, test = (max(1, round(share * count)) if share else 0 for share in (valid_share, test_share))
    return valid, test


def spare_facts(facts_N3: Tensor, order_N: Tensor, most: int, num_entities: int, num_relations: int) -> Tensor:
    """Return up to ``most`` positions of facts, taken in ``order_N``, without which every entity and relation still occurs; int64 [≤ most].

    A fact is taken if each of its names occurs in some other fact that is not taken. Facts are looked at some thousands at a time: one whose names
    all occur more often than these thousands use them can be taken whatever becomes of the others; only the rest are decided one after the other.
    """
    fact_N3, order = facts_N3.numpy(), order_N.numpy()
    left_E = np.bincount(fact_N3[:, 0], minlength=num_entities) + np.bincount(fact_N3[:, 2], minlength=num_entities)
    left_R = np.bincount(fact_N3[:, 1], minlength=num_relations)
    taken: list[Numbers] = []
    missing = most
    for start in range(0, len(order), AT_A_TIME):
        if missing <= 0:
            break
        position_B = order[start : start + AT_A_TIME]
        block_B3 = fact_N3[position_B]
        take_B = _take_safe(block_B3, left_E, left_R)
        hard = np.flatnonzero(~take_B)
        for row, (head, relation, tail) in zip(hard.tolist(), block_B3[hard].tolist(), strict=True):
            uses = 2 if head == tail else 1
            if left_E[head] > uses and left_E[tail] > uses and left_R[relation] > 1:
                take_B[row] = True
                left_E[head] -= 1
                left_E[tail] -= 1
                left_R[relation] -= 1
        taken.append(position_B[take_B][:missing])
        missing -= len(taken[-1])
    return torch.from_numpy(np.concatenate(taken)) if taken else torch.empty(0, dtype=torch.int64)


def _take_safe(block_B3: Numbers, left_E: Numbers, left_R: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell which facts can be taken whatever becomes of the others of the block, and take them off what is left; bool [B]."""
    entity, place, uses = np.unique(block_B3[:, [0, 2]], return_inverse=True, return_counts=True)
    roomy_B2 = (left_E[entity] > uses)[place].reshape(-1, 2)
    relation, relation_place, relation_uses = np.unique(block_B3[:, 1], return_inverse=True, return_counts=True)
    safe_B: np.ndarray[Any, np.dtype[np.bool_]] = roomy_B2.all(axis=1) & (left_R[relation] > relation_uses)[relation_place]
    np.subtract.at(left_E, block_B3[safe_B][:, [0, 2]].ravel(), 1)
    np.subtract.at(left_R, block_B3[safe_B, 1], 1)
    return safe_B


def split_by_time(facts_N3: Numbers, time_N: Times, valid_share: float = HELD_OUT_SHARE, test_share: float = HELD_OUT_SHARE) -> dict[str, Numbers]:
    """Split facts by time: the earliest are train, the latest test; facts of one time stay together, and a repeated fact counts when it came first.

    A fact of valid or test whose entity or relation is not in train is left out: to move it there would show train the future. Returns the positions
    of the facts of each split.
    """
    quota = _quotas(len(facts_N3), valid_share, test_share)
    first = _first_times(facts_N3, time_N)
    by_time = first[np.argsort(time_N[first], kind="stable")]
    sorted_time = time_N[by_time]
    test_from = _cut(sorted_time, len(by_time) - quota[1])
    valid_from = _cut(sorted_time, test_from - quota[0]) if quota[0] else test_from
    parts = {"train": by_time[:valid_from], "valid": by_time[valid_from:test_from], "test": by_time[test_from:]}
    train_N3 = facts_N3[parts["train"]]
    entities, relations = np.unique(train_N3[:, [0, 2]]), np.unique(train_N3[:, 1])
    for split in ("valid", "test"):
        held_N3 = facts_N3[parts[split]]
        seen = np.isin(held_N3[:, 0], entities) & np.isin(held_N3[:, 2], entities) & np.isin(held_N3[:, 1], relations)
        parts[split] = parts[split][seen]
    empty = [split for split, size in (("train", 1), ("valid", quota[0]), ("test", quota[1])) if size and not len(parts[split])]
    if empty:
        raise DataError(
            f"no facts are left for {empty[0]}: too many have the same time, or entities that only come later; "
            "choose other shares with --valid and --test"
        )
    return {split: np.sort(position) for split, position in parts.items()}


def _first_times(facts_N3: Numbers, time_N: Times) -> Numbers:
    """Return the positions of the distinct facts, each where its time is the earliest."""
    order = np.lexsort((time_N, facts_N3[:, 2], facts_N3[:, 1], facts_N3[:, 0]))
    sorted_N3 = facts_N3[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (sorted_N3[1:] != sorted_N3[:-1]).any(axis=1)
    return np.sort(order[new])


def _cut(sorted_time: Times, wanted: int) -> int:
    """Return the place nearest to the one wanted where a new time begins."""
    if not 0 < wanted < len(sorted_time):
        return max(0, min(wanted, len(sorted_time)))
    before = int(np.searchsorted(sorted_time, sorted_time[wanted], side="left"))
    after = int(np.searchsorted(sorted_time, sorted_time[wanted], side="right"))
    return before if wanted - before <= after - wanted and before else after
