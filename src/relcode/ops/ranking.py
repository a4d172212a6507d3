"""Counting rivals: how many candidates score above the gold one, and how many the same.

    better_g = |{c : s[row_g, c] > gold_g}|        equal_g = |{c : s[row_g, c] = gold_g}|

s is a block of scores, a row a query and a column a candidate; a row may be asked of several gold answers. Candidates that do not count hold -inf.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST_COLUMNS = 2**24  # float32 holds every whole number up to this, so a row's count of ones is exact as a float sum


def count_rivals_plain(score_BC: Tensor, row_G: Tensor, gold_G: Tensor) -> tuple[Tensor, Tensor]:
    """Return better and equal for each gold score, as the equation reads; int64 [G] each. The truth, and the wasteful way."""
    rival_GC = score_BC[row_G]
    return (rival_GC > gold_G[:, None]).sum(dim=1), (rival_GC == gold_G[:, None]).sum(dim=1)


def count_rivals(score_BC: Tensor, row_G: Tensor, gold_G: Tensor, scratch_BC: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same in a scratch block the size of the scores, so that nothing large is allocated however many golds there are.

    Comparisons are written as floats, 1 or 0, and summed as floats: on CPU that is several times faster than summing truth values, whose sum torch
    widens to int64 one by one.
    """
    if score_BC.shape[1] > MOST_COLUMNS:
        raise ValueError(f"a block of scores may have at most {MOST_COLUMNS} columns, not {score_BC.shape[1]}")
    better, equal = [], []
    for row_B, gold_B in zip(row_G.split(len(scratch_BC)), gold_G.split(len(scratch_BC)), strict=True):
        rival_BC, gold_B1 = scratch_BC[: len(row_B)], gold_B[:, None]
        above_B = torch.index_select(score_BC, 0, row_B, out=rival_BC).gt_(gold_B1).sum(dim=1)
        not_below_B = torch.index_select(score_BC, 0, row_B, out=rival_BC).ge_(gold_B1).sum(dim=1)
        better.append(above_B)
        equal.append(not_below_B - above_B)
    if not better:
        none_G = torch.zeros_like(row_G)
        return none_G, none_G
    return torch.cat(better).long(), torch.cat(equal).long()
