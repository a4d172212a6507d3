"""Short names for long ones, never ambiguous.

    /film/film/country                                                → film/country
    /film/film/other_crew./film/film_crew_gig/film_crew_role          → film/other_crew.film_crew_role
    http://www.wikidata.org/prop/direct/P31                           → P31

Every name has a ladder of forms, the shortest first and the whole name last. All start on the first rung; names whose forms coincide, or whose form
is another's whole name, climb together until none do. The last rungs are distinct, so this ends; and since a round looks at all names at once, the
result depends on the set of names and not on their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from relcode.graph.paths import format_path
from relcode.graph.vocab import Vocab

SEGMENT = re.compile(r"[^/#:]+")
TWO_STEPS = "./"  # Freebase joins two relations through an unnamed middle: /a/b/c./d/e/f


def ladder(name: str) -> tuple[str, ...]:
    """Return the forms of a name from the shortest to the whole: the last segments, more and more of them.

    Two segments at least where only slashes divide (``film/country``), one where a colon or # marks a namespace (``foaf:knows``, a web address).
    A name of two steps begins with the last two segments of its first step and the last one of its last.
    """
    steps = name.split(TWO_STEPS)
    forms: list[str] = []
    if len(steps) == 1 or not all(map(_segments, steps)):
        first = 1 if ":" in name or "#" in name else 2
        forms = [_last(name, count) for count in range(first, _segments(name))]
    else:
        most = max(_segments(step) for step in steps)
        forms = [f"{_last(steps[0], ahead)}.{_last(steps[-1], behind)}" for ahead, behind in [(2, 1), *((n, n) for n in range(2, most + 1))]]
    return (*dict.fromkeys(form for form in forms if form and len(form) < len(name)), name)


def shorten(names: Sequence[str]) -> tuple[str, ...]:
    """Return a short form of each of several distinct names: all distinct, and none of them the whole name of another."""
    if len(set(names)) != len(names):
        raise ValueError("names to shorten must be distinct")
    ladders = [ladder(name) for name in names]
    whole = set(names)
    rung = [0] * len(names)
    while True:
        forms = [steps[place] for steps, place in zip(ladders, rung, strict=True)]
        times = Counter(forms)
        taken = [times[form] > 1 or (form in whole and form != name) for form, name in zip(forms, names, strict=True)]
        climbing = [number for number, clash in enumerate(taken) if clash and rung[number] + 1 < len(ladders[number])]
        if not climbing:
            return tuple(forms)
        for number in climbing:
            rung[number] += 1


def directed_names(relations: Vocab) -> tuple[str, ...]:
    """Return all 2R directed relations as paths that can be typed: r, then ^r."""
    return tuple(format_path((number,), relations) for number in range(2 * len(relations)))


def short_directed_names(relations: Vocab) -> tuple[str, ...]:
    """Return short names of all 2R directed relations, ^ marking an inverse; the typed form of all where a name that begins with ^ would confuse."""
    short = shorten(relations.names)
    if any(name.startswith("^") for name in short):
        return directed_names(relations)
    return (*short, *(f"^{name}" for name in short))


def fit(name: str, width: int) -> str:
    """Return a name cut to a width, its middle replaced by …; what remains may be ambiguous, so only where there is no room."""
    if len(name) <= width:
        return name
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) * 2 // 3  # the end of a name tells more than its beginning
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def _segments(text: str) -> int:
    """Return how many segments a text has."""
    return len(SEGMENT.findall(text))


def _last(text: str, count: int) -> str:
    """Return the text from its count-th segment from the end on, with the separators between as they are; all of it where it has fewer."""
    places = [match.start() for match in SEGMENT.finditer(text)]
    return text[places[max(0, len(places) - count)] :] if places else text
