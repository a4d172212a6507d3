"""Names and their numbers: a vocabulary of entities or of relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from relcode.errors import DataError, UnknownName

# Comparing a misspelt name with every name takes seconds from here on; a cheaper look at shared letters goes first.
FEW_NAMES = 2000
CLOSEST_KEPT = 200


class Vocab:
    """An ordered set of names: ``vocab[i]`` is name number i, ``vocab.index(name)`` its number.

    Names are kept exactly as given (no trimming, no case folding). A vocabulary never changes once it is made.
    """

    __slots__ = ("_index", "_names", "kind")

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

    def index(self, name: str) -> int:
        """Return the number of ``name``; raise ``UnknownName`` with close names where there is none."""
        number = self._index.get(name)
        if number is None:
            raise UnknownName(self.kind, name, self.close_names(name))
        return number

    def indices(self, names: Iterable[str]) -> Tensor:
        """Return the numbers of many names as int64 [B]; the first unknown one raises ``UnknownName``."""
        return torch.tensor([self.index(name) for name in names], dtype=torch.int64)

    def close_names(self, name: str) -> Sequence[str]:
        """Return the names worth comparing with a misspelt one: all if few, else those that share most letter pairs with it."""
        if len(self._names) <= FEW_NAMES:
            return self._names
        wanted = _letter_pairs(name)
        scored = ((_overlap(wanted, _letter_pairs(known)), known) for known in self._names)
        best = sorted((pair for pair in scored if pair[0] > 0), reverse=True)[:CLOSEST_KEPT]
        return [known for _, known in best]

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._names)

    def __getitem__(self, number: int) -> str:
        """Return name ``number``, 0 ≤ number < len; negative numbers are refused, as they are always a mistake here."""
        if not 0 <= number < len(self._names):
            raise IndexError(f"{self.kind} number {number} is outside 0..{len(self._names) - 1}")
        return self._names[number]

    def __contains__(self, name: object) -> bool:
        """Tell whether ``name`` is known."""
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        """Go through the names in order of their numbers."""
        return iter(self._names)

    def __eq__(self, other: object) -> bool:
        """Two vocabularies are equal when their names and order are."""
        return isinstance(other, Vocab) and self._names == other._names

    def __hash__(self) -> int:
        """Hash the names, in line with equality."""
        return hash(self._names)

    def __repr__(self) -> str:
        """Show kind, size and the first names."""
        first = ", ".join(repr(name) for name in self._names[:3])
        return f"Vocab({len(self._names)} of kind {self.kind}: {first}{', …' if len(self._names) > 3 else ''})"


def _letter_pairs(name: str) -> set[str]:
    """Return the set of neighbouring letter pairs of a name, case ignored."""
    folded = name.casefold()
    return {folded[i : i + 2] for i in range(len(folded) - 1)} or {folded}


def _overlap(left: set[str], right: set[str]) -> float:
    """Return the Dice overlap 2|A∩B| / (|A|+|B|) of two sets of letter pairs."""
    return 2 * len(left & right) / (len(left) + len(right))
