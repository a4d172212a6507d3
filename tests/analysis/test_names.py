from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relcode.analysis.names import directed_names, fit, ladder, short_directed_names, shorten
from relcode.graph.vocab import Vocab

CREW = "/film/film/other_crew./film/film_crew_gig/film_crew_role"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("/film/film/country", "film/country"),
        (CREW, "film/other_crew.film_crew_role"),
        ("http://www.wikidata.org/prop/direct/P31", "P31"),
        ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "type"),
        ("concept:athleteplaysforteam", "athleteplaysforteam"),
        ("city_country", "city_country"),
        ("_hypernym", "_hypernym"),
        ("a/b", "a/b"),
        ("/", "/"),
        ("./", "./"),
        ("", ""),
    ],
)
def test_one_name_alone(name: str, short: str) -> None:
    assert shorten([name]) == (short,)


def test_names_that_would_coincide_grow_together() -> None:
    names = ["/film/film/country", "/tv/film/country", "/film/film/language"]
    assert shorten(names) == ("/film/film/country", "/tv/film/country", "film/language")


def test_two_steps_that_differ_only_in_the_middle_stay_apart() -> None:
    other = "/film/film/other_crew./film/guest_gig/film_crew_role"
    assert shorten([CREW, other]) == ("film/other_crew.film_crew_gig/film_crew_role", "film/other_crew.guest_gig/film_crew_role")


def test_a_short_form_is_never_the_whole_name_of_another() -> None:
    assert shorten(["film/country", "/film/film/country"]) == ("film/country", "/film/film/country")
    # Even where the other is itself shortened and no longer shows that name.
    assert shorten(["x:a", "y/x:a", "a"]) == ("x:a", "y/x:a", "a")


def test_repeated_names_are_refused() -> None:
    with pytest.raises(ValueError, match="distinct"):
        shorten(["a", "a"])


pieces = st.text(alphabet="ab/.:#^_<>", max_size=9)


@given(st.lists(pieces, unique=True, max_size=12), st.randoms(use_true_random=False))
def test_short_names_are_never_ambiguous_and_do_not_depend_on_order(names: list[str], shuffle: random.Random) -> None:
    short = shorten(names)
    assert len(set(short)) == len(names)
    for name, form in zip(names, short, strict=True):
        assert form == name or form not in names
        assert len(form) <= len(name)
    mixed = list(names)
    shuffle.shuffle(mixed)
    assert dict(zip(mixed, shorten(mixed), strict=True)) == dict(zip(names, short, strict=True))


@given(pieces)
def test_a_ladder_ends_at_the_whole_name(name: str) -> None:
    assert ladder(name)[-1] == name
    assert len(set(ladder(name))) == len(ladder(name))


@given(st.lists(st.text(alphabet="ab/.^<>", min_size=1, max_size=6), unique=True, min_size=1, max_size=8))
def test_directed_names_are_never_ambiguous(names: list[str]) -> None:
    relations = Vocab(names, "relation")
    assert len(set(short_directed_names(relations))) == 2 * len(names)
    assert len(set(directed_names(relations))) == 2 * len(names)


def test_an_inverse_is_marked() -> None:
    relations = Vocab(["/film/film/country", "born"], "relation")
    assert short_directed_names(relations) == ("film/country", "born", "^film/country", "^born")
    assert directed_names(relations) == ("/film/film/country", "born", "^/film/film/country", "^born")


def test_a_name_like_an_inverse_is_written_so_that_it_cannot_be_mistaken() -> None:
    names = short_directed_names(Vocab(["a", "^a"], "relation"))
    assert len(set(names)) == 4


def test_benchmark_names_become_short_and_stay_apart(benchmark) -> None:
    from relcode.graph.dataset import load_dataset

    names = load_dataset(benchmark("fb15k-237")).relations.names
    short = shorten(names)
    assert len(set(short)) == len(names) == 237
    assert sum(map(len, short)) < 0.65 * sum(map(len, names))


@pytest.mark.parametrize(("width", "text"), [(20, "abcdefghij"), (10, "abcdefghij"), (7, "ab…ghij"), (2, "a…"), (1, "…"), (0, "")])
def test_fit(width: int, text: str) -> None:
    assert fit("abcdefghij", width) == text
    assert len(fit("abcdefghij", width)) <= max(width, 0)
