from __future__ import annotations

import itertools
import math

import pytest
import torch
from small_model import small_model

from relcode.analysis.explain import answers_per_head, grounded_paths, join, similar_facts, supports, without_fact
from relcode.errors import NotFinite
from relcode.graph.adjacency import Adjacency
from relcode.graph.facts import directed, unique_facts
from relcode.model.score import Scorer


def random_facts(seed: int, entities: int = 7, relations: int = 3, number: int = 36) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    columns = [torch.randint(size, (number,), generator=generator) for size in (entities, relations, entities)]
    return unique_facts(torch.stack(columns, dim=1), entities, relations)


def random_scorer(seed: int, entities: int = 7, relations: int = 3, dim: int = 4) -> Scorer:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Scorer(normal(entities, dim), normal(entities, dim), normal(2 * relations, dim, dim), torch.ones(entities, dtype=torch.bool))


def slow_paths(facts: torch.Tensor, head: int, relation: int, tail: int, R: int, E: int) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    edges = [tuple(edge) for edge in directed(facts, R).tolist()]
    found: list[list[tuple[tuple[int, ...], tuple[int, ...]]]] = []
    for length in (1, 2, 3):
        here = []
        for between in itertools.permutations([e for e in range(E) if e not in (head, tail)], length - 1):
            stops = (head, *between, tail)
            steps = [[r for a, r, b in edges if (a, b) == (stops[i], stops[i + 1])] for i in range(length)]
            here += [(path, between) for path in itertools.product(*steps) if length < 3 or all(r % R != relation % R for r in path)]
        found.append(sorted(here))
    return found


@pytest.mark.parametrize("relation", [0, 4])
def test_every_path_is_found_and_no_other(relation: int) -> None:
    for seed, head, tail in ((0, 0, 1), (1, 3, 2), (2, 5, 5)):
        facts = without_fact(random_facts(seed), head, relation, tail, 3)
        found = grounded_paths(Adjacency.build(facts, 7, 3), head, relation, tail)
        fast = [sorted(zip(map(tuple, paths.tolist()), map(tuple, between.tolist()), strict=True)) for paths, between in found]
        assert fast == slow_paths(facts, head, relation, tail, 3, 7)
        assert sum(map(len, fast)) > 3


def test_the_fact_itself_is_left_out_in_both_directions() -> None:
    facts = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 1]])
    assert without_fact(facts, 0, 0, 1, 2).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert without_fact(facts, 1, 2, 0, 2).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert without_fact(facts, 1, 1, 0, 2).tolist() == facts.tolist()


def test_a_join_over_the_limit_leaves_out_hubs_first() -> None:
    left, right, degree = torch.tensor([2, 0, 1]), torch.tensor([0, 0, 0, 1, 2, 5]), torch.tensor([9, 1, 2, 0, 0, 0])
    assert [pair.tolist() for pair in join(left, right, degree)] == [[0, 1, 1, 1, 2], [4, 0, 1, 2, 3]]
    assert [pair.tolist() for pair in join(left, right, degree, limit=4)] == [[0, 2], [4, 3]]
    assert [len(pair) for pair in join(left[:0], right, degree)] == [0, 0]


def test_what_a_path_adds_is_its_part_of_the_score() -> None:
    scorer = random_scorer(6)
    facts = without_fact(random_facts(0), 0, 4, 1, 3)
    found = supports(scorer, Adjacency.build(facts, 7, 3), 0, 4, 1)
    assert len(found) > 2 and [one.weight for one in found] == sorted((one.weight for one in found), reverse=True)
    edges = {tuple(edge) for edge in directed(facts, 3).tolist()}
    above_mean = scorer.tail_ED[1] - scorer.tail_ED.mean(dim=0)
    for one in found:
        product = torch.eye(4, dtype=torch.float64)
        for step in one.path:
            product = product @ scorer.matrix_SDD[step]
        c = (scorer.matrix_SDD[4] * product).sum() / (product * product).sum()
        assert one.adds == pytest.approx(float(c * (scorer.head_ED[0] @ product @ above_mean)))
        rest = scorer.matrix_SDD[4] - c * product
        assert float((rest * product).sum()) == pytest.approx(0, abs=1e-9)  # the rest is orthogonal, so c is the path's part
        assert one.cosine == pytest.approx(float(torch.cosine_similarity(product.flatten(), scorer.matrix_SDD[4].flatten(), dim=0)))
        for between in one.between:
            stops = (0, *between, 1)
            assert all((stops[i], step, stops[i + 1]) in edges for i, step in enumerate(one.path))


