from __future__ import annotations

import math

import pytest

from relcode.analysis.words import relation_forms, telling_words, word_forms, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/film/film/country", ("film", "country")),
        ("^country_of_film", ("country", "film")),
        ("placeOfBirth", ("place", "birth")),
        ("hasHTTPServer2", ("http", "server")),
        ("/a/b_c./film/release_region", ("film", "release", "region")),
        ("straßen_länge", ("strassen", "länge")),
        ("", ()),
    ],
)
def test_words(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("name", "inverse", "forms"),
    [
        ("country_official_language", False, {"country", "official", "language", "country→", "→language"}),
        ("country_official_language", True, {"country", "official", "language", "→country", "language→"}),
        ("film/edited_by", True, {"film", "edited", "→film", "edited→"}),
        ("hypernym", False, {"hypernym"}),  # a single word stands at neither end
        ("P31", True, {"31"}),
        ("", False, set()),
    ],
)
def test_forms_are_read_in_the_direction_of_the_relation(name: str, inverse: bool, forms: set[str]) -> None:
    assert set(word_forms(name, inverse)) == forms


def test_telling_words_by_hand() -> None:
    """p ln(p/q): film→ 3/4·ln(6) = 1.34; then its relations weigh half, and of the two that hold budget p is 1/4, of the two with song 1/2."""
    forms = [("film→", "budget"), ("film→", "budget"), ("film→", "song"), ("song",)]
    part = {"film→": 1 / 8, "budget": 1 / 16, "song": 1 / 16}
    scores = {"song": 3 / 8 * math.log(6), "budget": 1 / 4 * math.log(4)}
    assert scores["song"] > scores["budget"] > 0.2 * 0.75 * math.log(6)
    assert telling_words([1, 1, 1, 1], forms, [0, 1, 2, 3], part, 5) == ["film→", "song", "budget"]
    assert telling_words([1, 1, 1, 1], forms, [0, 1, 2, 3], part, 1) == ["film→"]
    assert telling_words([1, 1, 1, 1], forms, [0, 0, 0, 3], part, 5) == ["song"]  # a relation and its inverse are one


def test_a_word_is_taken_in_the_form_that_tells_most() -> None:
    one_way, both_ways = [("film", "film→")] * 2, [("film", "film→"), ("film", "→film")]
    part = {"film": 0.5, "film→": 0.25, "→film": 0.25}
    assert telling_words([1, 1], one_way, [0, 1], part, 5) == ["film→"]
    assert telling_words([1, 1], both_ways, [0, 1], part, 5) == ["film"]


def test_what_is_no_more_frequent_here_than_elsewhere_tells_nothing() -> None:
    assert telling_words([1, 1], [("x",), ("x",)], [0, 1], {"x": 1.0}, 5) == []
    assert telling_words([], [], [], {}, 5) == []


def test_a_word_that_tells_little_beside_the_first_is_left_out() -> None:
    forms = [("film",)] * 8 + [("car",)] * 2
    assert telling_words([1] * 10, forms, list(range(10)), {"film": 0.01, "car": 0.1}, 5) == ["film"]


def test_ties_go_by_the_alphabet() -> None:
    assert telling_words([1, 1], [("b", "a"), ("a", "b")], [0, 1], {"a": 0.1, "b": 0.1}, 1) == ["a"]


def test_a_word_that_stands_for_little_of_a_dimension_is_no_name_for_it() -> None:
    """Two of fourteen relations hold a rare word: a seventh of the shares names nothing, two of thirteen do."""
    rare, plain = [("rare",)] * 2, [(f"other{place}",) for place in range(12)]
    assert telling_words([1] * 14, rare + plain, list(range(14)), {"rare": 0.001} | {f"other{place}": 0.01 for place in range(12)}, 5) == []
    assert telling_words([1] * 13, rare + plain[:11], list(range(13)), {"rare": 0.001}, 5) == ["rare"]


def test_the_field_in_a_full_name_is_a_word_too() -> None:
    assert set(relation_forms("group/role", "/music/group/role", True)) == {"group", "role", "→group", "role→", "music"}
    assert relation_forms("birthPlace", "http://dbpedia.org/ontology/birthPlace", False) == word_forms("birthPlace", False)
    assert relation_forms("birth", "dbo:birth", False) == ("birth",)
