"""Check the committed files against what is promised of them; needs no source package."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from world.catalogue import INDEPENDENT_COMPOSITIONS, NAMES, RELATIONS
from world.files import Fact, read

Pairs = set[tuple[str, str]]

FEWEST, MOST = 10_000, 20_000
SPLIT_SLACK = 0.005
MOST_BYTES = 1_000_000
MOST_SHARED = 0.9
# A capital lies in its country, so the smaller relation is wholly in the larger, as in life; the larger has many more pairs.
CONTAINED_BY_NATURE = {("city_country", "^country_capital")}
COMPOSITIONS, SHARED, JACCARD = 3, 50, 0.4
# A bare code: all capitals or digits without a blank ("US", "JFK", "EUR", "419"), or a locale tag ("de_CH").
BARE_CODE = re.compile(r"[A-Z0-9]{1,4}|[a-z]{2,3}(_[A-Za-z]+)+")


@dataclass(frozen=True, slots=True)
class Composition:
    """How well first/second agrees with third: shared pairs, and shared pairs over the pairs of either."""

    first: str
    second: str
    third: str
    shared: int
    jaccard: float


def directed_pairs(facts: Iterable[Fact]) -> dict[str, Pairs]:
    """Return directed relation -> its pairs; the inverse of r is written ^r."""
    pairs: dict[str, Pairs] = defaultdict(set)
    for head, relation, tail in facts:
        pairs[relation].add((head, tail))
        pairs["^" + relation].add((tail, head))
    return dict(pairs)


def compose(first: Pairs, second: Pairs) -> Pairs:
    """Return {(a, c): (a, b) in first and (b, c) in second}."""
    after: dict[str, set[str]] = defaultdict(set)
    for b, c in second:
        after[b].add(c)
    return {(a, c) for a, b in first for c in after.get(b, ())}


def independent_compositions(train: Iterable[Fact]) -> list[Composition]:
    """Return the compositions that come from independent sources, measured on the training facts."""
    pairs, found = directed_pairs(train), []
    for first, second, third in INDEPENDENT_COMPOSITIONS:
        path, goal = compose(pairs[first], pairs[second]), pairs[third]
        found.append(Composition(first, second, third, len(path & goal), len(path & goal) / len(path | goal)))
    return found


def near_duplicates(facts: Iterable[Fact]) -> list[tuple[str, str, float]]:
    """Return pairs of relations, inverses included, with the share of the smaller one's pairs that the other has, largest first."""
    pairs = directed_pairs(facts)
    named = [name for name in pairs if not name.startswith("^")]
    found = []
    for one, two in combinations(sorted(named), 2):
        for other in (two, "^" + two):
            shared = len(pairs[one] & pairs[other]) / min(len(pairs[one]), len(pairs[other]))
            found.append((one, other, shared))
    return sorted(found, key=lambda item: -item[2])


def baseline_mrr(parts: dict[str, list[Fact]], part: str) -> float:
    """Mean reciprocal filtered rank, both directions, when answers are ranked by how often training gives them for the directed relation.

    Ties count half: rank = 1 + #greater + #equal / 2 over all entities but the other known answers.
    """
    entities = {name for facts in parts.values() for h, _, t in facts for name in (h, t)}
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    for h, r, t in (fact for facts in parts.values() for fact in facts):
        known[h, r].add(t)
        known[t, "^" + r].add(h)
    often: dict[str, Counter[str]] = defaultdict(Counter)
    for h, r, t in parts["train"]:
        often[r][t] += 1
        often["^" + r][h] += 1
    total = 0.0
    for h, r, t in parts[part]:
        for query, relation, answer in ((h, r, t), (t, "^" + r, h)):
            counts, gold = often[relation], often[relation][answer]
            rivals = entities - known[query, relation]
            greater = sum(1 for name, count in counts.items() if count > gold and name in rivals)
            equal = sum(1 for name, count in counts.items() if count == gold and name in rivals) if gold else len(rivals - counts.keys())
            total += 1 / (1 + greater + equal / 2)
    return total / (2 * len(parts[part]))


def _file_faults(folder: Path, parts: dict[str, list[Fact]]) -> Iterator[str]:
    total = sum(map(len, parts.values()))
    if not FEWEST <= total <= MOST:
        yield f"{total} facts: {FEWEST} to {MOST} are wanted"
    size = sum(path.stat().st_size for path in folder.glob("*.gz"))
    if size > MOST_BYTES:
        yield f"{size} bytes compressed: at most {MOST_BYTES} are wanted"
    if len({fact for facts in parts.values() for fact in facts}) != total:
        yield "a fact is stated twice"
    for name, facts in parts.items():
        share = len(facts) / total
        if abs(share - (0.9 if name == "train" else 0.05)) > SPLIT_SLACK:
            yield f"{name} holds {share:.3f} of the facts: the split is 90/5/5"


def _fact_faults(parts: dict[str, list[Fact]]) -> Iterator[str]:
    every = [fact for facts in parts.values() for fact in facts]
    seen = {name for h, _, t in parts["train"] for name in (h, t)}
    trained = {r for _, r, _ in parts["train"]}
    where = {fact: name for name, facts in parts.items() for fact in facts}
    for h, r, t in every:
        if h not in seen or t not in seen or r not in trained:
            yield f"{(h, r, t)} names something that training never does"
        if where.get((t, r, h), where[h, r, t]) != where[h, r, t]:
            yield f"{(h, r, t)} and its mirror lie in different splits"
    for name in sorted({name for h, _, t in every for name in (h, t)}):
        if BARE_CODE.fullmatch(name) or name != " ".join(name.split()) or not any(c.isalpha() for c in name):
            yield f"{name!r} is not a readable name"
    if {r for _, r, _ in every} != set(NAMES):
        yield f"relations differ from the catalogue: {sorted({r for _, r, _ in every} ^ set(NAMES))}"


def faults(folder: Path) -> list[str]:
    """Return all that is wrong with the files in the folder; empty when they keep every promise."""
    parts = read(folder)
    found = [*_file_faults(folder, parts), *_fact_faults(parts)]
    good = [c for c in independent_compositions(parts["train"]) if c.shared >= SHARED and c.jaccard >= JACCARD and c.third not in (c.first, c.second)]
    if len(good) < COMPOSITIONS:
        found.append(f"{len(good)} independent compositions: {COMPOSITIONS} are wanted")
    every = [fact for facts in parts.values() for fact in facts]
    shares = [item for item in near_duplicates(every) if item[:2] not in CONTAINED_BY_NATURE]
    found += [f"{one} and {two} share {share:.0%} of the smaller one's pairs" for one, two, share in shares if share > MOST_SHARED]
    readme = (folder / "README.md").read_text(encoding="utf-8") if (folder / "README.md").exists() else ""
    found += [f"README.md does not name {r.name}" for r in RELATIONS if f"`{r.name}`" not in readme]
    return found
