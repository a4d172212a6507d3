"""Names and their numbers: a vocabulary of entities or of relations."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from relcode.errors import DataError, UnknownName

# Comparing a misspelt name with every name takes seconds from here on; a cheaper look at shared letters goes first.
FEW_NAMES = 2000
CLOSEST_KEPT = 200
MANY_AT_ONCE = 1000  # names looked up together from which on a table of all names is worth making


class Vocab:
    """An ordered set of names: ``vocab[i]`` is name number i, ``vocab.index(name)`` its number.

    Names are kept exactly as given (no trimming, no case folding). A vocabulary never changes once it is made.
    """

    def __init__(self, names: Sequence[str], kind: str = "entity") -> None:
        """Number ``names`` from 0 in the order given; ``kind`` ("entity" or "relation") is for messages."""
        self.kind = kind
        self._names = tuple(names)
        self._index = {name: number for number, name in enumerate(self._names)}
        if len(self._index) != len(self._names):
            name, count = Counter(self._names).most_common(1)[0]
            raise DataError(f"{kind} {name!r} is listed {count} times: names must be distinct")

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order of their numbers."""
        return self._names

    def find(self, name: str) -> int | None:
        """Return the number of ``name``, or None where it is not known."""
        return self._index.get(name)

    def index(self, name: str) -> int:
        """Return the number of ``name``; raise ``UnknownName`` with close names where there is none."""
        number = self.find(name)
        if number is None:
            raise UnknownName(self.kind, name, self.close_names(name))
        return number

    def indices(self, names: Iterable[str]) -> Tensor:
        """Return the numbers of many names as int64 [B]; the first unknown one raises ``UnknownName``."""
        return torch.tensor([self.index(name) for name in names], dtype=torch.int64)

    def close_names(self, name: str) -> Sequence[str]:
        """Return the names worth comparing with a misspelt one: all if few, else those that share most letter pairs with it."""
        if len(self) <= FEW_NAMES:
            return self.names
        wanted = _letter_pairs(name)
        scored = ((_overlap(wanted, _letter_pairs(known)), known) for known in self._worth_a_look(wanted))
        best = sorted((pair for pair in scored if pair[0] > 0), reverse=True)[:CLOSEST_KEPT]
        return [known for _, known in best]

    def _worth_a_look(self, pairs: set[str]) -> Iterable[str]:
        """Return the names that may share letter pairs with one."""
        return self

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._names)

    def __getitem__(self, number: int) -> str:
        """Return name ``number``, 0 ≤ number < len; negative numbers are refused, as they are always a mistake here."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self.kind} number {number} is outside 0..{len(self) - 1}")
        return self._name(number)

    def _name(self, number: int) -> str:
        """Return the name of a number that is known to be in range."""
        return self._names[number]

    def __contains__(self, name: object) -> bool:
        """Tell whether ``name`` is known."""
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Go through the names in order of their numbers."""
        return iter(self._names)

    def __eq__(self, other: object) -> bool:
        """Two vocabularies are equal when their names and order are."""
        return isinstance(other, Vocab) and (self is other or (len(self) == len(other) and all(map(str.__eq__, self, other))))

    def __hash__(self) -> int:
        """Hash the names, in line with equality."""
        return hash(self.names)

    def __repr__(self) -> str:
        """Show kind, size and the first names."""
        first = ", ".join(repr(self._name(number)) for number in range(min(3, len(self))))
        return f"Vocab({len(self)} of kind {self.kind}: {first}{', …' if len(self) > 3 else ''})"


class SortedVocab(Vocab):
    """A vocabulary whose names lie sorted in Arrow memory, which may be a file's: nothing is made of them until they are asked for.

    Looking a name up is a binary search: 20 names are read for a million. Names sort by code point, which is the order of their UTF-8 bytes too.
    """

    def __init__(self, names: pa.StringArray | pa.LargeStringArray, kind: str = "entity") -> None:
        """Take the names, which must be sorted and distinct: this is checked, as a search would go astray otherwise."""
        self.kind = kind
        self.array = names
        if names.null_count or not pc.all(pc.less(names[:-1], names[1:]), min_count=0).as_py():
            raise DataError(f"the names of kind {kind} are not sorted and distinct")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names, in order of their numbers; made when first asked for."""
        return tuple(self.array.to_pylist())

    def find(self, name: str) -> int | None:
        """Return the number of ``name``, or None where it is not known."""
        number = bisect_left(self, name)
        return number if number < len(self) and self._name(number) == name else None

    def indices(self, names: Iterable[str]) -> Tensor:
        """Return the numbers of many names as int64 [B]; the first unknown one raises ``UnknownName``."""
        wanted = list(names)
        if len(wanted) < MANY_AT_ONCE:
            return super().indices(wanted)
        try:
            number_B = pc.index_in(pa.array(wanted, self.array.type), value_set=self.array)
        except UnicodeEncodeError:  # half a surrogate pair, which is in no name
            return super().indices(wanted)
        if number_B.null_count:
            return super().indices(wanted)  # which says what is unknown
        return torch.from_numpy(number_B.to_numpy().astype(np.int64))

    def _worth_a_look(self, pairs: set[str]) -> Iterable[str]:
        """Return the names with most of the letter pairs, counted for all names at once."""
        folded = pc.utf8_lower(self.array)
        count_N = np.zeros(len(self), dtype=np.int16)
        for pair in sorted(pair for pair in pairs if pair.isprintable()):  # half a surrogate pair, say, is in no name
            count_N += pc.match_substring(folded, pair).to_numpy(zero_copy_only=False)
        best = np.argsort(-count_N, kind="stable")[: 10 * CLOSEST_KEPT]
        return [self._name(int(number)) for number in best if count_N[number]]

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self.array)

    def _name(self, number: int) -> str:
        return str(self.array[number].as_py())

    def __iter__(self) -> Iterator[str]:
        """Go through the names in order of their numbers, some thousands at a time."""
        for start in range(0, len(self), 1 << 14):
            yield from self.array[start : start + (1 << 14)].to_pylist()


def _letter_pairs(name: str) -> set[str]:
    """Return the set of neighbouring letter pairs of a name, case ignored."""
    folded = name.casefold()
    return {folded[i : i + 2] for i in range(len(folded) - 1)} or {folded}


def _overlap(left: set[str], right: set[str]) -> float:
    """Return the Dice overlap 2|A∩B| / (|A|+|B|) of two sets of letter pairs."""
    return 2 * len(left & right) / (len(left) + len(right))
