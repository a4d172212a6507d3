"""Finding names while they are typed: by beginning, by word, by any part, in names and labels alike.

All names lie in one long folded text, so that a search is a search of Python's own in one string, not a loop over names.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence

END = "\0"  # stands between names; no file of facts can hold it
MOST_LOOKED_AT = 5_000  # hits of one kind that are put in order; a letter that half a million names hold is no search yet
EXACT, BEGINNING, WORD, PART = range(4)


def fold(text: str) -> str:
    """Return a text as it is compared: without case and accents, so that ``zurich`` finds ``Zürich``."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


class NameIndex:
    """Names, each perhaps with a label, that can be searched; ``counts`` puts the more frequent first among equals."""

    def __init__(self, names: Sequence[str], labels: Sequence[str], counts: Sequence[int]) -> None:
        """Fold all names and labels into one text."""
        self.counts = counts
        self.names = names
        pieces: list[str] = []
        self._number: list[int] = []  # whose piece it is
        for number, (name, label) in enumerate(zip(names, labels, strict=True)):
            for text in (name, label) if label != name else (name,):
                pieces.append(fold(text).replace(END, ""))
                self._number.append(number)
        self._start = [0]
        for piece in pieces:
            self._start.append(self._start[-1] + len(piece) + 1)
        self._text = END + "".join(piece + END for piece in pieces)
        self._frequent: list[int] | None = None

    def search(self, text: str, top: int) -> list[int]:
        """Return the numbers of the names found: equal ones first, then those that begin so, hold a word that does, or hold it anywhere."""
        needle = fold(text.strip()).replace(END, "")
        if not needle:
            return self._most_frequent()[:top]
        best: dict[int, int] = {}
        for kind, number in self._hits(needle):
            best[number] = min(kind, best.get(number, kind))
        order = sorted(best, key=lambda number: (best[number], -self.counts[number], self.names[number]))
        return order[:top]

    def _hits(self, needle: str) -> Iterator[tuple[int, int]]:
        """Go through the hits, a kind and a number each; beginnings are looked for first, so that a bound on hits never loses them."""
        for place in self._places(END + needle):
            ends = self._text.startswith(END, place + 1 + len(needle))
            yield (EXACT if ends else BEGINNING), self._holder(place)
        for place in self._places(needle):
            yield (PART if self._text[place - 1].isalnum() else WORD), self._holder(place - 1)

    def _places(self, needle: str) -> Iterator[int]:
        """Go through the places where a text occurs."""
        place = self._text.find(needle)
        for _ in range(MOST_LOOKED_AT):
            if place < 0:
                return
            yield place
            place = self._text.find(needle, place + 1)

    def _holder(self, place: int) -> int:
        """Return the number of the name that holds a place of the text."""
        return self._number[bisect_right(self._start, place) - 1]

    def _most_frequent(self) -> list[int]:
        """Return all names, the most frequent first."""
        if self._frequent is None:
            self._frequent = sorted(range(len(self.names)), key=lambda number: (-self.counts[number], self.names[number]))
        return self._frequent
