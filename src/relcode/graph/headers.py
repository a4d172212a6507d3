"""Whether the first row of a table of facts names its columns: told by its words, or suspected where its names never come again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

ROLES = ("head", "relation", "tail")
# Words that name columns of facts elsewhere; the first that occurs is taken.
WORDS = {
    "head": ("head", "subject", "subj", "source", "src", "from", "start", "start_id", "head_id", "subject_id", "source_id", "node1", "entity1"),
    "relation": ("relation", "predicate", "pred", "rel", "property", "edge", "edge_type", "relation_type", "rel_type", "type", "label"),
    "tail": ("tail", "object", "obj", "target", "dst", "destination", "to", "end", "end_id", "tail_id", "object_id", "target_id", "node2", "entity2"),
}
LETTERS = (["h", "r", "t"], ["s", "p", "o"])
BETWEEN = ("relation", "predicate")  # between two columns of any name, these name the columns too: hardly a fact has such a relation
FEWEST_ROWS = 3  # with fewer, names that never come again say nothing


def roles_in(fields: Sequence[str]) -> dict[str, int]:
    """Return the roles that the words of a first row name; where two of three columns are named the third has the role left over."""
    words = [field.strip().lower().lstrip(":").replace(" ", "_") for field in fields]
    if words in LETTERS:
        return dict(zip(ROLES, range(3), strict=True))
    found: dict[str, int] = {}
    for role in ROLES:
        number = next((words.index(word) for word in WORDS[role] if word in words), None)
        if number is not None:
            found[role] = number
    if len(fields) == 3 and len(found) == 2 and len(set(found.values())) == 2:
        (left,) = {0, 1, 2} - set(found.values())
        found[next(role for role in ROLES if role not in found)] = left
    if len(set(found.values())) == 3:
        return found
    return dict(zip(ROLES, range(3), strict=True)) if len(words) == 3 and words[1] in BETWEEN else {}


def come_again(names: Sequence[str], columns: Sequence[Any]) -> bool:
    """Tell whether one of three names occurs in its column (Arrow arrays of text, perhaps dictionary-encoded)."""
    in_order = sorted(zip(names, columns, strict=True), key=lambda pair: pair[0] != names[1])  # the relation first: it nearly always does
    return any(pc.any(pc.equal(column, name), min_count=0).as_py() for name, column in in_order)


def again_below(names: Sequence[str], how: str) -> str:
    """Say that a first row taken for the names of columns may be a fact; ``how`` says what to do then."""
    return f"the first row ({', '.join(names)}) is taken for the names of the columns, but a name comes again in its column; if it is a fact, {how}"


def never_again(names: Sequence[str], how: str) -> str:
    """Say that the first row may be no fact; ``how`` says what to do then."""
    return f"the first row ({', '.join(names)}) is read as a fact, but none of its names comes again in its column; if they name the columns, {how}"
