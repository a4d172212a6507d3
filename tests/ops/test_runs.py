"""Runs of rows in stretches: every row has one place, and few shapes of products are asked for."""

from __future__ import annotations

import pytest
import torch

from relcode.ops import runs
from relcode.ops.runs import Plan, Stretch, filled


def test_short_runs_of_relations_that_follow_each_other_are_a_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SHORT", 3)
    # relations 4 and 5 are short and follow each other; 6 is long; 8 stands alone
    plan = Plan.of([4, 5, 6, 8], [2, 3, 5, 1], together=True)
    assert plan.stretches == [Stretch(4, 2, 0, 5, 0, 8), Stretch(6, 1, 5, 10, 8, 16), Stretch(8, 1, 10, 11, 16, 20)]
    assert plan.row_Z.tolist() == [0, 1, 2, 3, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10, 10, 10]
    assert plan.place_X.tolist() == [0, 1, 4, 5, 6, 8, 9, 10, 11, 12, 16]
    assert plan.own_Z.nonzero()[:, 0].tolist() == plan.place_X.tolist()


@pytest.mark.parametrize("most", [1, 3, 8])
@pytest.mark.parametrize("together", [True, False])
def test_every_row_has_one_place_among_those_of_its_relation(together: bool, most: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (0, 1, 40):
        relation_R = torch.randperm(60, generator=generator)[:size].sort().values
        lengths = torch.randint(1, 40, (size,), generator=generator).tolist()
        plan = Plan.of(relation_R.tolist(), lengths, together, most)
        rows = sum(lengths)
        assert plan.row_Z[plan.place_X].tolist() == list(range(rows))
        found = []
        for each in plan.stretches:
            assert 1 <= each.count <= most and (together or each.count == 1)
            width, left = divmod(each.end - each.begin, each.count)
            assert left == 0 and (not together or width == filled(width))
            places = range(each.begin, each.end)
            found += [each.relation + (place - each.begin) // width for place in places if bool(plan.own_Z[place])]
        assert found == relation_R.repeat_interleave(torch.tensor(lengths, dtype=torch.long)).tolist()
        assert not together or not plan.as_they_are or all(length == filled(length) for length in lengths)
        assert together or plan.as_they_are


def test_runs_are_filled_up_to_few_sizes() -> None:
    assert [filled(rows) for rows in (1, 4, 5, 8, 9, 16, 17, 512)] == [4, 4, 8, 8, 16, 16, 24, 512]
    assert len({filled(rows) for rows in range(1, 1025)}) == 129
