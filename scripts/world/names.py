"""Give every thing one readable name: the plain one where nothing else bears it, a qualified one ("Valencia (Spain)") otherwise."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

# Who keeps the plain name when several kinds share it ("Georgia" is the country, "São Paulo" the city): earlier wins.
PRECEDENCE = ("country", "region", "city", "zone", "language", "currency", "unit", "airport", "subdivision")


@dataclass(frozen=True, slots=True)
class Thing:
    """Something facts are about: its kind, an identifier within that kind, and names from short to long, tried in that order."""

    kind: str
    id: str
    names: tuple[str, ...]


def plain(text: str) -> str:
    """Return the text without accents and case."""
    return "".join(c for c in unicodedata.normalize("NFKD", tidy(text)) if not unicodedata.combining(c)).casefold()


def fold(text: str) -> str:
    """Return the text without accents, case and punctuation, for finding the same name in two sources."""
    return " ".join("".join(c if c.isalnum() else " " for c in plain(text)).split())


def tidy(text: str) -> str:
    """Return the text on one line with single spaces, and the various apostrophes as plain ones."""
    for apostrophe in "\u2018\u2019\u02bb\u02bc":
        text = text.replace(apostrophe, "'")
    return " ".join(text.split())


def _rank(kind: str) -> int:
    return PRECEDENCE.index(kind) if kind in PRECEDENCE else len(PRECEDENCE)


def choose_names(things: Mapping[tuple[str, str], Thing]) -> dict[tuple[str, str], str]:
    """Return (kind, id) -> name, no two alike even when accents and case are ignored.

    Of the things that share a spelling, one that is alone in the kind of highest precedence keeps it;
    the others go on to their next longer name, until all differ.
    """
    level = dict.fromkeys(things, 0)
    while True:
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for key, thing in things.items():
            groups[plain(thing.names[level[key]])].append(key)
        clashes = [keys for keys in groups.values() if len(keys) > 1]
        if not clashes:
            return {key: tidy(thing.names[level[key]]) for key, thing in things.items()}
        for keys in clashes:
            best = min(_rank(kind) for kind, _ in keys)
            first = [key for key in keys if _rank(key[0]) == best]
            losers = [key for key in keys if not (len(first) == 1 and key == first[0])]
            for key in losers:
                if level[key] + 1 == len(things[key].names):
                    raise ValueError(f"no name is left for {things[key]}: it clashes with {keys}")
                level[key] += 1
