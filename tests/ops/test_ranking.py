from __future__ import annotations

import pytest
import torch

from relcode.ops import ranking
from relcode.ops.ranking import count_rivals, count_rivals_plain

NEVER = float("-inf")


def test_counts_worked_by_hand() -> None:
    score = torch.tensor([[3.0, 1.0, 2.0, 2.0], [NEVER, 0.0, NEVER, -5.0]])
    row, gold = torch.tensor([0, 0, 1, 1]), torch.tensor([2.0, 9.0, -5.0, 0.5])
    for better, equal in (count_rivals_plain(score, row, gold), count_rivals(score, row, gold, torch.empty_like(score))):
        assert better.tolist() == [1, 0, 1, 0]
        assert equal.tolist() == [2, 0, 1, 0]
        assert better.dtype == equal.dtype == torch.int64


@pytest.mark.parametrize("golds", [0, 1, 5, 23])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_fast_version_equals_the_plain_one_and_the_loop(golds: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(golds)
    score = torch.randint(-3, 4, (5, 17), generator=generator).to(dtype)
    score[torch.rand(5, 17, generator=generator) < 0.2] = NEVER
    row = torch.randint(0, 5, (golds,), generator=generator)
    gold = torch.randint(-4, 5, (golds,), generator=generator).to(dtype)
    before = score.clone()
    fast, plain = count_rivals(score, row, gold, torch.empty_like(score)), count_rivals_plain(score, row, gold)
    assert torch.equal(fast[0], plain[0]) and torch.equal(fast[1], plain[1])
    assert fast[0].tolist() == [sum(value > g for value in score[r].tolist()) for r, g in zip(row.tolist(), gold.tolist(), strict=True)]
    assert fast[1].tolist() == [sum(value == g for value in score[r].tolist()) for r, g in zip(row.tolist(), gold.tolist(), strict=True)]
    assert torch.equal(score, before)


def test_neighbouring_floats_are_told_apart() -> None:
    gold = torch.tensor([1e9, -1e9, 1e-40])
    above = torch.nextafter(gold, torch.tensor(torch.inf))
    score = torch.stack([gold, above, torch.nextafter(gold, -torch.tensor(torch.inf))], dim=1)
    better, equal = count_rivals(score, torch.arange(3), gold, torch.empty_like(score))
    assert better.tolist() == [1, 1, 1] and equal.tolist() == [1, 1, 1]


def test_a_large_count_is_exact() -> None:
    score = torch.ones(1, 1_000_003)
    score[0, ::3] = 0
    better, equal = count_rivals(score, torch.tensor([0]), torch.tensor([0.0]), torch.empty_like(score))
    assert (better.item(), equal.item()) == (666_668, 333_335)


def test_more_columns_than_floats_can_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MOST_COLUMNS", 2)
    with pytest.raises(ValueError, match="at most 2 columns"):
        count_rivals(torch.ones(1, 3), torch.tensor([0]), torch.tensor([0.0]), torch.empty(1, 3))
