"""Compositions from the model: which relation's matrix is nearest to M_1·M_2, and the paper's evaluation of that.

    cos(r1/r2, r3) = ⟨M_1 M_2, M_3⟩ / (‖M_1 M_2‖ ‖M_3‖)        rank of r3 = 1 + how many of the 2R directed relations are nearer

(Takahashi et al. 2018, section 5.) Matrices are those in force, row vectors, first r1, then r2: M_1 M_2 and not M_2 M_1. A tie counts as half a rank.

What it costs. For one pair 2·d³ operations to multiply and 2·S·d² to compare with all S relations; with blocks of b×b along the diagonal 2·d·b² and
2·S·d·b. Every cosine ⟨M_1 M_2, M_3⟩ = tr(M_1 M_2 M_3ᵀ) is a number of its own, so all S² pairs are S² times that, whatever the order of the products:
21 million million for FB15k-237 with whole matrices (S = 474, d = 256), some minutes on two cores. But only 26,586 of its 224,202 pairs with
r2 ≠ r1⁻¹ (12 %) have an entity at which r1 ends and r2 begins; the others compose to nothing. ``joined_pairs`` finds them from the facts, and
``nearest`` computes what it is given, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.names import directed_names
from relcode.errors import NotFinite
from relcode.evaluation.metrics import mean_rank, mean_reciprocal_rank
from relcode.graph.compositions import Composition, Filter, PairIndex
from relcode.graph.vocab import Vocab
from relcode.ops.diagonal import compose
from relcode.ops.precision import full_precision

BLOCK_NUMBERS = 2**23  # of products M_1 M_2, and of their cosines, held at a time: 32 MB
ENTITY_BLOCK = 4096
NOTHING_LEFT_OUT = Filter("nothing", "nothing")


def flat_unit(matrix_SDD: Tensor) -> Tensor:
    """Return each matrix flattened and scaled to norm 1; a zero matrix stays zero, at cosine 0 with everything."""
    return torch.nn.functional.normalize(matrix_SDD.flatten(1), dim=1, eps=1e-30)


def cosine_blocks(matrix_SDD: Tensor, pair_X2: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield, block by block, which pairs it is and the cosines of their M_1 M_2 with all directed relations, [B, S]."""
    matrix_SDD = matrix_SDD.detach()
    flat_SQ = flat_unit(matrix_SDD)
    rows = max(1, BLOCK_NUMBERS // max(1, *flat_SQ.shape))
    for low in range(0, len(pair_X2), rows):
        part = slice(low, min(low + rows, len(pair_X2)))
        first_B, second_B = pair_X2[part].to(matrix_SDD.device).unbind(1)
        with full_precision():
            product_BQ = compose(matrix_SDD[first_B], matrix_SDD[second_B]).flatten(1)
            # The norm is divided out of the cosines, which are fewer numbers than the product.
            cosine_BS = (product_BQ @ flat_SQ.T).div_(product_BQ.norm(dim=1, keepdim=True).clamp_min(1e-30))
        if not bool(cosine_BS.isfinite().all()):
            raise NotFinite("a relation matrix is not finite: the run diverged, so its compositions have no ranks")
        yield part, cosine_BS


def target_ranks(cosine_XS: Tensor, target_X: Tensor) -> Tensor:
    """Return the rank of each row's target among all its cosines, 1 the nearest; a tie counts half. Float64."""
    gold_X1 = cosine_XS.gather(1, target_X.to(cosine_XS.device)[:, None])
    nearer_X, equal_X = (cosine_XS > gold_X1).sum(dim=1), (cosine_XS == gold_X1).sum(dim=1) - 1
    return (1 + nearer_X + equal_X / 2).double().cpu()


def composition_ranks(matrix_SDD: Tensor, triple_N3: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each (r1, r2, r3) the rank of r3 among all directed relations by cosine with M_1 M_2, and that cosine; float64 [N] each."""
    rank_N, cosine_N = torch.empty(len(triple_N3), dtype=torch.float64), torch.empty(len(triple_N3), dtype=torch.float64)
    for part, cosine_BS in cosine_blocks(matrix_SDD, triple_N3[:, :2]):
        target_B = triple_N3[part, 2]
        rank_N[part] = target_ranks(cosine_BS, target_B)
        cosine_N[part] = cosine_BS.gather(1, target_B.to(cosine_BS.device)[:, None])[:, 0].double().cpu()
    return rank_N, cosine_N


def triples_of(compositions: Sequence[Composition]) -> Tensor:
    """Return (r1, r2, r3) of each composition; int64 [N, 3]."""
    return torch.tensor([(one.r1, one.r2, one.r3) for one in compositions], dtype=torch.int64).reshape(-1, 3)


@dataclass(frozen=True, eq=False, slots=True)
class CompositionReport:
    """The paper's evaluation on a list of compositions: how near M_3 is to M_1 M_2, and to M_1 M with a random M in place of M_2.

    MR and MRR are NaN for an empty list. ``chance_mr`` and ``chance_mrr`` are those of a random order of the relations.
    """

    triple_N3: Tensor
    rank_N: Tensor
    cosine_N: Tensor
    random_rank_WN: Tensor  # a row for each draw of the random M
    num_directed: int

    @property
    def mr(self) -> float:
        """Return the mean rank of r3."""
        return mean_rank(self.rank_N)

    @property
    def mrr(self) -> float:
        """Return the mean of 1/rank of r3."""
        return mean_reciprocal_rank(self.rank_N)

    @property
    def random_mr(self) -> float:
        """Return the mean rank with a random M_2, over all draws."""
        return mean_rank(self.random_rank_WN)

    @property
    def random_mrr(self) -> float:
        """Return the mean of 1/rank with a random M_2, over all draws."""
        return mean_reciprocal_rank(self.random_rank_WN)

    @property
    def chance_mr(self) -> float:
        """Return (S + 1)/2, the mean rank in a random order."""
        return (self.num_directed + 1) / 2

    @property
    def chance_mrr(self) -> float:
        """Return (1 + 1/2 + … + 1/S)/S, the mean of 1/rank in a random order."""
        return sum(1 / rank for rank in range(1, self.num_directed + 1)) / self.num_directed

    def to_json(self) -> dict[str, float | int | None]:
        """Return the figures, null for what is not defined."""
        names = ("mr", "mrr", "random_mr", "random_mrr", "chance_mr", "chance_mrr")
        figures = {name: value if (value := float(getattr(self, name))) == value else None for name in names}
        return {"n": len(self.rank_N), "relations": self.num_directed, "draws": len(self.random_rank_WN), **figures}

    def table(self, relations: Vocab) -> pa.Table:
        """Return one row a composition: its relations as paths, rank, cosine, and the mean rank with a random M_2."""
        names = directed_names(relations)
        columns = {f"r{step + 1}": [names[number] for number in self.triple_N3[:, step].tolist()] for step in range(3)}
        random_N = self.random_rank_WN.mean(dim=0) if len(self.random_rank_WN) else torch.full_like(self.rank_N, float("nan"))
        figures = {"rank": self.rank_N.tolist(), "cosine": self.cosine_N.tolist(), "random_rank": random_N.tolist()}
        text = {name: pa.array(values, pa.utf8()) for name, values in columns.items()}
        return pa.table(text | {name: pa.array(values, pa.float64()) for name, values in figures.items()})


def evaluate_compositions(matrix_SDD: Tensor, compositions: Sequence[Composition], generator: torch.Generator, draws: int = 5) -> CompositionReport:
    """Rank M_3 by cosine with M_1 M_2 for each composition, and again ``draws`` times with M_2 drawn uniformly from all directed relations.

    The second tells whether r3 is near for being like r1 alone (the paper's RandomM2).
    """
    triple_N3 = triples_of(compositions)
    rank_N, cosine_N = composition_ranks(matrix_SDD, triple_N3)
    drawn = []
    for _ in range(draws):
        random_N = torch.randint(len(matrix_SDD), (len(triple_N3),), generator=generator)
        changed_N3 = torch.stack([triple_N3[:, 0], random_N, triple_N3[:, 2]], dim=1)
        drawn.append(composition_ranks(matrix_SDD, changed_N3)[0])
    random_rank_WN = torch.stack(drawn) if drawn else torch.empty((0, len(rank_N)), dtype=torch.float64)
    return CompositionReport(triple_N3, rank_N, cosine_N, random_rank_WN, len(matrix_SDD))


def join_sizes(index: PairIndex) -> Tensor:
    """Return for every pair (r1, r2) the rows of their join, Σ_e (pairs of r1 that end at e)·(pairs of r2 that begin at e); float64 [S, S]."""
    S, R = index.num_directed, index.num_relations
    relation_N = np.repeat(np.arange(S), index.size_S)
    join_SS = torch.zeros((S, S), dtype=torch.float64)
    for low in range(0, index.num_entities, ENTITY_BLOCK):
        inside_N = (index.head_N >= low) & (index.head_N < low + ENTITY_BLOCK)
        width = min(ENTITY_BLOCK, index.num_entities - low)
        place_X = relation_N[inside_N] * width + index.head_N[inside_N] - low
        begins_SE = torch.from_numpy(np.bincount(place_X, minlength=S * width).reshape(S, width)).double()
        ends_SE = begins_SE.roll(R, dims=0)  # r ends where its inverse begins
        join_SS += ends_SE @ begins_SE.T
    return join_SS


def joined_pairs(index: PairIndex, min_rows: int = 1) -> Tensor:
    """Return the pairs (r1, r2), r2 ≠ r1⁻¹, whose join has at least ``min_rows`` rows, sorted; int64 [X, 2]."""
    join_SS = join_sizes(index)
    number_S = torch.arange(index.num_directed)
    join_SS[number_S, (number_S + index.num_relations) % index.num_directed] = 0
    return (join_SS >= max(1, min_rows)).nonzero()


@dataclass(frozen=True, eq=False, slots=True)
class NearestRelations:
    """The relations nearest to M_1 M_2 for each of X pairs; ``left_out`` says in words which ones were not considered.

    Where fewer than T relations remain the last places hold relation -1 and cosine -inf.
    """

    pair_X2: Tensor
    relation_XT: Tensor
    cosine_XT: Tensor
    left_out: str

    def table(self, relations: Vocab) -> pa.Table:
        """Return one row for each pair and place: path steps, place from 1, relation and cosine."""
        names = directed_names(relations)
        keep_Y2 = (self.relation_XT >= 0).nonzero()
        pair_Y2, place_Y = self.pair_X2[keep_Y2[:, 0]], keep_Y2[:, 1]
        relation_Y, cosine_Y = self.relation_XT[keep_Y2[:, 0], place_Y], self.cosine_XT[keep_Y2[:, 0], place_Y]
        text = {"r1": pair_Y2[:, 0], "r2": pair_Y2[:, 1], "nearest": relation_Y}
        columns = {name: pa.array([names[number] for number in numbers.tolist()], pa.utf8()) for name, numbers in text.items()}
        return pa.table(columns | {"place": pa.array((place_Y + 1).tolist(), pa.int64()), "cosine": pa.array(cosine_Y.tolist(), pa.float64())})


def leave_out_of(cosine_BS: Tensor, pair_B2: Tensor, leave_out: Filter, alone: frozenset[int]) -> Tensor:
    """Set to -inf, in place, the cosines of the relations that a filter leaves out for each pair (r1, r2); see :func:`nearest`."""
    S = cosine_BS.shape[1]
    pair_B2 = pair_B2.to(cosine_BS.device)
    if leave_out.same:
        cosine_BS.scatter_(1, pair_B2, -torch.inf)
    if leave_out.inverse:
        cosine_BS.scatter_(1, (pair_B2 + S // 2) % S, -torch.inf)
    if leave_out.self_relations and alone:
        cosine_BS[:, sorted(alone)] = -torch.inf
    return cosine_BS


def nearest(
    matrix_SDD: Tensor, pair_X2: Tensor, top: int = 5, leave_out: Filter = NOTHING_LEFT_OUT, alone: frozenset[int] = frozenset()
) -> NearestRelations:
    """Find the ``top`` relations nearest to M_1 M_2 for each pair, nearest first.

    M_1 M_2 is most often nearest to M_1 and M_2 themselves. A filter of ``relcode.graph.compositions`` leaves out what it drops: r1 and r2
    (``same``), their inverses (``inverse``), and the relations of ``alone`` (``self_relations``, those that only join an entity with itself).
    """
    shape = (len(pair_X2), min(top, len(matrix_SDD)))
    relation_XT, cosine_XT = torch.empty(shape, dtype=torch.int64), torch.empty(shape)
    for part, cosine_BS in cosine_blocks(matrix_SDD, pair_X2):
        best_BT = leave_out_of(cosine_BS, pair_X2[part], leave_out, alone).topk(shape[1], dim=1)
        cosine_XT[part] = best_BT.values.float().cpu()
        relation_XT[part] = torch.where(best_BT.values.isinf(), -1, best_BT.indices).cpu()
    return NearestRelations(pair_X2, relation_XT, cosine_XT, leave_out.drops)
