"""Compositions found: those the graph supports, with the model's opinion of them, and those the model proposes and the graph does not support yet.

The graph supports r1/r2 ≈ r3 where enough pairs are shared (``relcode.graph.compositions``). The model proposes r3 for r1/r2 where, of all directed
relations that the filter allows, M_3 is the nearest to M_1 M_2, and likewise M_3⁻¹ to M_2⁻¹ M_1⁻¹, which says the same of the pairs swapped. Since
M_1 M_2 stays near M_1 and M_2 and all that is like them, proposals are ordered by what composing adds,

    gain = cos(M_1 M_2, M_3) − max(cos(M_1, M_3), cos(M_2, M_3))        the mean of both directions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.composition import composition_ranks, cosine_blocks, flat_unit, joined_pairs, leave_out_of, nearest, target_ranks, triples_of
from relcode.graph.compositions import (
    MIN_JACCARD,
    MIN_PAIRS,
    Composition,
    Filter,
    Grounding,
    PairIndex,
    counter_examples,
    examples,
    find_filter,
    keep,
    mine_index,
    path_keys,
    rules,
    self_relations,
)
from relcode.graph.compositions.pairs import contained
from relcode.graph.dataset import Dataset
from relcode.graph.paths import format_path
from relcode.model.score import Scorer

LOOKED_AT = 20_000  # pairs scored to find the best new ones of a composition


@dataclass(frozen=True, slots=True)
class GroundedPair:
    """A pair joined by r1/r2, by labels: (head, r1, middle) and (middle, r2, tail) are facts."""

    head: str
    middle: str
    tail: str


@dataclass(frozen=True, slots=True)
class FoundComposition:
    """One composition r1/r2 ≈ r3 with what the graph counts and what the model says. A composition and its mirror are one, r3 being as named."""

    path: str  # r1/r2, as it can be typed
    target: str  # r3
    counts: Composition
    supported: bool  # by the graph, at the thresholds used
    rank: float  # of r3 by cosine with M_1 M_2 among all directed relations, as in the paper; r1 and r2 themselves are usually first and second
    rank_left_out: float  # the same without the relations that the filter leaves out
    cosine: float
    gain: float
    known: tuple[GroundedPair, ...]  # pairs of r1/r2 that are facts of r3
    new: tuple[GroundedPair, ...]  # pairs of r1/r2 that are not, the model's best first: facts to look at


@dataclass(frozen=True, slots=True)
class FoundCompositions:
    """What was found, the strongest first in each list, and how."""

    supported: tuple[FoundComposition, ...]  # by falling Jaccard similarity
    proposed: tuple[FoundComposition, ...]  # by falling gain
    filter: str  # the filter's name
    left_out: str  # what it drops, in words
    min_pairs: int
    min_jaccard: float

    def table(self) -> pa.Table:
        """Return one row a composition, supported ones first; ``known`` and ``new`` are lists of head, middle and tail."""
        everything = (*self.supported, *self.proposed)
        pairs = pa.list_(pa.struct([(name, pa.utf8()) for name in ("head", "middle", "tail")]))
        columns = {
            "path": pa.array([one.path for one in everything], pa.utf8()),
            "target": pa.array([one.target for one in everything], pa.utf8()),
            "supported": pa.array([one.supported for one in everything], pa.bool_()),
        }
        for name in ("rank", "rank_left_out", "cosine", "gain"):
            columns[name] = pa.array([getattr(one, name) for one in everything], pa.float64())
        for name in ("shared", "path_pairs", "direct_pairs"):
            columns[name] = pa.array([getattr(one.counts, name) for one in everything], pa.int64())
        for name in ("jaccard", "confidence", "head_coverage"):
            columns[name] = pa.array([getattr(one.counts, name) for one in everything], pa.float64())
        for name in ("known", "new"):
            rows = [[{"head": pair.head, "middle": pair.middle, "tail": pair.tail} for pair in getattr(one, name)] for one in everything]
            columns[name] = pa.array(rows, pairs)
        return pa.table(columns)


def found_compositions(
    scorer: Scorer,
    dataset: Dataset,
    *,
    filter: str = "paper",
    top: int = 20,
    shown: int = 3,
    min_pairs: int = MIN_PAIRS,
    min_jaccard: float = MIN_JACCARD,
) -> FoundCompositions:
    """Find the compositions of a trained model: at most ``top`` that the training facts support and ``top`` that the model proposes beyond them.

    Each comes with at most ``shown`` grounded pairs of each kind. ``filter`` names a filter of ``relcode.graph.compositions``.
    """
    chosen = find_filter(filter)
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    mined = mine_index(index, min_pairs=min_pairs, min_jaccard=min_jaccard)
    supported = rules(keep(mined, filter, index), dataset.num_relations)[:top]
    mined_triples = {(one.r1, one.r2, one.r3) for one in mined}
    beyond = (one for one in proposals(scorer.matrix_SDD, index, chosen, min_pairs) if one not in mined_triples)
    counted = (count_pairs(index, *triple) for triple in beyond)
    # A proposal whose pairs are all known already, or too few, gives nobody anything to look at.
    proposed = list(islice((one for one in counted if one.path_pairs >= min_pairs and one.path_pairs > one.shared), top))
    return FoundCompositions(
        supported=_described(scorer, dataset, index, supported, chosen, shown, supported=True),
        proposed=_described(scorer, dataset, index, proposed, chosen, shown, supported=False),
        filter=filter,
        left_out=chosen.drops,
        min_pairs=min_pairs,
        min_jaccard=min_jaccard,
    )


def proposals(matrix_SDD: Tensor, index: PairIndex, chosen: Filter, min_rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield (r1, r2, r3), r3 as named, where M_3 is nearest to M_1 M_2 in both directions, by falling gain."""
    alone = self_relations(index) if chosen.self_relations else frozenset()
    pair_X2 = joined_pairs(index, min_rows)
    if chosen.self_relations:
        pair_X2 = pair_X2[~torch.isin(pair_X2, torch.tensor(sorted(alone), dtype=torch.int64)).any(dim=1)]
    found = nearest(matrix_SDD, pair_X2, 1, chosen, alone)
    nearest_to = {pair: third for pair, third in zip(map(tuple, pair_X2.tolist()), found.relation_XT[:, 0].tolist(), strict=True) if third >= 0}
    gain_X = composition_gains(matrix_SDD, torch.cat([pair_X2, found.relation_XT[:, :1].clamp_min(0)], dim=1), found.cosine_XT[:, 0])
    gain = dict(zip(map(tuple, pair_X2.tolist()), gain_X.tolist(), strict=True))
    both = []
    for (first, second), third in nearest_to.items():
        mirror = (index.inverse(second), index.inverse(first))
        if third < index.num_relations and nearest_to.get(mirror) == index.inverse(third):
            both.append((-(gain[first, second] + gain[mirror]) / 2, first, second, third))
    yield from ((first, second, third) for _, first, second, third in sorted(both))


