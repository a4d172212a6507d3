from __future__ import annotations

import pytest

from relcode.errors import DataError, UnknownName
from relcode.graph.vocab import FEW_NAMES, Vocab


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
