"""The pairs that each relation joins, and the pairs that two relations join one after the other.

C(r) is the set of pairs (h, t) with a fact (h, r, t); C(r1/r2) that of pairs with some e such that (h, e) is in C(r1) and (e, t) in C(r2). Both are
sets: a pair counts once, however many facts or middle entities give it. A pair is handled as one number, its key h·E + t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from relcode.graph.facts import directed

Ints = np.ndarray[Any, np.dtype[np.int64]]

# Rows of a join held at a time: a few arrays of 16 MB. One head whose own join is larger is still taken whole.
BLOCK_ROWS = 2_000_000


@dataclass(frozen=True, eq=False)
class PairIndex:
    """The distinct pairs of every directed relation, sorted by (relation, head, tail), as flat arrays.

    N directed pairs, S directed relations, K distinct (relation, head). Relation r owns pairs start_S1[r] to start_S1[r+1], and heads
    first_S1[r] to first_S1[r+1]; the pairs of its k-th head are head_start_K1[k] to head_start_K1[k+1].
    """

    num_entities: int
    num_relations: int
    head_N: Ints
    tail_N: Ints
    key_N: Ints
    start_S1: Ints
    first_S1: Ints
    head_K: Ints
    head_start_K1: Ints

    @classmethod
    def build(cls, facts_N3: Tensor, num_entities: int, num_relations: int) -> PairIndex:
        """Index the facts and their inverses; repeated facts count once, and the order of the facts does not matter."""
        head_N, relation_N, tail_N = directed(facts_N3.cpu(), num_relations).numpy().T
        order = np.lexsort((tail_N, head_N, relation_N))
        head_N, relation_N, tail_N = head_N[order], relation_N[order], tail_N[order]
        new_head_N = _changes(relation_N) | _changes(head_N)
        distinct_N = new_head_N | _changes(tail_N)
        head_N, relation_N, tail_N, new_head_N = (column[distinct_N] for column in (head_N, relation_N, tail_N, new_head_N))
        relations_S1 = np.arange(2 * num_relations + 1)
        head_start_K = np.flatnonzero(new_head_N)
        return cls(
            num_entities=num_entities,
            num_relations=num_relations,
            head_N=head_N,
            tail_N=tail_N,
            key_N=head_N * num_entities + tail_N,
            start_S1=np.searchsorted(relation_N, relations_S1),
            first_S1=np.searchsorted(relation_N[head_start_K], relations_S1),
            head_K=head_N[head_start_K],
            head_start_K1=np.append(head_start_K, len(head_N)),
        )

    @property
    def num_directed(self) -> int:
        """S = 2R."""
        return 2 * self.num_relations

    @property
    def size_S(self) -> Ints:
        """|C(r)| for every directed relation."""
        return np.diff(self.start_S1)

    def inverse(self, relation: int) -> int:
        """Return r + R for a relation as named, r − R for an inverse."""
        return (relation + self.num_relations) % self.num_directed

    def of(self, relation: int) -> slice:
        """Return where the pairs of a directed relation lie."""
        return slice(int(self.start_S1[relation]), int(self.start_S1[relation + 1]))

    def heads_of(self, relation: int) -> slice:
        """Return where the distinct heads of a directed relation lie."""
        return slice(int(self.first_S1[relation]), int(self.first_S1[relation + 1]))

    def keys(self, relation: int) -> Ints:
        """Return C(r) as sorted keys h·E + t."""
        return self.key_N[self.of(relation)]

    def unpack(self, key_X: Ints) -> tuple[Ints, Ints]:
        """Return the heads and tails of keys."""
        return key_X // self.num_entities, key_X % self.num_entities


@dataclass(frozen=True, eq=False)
class Steps:
    """How the pairs (h, e) of r1, n of them with m distinct heads, go on by r2: pair i by the length_n[i] pairs from start_n[i] on."""

    pairs: slice
    start_n: Ints
    length_n: Ints
    head_start_m: Ints

    @property
    def rows(self) -> int:
        """The size of the join before equal pairs are counted once: at least |C(r1/r2)|."""
        return int(self.length_n.sum())

    @property
    def at_least(self) -> int:
        """A lower bound of |C(r1/r2)|: Σ_h max_e |{t : (e, t) in C(r2)}|, since tails of one middle entity are distinct."""
        return int(np.maximum.reduceat(self.length_n, self.head_start_m).sum()) if len(self.head_start_m) else 0

    def blocks(self, rows: int) -> Iterator[slice]:
        """Cut the pairs of r1 between heads so that a block has about ``rows`` rows of the join, or one head."""
        if not len(self.head_start_m):
            return
        before_n1 = np.concatenate([[0], np.cumsum(self.length_n)])
        cuts = np.append(self.head_start_m[_changes(before_n1[self.head_start_m] // rows)], len(self.length_n))
        yield from (slice(low, high) for low, high in pairwise(cuts.tolist()))


def steps(index: PairIndex, first: int, second: int) -> Steps:
    """Find for every pair of r1 the pairs of r2 that go on from its tail."""
    pairs, heads = index.of(first), index.heads_of(second)
    middle_n, head_m = index.tail_N[pairs], index.head_K[heads]
    if not len(head_m):
        nothing = np.zeros_like(middle_n)
        return Steps(pairs, nothing, nothing, nothing[:0])
    place_n = np.minimum(np.searchsorted(head_m, middle_n), len(head_m) - 1)
    found_n = head_m[place_n] == middle_n
    start_n = index.head_start_K1[heads.start + place_n]
    length_n = np.where(found_n, index.head_start_K1[heads.start + place_n + 1] - start_n, 0)
    return Steps(pairs, start_n, length_n, index.head_start_K1[index.heads_of(first)] - pairs.start)


def path_blocks(index: PairIndex, way: Steps, rows: int = BLOCK_ROWS) -> Iterator[Ints]:
    """Yield C(r1/r2) as sorted distinct keys, block by block, the blocks in order and without common pairs."""
    for block in way.blocks(rows):
        row_x, place_x = expand(way.start_n[block], way.length_n[block])
        key_x = index.head_N[way.pairs][block][row_x] * index.num_entities + index.tail_N[place_x]
        key_x.sort()
        yield key_x[_changes(key_x)]


def path_keys(index: PairIndex, first: int, second: int) -> Ints:
    """Return C(r1/r2) as sorted keys."""
    return np.concatenate([np.empty(0, dtype=np.int64), *path_blocks(index, steps(index, first, second))])


def grounded_blocks(index: PairIndex, first: int, second: int, rows: int = BLOCK_ROWS) -> Iterator[tuple[Ints, Ints]]:
    """Yield C(r1/r2) as ``path_blocks`` does, with a middle entity for each pair: the one with the smallest number."""
    way = steps(index, first, second)
    for block in way.blocks(rows):
        row_x, place_x = expand(way.start_n[block], way.length_n[block])
        key_x = index.head_N[way.pairs][block][row_x] * index.num_entities + index.tail_N[place_x]
        # Rows come by (head, middle), so the first of equal pairs has the smallest middle.
        key_x, first_x = np.unique(key_x, return_index=True)
        yield key_x, index.tail_N[way.pairs][block][row_x[first_x]]


def expand(start_X: Ints, length_X: Ints) -> tuple[Ints, Ints]:
    """Write out ranges: for range i, length_X[i] rows (i, start_X[i]), (i, start_X[i] + 1), …; return the two columns."""
    row_Y = np.repeat(np.arange(len(start_X)), length_X)
    shift_X = start_X - (np.cumsum(length_X) - length_X)
    return row_Y, np.arange(len(row_Y)) + shift_X[row_Y]


def contained(key_X: Ints, sorted_Y: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell for each key whether it is among the sorted ones."""
    if not len(sorted_Y):
        return np.zeros(len(key_X), dtype=np.bool_)
    place_X = np.minimum(np.searchsorted(sorted_Y, key_X), len(sorted_Y) - 1)
    return np.asarray(sorted_Y[place_X] == key_X)


def _changes(value_X: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell where a value differs from the one before it; the first one always does."""
    changes_X = np.ones(len(value_X), dtype=np.bool_)
    np.not_equal(value_X[1:], value_X[:-1], out=changes_X[1:])
    return changes_X
