"""Batches of walks made and read by plain Python loops, for the tests of sampling, paths and steps. Shares no tiling code with relcode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from relcode.graph.adjacency import Adjacency
from relcode.sampling.batches import Level, PathBatch
from relcode.sampling.walks import WalkStream


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
    chain: Prefix | None = None  # the way its noises go, where that is another one

    @property
    def weighed(self) -> Prefix:
        """The way its noises go."""
        return self.chain or self

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
    """Return every training path of a batch, by following each row back to its head; every chain of noise must be that of one of them."""
    found: list[Prefix] = []
    tables: list[dict[int, Prefix]] = []  # of each level, the paths by the row where they end
    for depth, level in enumerate(batch.levels):
        tables.append({})
        for place in level.weight_TW.flatten().nonzero().flatten().tolist():
            tables[depth][place] = _grown(batch, depth, place, tables[depth - 1].__getitem__)
        chains = _chains_of(batch, depth, tables)
        for place, path in tables[depth].items():
            noised = bool(level.noise_TW.flatten()[place])
            found.append(path if noised else replace(path, chain=chains.pop(path.rows[: path.chosen + 1])))
        assert not chains, "a chain belongs to no path"
    return found


def _grown(batch: PathBatch, depth: int, place: int, before_at: Callable[[int], Prefix]) -> Prefix:
    """Return the path that ends at a row, from the one that ends where the row comes from."""
    level = batch.levels[depth]
    t, w = divmod(place, level.weight_TW.shape[1])
    source, marked = int(level.source_TW[t, w]), bool(level.chosen_TW[t, w])
    before = before_at(source) if depth else Prefix(source, (), (), -1, (), ())
    return Prefix(
        head=before.head,
        relations=(*before.relations, int(level.relation_T[t])),
        tails=(*before.tails, int(level.tail_TW[t, w])),
        chosen=depth if marked else before.chosen,
        rows=(*before.rows, (t, w)),
        marks=(*before.marks, marked),
    )


def _chains_of(batch: PathBatch, depth: int, tables: list[dict[int, Prefix]]) -> dict[tuple[tuple[int, int], ...], Prefix]:
    """Return the chains of noise that end at a level, by the rows that they share with their walk."""
    left: list[int] = []  # the levels at which a chain has left its walk, the last of them first

    def chain_at(depth: int, place: int) -> Prefix:
        if place in tables[depth]:
            return tables[depth][place]
        left.append(depth)
        return _grown(batch, depth, place, lambda source: chain_at(depth - 1, source))

    found: dict[tuple[tuple[int, int], ...], Prefix] = {}
    level = batch.levels[depth]
    for place in ((level.noise_TW > 0) & (level.weight_TW == 0)).flatten().nonzero().flatten().tolist():
        left.clear()
        chain = chain_at(depth, place)
        shared = chain.rows[: left[-1]]
        assert shared not in found, "a path has two chains"
        found[shared] = chain
    return found


def tiled(batch: PathBatch, width: int, empty_tiles: int = 0) -> PathBatch:
    """Lay a batch whose rows are sorted by relation out in tiles of ``width`` rows, the same rows in the same order."""
    levels: list[Level] = []
    places: list[int] = []  # where each row of the level before stands now
    for depth, level in enumerate(batch.levels):
        relations = level.relation_T.tolist()
        tiles: list[tuple[int, list[int]]] = []
        for row, relation in enumerate(relations):
            if not tiles or tiles[-1][0] != relation or len(tiles[-1][1]) == width:
                tiles.append((relation, []))
            tiles[-1][1].append(row)
        tiles += [(0, [])] * empty_tiles
        row_of = torch.tensor([rows + [-1] * (width - len(rows)) for _, rows in tiles])
        source = torch.tensor([places[row] for row in level.source_TW.flatten().tolist()]) if depth else level.source_TW.flatten()
        parts = (source, *(part.flatten() for part in (level.tail_TW, level.weight_TW, level.chosen_TW, level.noise_TW)))
        laid = (torch.where(row_of >= 0, part[row_of], torch.zeros((), dtype=part.dtype)) for part in parts)
        levels.append(Level(torch.tensor([relation for relation, _ in tiles]), *laid))
        where = {row: t * width + w for t, (_, rows) in enumerate(tiles) for w, row in enumerate(rows)}
        places = [where[row] for row in range(len(relations))]
    return PathBatch(tuple(levels))


def chained(entities: int, directed: int, seed: int, edges: int = 40, longest: int = 4) -> PathBatch:
    """Return walks over a random KB whose noises go through random relations."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (entities, directed // 2, entities)
    facts = torch.stack([torch.randint(size, (5 * entities,), generator=generator) for size in sizes], dim=1)
    adjacency = Adjacency.build(facts, entities, directed // 2)
    stream = WalkStream(
        adjacency, directed, edges=edges, mean=2.0, longest=longest, power=1.0, seed=seed, device=facts.device, head_walks=3, relation_noise=True
    )
    return stream.batch(seed, generator)


def random_walks(count: int, entities: int, directed: int, longest: int, seed: int) -> list[Walk]:
    """Return walks over anything (no KB asked), of lengths 1 to ``longest``, the first step always marked, later ones sometimes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(most: int) -> int:
        return int(torch.randint(most, (), generator=generator))

    return [
        Walk(draw(entities), tuple((draw(directed), draw(entities), depth == 0 or draw(2) == 0) for depth in range(1 + number % longest)))
        for number in range(count)
    ]
