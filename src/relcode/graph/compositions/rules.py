"""Compositions as rules in the text forms of AMIE and AnyBURL, and as an Arrow table.

A rule's head is a relation as named, so a composition and its mirror are one rule, written once. An inverse step has its arguments swapped. The
counts are over distinct pairs, and two variables may stand for the same entity; AnyBURL itself asks them to differ, so its own counts can be lower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from relcode.graph.compositions.mining import Composition
from relcode.graph.compositions.pairs import PairIndex, path_keys
from relcode.graph.paths import format_path
from relcode.graph.vocab import Vocab

AMIE_COLUMNS = (
    "Rule",
    "Head Coverage",
    "Std Confidence",
    "PCA Confidence",
    "Positive Examples",
    "Body size",
    "PCA Body size",
    "Functional variable",
)


def rules(compositions: Iterable[Composition], num_relations: int) -> list[Composition]:
    """Return the compositions turned so that r3 is a relation as named, each once, in the order given."""
    turned = (one if one.r3 < num_relations else one.mirrored(num_relations) for one in compositions)
    return list(dict.fromkeys(turned))


def anyburl_lines(compositions: Iterable[Composition], relations: Vocab) -> Iterator[str]:
    """Write rules as AnyBURL and PyClause read them, without line ends.

    Tab-separated: pairs predicted |C(r1/r2)|, pairs right, confidence, and the rule ``r3(X,Y) <= r1(X,A), r2(A,Y)``.
    """
    for rule in rules(compositions, len(relations)):
        body = f"{_call(rule.r1, 'X', 'A', relations)}, {_call(rule.r2, 'A', 'Y', relations)}"
        yield f"{rule.path_pairs}\t{rule.shared}\t{rule.confidence:.6f}\t{_call(rule.r3, 'X', 'Y', relations)} <= {body}"


def amie_lines(compositions: Iterable[Composition], relations: Vocab, index: PairIndex) -> Iterator[str]:
    """Write rules as AMIE does, a header line first, without line ends: ``?a  r1  ?f  ?f  r2  ?b   => ?a  r3  ?b`` and seven figures.

    PCA confidence (Galárraga et al., WWW 2013) counts a predicted pair as wrong only where r3 is known to have another answer there: it divides by
    the pairs of the body whose ?a is a head of r3, or whose ?b is a tail of it, whichever side of r3 has the more distinct entities per pair.
    """
    yield "\t".join(AMIE_COLUMNS)
    for rule in rules(compositions, len(relations)):
        variable, pca_pairs = _pca_body(rule, index)
        text = f"{_atom(rule.r1, '?a', '?f', relations)}  {_atom(rule.r2, '?f', '?b', relations)}   => {_atom(rule.r3, '?a', '?b', relations)}"
        figures = (rule.head_coverage, rule.confidence, rule.shared / pca_pairs)
        counts = (rule.shared, rule.path_pairs, pca_pairs)
        yield "\t".join([text, *(f"{figure:.6f}" for figure in figures), *map(str, counts), variable])


def table(compositions: Sequence[Composition], relations: Vocab) -> pa.Table:
    """Return one row a composition: path and target as text, the three directed numbers, the counts and the figures."""
    columns: dict[str, list[str] | list[int] | list[float]] = {
        "path": [format_path((one.r1, one.r2), relations) for one in compositions],
        "target": [format_path((one.r3,), relations) for one in compositions],
        "r1": [one.r1 for one in compositions],
        "r2": [one.r2 for one in compositions],
        "r3": [one.r3 for one in compositions],
        "shared": [one.shared for one in compositions],
        "path_pairs": [one.path_pairs for one in compositions],
        "direct_pairs": [one.direct_pairs for one in compositions],
        "jaccard": [one.jaccard for one in compositions],
        "confidence": [one.confidence for one in compositions],
        "head_coverage": [one.head_coverage for one in compositions],
    }
    texts, figures = ("path", "target"), ("jaccard", "confidence", "head_coverage")
    kinds = {name: pa.utf8() if name in texts else pa.float64() if name in figures else pa.int64() for name in columns}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def _pca_body(rule: Composition, index: PairIndex) -> tuple[str, int]:
    """Return the more functional variable of r3, ?a on a tie, and the pairs of the body that it leaves."""
    backwards = index.inverse(rule.r3)
    heads, tails = index.head_K[index.heads_of(rule.r3)], index.head_K[index.heads_of(backwards)]
    head_X, tail_X = index.unpack(path_keys(index, rule.r1, rule.r2))
    if len(heads) >= len(tails):
        return "?a", int(np.isin(head_X, heads).sum())
    return "?b", int(np.isin(tail_X, tails).sum())


def _call(relation: int, left: str, right: str, relations: Vocab) -> str:
    """Write one atom as name(left,right), an inverse as name(right,left)."""
    name, left, right = _turned(relation, left, right, relations)
    return f"{name}({left},{right})"


def _atom(relation: int, left: str, right: str, relations: Vocab) -> str:
    """Write one atom as AMIE's "left  name  right", an inverse as "right  name  left"."""
    name, left, right = _turned(relation, left, right, relations)
    return f"{left}  {name}  {right}"


def _turned(relation: int, left: str, right: str, relations: Vocab) -> tuple[str, str, str]:
    """Return the relation's name and its arguments, swapped for an inverse."""
    named = len(relations)
    return (relations[relation], left, right) if relation < named else (relations[relation - named], right, left)
