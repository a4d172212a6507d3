"""Why a fact is believed: the paths of known facts that join its head with its tail, and what each of them carries of the score.

For a path with matrix P = M_1 … M_l the matrix of the relation splits into a part along P and a rest that is orthogonal to it,

    M_R = c P + rest        c = ⟨M_R, P⟩/⟨P, P⟩ = cos(M_R, P)·‖M_R‖/‖P‖

so the score splits too, and the path's part of it, against the mean over all trained candidates (v̄ the mean of their tail vectors), is

    adds = c · u_h P (v_t − v̄)        of        u_h M_R (v_t − v̄)

Parts of different paths overlap (the matrices are not orthogonal to each other): they do not sum up to the whole. Whether a path is *needed* is
another question: u_h knows of the path by its first fact alone, v_t by its last, and how far the belief would fall without each of these is
measured by ``relcode.analysis.influence``. Where that is given,

    carries = the falls of its facts at h and at t, summed, for the grounding with the largest sum

and paths are put in the order of cos(M_R, P) · carries, then (and where it is not given, or not above zero) of

    weight = cos(M_R, P) · adds / l

so that of two that say the same the one that needs fewer facts comes first.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from relcode.analysis.composition import flat_unit
from relcode.errors import NotFinite
from relcode.graph.adjacency import Adjacency
from relcode.model.score import Scorer, relation_queries
from relcode.ops.diagonal import compose

EXPANSIONS = 2**16  # grounded paths of one length that are looked at; beyond it those through the entities with most edges go first
CANDIDATES = 256  # path types of one length whose matrices are multiplied out, those with the highest u_h P (v_t − v̄)
SHOWN = 3  # groundings kept of a path type

NumberedFact = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PathSupport:
    """A path type that joins h and t: directed relations, its matrix' cosine with M_R, what it adds, and the entities between.

    ``between`` holds at most ``SHOWN`` groundings of ``groundings`` in all: those that carry most, then those through the entities with fewest edges.
    """

    path: tuple[int, ...]
    between: tuple[tuple[int, ...], ...]
    groundings: int
    cosine: float
    adds: float
    carries: float | None = None

    @property
    def weight(self) -> float:
        """Return cos · adds / l."""
        return self.cosine * self.adds / len(self.path)

    @property
    def order(self) -> tuple[float, float, int, tuple[int, ...]]:
        """Return what paths are sorted by; of equals the shorter, then the one with lower numbers comes first."""
        return -self.cosine * max(self.carries or 0.0, 0.0), -self.weight, len(self.path), self.path


def without_fact(facts_N3: Tensor, head: int, relation: int, tail: int, num_relations: int) -> Tensor:
    """Return the facts but (h, r, t), whose relation may be directed."""
    if relation >= num_relations:
        head, relation, tail = tail, relation - num_relations, head
    return facts_N3[(facts_N3 != facts_N3.new_tensor([head, relation, tail])).any(dim=1)]


def edges_from(adjacency: Adjacency, entity: int) -> tuple[Tensor, Tensor]:
    """Return relations and tails of the directed edges that leave an entity."""
    part = slice(int(adjacency.offset_E1[entity]), int(adjacency.offset_E1[entity + 1]))
    return adjacency.relation_N[part], adjacency.tail_N[part]


def join(left_X: Tensor, right_Y: Tensor, degree_E: Tensor, limit: int = EXPANSIONS) -> tuple[Tensor, Tensor]:
    """Return positions (i, j) of all pairs with left[i] = right[j]; over ``limit`` pairs, none through the entities with most edges."""
    sorted_Y, order_Y = right_Y.sort(stable=True)
    low_X, high_X = torch.searchsorted(sorted_Y, left_X), torch.searchsorted(sorted_Y, left_X, right=True)
    count_X = high_X - low_X
    by_degree_X = (degree_E[left_X] * len(degree_E) + left_X).argsort(stable=True)
    kept_X = by_degree_X[count_X[by_degree_X].cumsum(0) <= limit].sort().values
    count_X, low_X = count_X[kept_X], low_X[kept_X]
    row_Z = torch.repeat_interleave(count_X)
    place_Z = torch.arange(len(row_Z)) - (count_X.cumsum(0) - count_X)[row_Z] + low_X[row_Z]
    return kept_X[row_Z], order_Y[place_Z]


def grounded_paths(adjacency: Adjacency, head: int, relation: int, tail: int) -> list[tuple[Tensor, Tensor]]:
    """Find the paths of one, two and three edges from head to tail: relations [X, l] and entities between [X, l−1] for each length l.

    No entity occurs twice, but for h = t. Paths of three do not use the relation itself: R/s/s⁻¹ and R/R⁻¹/R resemble R whatever the facts, and what
    they would say is said by similar facts.
    """
    R, degree_E = adjacency.num_relations, adjacency.degree_E
    first_X, to_X = edges_from(adjacency, head)
    last_Y, from_Y = edges_from(adjacency, tail)
    last_Y = (last_Y + R) % (2 * R)  # an edge that leaves t, walked backwards, ends there
    found = [(first_X[to_X == tail][:, None], to_X.new_empty((int((to_X == tail).sum()), 0)))]
    inner_X, inner_Y = (to_X != head) & (to_X != tail), (from_Y != head) & (from_Y != tail)
    first_X, to_X, last_Y, from_Y = first_X[inner_X], to_X[inner_X], last_Y[inner_Y], from_Y[inner_Y]
    i_Z, j_Z = join(to_X, from_Y, degree_E)
    found.append((torch.stack([first_X[i_Z], last_Y[j_Z]], dim=1), to_X[i_Z][:, None]))

    other_X, other_Y = first_X % R != relation % R, last_Y % R != relation % R
    first_X, to_X, last_Y, from_Y = first_X[other_X], to_X[other_X], last_Y[other_Y], from_Y[other_Y]
    begins_E, ends_E = torch.zeros(len(degree_E), dtype=torch.bool), torch.zeros(len(degree_E), dtype=torch.bool)
    begins_E[to_X], ends_E[from_Y] = True, True
    head_N, tail_N, relation_N = adjacency.head_N, adjacency.tail_N, adjacency.relation_N
    middle_M = (begins_E[head_N] & ends_E[tail_N] & (head_N != tail_N) & (relation_N % R != relation % R)).nonzero().squeeze(1)
    i_Z, m_Z = join(to_X, head_N[middle_M], degree_E)
    k_W, j_W = join(tail_N[middle_M[m_Z]], from_Y, degree_E)
    i_W, m_W = i_Z[k_W], middle_M[m_Z[k_W]]
    found.append((torch.stack([first_X[i_W], relation_N[m_W], last_Y[j_W]], dim=1), torch.stack([head_N[m_W], tail_N[m_W]], dim=1)))
    return found


def candidate_mean(scorer: Scorer) -> Tensor:
    """Return v̄, the mean tail vector of the trained entities; [D]."""
    return scorer.tail_ED[scorer.seen_E].mean(dim=0)


def supports(
    scorer: Scorer, adjacency: Adjacency, head: int, relation: int, tail: int, fall: Mapping[NumberedFact, float] | None = None
) -> list[PathSupport]:
    """Return the path types that join h and t and add to the score of (h, R, t), the weightiest first.

    ``adjacency`` is of the training facts without the fact itself. ``fall`` says for the facts of h and t (head, relation as named, tail) how far
    the belief would fall without each.
    """
    found = []
    for path_XL, between_X in grounded_paths(adjacency, head, relation, tail):
        if len(path_XL):
            found += _weigh(scorer, adjacency, (head, relation, tail), path_XL, between_X, fall)
    return sorted((one for one in found if one.adds > 0 and one.cosine > 0), key=lambda one: one.order)


def stored(head: int, relation: int, tail: int, num_relations: int) -> NumberedFact:
    """Return a directed edge as the fact that is stored."""
    return (head, relation, tail) if relation < num_relations else (tail, relation - num_relations, head)


def _weigh(
    scorer: Scorer, adjacency: Adjacency, fact: NumberedFact, path_XL: Tensor, between_X: Tensor, fall: Mapping[NumberedFact, float] | None
) -> list[PathSupport]:
    """Weigh the path types of one length; see the top of this file."""
    head, relation, tail = fact
    path_TL, type_X = torch.unique(path_XL, dim=0, return_inverse=True)
    query_TD = scorer.head_ED[head].expand(len(path_TL), -1)
    for step in range(path_TL.shape[1]):
        query_TD = relation_queries(query_TD, scorer.matrix_SDD, path_TL[:, step])
    gain_T = (query_TD @ (scorer.tail_ED[tail] - candidate_mean(scorer))).cpu()
    if not bool(gain_T.isfinite().all()):
        raise NotFinite("scores are NaN or infinite: the model has diverged and cannot explain itself")
    target_DD, degree_E = scorer.matrix_SDD[relation], adjacency.degree_E.tolist()
    results = []
    for number in gain_T.sort(descending=True, stable=True).indices[:CANDIDATES].tolist():
        path = tuple(path_TL[number].tolist())
        product_DD = functools.reduce(compose, (scorer.matrix_SDD[step] for step in path))
        cosine = float((flat_unit(product_DD[None]) * flat_unit(target_DD[None])).sum())
        scale = cosine * float(target_DD.norm()) / max(float(product_DD.norm()), 1e-30)
        between = between_X[type_X == number].tolist()
        carried = [0.0 if fall is None else _carried(fact, path, row, fall, scorer.num_relations) for row in between]
        edges = [sum(degree_E[entity] for entity in row) for row in between]
        shown = sorted(zip(carried, edges, between, strict=True), key=lambda one: (-one[0], *one[1:]))
        support = PathSupport(path, tuple(tuple(row) for *_, row in shown[:SHOWN]), len(between), cosine, scale * float(gain_T[number]))
        results.append(support if fall is None else replace(support, carries=shown[0][0]))
    return results


def _carried(fact: NumberedFact, path: tuple[int, ...], between: list[int], fall: Mapping[NumberedFact, float], num_relations: int) -> float:
    """Return the falls of the facts of a grounded path that hold its head or its tail, each once."""
    stops = (fact[0], *between, fact[2])
    edges = {stored(stops[step], relation, stops[step + 1], num_relations) for step, relation in enumerate(path)}
    return sum(fall.get(edge, 0.0) for edge in sorted(edges))


def similar_facts(scorer: Scorer, facts_N3: Tensor, head: int, relation: int, tail: int, top: int) -> list[tuple[int, int, float, float]]:
    """Return the facts (h', R, t') most like (h, R, t): entities, cos(u_h, u_h') and cos(v_t, v_t'), by the product of both where positive."""
    R = scorer.num_relations
    pair_X2 = facts_N3[facts_N3[:, 1] == relation % R][:, [0, 2] if relation < R else [2, 0]]
    head_X = torch.cosine_similarity(scorer.head_ED[pair_X2[:, 0].to(scorer.device)], scorer.head_ED[head][None], dim=1).cpu()
    tail_X = torch.cosine_similarity(scorer.tail_ED[pair_X2[:, 1].to(scorer.device)], scorer.tail_ED[tail][None], dim=1).cpu()
    alike_X = head_X.clamp_min(0) * tail_X.clamp_min(0)
    order = alike_X.sort(descending=True, stable=True).indices[:top].tolist()
    return [(int(pair_X2[i, 0]), int(pair_X2[i, 1]), float(head_X[i]), float(tail_X[i])) for i in order if float(alike_X[i]) > 0]


def answers_per_head(facts_N3: Tensor, relation: int, num_relations: int) -> float:
    """Return the mean number of tails that a head of the directed relation has in the facts; NaN where it has none."""
    facts_X3 = facts_N3[facts_N3[:, 1] == relation % num_relations]
    heads = len(facts_X3[:, 0 if relation < num_relations else 2].unique())
    return len(facts_X3) / heads if heads else float("nan")
