from __future__ import annotations

import pytest
import torch

from relcode.errors import SettingError
from relcode.evaluation.protocol import PAPER, REALISTIC, most_frequent_heads, protocol_named, replace_unseen


def test_protocols_by_name() -> None:
    assert protocol_named("realistic") is REALISTIC
    assert protocol_named("paper") is PAPER
    assert protocol_named(PAPER) is PAPER
    with pytest.raises(SettingError, match="unknown protocol 'papers': known are realistic, paper"):
        protocol_named("papers")


def test_most_frequent_heads_worked_by_hand() -> None:
    # r0: heads 3, 3, 1 -> 3; its inverse: heads 0, 1, 2 once each -> the lowest, 0. r1: heads 2 and 1 once each -> 1; inverse: 4 twice. r2: none.
    train = torch.tensor([[3, 0, 0], [3, 0, 1], [1, 0, 2], [2, 1, 4], [1, 1, 4]])
    assert most_frequent_heads(train, num_entities=5, num_relations=3).tolist() == [3, 1, -1, 0, 4, -1]


def test_most_frequent_heads_by_counting() -> None:
    generator = torch.Generator().manual_seed(0)
    E, R = 7, 4
    train = torch.unique(torch.stack([torch.randint(0, most, (60,), generator=generator) for most in (E, R, E)], dim=1), dim=0)
    rows = train.tolist()
    for relation, head in enumerate(most_frequent_heads(train, E, R).tolist()):
        times = [sum((h if relation < R else t) == entity and r == relation % R for h, r, t in rows) for entity in range(E)]
        assert head == times.index(max(times))


def test_no_facts_no_heads() -> None:
    assert most_frequent_heads(torch.empty(0, 3, dtype=torch.int64), 3, 2).tolist() == [-1] * 4


def test_only_heads_never_trained_are_replaced_and_only_where_there_is_another() -> None:
    seen = torch.tensor([True, True, False])
    heads = replace_unseen(torch.tensor([0, 2, 2]), torch.tensor([0, 0, 1]), seen, torch.tensor([1, -1]))
    assert heads.tolist() == [0, 1, 2]
