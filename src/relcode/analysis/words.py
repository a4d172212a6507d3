"""The words of relations' names, and those that tell what a group of directed relations has in common.

A directed relation leads from something to something, and its name mostly says from what to what: country_official_language leads from a country
to a language, its inverse the other way. So a word has up to three forms: ``country`` wherever it stands, ``country→`` where the relation leads
from it (the word stands in the first half of the name, or in the second half of an inverse's), ``→country`` where it leads to it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

STOP_WORDS = frozenset("a an and are as at be by for from has have in into is its of on or per s that the their this to was were which with".split())  # noqa: SIM905
WORD = re.compile(r"[^\W\d_]+|\d+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
ARROW = "→"
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|^[A-Za-z_][\w-]*:(?!/)")  # of a name that is one, only the last part says what it means
FAINT = 0.2  # a word that tells less than this part of what the first tells is left out
LEAST_PART = 0.15  # of the shares on a dimension: a word that stands for less of it is no name for it


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, each once: split at signs and in camelCase, without stop-words and single letters."""
    words = (word.casefold() for part in WORD.findall(name) for word in CAMEL.split(part))
    return tuple(dict.fromkeys(word for word in words if len(word) > 1 and word not in STOP_WORDS))


def word_forms(name: str, inverse: bool) -> tuple[str, ...]:
    """Return all forms of the words of a relation's name, read in its direction; the word in the middle has no direction."""
    words = words_of(name)
    forms = list(words)
    for place, word in enumerate(words):
        side = 2 * place - (len(words) - 1)
        if side:
            forms.append(f"{word}{ARROW}" if (side < 0) != inverse else f"{ARROW}{word}")
    return tuple(forms)


def relation_forms(short: str, full: str, inverse: bool) -> tuple[str, ...]:
    """Return the forms of a relation's short name, and the words of its full name beside them, which say the field: music of /music/…/role."""
    forms = word_forms(short, inverse)
    return forms if ADDRESS.match(full) else tuple(dict.fromkeys((*forms, *words_of(full))))


def telling_words(
    share_X: Sequence[float], forms_X: Sequence[tuple[str, ...]], relation_X: Sequence[int], part: Mapping[str, float], most: int
) -> list[str]:
    """Return the forms that tell what directed relations have in common, the most telling first.

    With p(w) the part of the shares that lies on relations with the form w, and q(w) the ``part`` of all relations that have it, the next word is
    the form with the largest p ln(p/q): frequent here and rare elsewhere. The relations it stands for then weigh half, so that the word after it
    tells of others rather than the same again. A form counts from two of ``relation_X`` and 15 % of the shares on: no mixed dimension is named
    after a few of its relations; of a word one form is taken; words that tell less than a fifth of what the first tells are left out.
    """
    weight_X, total = list(share_X), math.fsum(share_X)
    holders: dict[str, set[int]] = defaultdict(set)
    held: dict[str, float] = defaultdict(float)
    for forms, relation, share in zip(forms_X, relation_X, share_X, strict=True):
        for form in forms:
            holders[form].add(relation)
            held[form] += share
    left = {form for form, some in holders.items() if len(some) > 1 and held[form] >= LEAST_PART * total}
    found: list[str] = []
    floor = 0.0
    while left and len(found) < most:
        mass: dict[str, float] = defaultdict(float)
        for forms, weight in zip(forms_X, weight_X, strict=True):
            for form in left.intersection(forms):
                mass[form] += weight / total
        telling = {form: p * math.log(p / part[form]) for form, p in mass.items()}
        best = min(telling, key=lambda form: (-telling[form], form))
        if telling[best] <= floor:
            break
        floor = floor or FAINT * telling[best]
        found.append(best)
        left -= {f"{ARROW}{bare(best)}", bare(best), f"{bare(best)}{ARROW}"}
        weight_X = [weight / 2 if best in forms else weight for forms, weight in zip(forms_X, weight_X, strict=True)]
    return found


def bare(form: str) -> str:
    """Return the word of a form, without its arrow."""
    return form.strip(ARROW)
