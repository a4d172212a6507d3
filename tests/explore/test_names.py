from __future__ import annotations

import pytest
from small_model import small_dataset

from relcode.errors import PathSyntaxError, SettingError, UnknownName
from relcode.explore.names import AmbiguousName, Names


def test_an_entity_is_found_by_its_name() -> None:
    names = Names(small_dataset())
    assert [names.entity(name) for name in "abcd"] == [0, 1, 2, 3]


def test_an_entity_is_found_by_a_label_that_only_it_has() -> None:
    assert Names(small_dataset({"b": "Berlin", "c": "Bonn"})).entity("Bonn") == 2


def test_a_name_wins_over_a_label() -> None:
    assert Names(small_dataset({"b": "a"})).entity("a") == 0


def test_a_label_of_several_entities_names_them() -> None:
    with pytest.raises(AmbiguousName, match=r"the label 'Berlin' belongs to 2 entities: give one of their names, 'b', 'c'$"):
        Names(small_dataset({"b": "Berlin", "c": "Berlin"})).entity("Berlin")


def test_an_unknown_name_is_answered_with_close_names_and_labels() -> None:
    with pytest.raises(UnknownName, match=r"unknown entity 'Berln': did you mean 'Berlin'\?"):
        Names(small_dataset({"b": "Berlin"})).entity("Berln")


def test_relations_and_their_inverses_have_directed_numbers() -> None:
    names = Names(small_dataset())
    assert (names.relation("s"), names.relation("^s"), names.path("r/^s")) == (1, 3, (0, 3))
    assert names.path_text((0, 3)) == "r/^s"


@pytest.mark.parametrize("name", [3, None, b"a", ("a",)])
def test_names_that_are_not_text_are_refused_in_one_line(name: object) -> None:
    names = Names(small_dataset())
    for look, what in ((names.entity, "an entity"), (names.relation, "a relation"), (names.path, "a path")):
        with pytest.raises(SettingError, match=rf"^{what} is given as text; got .* \({type(name).__name__}\)$"):
            look(name)  # type: ignore[arg-type]


def test_a_path_is_no_relation() -> None:
    with pytest.raises(PathSyntaxError):
        Names(small_dataset()).relation("r/s")
