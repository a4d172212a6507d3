from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from relcode.errors import DataError, SettingError
from relcode.formats.importing import import_facts
from relcode.formats.splitting import sortable, split_sources
from relcode.graph.dataset import Dataset

RING = [(f"e{i}", f"r{step}", f"e{(i + step) % 40}") for i in range(40) for step in (1, 2, 3)]


def facts_of(dataset: Dataset, split: str) -> set[tuple[str, str, str]]:
    return {(dataset.entities[h], dataset.relations[r], dataset.entities[t]) for h, r, t in dataset.split(split).tolist()}


def check_train_knows_all(dataset: Dataset) -> None:
    assert dataset.seen_E.all() and set(dataset.train[:, 1].tolist()) == set(range(dataset.num_relations))


def test_shares_and_seed_decide(tmp_path: Path) -> None:
    first = split_sources(RING, valid=0.1, test=0.2, out=tmp_path / "a").dataset
    assert [len(first.split(split)) for split in ("train", "valid", "test")] == [84, 12, 24]
    check_train_knows_all(first)
    assert facts_of(first, "train") | facts_of(first, "valid") | facts_of(first, "test") == set(RING)
    again, other = split_sources(tmp_path / "a", valid=0.1, test=0.2).dataset, split_sources(RING, valid=0.1, test=0.2, seed=5).dataset
    assert again.fingerprint == first.fingerprint  # the splits of a dataset are put together first
    assert other.fingerprint != first.fingerprint
    assert len(split_sources(RING, valid=0, test=0.1).dataset.valid) == 0
    with pytest.raises(SettingError, match="together more than 0 and less than 1"):
        split_sources(RING, valid=0.5, test=0.5)


def dated(rows: list[tuple[str, str, str, object]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table(dict(zip(("head", "relation", "tail", "year"), columns, strict=True)))


def test_by_time_the_latest_are_test_and_the_unknown_is_left_out() -> None:
    rows = [(f"e{i % 5}", "r", f"e{(i + 1 + i // 5) % 5}", 2000 + i) for i in range(16)]
    rows += [("e0", "r", "new", 2016), ("e0", "s", "e1", 2017), ("e0", "r", "e0", 2018), ("e0", "r", "e1", 2019), ("e1", "r", "e1", None)]
    imported = split_sources(dated(rows), valid=0.1, test=0.15, time="year")
    dataset = imported.dataset
    check_train_knows_all(dataset)
    assert facts_of(dataset, "test") == {("e0", "r", "e0")}  # new and s are not in train; e0 r e1 was told in 2000
    assert "new" not in dataset.entities and "s" not in dataset.relations
    notes = " | ".join(imported.summary.notes)
    assert "split by year: train from 2000" in notes
    assert "left out 2 later facts" in notes and "left out 1 facts without a time" in notes and "1 repeated facts counted once" in notes


def test_facts_of_one_time_stay_together() -> None:
    rows = [(f"e{i}", "r", f"e{j}", 1 if i < 3 else 2 if i < 5 else 3) for i in range(6) for j in range(6)]
    dataset = split_sources(dated([*rows, *((f"e{i}", "r", "e0", 0) for i in range(6))]), valid=0.2, test=0.1, time="year").dataset
    assert {int(name[1:]) for name, _, _ in facts_of(dataset, "test")} == {5}
    assert {int(name[1:]) for name, _, _ in facts_of(dataset, "valid")} == {3, 4}


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([3, 1, 2], [1, 2, 0]),
        (["10", "9", "-1"], [2, 1, 0]),
        (["1.5", "1e1", "2"], [0, 2, 1]),
        (["2014-03-01", "2014", "2013-12-31T10:00:00"], [2, 1, 0]),
        ([datetime.date(2014, 1, 2), datetime.date(2014, 1, 1)], [1, 0]),
        ([datetime.datetime(2014, 1, 2), datetime.datetime(2014, 1, 1, 23)], [1, 0]),
    ],
)
def test_times_sort_in_their_order(values: list[object], order: list[int]) -> None:
    assert sortable(pa.chunked_array([pa.array(values)]), "year").argsort().tolist() == order


def test_times_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds 'soon': times must be numbers, or dates"):
        split_sources(dated([("a", "r", "b", "soon"), ("b", "r", "a", "2014-01-01")]), time="year")
    with pytest.raises(DataError, match="holds numbers that are not finite"):
        split_sources(dated([("a", "r", "b", float("nan"))] * 2), time="year")
    with pytest.raises(DataError, match="no column 'when'"):
        split_sources(dated([("a", "r", "b", 1)]), time="when")
    with pytest.raises(DataError, match="no facts are left"):
        split_sources(dated([("a", "r", "b", 1), ("b", "r", "a", 1)]), time="year")
    (tmp_path / "a.nt").write_text("<http://x/a> <http://x/r> <http://x/b> .\n", encoding="utf-8")
    with pytest.raises(DataError, match="a split by time needs tables"):
        split_sources(tmp_path / "a.nt", time="year")


def test_a_csv_with_times_by_number_of_column(tmp_path: Path) -> None:
    lines = [f"e{i % 4},r,e{(i + 1) % 4},{i},x" for i in range(4)] + [f"e{i % 4},r,e{(i + 2) % 4},{i + 4},x" for i in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    dataset = split_sources(tmp_path / "t.csv", head="1", relation="2", tail="3", time="4", valid=0.13, test=0.13).dataset
    assert facts_of(dataset, "test") == {("e3", "r", "e1")} and facts_of(dataset, "valid") == {("e2", "r", "e0")}
    assert torch.equal(dataset.train, dataset.train.unique(dim=0))


def test_importing_does_not_split_what_is_split() -> None:
    assert len(import_facts(RING, valid=RING[:2], test=RING[3:5]).dataset.valid) == 2
