from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relcode.explore import search
from relcode.explore.search import NameIndex, fold

NAMES = ["Zürich", "Zurich Airport", "Europe/Zurich", "New York", "York", "Old yorkshire", "שלום", "👩‍👧 family"]
COUNTS = [5, 3, 17, 50, 2, 1, 0, 0]


def found(text: str, top: int = 10, names: list[str] | None = None, labels: list[str] | None = None) -> list[str]:
    names = names or NAMES
    index = NameIndex(names, labels or names, COUNTS[: len(names)] if names is NAMES else [0] * len(names))
    return [names[number] for number in index.search(text, top)]


def test_equal_ones_come_first_then_beginnings_words_and_parts() -> None:
    assert found("york") == ["York", "New York", "Old yorkshire"]
    assert found("zurich") == ["Zürich", "Zurich Airport", "Europe/Zurich"]
    assert found("ork") == ["New York", "York", "Old yorkshire"]  # parts, the more frequent first


def test_case_accents_and_spaces_around_do_not_count() -> None:
    assert found("  ZÜRICH ") == found("zurich")
    assert fold("Ǻpfel Straße") == "apfel strasse"
    assert found("לו") == ["שלום"] and found("👩") == ["👩‍👧 family"]


def test_no_text_gives_the_most_frequent() -> None:
    assert found("", 2) == ["New York", "Europe/Zurich"] and found("   ", 1) == ["New York"]


def test_labels_are_searched_too_and_a_name_is_found_once() -> None:
    names, labels = ["/m/1", "/m/2", "paris"], ["Paris", "Paris, Texas", "Paris"]
    assert found("paris", names=names, labels=labels) == ["/m/1", "paris", "/m/2"]
    assert found("/m/", names=names, labels=labels) == ["/m/1", "/m/2"]


def test_nothing_is_found_across_names_or_by_the_sign_between_them() -> None:
    assert found("york\0old", names=["York", "Old"]) == []
    assert found("ko", names=["York", "Old"]) == []
    assert found("\0", 1) == ["New York"]  # nothing else is left of it


def test_beginnings_are_found_however_many_parts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_LOOKED_AT", 3)
    names = [*(f"x{number}a" for number in range(50)), "abc"]
    assert found("a", 1, names=names) == ["abc"]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6), min_size=1, max_size=8, unique=True), st.data())
def test_every_name_is_found_by_each_of_its_parts(names: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(names))
    folded = fold(name)
    start = data.draw(st.integers(0, len(folded)))
    part = folded[start : data.draw(st.integers(start, len(folded)))].strip()
    index = NameIndex(names, names, [1] * len(names))
    result = [names[number] for number in index.search(part, len(names))]
    assert name in result
    assert not part or all(fold(part) in fold(one) for one in result)
