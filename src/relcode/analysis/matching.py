"""Do two runs find the same codes? The dimensions of one matched with those of the other, and the agreement against chance.

    sim(i, j) = cos of column i of share_a and column j of share_b        agreement = mean of sim over the best one-to-one matching

A code's dimensions have no order of their own, so runs are compared after the matching that agrees best (Kuhn 1955). Such a matching agrees somewhat
by chance; the baseline shuffles the relations of one run and matches again. It tests the paper's claim that which relations go together does not
depend on the initial values.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.codes import RelationCodes
from relcode.errors import MissingExtra, RelcodeError


@dataclass(frozen=True, eq=False)
class CodeMatch:
    """The best matching of the dimensions of two runs."""

    dimension_a: tuple[int, ...]  # from 1, as people read them
    dimension_b: tuple[int, ...]  # matched to dimension_a, one by one
    similarity: tuple[float, ...]  # the columns' cosine for each matched pair
    agreement: float  # mean of ``similarity``
    relation_agreement: float  # mean cosine of a relation's two codes after the matching
    same_dominant: float  # part of the relations whose largest entry is at the same dimension
    chance_mean: float  # of ``agreement`` with the relations of b shuffled
    chance_std: float
    p_value: float  # part of the shuffles that agree as well: (1 + those)/(1 + all)
    relations: int  # directed relations both runs know

    def table(self) -> pa.Table:
        """Return one row a matched pair of dimensions."""
        return pa.table({"dimension_a": list(self.dimension_a), "dimension_b": list(self.dimension_b), "similarity": list(self.similarity)})


def match_codes(codes_a: RelationCodes, codes_b: RelationCodes, generator: torch.Generator, shuffles: int = 200) -> CodeMatch:
    """Match the dimensions of two runs over the relations both know, and compare the agreement with that of shuffled relations."""
    a_XC, b_XC = _common_rows(codes_a, codes_b)
    row_M, column_M = best_matching(column_cosines(a_XC, b_XC))
    similarity_M = column_cosines(a_XC, b_XC)[row_M, column_M]
    chance = torch.stack([_agreement(a_XC, b_XC[torch.randperm(len(b_XC), generator=generator)]) for _ in range(shuffles)])
    cosine_X = torch.nn.functional.cosine_similarity(a_XC[:, row_M], b_XC[:, column_M], dim=1)
    # A dimension left without a partner is nobody's equal.
    partner_C = torch.full((a_XC.shape[1],), -1)
    partner_C[row_M] = column_M
    same_X = (partner_C[a_XC.argmax(dim=1)] == b_XC.argmax(dim=1)) & a_XC.any(dim=1) & b_XC.any(dim=1)
    agreement = similarity_M.mean()
    return CodeMatch(
        dimension_a=tuple((row_M + 1).tolist()),
        dimension_b=tuple((column_M + 1).tolist()),
        similarity=tuple(similarity_M.tolist()),
        agreement=float(agreement),
        relation_agreement=float(cosine_X.mean()),
        same_dominant=float(same_X.double().mean()),
        chance_mean=float(chance.mean()),
        chance_std=float(chance.std()),
        p_value=(1 + int((chance >= agreement).sum())) / (1 + shuffles),
        relations=len(a_XC),
    )


def column_cosines(a_XC: Tensor, b_XC: Tensor) -> Tensor:
    """Return the cosine of every column of one with every column of the other; 0 for a column of zeros."""
    return torch.nn.functional.normalize(a_XC, dim=0).T @ torch.nn.functional.normalize(b_XC, dim=0)


def best_matching(similarity_CC: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the one-to-one matching with the largest sum of similarities; as many pairs as the shorter side has."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise MissingExtra("scipy", "analysis", "matching the codes of two runs") from None
    row_M, column_M = linear_sum_assignment(similarity_CC.numpy(), maximize=True)
    return torch.from_numpy(row_M), torch.from_numpy(column_M)


def _agreement(a_XC: Tensor, b_XC: Tensor) -> Tensor:
    """Return the mean similarity of the best matching."""
    similarity_CC = column_cosines(a_XC, b_XC)
    return similarity_CC[best_matching(similarity_CC)].mean()


def _common_rows(codes_a: RelationCodes, codes_b: RelationCodes) -> tuple[Tensor, Tensor]:
    """Return the shares of the relations that both runs know, in the same order."""
    place_b = {name: number for number, name in enumerate(codes_b.names)}
    common = [name for name in codes_a.names if name in place_b]
    if len(common) < 2:
        raise RelcodeError("the two runs have no relations in common, so their codes cannot be compared: give two runs on the same data")
    place_a = {name: number for number, name in enumerate(codes_a.names)}
    return codes_a.share_SC[[place_a[name] for name in common]], codes_b.share_SC[[place_b[name] for name in common]]
