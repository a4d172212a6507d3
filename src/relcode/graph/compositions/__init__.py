"""Compositions r1/r2 ≈ r3 that the facts themselves support, counted exactly.

index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
found = keep(mine_index(index, min_pairs=50, min_jaccard=0.4), "paper", index)
"""

from relcode.graph.compositions.filters import FILTERS, Filter, find_filter, keep, self_relations
from relcode.graph.compositions.mining import MIN_JACCARD, MIN_PAIRS, Composition, Grounding, counter_examples, examples, mine, mine_index
from relcode.graph.compositions.pairs import PairIndex, path_keys
from relcode.graph.compositions.rules import amie_lines, anyburl_lines, rules, table

__all__ = [
    "FILTERS",
    "MIN_JACCARD",
    "MIN_PAIRS",
    "Composition",
    "Filter",
    "Grounding",
    "PairIndex",
    "amie_lines",
    "anyburl_lines",
    "counter_examples",
    "examples",
    "find_filter",
    "keep",
    "mine",
    "mine_index",
    "path_keys",
    "rules",
    "self_relations",
    "table",
]
