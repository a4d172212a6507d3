from __future__ import annotations

import pytest
import torch

from relcode.model.score import Scorer, path_query, relation_queries
from relcode.ops.diagonal import compose


def make_scorer(E: int = 5, R: int = 2, D: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> Scorer:
    generator = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return Scorer(gaussian(E, D), gaussian(E, D), gaussian(2 * R, D, D), torch.ones(E, dtype=torch.bool))


def slow_score(scorer: Scorer, head: int, path: tuple[int, ...], tail: int) -> float:
    row = scorer.head_ED[head].tolist()
    for relation in path:
        matrix = scorer.matrix_SDD[relation].tolist()
        row = [sum(row[i] * matrix[i][j] for i in range(len(row))) for j in range(len(row))]
    return sum(x * y for x, y in zip(row, scorer.tail_ED[tail].tolist(), strict=True))


def test_a_score_worked_by_hand() -> None:
    # u = (1, 2), M = [[0, 1], [3, 0]], v = (5, 7): u M = (6, 1) and u M v = 37; with M transposed it would be 29.
    head = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    tail = torch.tensor([[0.0, 0.0], [5.0, 7.0]])
    matrix = torch.stack([torch.tensor([[0.0, 1.0], [3.0, 0.0]]), torch.eye(2)])
    scorer = Scorer(head, tail, matrix, torch.ones(2, dtype=torch.bool))
    assert scorer.queries(torch.tensor([0]), torch.tensor([0])).tolist() == [[6.0, 1.0]]
    assert scorer.score_facts(torch.tensor([[0, 0, 1]])).tolist() == [37.0]
    assert scorer.scores(torch.tensor([[6.0, 1.0]])).tolist() == [[0.0, 37.0]]


def test_a_path_goes_through_its_first_relation_first() -> None:
    # e1 M1 = e2 and e2 M2 = e3, so the path r1/r2 leads from e1 to e3, and r2/r1 nowhere.
    step, turn = torch.zeros(3, 3), torch.zeros(3, 3)
    step[0, 1], turn[1, 2] = 1, 1
    scorer = Scorer(torch.eye(3), torch.eye(3), torch.stack([step, turn]), torch.ones(3, dtype=torch.bool))
    assert scorer.path_queries(torch.tensor([0]), (0, 1)).tolist() == [[0, 0, 1]]
    assert scorer.path_queries(torch.tensor([0]), (1, 0)).tolist() == [[0, 0, 0]]
    assert torch.equal(compose(step, turn), step @ turn)
    assert compose(step, turn)[0, 2] == 1


def test_every_triple_and_path_agrees_with_the_loop() -> None:
    scorer = make_scorer()
    E, S = scorer.num_entities, len(scorer.matrix_SDD)
    head_B, relation_B = (grid.flatten() for grid in torch.meshgrid(torch.arange(E), torch.arange(S), indexing="ij"))
    score_BE = scorer.scores(scorer.queries(head_B, relation_B))
    for row, (head, relation) in enumerate(zip(head_B.tolist(), relation_B.tolist(), strict=True)):
        for tail in range(E):
            expected = slow_score(scorer, head, (relation,), tail)
            assert score_BE[row, tail].item() == pytest.approx(expected, abs=1e-12)
            assert scorer.score_facts(torch.tensor([[head, relation, tail]])).item() == pytest.approx(expected, abs=1e-12)
    for path in [(0, 1), (3, 3, 2), (1,)]:
        score_EE = scorer.scores(scorer.path_queries(torch.arange(E), path))
        for head in range(E):
            for tail in range(E):
                assert score_EE[head, tail].item() == pytest.approx(slow_score(scorer, head, path, tail), abs=1e-12)


@pytest.mark.parametrize("relations", [[], [2], [0, 0, 0], [0, 1, 3], [3, 0, 3, 1, 0, 3]])
def test_queries_in_any_order_of_relations(relations: list[int]) -> None:
    scorer = make_scorer()
    vector_BD = torch.randn(len(relations), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    query_BD = relation_queries(vector_BD, scorer.matrix_SDD, torch.tensor(relations, dtype=torch.int64))
    assert query_BD.shape == vector_BD.shape
    for row, relation in enumerate(relations):
        assert torch.allclose(query_BD[row], vector_BD[row] @ scorer.matrix_SDD[relation])


def test_gradients_by_finite_differences() -> None:
    scorer = make_scorer(R=1)
    relation_B = torch.tensor([1, 0, 1, 0, 0])

    def total(vector_BD: torch.Tensor, matrix_SDD: torch.Tensor) -> torch.Tensor:
        return relation_queries(vector_BD, matrix_SDD, relation_B)

    assert torch.autograd.gradcheck(total, (scorer.head_ED.clone().requires_grad_(), scorer.matrix_SDD.clone().requires_grad_()))
    path = (scorer.head_ED.clone().requires_grad_(), scorer.matrix_SDD.clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda vector, matrix: path_query(vector, matrix, (0, 1, 0)), path)


def test_a_slice_of_candidates_and_a_given_place() -> None:
    scorer = make_scorer()
    query_BD = scorer.queries(torch.tensor([0, 4]), torch.tensor([1, 3]))
    out = torch.empty(2, 2, dtype=torch.float64)
    assert scorer.scores(query_BD, slice(1, 3), out=out) is out
    assert torch.allclose(out, scorer.scores(query_BD)[:, 1:3])


def test_entities_never_trained_get_the_zero_vector_whatever_is_stored() -> None:
    scorer = make_scorer()
    seen_E = torch.tensor([True, False, True, True, True])
    scorer.head_ED[1], scorer.tail_ED[1] = float("nan"), 7
    partly = Scorer(scorer.head_ED, scorer.tail_ED, scorer.matrix_SDD, seen_E).with_unseen_zero()
    assert not partly.head_ED[1].any() and not partly.tail_ED[1].any()
    assert torch.equal(partly.head_ED[seen_E], scorer.head_ED[seen_E]) and torch.equal(partly.tail_ED[seen_E], scorer.tail_ED[seen_E])
    assert partly.with_unseen_zero() is partly
    assert scorer.tail_ED[1, 0] == 7  # what was given is left alone


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    scorer = make_scorer()
    with pytest.raises(ValueError, match="needs head"):
        Scorer(scorer.head_ED, scorer.tail_ED[1:], scorer.matrix_SDD, scorer.seen_E)
    with pytest.raises(ValueError, match="needs head"):
        Scorer(scorer.head_ED, scorer.tail_ED, scorer.matrix_SDD[1:], scorer.seen_E)
