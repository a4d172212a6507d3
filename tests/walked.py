"""Batches of walks made and read by plain Python loops, for the tests of sampling, paths and steps. Shares no tiling code with relcode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from relcode.sampling.batches import Level, PathBatch


@dataclass(frozen=True)
class Walk:
    """A walk: where it starts, and (relation, entity reached, whether the path so far chooses this matrix) for each step."""

    head: int
    steps: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True)
class Prefix:
    """A training path: the first steps of a walk, and where its rows stand, level by level, as (tile, place)."""

    head: int
    relations: tuple[int, ...]
    tails: tuple[int, ...]
    chosen: int  # which of its matrices it updates, counted from 0: the last of its steps that is marked
    rows: tuple[tuple[int, int], ...]
    marks: tuple[bool, ...]  # which of its steps are marked

    @property
    def tail(self) -> int:
        return self.tails[-1]


def batch_of(walks: Sequence[Walk], width: int, empty_tiles: int = 0) -> PathBatch:
    """Lay walks out in tiles of ``width`` rows of one relation, level by level; ``empty_tiles`` tiles of padding end every level."""
    levels: list[Level] = []
    places: dict[int, int] = {}  # the row of the level before at which each walk stands
    for depth in range(max(len(walk.steps) for walk in walks)):
        going = [number for number, walk in enumerate(walks) if len(walk.steps) > depth]
        tiles: list[tuple[int, list[int]]] = []
        for relation in sorted({walks[number].steps[depth][0] for number in going}):
            rows = [number for number in going if walks[number].steps[depth][0] == relation]
            tiles += [(relation, rows[start : start + width]) for start in range(0, len(rows), width)]
        tiles += [(0, [])] * empty_tiles
        source, tail = torch.zeros(len(tiles), width, dtype=torch.long), torch.zeros(len(tiles), width, dtype=torch.long)
        weight, chosen = torch.zeros(len(tiles), width), torch.zeros(len(tiles), width)
        reached: dict[int, int] = {}
        for t, (_, rows) in enumerate(tiles):
            for w, number in enumerate(rows):
                source[t, w] = places[number] if depth else walks[number].head
                _, entity, marked = walks[number].steps[depth]
                tail[t, w], weight[t, w], chosen[t, w] = entity, 1, float(marked)
                reached[number] = t * width + w
        levels.append(Level(torch.tensor([relation for relation, _ in tiles]), source, tail, weight, chosen, weight))
        places = reached
    return PathBatch(tuple(levels))


def prefixes_of(batch: PathBatch) -> list[Prefix]:
    """Return every training path of a batch, by following each row back to its head."""
    found: list[Prefix] = []
    below: dict[int, Prefix] = {}
    for depth, level in enumerate(batch.levels):
        here: dict[int, Prefix] = {}
        tiles, width = level.weight_TW.shape
        for t in range(tiles):
            for w in range(width):
                if level.weight_TW[t, w] == 0:
                    continue
                source, relation, tail = int(level.source_TW[t, w]), int(level.relation_T[t]), int(level.tail_TW[t, w])
                before = below[source] if depth else Prefix(source, (), (), -1, (), ())
                marked = bool(level.chosen_TW[t, w])
                here[t * width + w] = Prefix(
                    head=before.head,
                    relations=(*before.relations, relation),
                    tails=(*before.tails, tail),
                    chosen=depth if marked else before.chosen,
                    rows=(*before.rows, (t, w)),
                    marks=(*before.marks, marked),
                )
        found += here.values()
        below = here
    return found


def random_walks(count: int, entities: int, directed: int, longest: int, seed: int) -> list[Walk]:
    """Return walks over anything (no KB asked), of lengths 1 to ``longest``, the first step always marked, later ones sometimes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(most: int) -> int:
        return int(torch.randint(most, (), generator=generator))

    return [
        Walk(draw(entities), tuple((draw(directed), draw(entities), depth == 0 or draw(2) == 0) for depth in range(1 + number % longest)))
        for number in range(count)
    ]