def test_a_path_worked_by_hand() -> None:
    # (a, s, c): a -r-> b -s-> c. P = M_r M_s = [[2, 1], [1, 0]], M_s = [[0, 1], [1, 0]]: c = 2/6. v̄ of a, b, c = (1, 2), v_c − v̄ = (−2, −2).
    # u_a P (v_c − v̄) = (2, 1)·(−2, −2) = −6: the path speaks against it.
    # (a, s, b) has a -r-> b: ⟨M_s, M_r⟩ = 2, ‖M_r‖² = 6, (1, 2)·(2, 2) = 6.
    model = small_model()
    adjacency = Adjacency.build(model.dataset.train, 4, 2)
    assert all(one.path != (0, 1) for one in supports(model.scorer, adjacency, 0, 1, 2))
    (direct,) = [one for one in supports(model.scorer, adjacency, 0, 1, 1) if one.path == (0,)]
    assert (direct.groundings, direct.between) == (1, ((),))
    assert direct.adds == pytest.approx(2 / 6 * 6) and direct.cosine == pytest.approx(2 / math.sqrt(6 * 2))


def test_a_diverged_model_has_no_reasons() -> None:
    model = small_model(tail_ED=torch.full((4, 2), float("nan")))
    with pytest.raises(NotFinite):
        supports(model.scorer, Adjacency.build(model.dataset.train, 4, 2), 0, 1, 1)


def test_no_facts_no_paths() -> None:
    empty = torch.empty((0, 3), dtype=torch.int64)
    assert supports(random_scorer(0), Adjacency.build(empty, 7, 3), 0, 1, 2) == []
    assert similar_facts(random_scorer(0), empty, 0, 1, 2, 3) == []
    assert math.isnan(answers_per_head(empty, 0, 3))


@pytest.mark.parametrize("relation", [1, 4])
def test_similar_facts_agree_with_a_loop(relation: int) -> None:
    scorer, facts = random_scorer(3), random_facts(3)
    slow = []
    for h, r, t in directed(facts, 3).tolist():
        of_head = float(torch.cosine_similarity(scorer.head_ED[h], scorer.head_ED[0], dim=0))
        of_tail = float(torch.cosine_similarity(scorer.tail_ED[t], scorer.tail_ED[2], dim=0))
        if r == relation and of_head > 0 and of_tail > 0:
            slow.append((-of_head * of_tail, h, t))
    assert slow
    assert [(h, t) for h, t, _, _ in similar_facts(scorer, facts, 0, relation, 2, 3)] == [(h, t) for _, h, t in sorted(slow)[:3]]


def test_answers_per_head_in_both_directions() -> None:
    facts = torch.tensor([[0, 0, 1], [0, 0, 2], [1, 0, 2], [1, 1, 2]])
    assert answers_per_head(facts, 0, 2) == 1.5 and answers_per_head(facts, 2, 2) == 1.5 and answers_per_head(facts, 3, 2) == 1


def test_paths_that_carry_come_first_with_the_grounding_that_does() -> None:
    # 0 -r-> 1, 2, 3 -r-> 4 are three groundings of r/r, 0 -s-> 5 -s-> 4 one of s/s. Without (0, r, 2) the belief falls by 2, without (3, r, 4) by 1.
    facts = torch.tensor([[0, 0, 1], [1, 0, 4], [0, 0, 2], [2, 0, 4], [0, 0, 3], [3, 0, 4], [0, 1, 5], [5, 1, 4]])
    adjacency = Adjacency.build(facts, 7, 3)
    one_E1 = torch.ones(7, 1, dtype=torch.float64)
    scorer = Scorer(one_E1, torch.arange(7.0)[:, None].double(), torch.ones(6, 1, 1, dtype=torch.float64), one_E1[:, 0] > 0)  # every cosine is 1
    plain = {one.path: one for one in supports(scorer, adjacency, 0, 2, 4)}
    measured = {one.path: one for one in supports(scorer, adjacency, 0, 2, 4, {(0, 0, 2): 2.0, (3, 0, 4): 1.0, (0, 1, 5): -1.0})}
    assert list(plain) == list(measured) == [(0, 0), (1, 1)] and all(one.carries is None for one in plain.values())
    assert (measured[0, 0].carries, measured[1, 1].carries) == (2, -1)
    assert (plain[0, 0].between, measured[0, 0].between) == (((1,), (2,), (3,)), ((2,), (3,), (1,)))
    assert [one.path for one in supports(scorer, adjacency, 0, 2, 4, {(0, 0, 2): -2.0, (5, 1, 4): 1.0})] == [(1, 1), (0, 0)]