def composition_gains(matrix_SDD: Tensor, triple_N3: Tensor, cosine_N: Tensor) -> Tensor:
    """Return what composing adds, cos(M_1 M_2, M_3) − max(cos(M_1, M_3), cos(M_2, M_3)), where the first is given; float64 [N]."""
    flat_SQ = flat_unit(matrix_SDD.detach())
    alone_SS = (flat_SQ @ flat_SQ.T).double().cpu()
    first_N, second_N, third_N = triple_N3.unbind(1)
    return cosine_N.double() - torch.maximum(alone_SS[first_N, third_N], alone_SS[second_N, third_N])


def count_pairs(index: PairIndex, first: int, second: int, third: int) -> Composition:
    """Count the pairs of r1/r2 and of r3 and those they share, whatever the thresholds."""
    path, direct = path_keys(index, first, second), index.keys(third)
    return Composition(first, second, third, int(contained(path, direct).sum()), len(path), len(direct))


def ranks_left_out(matrix_SDD: Tensor, triple_N3: Tensor, chosen: Filter, alone: frozenset[int]) -> Tensor:
    """Return the rank of r3 by cosine with M_1 M_2 among the relations that a filter allows for this pair; r3 itself always counts."""
    rank_N = torch.empty(len(triple_N3), dtype=torch.float64)
    for part, cosine_BS in cosine_blocks(matrix_SDD, triple_N3[:, :2]):
        third_B1 = triple_N3[part, 2:].to(cosine_BS.device)
        gold_B1 = cosine_BS.gather(1, third_B1)
        cosine_BS = leave_out_of(cosine_BS, triple_N3[part, :2], chosen, alone)
        rank_N[part] = target_ranks(cosine_BS.scatter_(1, third_B1, gold_B1), third_B1[:, 0])
    return rank_N


def best_new_pairs(scorer: Scorer, index: PairIndex, composition: Composition, most: int) -> list[Grounding]:
    """Return the pairs of r1/r2 that are not facts of r3 with the highest scores u_h M_3 v_t (of the first LOOKED_AT)."""
    candidates = counter_examples(index, composition, LOOKED_AT)
    if not candidates or not most:
        return []
    fact_N3 = torch.tensor([(one.head, composition.r3, one.tail) for one in candidates])
    order_N = scorer.score_facts(fact_N3).cpu().argsort(descending=True, stable=True)
    return [candidates[place] for place in order_N[:most].tolist()]


def _described(
    scorer: Scorer, dataset: Dataset, index: PairIndex, compositions: Sequence[Composition], chosen: Filter, shown: int, *, supported: bool
) -> tuple[FoundComposition, ...]:
    """Put names, ranks and grounded pairs to compositions."""
    matrix_SDD, triple_N3 = scorer.matrix_SDD, triples_of(compositions)
    rank_N, cosine_N = composition_ranks(matrix_SDD, triple_N3)
    without_N = ranks_left_out(matrix_SDD, triple_N3, chosen, self_relations(index))
    gain_N = composition_gains(matrix_SDD, triple_N3, cosine_N)

    def named(grounded: Sequence[Grounding]) -> tuple[GroundedPair, ...]:
        return tuple(GroundedPair(dataset.label(each.head), dataset.label(each.middle), dataset.label(each.tail)) for each in grounded)

    figures = zip(compositions, rank_N.tolist(), without_N.tolist(), cosine_N.tolist(), gain_N.tolist(), strict=True)
    return tuple(
        FoundComposition(
            path=format_path((one.r1, one.r2), dataset.relations),
            target=format_path((one.r3,), dataset.relations),
            counts=one,
            supported=supported,
            rank=rank,
            rank_left_out=without,
            cosine=cosine,
            gain=gain,
            known=named(examples(index, one, shown)),
            new=named(best_new_pairs(scorer, index, one, shown)),
        )
        for one, rank, without, cosine, gain in figures
    )
