from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relcode.formats.prefixes import choose_prefixes, expand

PARTS = st.text("ab:/#_x.é%", max_size=6)
IRIS = st.builds(lambda scheme, rest: f"{scheme}:{rest}", st.sampled_from(["http", "urn", "ex", "ns1", "skos", "a"]), PARTS)
TERMS = st.one_of(IRIS, PARTS.map(lambda text: f"_:{text}"), PARTS.map(lambda text: f'"{text}"'))
DECLARED = st.dictionaries(st.text("abns1ex._", max_size=4), IRIS, max_size=4)


@given(st.lists(TERMS, max_size=20), st.lists(DECLARED, max_size=3))
def test_short_names_stand_for_one_thing_each(names: list[str], declared: list[dict[str, str]]) -> None:
    prefixes = choose_prefixes(names, declared)
    short = [prefixes.shorten(name) for name in names]
    assert [expand(name, prefixes.namespaces) for name in short] == names


def test_declared_then_known_then_numbered() -> None:
    skos, mine, other = "http://www.w3.org/2004/02/skos/core#", "http://mine.net/", "http://other.net/x/"
    names = [skos + "broader", mine + "a", mine + "b/c", other + "d", other + "e", "http://once.net/f", "urn:isbn:1"]
    prefixes = choose_prefixes(names, [{"m": mine}, {"m": other, "unused": "http://u/"}])
    assert [prefixes.shorten(name) for name in names] == ["skos:broader", "m:a", "m:b/c", "m2:d", "m2:e", "http://once.net/f", "urn:isbn:1"]
    assert prefixes.namespaces == {"skos": skos, "m": mine, "m2": other}


def test_a_prefix_is_never_the_scheme_of_an_iri_that_stays_whole() -> None:
    prefixes = choose_prefixes(["http://a/x", "http://a/y", "urn:z"], [{"urn": "http://a/"}])
    assert prefixes.shorten("http://a/x") == "urn2:x" and prefixes.shorten("urn:z") == "urn:z"
