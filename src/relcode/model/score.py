"""The bilinear score of a fact and of a path, and the record that holds what is needed to score.

    score(h, r, t)        = u_h M_r v_t               RESCAL (Nickel et al. 2011) with a head vector u and a tail vector v for each entity
    score(h, r1/…/rl, t)  = u_h M_r1 … M_rl v_t       a path: first r1, then r2, … (Takahashi et al. 2018, section 2)

Vectors are rows. u_h M_r is called the *query* of (h, r): scoring, ranking and answering are all a query against candidates' tail vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from relcode.ops.diagonal import times

EVERY = slice(None)


def relation_queries(vector_BD: Tensor, matrix_SDD: Tensor, relation_B: Tensor) -> Tensor:
    """Return q_b = x_b M_{r_b} for each row, by one product for each relation that occurs.

    Rows are brought into the order of their relations where they are not, so that no d×d matrix is copied for a row. With relations on the CPU and in
    order nothing waits for the device, since the sizes of the products are needed here.
    """
    relation_B = relation_B.cpu()
    if not bool((relation_B.diff() >= 0).all()):
        order_B = relation_B.argsort(stable=True)
        query_BD = relation_queries(vector_BD[order_B.to(vector_BD.device)], matrix_SDD, relation_B[order_B])
        return query_BD[order_B.argsort().to(vector_BD.device)]
    relation_T, size_T = torch.unique_consecutive(relation_B, return_counts=True)
    groups = zip(vector_BD.split(size_T.tolist()), relation_T.tolist(), strict=True)
    return torch.cat([vector_BD[:0], *(times(group_WD, matrix_SDD[relation]) for group_WD, relation in groups)])


def path_query(vector_BD: Tensor, matrix_SDD: Tensor, path: Sequence[int]) -> Tensor:
    """Return q_b = x_b M_1 M_2 … M_l for the directed relations of one path, taken from its first to its last; the empty path gives x itself."""
    for relation in path:
        vector_BD = times(vector_BD, matrix_SDD[relation])
    return vector_BD


@dataclass(frozen=True)
class Scorer:
    """What is in force when scoring: head vectors, tail vectors, a matrix for each directed relation, and which entities were trained.

    ``seen_E`` is true where the entity occurs in the training facts. The others are taken to have the zero vector, as heads and tails alike:
    ``with_unseen_zero`` makes it so.
    """

    head_ED: Tensor
    tail_ED: Tensor
    matrix_SDD: Tensor
    seen_E: Tensor

    def __post_init__(self) -> None:
        """Check that the shapes belong together."""
        E, D = self.head_ED.shape
        S = len(self.matrix_SDD)
        if self.tail_ED.shape != (E, D) or self.matrix_SDD.shape[:2] != (S, D) or D % self.matrix_SDD.shape[2] or self.seen_E.shape != (E,) or S % 2:
            raise ValueError(
                f"a scorer needs head [E, D], tail [E, D], matrix [2R, D, D] (or blocks, [2R, D, b]) and seen [E]; given {list(self.head_ED.shape)}, "
                f"{list(self.tail_ED.shape)}, {list(self.matrix_SDD.shape)} and {list(self.seen_E.shape)}"
            )

    @property
    def num_entities(self) -> int:
        """Return E."""
        return len(self.head_ED)

    @property
    def num_relations(self) -> int:
        """Return R, the number of named relations; 2R are directed."""
        return len(self.matrix_SDD) // 2

    @property
    def device(self) -> torch.device:
        """Return where the vectors lie."""
        return self.head_ED.device

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of the numbers, float32 but in tests."""
        return self.head_ED.dtype

    def to(self, device: torch.device | str) -> Scorer:
        """Return this scorer on a device."""
        return Scorer(self.head_ED.to(device), self.tail_ED.to(device), self.matrix_SDD.to(device), self.seen_E.to(device))

    def with_unseen_zero(self) -> Scorer:
        """Return this scorer with the zero vector, head and tail, for each entity never trained: itself where that is so already, else a copy."""
        unseen_E = ~self.seen_E
        if not (self.head_ED[unseen_E].any() or self.tail_ED[unseen_E].any()):
            return self
        unseen_E1 = unseen_E[:, None]
        return replace(self, head_ED=self.head_ED.masked_fill(unseen_E1, 0), tail_ED=self.tail_ED.masked_fill(unseen_E1, 0))

    def queries(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        """Return u_h M_r for each pair of an entity and a directed relation; [B, D]."""
        return relation_queries(self.head_ED[head_B.to(self.device)], self.matrix_SDD, relation_B)

    def path_queries(self, head_B: Tensor, path: Sequence[int]) -> Tensor:
        """Return u_h M_1 … M_l for each head and one path of directed relations; [B, D]."""
        return path_query(self.head_ED[head_B.to(self.device)], self.matrix_SDD, path)

    def scores(self, query_BD: Tensor, candidates: slice = EVERY, out: Tensor | None = None) -> Tensor:
        """Return each query's score with each candidate, q_b v_t for the entities t of the slice; [B, E'], written to ``out`` where given."""
        return torch.mm(query_BD, self.tail_ED[candidates].T, out=out)

    def score_facts(self, facts_N3: Tensor) -> Tensor:
        """Return u_h M_r v_t for each fact, whose relation may be directed (0 … 2R-1); [N]."""
        head_N, relation_N, tail_N = facts_N3.unbind(1)
        return (self.queries(head_N, relation_N) * self.tail_ED[tail_N.to(self.device)]).sum(dim=1)
