from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from relcode.errors import DataError, OutputError
from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset, save_dataset
from relcode.graph.store import FILES, MANIFEST

SPLITS = {"train": [("a", "r", "b"), ("ç 🙂", "s", "a")], "valid": [("b", "r", "a")], "test": [("b", "s", "z")]}


def some() -> Dataset:
    return dataset_from_facts(SPLITS, name="some")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    dataset = save_dataset(some(), tmp_path / "d")
    for one in (dataset, load_dataset(tmp_path / "d"), load_dataset(str(tmp_path / "d"))):
        assert one.fingerprint == some().fingerprint and one.name == "some"
        assert one.entities == some().entities and one.entities.names == some().entities.names
        assert one.seen_E.tolist() == some().seen_E.tolist()
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == sorted([*FILES, MANIFEST])
    assert np.load(tmp_path / "d" / "train.npy").tolist() == some().train.tolist()  # anyone can open the numbers


def test_an_empty_split_and_no_facts_at_all(tmp_path: Path) -> None:
    assert len(save_dataset(dataset_from_facts([("a", "r", "b")]), tmp_path / "a").valid) == 0
    assert len(save_dataset(dataset_from_facts([]), tmp_path / "b").train) == 0


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        save_dataset(some(), tmp_path / "d")
    with pytest.raises(OutputError, match="cannot write"):
        (tmp_path / "file").write_text("", encoding="utf-8")
        save_dataset(some(), tmp_path / "file" / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "file"]


@pytest.mark.parametrize("file", [*FILES, MANIFEST])
def test_a_changed_cut_or_missing_file_is_noticed(tmp_path: Path, file: str) -> None:
    save_dataset(some(), tmp_path / "whole")
    data = (tmp_path / "whole" / file).read_bytes()
    changes = [data[:-1], data + b"x", data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :], b"", None]
    for number, change in enumerate(changes):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        (folder / file).write_bytes(change) if change is not None else (folder / file).unlink()
        if file == MANIFEST and change in (data[:-1], data + b"x"):
            continue  # a newline less, or an x after the end, which JSON refuses too
        try:
            read = load_dataset(folder)
        except DataError as error:
            assert "\n" not in str(error)
        else:  # a changed letter in a note of the manifest harms nobody
            assert file == MANIFEST and read.fingerprint == some().fingerprint


def test_another_version_says_so(tmp_path: Path) -> None:
    save_dataset(some(), tmp_path / "d")
    manifest = json.loads((tmp_path / "d" / MANIFEST).read_text(encoding="utf-8"))
    for change, message in (({"version": 2}, "has version 2, this relcode reads 1"), ({"format": "other"}, "does not describe a dataset")):
        (tmp_path / "d" / MANIFEST).write_text(json.dumps({**manifest, **change}), encoding="utf-8")
        with pytest.raises(DataError, match=message):
            load_dataset(tmp_path / "d")
