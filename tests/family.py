"""A family tree made by rule, whose compositions are known exactly: the small world that end-to-end tests live in.

Four generations of eight couples each have a daughter and a son; a son marries the daughter of another family with which he shares no grandparent.
(x, parent, y) says that y is a parent of x. Over all splits together these hold exactly, as sets of pairs:

    parent/parent = grandparent        parent/sibling = aunt_or_uncle        sibling and spouse are symmetric

Facts of ``grandparent`` alone are held out, in valid and in test; each follows from two facts of train.
"""

from __future__ import annotations

import random

from relcode.graph.dataset import Dataset, dataset_from_facts

COUPLES = 8
HELD_OUT = 12  # grandparent facts in valid, and as many in test
WOMEN = ["Ada", "Bea", "Cleo", "Dora", "Edna", "Faye", "Gwen", "Hope"]
MEN = ["Abe", "Bob", "Carl", "Dan", "Ezra", "Finn", "Gus", "Hal"]

Fact = tuple[str, str, str]


def family_facts(seed: int = 0) -> dict[str, list[Fact]]:
    """Return the facts of the family by split; ``seed`` chooses which grandparent facts are held out."""
    facts: list[Fact] = []
    parents: dict[str, tuple[str, str]] = {}
    siblings: dict[str, str] = {}
    women = [f"{name}_1" for name in WOMEN]
    men = [f"{name}_1" for name in MEN]
    for generation in range(1, 5):
        facts += [(woman, "gender", "female") for woman in women] + [(man, "gender", "male") for man in men]
        if generation == 4:
            break
        # Son i marries daughter i, then i + 1, then i + 2, by generation: so no two of a child's grandparents coincide, nor of a couple's.
        couples = [(women[(i + generation - 1) % COUPLES], men[i]) for i in range(COUPLES)]
        facts += [fact for woman, man in couples for fact in ((woman, "spouse", man), (man, "spouse", woman))]
        women = [f"{name}_{generation + 1}" for name in WOMEN]
        men = [f"{name}_{generation + 1}" for name in MEN]
        for couple, daughter, son in zip(couples, women, men, strict=True):
            parents |= {daughter: couple, son: couple}
            siblings |= {daughter: son, son: daughter}
    facts += [(child, "parent", parent) for child, couple in parents.items() for parent in couple]
    facts += [(person, "sibling", other) for person, other in siblings.items()]
    aunts = [(child, "aunt_or_uncle", siblings[p]) for child, couple in parents.items() for p in couple if p in siblings]
    grandparents = [(child, "grandparent", g) for child, couple in parents.items() for p in couple for g in parents.get(p, ())]
    random.Random(seed).shuffle(grandparents)
    held_out, kept = grandparents[: 2 * HELD_OUT], grandparents[2 * HELD_OUT :]
    return {"train": facts + aunts + kept, "valid": held_out[:HELD_OUT], "test": held_out[HELD_OUT:]}


def family_dataset(seed: int = 0) -> Dataset:
    """Return the family as a dataset called "family"."""
    return dataset_from_facts(family_facts(seed), name="family")
