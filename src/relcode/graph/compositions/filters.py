"""Named filters: which of the compositions found are dropped because they say little.

Counts in the comments are those of FB15k-237's training split at 50 pairs and Jaccard similarity 0.4. What ``mine`` never returns is r2 = r1⁻¹.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from relcode.errors import SettingError, suggestion
from relcode.graph.compositions.mining import Composition
from relcode.graph.compositions.pairs import PairIndex


@dataclass(frozen=True, slots=True)
class Filter:
    """A named filter: what it drops in words, and which of the three tests it applies."""

    name: str
    drops: str
    same: bool = False
    inverse: bool = False
    self_relations: bool = False


FILTERS = {
    one.name: one
    for one in (
        Filter("all", "nothing beyond r2 = r1⁻¹, which is never mined"),  # 520
        Filter("not-same", "r3 equal to r1 or r2", same=True),  # 226
        Filter("not-inverse", "r3 equal to r1 or r2 or to the inverse of either", same=True, inverse=True),  # 194
        Filter(
            "paper",
            "r3 equal to r1 or r2 or to the inverse of either, and every composition with a relation that only joins entities with themselves",
            same=True,
            inverse=True,
            self_relations=True,
        ),  # 154, the number of constraints the paper evaluates
    )
}


def find_filter(name: str) -> Filter:
    """Return the filter called ``name``."""
    if name not in FILTERS:
        raise SettingError(f"unknown filter {name!r}{suggestion(name, FILTERS)}")
    return FILTERS[name]


def keep(compositions: Iterable[Composition], name: str, index: PairIndex) -> list[Composition]:
    """Return the compositions that the filter called ``name`` does not drop, in the order given."""
    chosen = find_filter(name)
    alone = self_relations(index) if chosen.self_relations else frozenset()
    return [composition for composition in compositions if not _dropped(composition, chosen, alone, index)]


def self_relations(index: PairIndex) -> frozenset[int]:
    """Return the directed relations all of whose pairs are (e, e); one without pairs is not among them."""
    is_loop_N = (index.head_N == index.tail_N).astype(np.int64)
    loops_S = np.diff(np.concatenate([[0], np.cumsum(is_loop_N)])[index.start_S1])
    return frozenset(np.flatnonzero((loops_S == index.size_S) & (index.size_S > 0)).tolist())


def _dropped(composition: Composition, chosen: Filter, alone: frozenset[int], index: PairIndex) -> bool:
    """Tell whether a composition fails one of the tests that the filter applies."""
    body = {composition.r1, composition.r2}
    return (
        (chosen.same and composition.r3 in body)
        or (chosen.inverse and index.inverse(composition.r3) in body)
        or (chosen.self_relations and not alone.isdisjoint({*body, composition.r3}))
    )
