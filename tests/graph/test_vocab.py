from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relcode.errors import DataError, UnknownName
from relcode.graph.vocab import FEW_NAMES, SortedVocab, Vocab


def test_names_and_numbers_are_each_others_inverse() -> None:
    vocab = Vocab(["b", "a", "ç 🙂"], "relation")
    assert len(vocab) == 3
    assert [vocab.index(vocab[i]) for i in range(3)] == [0, 1, 2]
    assert vocab.names == ("b", "a", "ç 🙂") == tuple(vocab)
    assert vocab.indices(["a", "b", "a"]).tolist() == [1, 0, 1]
    assert "a" in vocab and "A" not in vocab and 0 not in vocab


def test_an_unknown_name_comes_with_close_ones() -> None:
    vocab = Vocab(["country_of_film", "actor", "genre"], "relation")
    with pytest.raises(UnknownName, match=r"unknown relation 'country_of_flim': did you mean 'country_of_film'\?"):
        vocab.index("country_of_flim")


def test_close_names_are_found_among_very_many() -> None:
    vocab = Vocab([f"town_{i}_{i * i}" for i in range(FEW_NAMES * 3)] + ["Ouagadougou"])
    with pytest.raises(UnknownName, match="did you mean 'Ouagadougou'"):
        vocab.index("ouagadugu")


def test_an_empty_or_one_letter_name_is_merely_unknown_among_very_many() -> None:
    vocab = Vocab([f"town_{i}" for i in range(FEW_NAMES + 1)])
    for name in ("", "x"):
        with pytest.raises(UnknownName):
            vocab.index(name)


@pytest.mark.parametrize("number", [-1, 2, 10**9])
def test_numbers_outside_are_refused(number: int) -> None:
    with pytest.raises(IndexError, match=r"outside 0\.\.1"):
        Vocab(["a", "b"])[number]


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(DataError, match="'b' is listed 2 times"):
        Vocab(["a", "b", "b"])


def test_equality_is_of_names_and_order() -> None:
    assert Vocab(["a", "b"]) == Vocab(["a", "b"])
    assert hash(Vocab(["a", "b"])) == hash(Vocab(["a", "b"]))
    assert Vocab(["a", "b"]) != Vocab(["b", "a"])
    assert Vocab(["a"]) != ["a"]


NAMES = st.text(st.characters(codec="utf-8"), max_size=4)


@given(st.sets(NAMES, max_size=30), NAMES)
def test_sorted_names_in_arrow_memory_are_the_same_vocabulary(names: set[str], other: str) -> None:
    plain, mapped = Vocab(sorted(names)), SortedVocab(pa.array(sorted(names), pa.large_utf8()))
    assert mapped == plain and plain == mapped and hash(mapped) == hash(plain) and mapped.names == plain.names and list(mapped) == list(plain)
    assert [mapped.index(name) for name in names] == [plain.index(name) for name in names]
    assert [mapped[i] for i in range(len(names))] == sorted(names) and len(mapped) == len(names)
    assert (other in mapped) == (other in names) and 0 not in mapped
    assert repr(mapped) == repr(plain)


def test_many_names_are_looked_up_at_once() -> None:
    names = sorted(f"town {i}" for i in range(5000))
    mapped = SortedVocab(pa.array(names, pa.large_utf8()))
    assert mapped.indices(names[::-1]).tolist() == list(range(4999, -1, -1))
    for unknown in ("nowhere", "\ud800"):
        with pytest.raises(UnknownName):
            mapped.indices([*names, unknown])
    with pytest.raises(UnknownName, match="did you mean 'town 4711'"):
        mapped.index("twon 4711")
    with pytest.raises(IndexError, match=r"outside 0\.\.4999"):
        mapped[5000]


@pytest.mark.parametrize("names", [["b", "a"], ["a", "a"], ["a", None]])
def test_names_that_are_not_sorted_and_distinct_are_refused(names: list[str | None]) -> None:
    with pytest.raises(DataError, match="not sorted and distinct"):
        SortedVocab(pa.array(names, pa.large_utf8()))


def test_where_no_name_is_close_the_nearest_are_told() -> None:
    vocab = Vocab([f"relation_{i}" for i in range(20)] + ["nopal"], "relation")
    with pytest.raises(UnknownName, match=r"unknown relation 'nope': did you mean 'nopal'"):
        vocab.index("nope")
    with pytest.raises(UnknownName, match=r"unknown relation 'quux_19': none is spelt like it; nearest come 'relation_19'"):
        vocab.index("quux_19")
    with pytest.raises(UnknownName, match=r"unknown relation 'x'$"):
        Vocab([], "relation").index("x")
