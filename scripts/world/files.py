"""Split the facts, and write and read the three files."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from pathlib import Path

Fact = tuple[str, str, str]
SPLITS = ("train", "valid", "test")
SEED = "world 1"
HELD_OUT = 0.05
FIELDS = 3
# Relations with fewer facts stay in train: two or three of them in a test tell nothing.
FEWEST_TO_HOLD_OUT = 60


def _order(group: tuple[Fact, ...]) -> str:
    """Return a key that orders groups at random, the same on every machine and Python: SHA-256 of seed and fact."""
    return hashlib.sha256("\t".join((SEED, *group[0])).encode()).hexdigest()


def split(facts: list[Fact]) -> dict[str, list[Fact]]:
    """Hold out 5 % for valid and 5 % for test so that every entity and relation keeps a training fact.

    A fact and its mirror (t, r, h) go together: otherwise a symmetric relation would give its own answers away.
    """
    known = set(facts)
    groups = {tuple(sorted({(h, r, t), (t, r, h)} & known)) for h, r, t in facts}
    ends = Counter(name for h, _, t in facts for name in (h, t))
    relations = Counter(r for _, r, _ in facts)
    wanted = round(HELD_OUT * len(facts))
    held: dict[str, list[Fact]] = {"valid": [], "test": []}
    for group in sorted(groups, key=_order):
        part = min(held.values(), key=len)
        loss = Counter(name for h, _, t in group for name in (h, t))
        enough = all(ends[name] > loss[name] for name in loss) and relations[group[0][1]] >= FEWEST_TO_HOLD_OUT
        if enough and len(part) + len(group) <= wanted:
            part.extend(group)
            ends.subtract(loss)
    out = {fact for part in held.values() for fact in part}
    return {"train": sorted(known - out), "valid": sorted(held["valid"]), "test": sorted(held["test"])}


def write(folder: Path, parts: dict[str, list[Fact]]) -> None:
    """Write the three files; the same facts give the same bytes (no time, no file name in the gzip header)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SPLITS:
        text = "".join("\t".join(fact) + "\n" for fact in parts[name])
        with (folder / f"{name}.tsv.gz").open("wb") as raw, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0) as file:
            file.write(text.encode("utf-8"))


def read(folder: Path) -> dict[str, list[Fact]]:
    """Read the three files back."""
    parts: dict[str, list[Fact]] = {}
    for name in SPLITS:
        lines = gzip.decompress((folder / f"{name}.tsv.gz").read_bytes()).decode("utf-8").splitlines()
        rows = [tuple(line.split("\t")) for line in lines]
        parts[name] = [(row[0], row[1], row[2]) for row in rows if len(row) == FIELDS]
        if len(parts[name]) != len(rows):
            raise ValueError(f"{name}.tsv.gz has a line that is not head, relation, tail")
    return parts
