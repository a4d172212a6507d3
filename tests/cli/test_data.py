from __future__ import annotations

import json

import pytest

from relcode.config import options, parse_assignments
from relcode.recipes import RECIPES, recipe


def test_the_bundled_dataset_is_listed(relcode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELCODE_DATA", raising=False)
    assert "world" in relcode("datasets").out and "RELCODE_DATA" in relcode("datasets").out
    assert json.loads(relcode("datasets", "--json").out) == [{"name": "world", "source": "bundled with relcode", "bundled": True}]


def test_datasets_under_the_variable_are_listed(relcode, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.txt").write_text("a\tr\tb\n")
    monkeypatch.setenv("RELCODE_DATA", str(tmp_path))
    assert [entry["name"] for entry in json.loads(relcode("datasets", "--json").out)] == ["world", "mine"]


def test_a_dataset_is_counted(relcode) -> None:
    text = relcode("datasets", "show", "world").out
    assert "35 relations" in text and "facts with an unseen entity" in text
    record = json.loads(relcode("datasets", "show", "world", "--json").out)
    assert record["relations"] == 35 and record["facts"]["test"] == 900


def test_every_setting_is_listed_with_its_value_and_meaning(relcode) -> None:
    text = relcode("settings").out
    for key, (_, meaning) in options().items():
        assert key == "recipe" or (f"\n{key} " in text and meaning in text)
    assert "base: false" in text  # where another recipe differs
    record = json.loads(relcode("settings", "joint", "--json").out)
    assert record["model.dim"]["value"] == recipe("joint").model.dim and set(record["model.dim"]["recipes"]) == set(RECIPES)


def test_a_value_shown_can_be_set_again(relcode) -> None:
    rows = [line.split() for line in relcode("settings", "base").out.splitlines()]
    shown = [f"{row[0]}={row[1]}" for row in rows if len(row) > 1 and row[0] in options() and "." in row[0]]
    assert len(shown) == len(options()) - 1
    assert recipe("base").with_values(parse_assignments(shown)) == recipe("base")
