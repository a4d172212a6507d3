from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relcode.errors import PathSyntaxError, RelcodeError, UnknownName
from relcode.graph.paths import format_path, invert_path, parse_path, relation_id
from relcode.graph.vocab import Vocab

RELATIONS = Vocab(["capital", "has part", "/film/film/country", "a/b", "a", "b", "<isIn>", "x>y", "c\\d", "p(q)", "^a", "🙂"], "relation")
R = len(RELATIONS)


def number(name: str) -> int:
    return RELATIONS.index(name)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("capital", ["capital"]),
        ("^capital", ["-capital"]),
        (" ^ capital ", ["-capital"]),
        ("capital/^b/🙂", ["capital", "-b", "🙂"]),
        (" capital / ^has part ", ["capital", "-has part"]),
        ("/film/film/country", ["/film/film/country"]),
        ("^/film/film/country", ["-/film/film/country"]),
        ("</film/film/country>", ["/film/film/country"]),
        ("capital/^</film/film/country> / <a>", ["capital", "-/film/film/country", "a"]),
        ("a/b", ["a/b"]),
        ("<a>/b", ["a", "b"]),
        ("a/b/a", ["a", "b", "a"]),
        ("^a", ["^a"]),
        ("^<a>", ["-a"]),
        ("^<^a>", ["-^a"]),
        ("<isIn>", ["<isIn>"]),
        ("<isIn>/^<isIn>", ["<isIn>", "-<isIn>"]),
        (r"<x\>y>/<c\\d>/c\d/x>y", ["x>y", "c\\d", "c\\d", "x>y"]),
        ("p(q)/a", ["p(q)", "a"]),
    ],
)
def test_paths_by_hand(text: str, steps: list[str]) -> None:
    expected = tuple(number(step[1:]) + R if step.startswith("-") else number(step) for step in steps)
    assert parse_path(text, RELATIONS) == expected


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 4),
        ("capital/", 9),
        ("capital//b", 9),
        ("/capital", 1),
        ("^", 2),
        ("capital/^", 10),
        ("^^capital", 2),
        ("capital/^ ^b", 11),
        ("<capital", 1),
        ("a/<b", 3),
        ("<a>b", 4),
        ("<a> <b>", 5),
        (r"<a\b>", 3),
        ("<a\\", 3),
        ("capital*", 8),
        ("capital/b?", 10),
        ("(capital)/b", 1),
        ("capital/!b", 9),
        ("capital|b", 8),
        ("b/(capital | b)+", 3),
    ],
)
def test_what_does_not_parse_is_refused_with_its_column(text: str, column: int) -> None:
    with pytest.raises(PathSyntaxError, match=rf"column {column}: ") as caught:
        parse_path(text, RELATIONS)
    assert "\n" not in str(caught.value)


def test_unknown_relations_come_with_close_names() -> None:
    with pytest.raises(UnknownName, match="did you mean 'capital'"):
        parse_path("a/^captial/b", RELATIONS)
    with pytest.raises(UnknownName, match="'/film/film/country'"):
        parse_path("</film/film/countri>", RELATIONS)
    with pytest.raises(PathSyntaxError, match=r"angle brackets.*did you mean '/film/film/country'"):
        parse_path("/film/film/countri", RELATIONS)


def test_one_relation() -> None:
    assert relation_id("^has part", RELATIONS) == number("has part") + R
    assert relation_id("a/b", RELATIONS) == number("a/b")
    with pytest.raises(PathSyntaxError, match="expected one relation, got the path 'capital/b' of 2 steps"):
        relation_id("capital/b", RELATIONS)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["capital", "-b"], "capital/^b"),
        (["-/film/film/country"], "^/film/film/country"),
        (["capital", "/film/film/country"], "capital/</film/film/country>"),
        (["a", "b"], "<a>/<b>"),
        (["-a"], "^<a>"),
        (["x>y", "c\\d", "p(q)"], "x>y/c\\d/p(q)"),
    ],
)
def test_brackets_are_written_only_where_needed(names: list[str], text: str) -> None:
    ids = [number(name[1:]) + R if name.startswith("-") else number(name) for name in names]
    assert format_path(ids, RELATIONS) == text
    assert parse_path(text, RELATIONS) == tuple(ids)


def test_what_cannot_be_written_is_refused() -> None:
    for ids in ([], [2 * R], [-1]):
        with pytest.raises(PathSyntaxError):
            format_path(ids, RELATIONS)
    with pytest.raises(PathSyntaxError):
        format_path([0], Vocab([], "relation"))


def test_walking_backwards() -> None:
    assert invert_path((0, 3 + R), R) == (3, 0 + R)
    assert invert_path(invert_path((1, 2, R), R), R) == (1, 2, R)


NASTY = st.text(alphabet=st.one_of(st.sampled_from("ab/^<>\\\"' \u2003🙂*|"), st.characters(exclude_categories=["Cs"])), min_size=1, max_size=7)


@st.composite
def vocabularies_and_paths(draw: st.DrawFn) -> tuple[Vocab, list[int]]:
    # Short names over few letters, so that names are often joined or bracketed forms of each other.
    names = draw(st.lists(NASTY, min_size=1, max_size=8, unique=True))
    glue = draw(st.sampled_from(["/", "/^", ">/<", "^"]))
    names = list(dict.fromkeys([*names, glue.join(names[:2]), f"<{names[0]}>", f"^{names[0]}", f"<{names[0]}>/<{names[-1]}>"]))
    return Vocab(names, "relation"), draw(st.lists(st.integers(0, 2 * len(names) - 1), min_size=1, max_size=4))


@given(vocabularies_and_paths())
def test_what_is_written_is_read_whatever_the_names(case: tuple[Vocab, list[int]]) -> None:
    relations, ids = case
    assert parse_path(format_path(ids, relations), relations) == tuple(ids)


@given(st.text(alphabet="ab/^<>\\ *", max_size=12))
def test_any_text_gives_a_path_or_one_clear_line(text: str) -> None:
    try:
        ids = parse_path(text, RELATIONS)
    except RelcodeError as error:
        assert "\n" not in str(error)
    else:
        assert ids and all(0 <= step < 2 * R for step in ids)


def test_a_misspelt_name_that_begins_with_a_slash_is_unknown_and_no_path() -> None:
    relations = Vocab(["/film/film/country", "/film/film/language"], "relation")
    for text in ("/film/film/contry", "^/film/film/contry"):
        with pytest.raises(UnknownName, match=r"unknown relation '/film/film/contry': did you mean '/film/film/country'"):
            relation_id(text, relations)
    assert relation_id("^/film/film/country", relations) == 2
