"""Write the README that lies beside the data: what is in it, where it comes from, whose it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from world.catalogue import COMPUTED, JOINED, RELATIONS
from world.check import baseline_mrr, independent_compositions
from world.files import Fact

TEMPLATE = Path(__file__).with_name("README.template.md")


def _relation_table(parts: dict[str, list[Fact]]) -> str:
    """Return the table of relations with counts and a training fact as an example."""
    count = Counter(relation for part in parts.values() for _, relation, _ in part)
    lines = ["| relation | topic | facts | source | made | meaning | example |", "|---|---|---|---|---|---|---|"]
    for r in RELATIONS:
        here = [(h, t) for h, relation, t in parts["train"] if relation == r.name]
        head, tail = here[len(here) // 2]
        lines.append(f"| `{r.name}` | {r.topic} | {count[r.name]:,} | {r.source} | {r.made} | {r.meaning} | {head} → {tail} |")
    return "\n".join(lines)


def _composition_table(parts: dict[str, list[Fact]]) -> str:
    """Return a row for each composition from independent sources."""
    source = {relation.name: relation.source for relation in RELATIONS}
    rows = []
    for c in independent_compositions(parts["train"]):
        sources = "; ".join(source[name.lstrip("^")] for name in (c.first, c.second, c.third))
        rows.append(f"| `{c.first}` / `{c.second}` | `{c.third}` | {sources} | {c.shared:,} | {c.jaccard:.2f} |")
    return "\n".join(rows)


def readme(parts: dict[str, list[Fact]], versions: dict[str, str]) -> str:
    """Return the README's text: the template with figures, tables and versions filled in."""
    facts = [fact for part in parts.values() for fact in part]
    return TEMPLATE.read_text(encoding="utf-8").format(
        total=len(facts),
        entities=len({name for h, _, t in facts for name in (h, t)}),
        relations=len(RELATIONS),
        **{name: len(part) for name, part in parts.items()},
        valid_mrr=baseline_mrr(parts, "valid"),
        test_mrr=baseline_mrr(parts, "test"),
        relation_table=_relation_table(parts),
        made_list="\n".join(f"- `{r.name}` ({r.made}, {r.source}): {r.meaning}" for r in RELATIONS if r.made in (JOINED, COMPUTED)),
        composition_table=_composition_table(parts),
        **versions,
    )
