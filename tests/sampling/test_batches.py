from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from walked import batch_of, prefixes_of, random_walks

from relcode.sampling.batches import PathBatch, copy_batch_, group_by_relation


def test_a_tiling_worked_by_hand() -> None:
    # Rows 0 to 4 have relations 2, 0, 2, 2, 0: in tiles of two, relation 0 fills one and relation 2 one and a half.
    relation_T, source_TW = group_by_relation(torch.tensor([2, 0, 2, 2, 0]), num_directed=4, width=2)
    assert relation_T.tolist() == [0, 2, 2]
    assert source_TW.tolist() == [[1, 4], [0, 2], [3, 5]]


@pytest.mark.parametrize("width", [1, 3])
def test_no_rows_need_no_tiles(width: int) -> None:
    relation_T, source_TW = group_by_relation(torch.zeros(0, dtype=torch.long), num_directed=3, width=width)
    assert relation_T.shape == (0,)
    assert source_TW.shape == (0, width)


@given(st.integers(1, 6).flatmap(lambda most: st.tuples(st.just(most), st.lists(st.integers(0, most - 1), max_size=60))), st.integers(1, 9))
def test_every_row_stands_once_in_a_tile_of_its_relation(drawn: tuple[int, list[int]], width: int) -> None:
    num_directed, relations = drawn
    rows = len(relations)
    relation_T, source_TW = group_by_relation(torch.tensor(relations, dtype=torch.long), num_directed, width)
    assert source_TW.shape == (len(relation_T), width)
    assert sorted(row for row in source_TW.flatten().tolist() if row != rows) == list(range(rows))
    assert all(0 <= relation < num_directed for relation in relation_T.tolist())
    for relation, tile in zip(relation_T.tolist(), source_TW.tolist(), strict=True):
        assert all(relations[row] == relation for row in tile if row != rows)
    # No more tiles than there can be, whatever the data; on the CPU not one more than is needed.
    assert len(relation_T) <= rows // width + min(rows, num_directed)
    assert len(relation_T) == sum(-(-relations.count(relation) // width) for relation in range(num_directed))
    # Tiles of one relation are neighbours: that is what makes one large product of them.
    assert relation_T.tolist() == sorted(relation_T.tolist())


def test_copying_a_batch_fills_the_old_tensors() -> None:
    old, new = (batch_of(random_walks(6, 5, 1, 2, seed), 4) for seed in (1, 2))
    kept = old.levels[0].tail_TW
    assert prefixes_of(old) != prefixes_of(new)
    copy_batch_(old, new)
    assert prefixes_of(old) == prefixes_of(new)
    assert old.levels[0].tail_TW is kept and kept.data_ptr() != new.levels[0].tail_TW.data_ptr()


def test_copying_from_a_batch_of_other_depth_is_refused() -> None:
    batch = batch_of(random_walks(4, 5, 1, 2, 0), 4)
    with pytest.raises(RuntimeError, match="same number"):
        copy_batch_(batch, PathBatch(batch.levels[:1]))
