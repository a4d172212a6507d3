"""Exact mining of compositions r1/r2 ≈ r3: which two relations, walked one after the other, join nearly the pairs that a third one joins.

A composition counts if |C(r1/r2) ∩ C(r3)| ≥ ``min_pairs`` and their Jaccard similarity is at least ``min_jaccard``, over all directed relations with
r2 ≠ r1⁻¹ ("Interpretable and Compositional Relation Learning by Joint Training with an Autoencoder", ACL 2018, section 5: 50 and 0.4).

Few of the S³ triples need their pairs looked at. With a = |C(r1/r2)|, b = |C(r3)| and s shared pairs, a Jaccard similarity s/(a+b−s) ≥ J needs
s ≥ J·a and s ≥ J·b, so with need(r3) = max(min_pairs, J·b)

1. at least need(r3) pairs of r3 begin at a head of r1, and as many end at a tail of r2;
2. the join of r1 and r2, before equal pairs are counted once, has at least need(r3) rows;
3. a ≤ b/J, and a has a cheap lower bound (``Steps.at_least``).

What remains is joined and counted. The bounds only save work: no composition is lost by them. r1/r2 ≈ r3 and its mirror r2⁻¹/r1⁻¹ ≈ r3⁻¹ have the
same counts, so one of the two is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from relcode.errors import SettingError
from relcode.graph.compositions.pairs import BLOCK_ROWS, Ints, PairIndex, contained, expand, grounded_blocks, path_blocks, steps

MIN_PAIRS = 50
MIN_JACCARD = 0.4
# The bounds compare products of floating point with counts: this much slack keeps rounding from dropping a composition on the threshold.
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Composition:
    """r1/r2 ≈ r3, first r1, then r2, by directed relation numbers.

    ``shared`` = |C(r1/r2) ∩ C(r3)|, ``path_pairs`` = |C(r1/r2)|, ``direct_pairs`` = |C(r3)|.
    """

    r1: int
    r2: int
    r3: int
    shared: int
    path_pairs: int
    direct_pairs: int

    @property
    def jaccard(self) -> float:
        """|C(r1/r2) ∩ C(r3)| / |C(r1/r2) ∪ C(r3)|."""
        return self.shared / (self.path_pairs + self.direct_pairs - self.shared)

    @property
    def confidence(self) -> float:
        """|C(r1/r2) ∩ C(r3)| / |C(r1/r2)|: how often the rule r1/r2 ⇒ r3 is right."""
        return self.shared / self.path_pairs

    @property
    def head_coverage(self) -> float:
        """|C(r1/r2) ∩ C(r3)| / |C(r3)|: how much of r3 the rule explains."""
        return self.shared / self.direct_pairs

    def mirrored(self, num_relations: int) -> Composition:
        """Return r2⁻¹/r1⁻¹ ≈ r3⁻¹, which says the same of the swapped pairs."""
        r1, r2, r3 = ((relation + num_relations) % (2 * num_relations) for relation in (self.r2, self.r1, self.r3))
        return Composition(r1, r2, r3, self.shared, self.path_pairs, self.direct_pairs)


@dataclass(frozen=True, slots=True)
class Grounding:
    """A pair (head, tail) joined by r1/r2, with one entity in the middle: (head, r1, middle) and (middle, r2, tail) are facts."""

    head: int
    middle: int
    tail: int


def mine(
    facts_N3: Tensor, num_entities: int, num_relations: int, *, min_pairs: int = MIN_PAIRS, min_jaccard: float = MIN_JACCARD
) -> list[Composition]:
    """Find all compositions in the facts given (the training split), strongest first; see ``mine_index``."""
    return mine_index(PairIndex.build(facts_N3, num_entities, num_relations), min_pairs=min_pairs, min_jaccard=min_jaccard)


def mine_index(index: PairIndex, *, min_pairs: int = MIN_PAIRS, min_jaccard: float = MIN_JACCARD) -> list[Composition]:
    """Find all compositions r1/r2 ≈ r3 with r2 ≠ r1⁻¹ and both thresholds passed, by falling Jaccard similarity, then shared pairs, then numbers.

    Each comes with its mirror. ``filters`` drops the ones that say little.
    """
    if min_pairs < 1:
        raise SettingError(f"min_pairs is {min_pairs}: at least 1 shared pair is needed, or every relation would be a composition of any two")
    if not 0 <= min_jaccard <= 1:
        raise SettingError(f"min_jaccard is {min_jaccard}: a Jaccard similarity lies between 0 and 1")
    found = []
    for first, second, thirds in _candidates(index, min_pairs, min_jaccard):
        for composition in _measure(index, first, second, thirds, min_jaccard):
            if composition.shared >= min_pairs and composition.jaccard >= min_jaccard:
                found += [composition, composition.mirrored(index.num_relations)]
    return sorted(found, key=lambda one: (-one.jaccard, -one.shared, one.r1, one.r2, one.r3))


def counter_examples(index: PairIndex, composition: Composition, limit: int | None = None) -> list[Grounding]:
    """Return the pairs of C(r1/r2) that are not in C(r3), by head and tail, each with a middle entity; at most ``limit``."""
    return _groundings(index, composition, among_direct=False, limit=limit)


def examples(index: PairIndex, composition: Composition, limit: int | None = None) -> list[Grounding]:
    """Return the pairs of C(r1/r2) ∩ C(r3), by head and tail, each with a middle entity; at most ``limit``."""
    return _groundings(index, composition, among_direct=True, limit=limit)


def _groundings(index: PairIndex, composition: Composition, among_direct: bool, limit: int | None) -> list[Grounding]:
    """Collect grounded pairs of the path that are (or are not) pairs of r3."""
    direct = index.keys(composition.r3)
    found: list[Grounding] = []
    for key_X, middle_X in grounded_blocks(index, composition.r1, composition.r2):
        wanted_X = contained(key_X, direct) == among_direct
        head_X, tail_X = index.unpack(key_X[wanted_X])
        columns = (column[:limit].tolist() for column in (head_X, middle_X[wanted_X], tail_X))
        found += (Grounding(*row) for row in zip(*columns, strict=True))
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def _candidates(index: PairIndex, min_pairs: int, min_jaccard: float) -> Iterator[tuple[int, int, Ints]]:
    """Yield (r1, r2, the r3 that bounds 1 and 2 allow), one of each two mirrored (r1, r2)."""
    size_S, S = index.size_S, index.num_directed
    need_S = np.where(size_S >= min_pairs, np.maximum(min_pairs, min_jaccard * size_S * (1 - SLACK)), np.inf)
    table = _EntityTable.build(index)
    inverse_S = (np.arange(S) + index.num_relations) % S
    begins = [np.flatnonzero(table.sums(index.head_K[index.heads_of(relation)]) >= need_S) for relation in range(S)]
    # r3 ends often enough at a tail of r2 where r3⁻¹ begins often enough at a head of r2⁻¹.
    ends_key = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(inverse_S[r] * S + inverse_S[begins[r]] for r in range(S))]))
    for first in range(S):
        if not len(begins[first]):
            continue
        tails = index.heads_of(index.inverse(first))
        rows_S = table.sums(index.head_K[tails], np.diff(index.head_start_K1[tails.start : tails.stop + 1]))
        own_half_S = first * S + np.arange(S) <= inverse_S * S + inverse_S[first]
        second_X = np.flatnonzero((rows_S >= min_pairs) & own_half_S & (np.arange(S) != inverse_S[first]))
        allowed_XY = contained((second_X[:, None] * S + begins[first]).ravel(), ends_key).reshape(len(second_X), len(begins[first]))
        allowed_XY &= rows_S[second_X, None] >= need_S[begins[first]]
        for row in np.flatnonzero(allowed_XY.any(axis=1)):
            yield first, int(second_X[row]), begins[first][allowed_XY[row]]


def _measure(index: PairIndex, first: int, second: int, third_Y: Ints, min_jaccard: float) -> list[Composition]:
    """Count the pairs that r1/r2 shares with each r3; those that bound 3 rules out are left out, whatever they share."""
    way = steps(index, first, second)
    size_Y = index.size_S[third_Y]
    most_Y = size_Y / max(min_jaccard, SLACK) * (1 + SLACK)
    within_Y = way.at_least <= most_Y
    third_Y, size_Y, most_Y = third_Y[within_Y], size_Y[within_Y], most_Y[within_Y]
    if not len(third_Y):
        return []
    direct = [index.keys(third) for third in third_Y]
    most, path_pairs = most_Y.max(), 0
    shared_Y = np.zeros(len(third_Y), dtype=np.int64)
    for key_X in path_blocks(index, way):
        path_pairs += len(key_X)
        if path_pairs > most:
            return []
        for place, keys in enumerate(direct):
            shared_Y[place] += _common(key_X, keys)
    counts = zip(third_Y.tolist(), shared_Y.tolist(), size_Y.tolist(), strict=True)
    return [Composition(first, second, third, shared, path_pairs, size) for third, shared, size in counts]


def _common(left: Ints, right: Ints) -> int:
    """Return how many keys two sorted sets of keys share, looking the smaller one up in the larger."""
    if not len(left) or not len(right):
        return 0
    right = right[np.searchsorted(right, left[0]) : np.searchsorted(right, left[-1], side="right")]
    few, many = (left, right) if len(left) < len(right) else (right, left)
    return int(contained(few, many).sum())


@dataclass(frozen=True, eq=False)
class _EntityTable:
    """For every entity the directed relations that begin at it, each with its number of pairs there; K rows, entity e owning start_E1[e] on."""

    num_directed: int
    start_E1: Ints
    relation_K: Ints
    count_K: Ints

    @classmethod
    def build(cls, index: PairIndex) -> _EntityTable:
        """Turn the index, which is sorted by relation, round to entities."""
        order = np.argsort(index.head_K, kind="stable")
        relation_K = np.repeat(np.arange(index.num_directed), np.diff(index.first_S1))
        start_E1 = np.searchsorted(index.head_K[order], np.arange(index.num_entities + 1))
        return cls(index.num_directed, start_E1, relation_K[order], np.diff(index.head_start_K1)[order])

    def sums(self, entity_X: Ints, weight_X: Ints | None = None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return for every directed relation Σ_x weight_x · (its pairs that begin at entity_x); weights are 1 where none are given."""
        total_S = np.zeros(self.num_directed)
        start_X = self.start_E1[entity_X]
        length_X = self.start_E1[entity_X + 1] - start_X
        for low in range(0, len(entity_X), BLOCK_ROWS // 64):
            part = slice(low, low + BLOCK_ROWS // 64)
            row_Y, place_Y = expand(start_X[part], length_X[part])
            count_Y = self.count_K[place_Y] if weight_X is None else self.count_K[place_Y] * weight_X[part][row_Y]
            total_S += np.bincount(self.relation_K[place_Y], weights=count_Y, minlength=self.num_directed)
        return total_S
