from __future__ import annotations

from pathlib import Path

import pytest

import relcode.graph.catalogue as catalogue
from relcode.errors import DataError, UnknownName
from relcode.graph.catalogue import available, find, resolve


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of datasets that RELCODE_DATA names, and an empty folder to stand in."""
    root = tmp_path / "shelf"
    for name, file in (("toys", "train.txt"), ("books", "train.tsv.gz"), ("not-data", "readme.md")):
        (root / name).mkdir(parents=True)
        (root / name / file).write_bytes(b"")
    (root / "loose.txt").write_bytes(b"")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("RELCODE_DATA", str(root))
    monkeypatch.setenv("RELCODE_CACHE", str(tmp_path / "cache"))
    return root


def place(where: str | Path) -> tuple[str, Path]:
    entry = resolve(where)
    return entry.name, entry.path


def names(bundled: bool) -> list[str]:
    return [entry.name for entry in available() if entry.bundled == bundled]


def test_what_lies_under_the_variable_is_listed_by_name(shelf: Path) -> None:
    assert names(bundled=False) == ["books", "toys"]
    entry = find("toys")
    assert entry is not None and entry.path == shelf / "toys"
    assert find("not-data") is None


def test_imported_datasets_are_known_by_name_too(shelf: Path) -> None:
    (shelf / "imported").mkdir()
    (shelf / "imported" / "dataset.json").write_text("{}")
    assert names(bundled=False) == ["books", "imported", "toys"]


def test_bundled_ones_come_first_and_win(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "toys").mkdir(parents=True)
    (tmp_path / "data" / "toys" / "train.tsv").write_bytes(b"")
    monkeypatch.setattr(catalogue, "BUNDLED", ("toys", "absent"))
    monkeypatch.setattr(catalogue, "files", lambda package: tmp_path)
    assert [(entry.name, entry.bundled) for entry in available()] == [("toys", True), ("books", False)]
    assert place("toys") == ("toys", tmp_path / "data" / "toys")


def test_world_is_bundled() -> None:
    assert names(bundled=True) == ["world"]
    assert resolve("world").source == "bundled with relcode"


@pytest.mark.parametrize("value", [None, "", "no/such/folder", "~nobody-of-that-name/x"])
def test_without_a_sound_variable_only_bundled_ones_are_there(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv("RELCODE_DATA", raising=False)
    else:
        monkeypatch.setenv("RELCODE_DATA", value)
    assert names(bundled=False) == []


def test_an_unknown_name_tells_close_ones_and_the_variable(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UnknownName,
        match=r"unknown dataset 'toy': did you mean 'toys'\? \(known are world, books, toys, wn18, .*\) \(RELCODE_DATA is .*shelf; a folder or file",
    ):
        resolve("toy")
    monkeypatch.setenv("RELCODE_DATA", "nowhere")
    with pytest.raises(UnknownName, match="RELCODE_DATA is nowhere, which is no folder"):
        resolve("toys")
    monkeypatch.delenv("RELCODE_DATA")
    with pytest.raises(UnknownName, match="RELCODE_DATA is not set"):
        resolve("toys")


def test_a_benchmark_that_is_not_here_tells_of_the_variable(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"'wn18rr' is not on this machine \(RELCODE_DATA is .*shelf\): get it with relcode datasets download"):
        resolve("wn18rr")
    monkeypatch.setenv("RELCODE_DATA", "nowhere")
    with pytest.raises(UnknownName, match=r"\(RELCODE_DATA is nowhere, which is no folder\)"):
        resolve("wn18rr")


def test_a_name_goes_before_a_folder_here_and_a_place_is_always_a_place(shelf: Path) -> None:
    Path("toys").mkdir()
    Path("mine").mkdir()
    Path("facts.tsv.gz").write_bytes(b"")
    assert place("toys") == ("toys", shelf / "toys")
    assert place("./toys") == ("toys", Path("toys"))
    assert place(Path("toys")) == ("toys", Path("toys"))
    assert place("mine") == ("mine", Path("mine"))
    assert place("facts.tsv.gz") == ("facts", Path("facts.tsv.gz"))
    assert place(".") == ("here", Path("."))


@pytest.mark.parametrize(
    "where", ["", "no/such", "./toys", "none.txt", "none.TSV.gz", Path("toys"), "x/a\0b", "x/" + "y" * 5000, "~nobody-of-that-name/x"]
)
def test_places_that_are_not_there(shelf: Path, where: str | Path) -> None:
    with pytest.raises(DataError) as caught:
        resolve(where)
    assert "\n" not in str(caught.value)
