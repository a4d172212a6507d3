"""The softmax objective: hand-worked values, a slow loop over all triples, finite differences in float64, edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from relcode.model import softmax
from relcode.model.softmax import compare_at_once, full_softmax, path_backward, path_forward, question_gradients, sampled_softmax
from relcode.ops.room import Room
from relcode.ops.tiles import PlainTiles

E, D, S = 5, 3, 4


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def random(*shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator()) * scale


def numeric_gradient(function, x: Tensor, step: float = 1e-6) -> Tensor:  # type: ignore[no-untyped-def]
    found = torch.zeros_like(x)
    for place in range(x.numel()):
        up, down = x.clone(), x.clone()
        up.view(-1)[place] += step
        down.view(-1)[place] -= step
        found.view(-1)[place] = (function(up) - function(down)) / (2 * step)
    return found


def test_by_hand() -> None:
    # One question, two entities with scores 0 and ln 3; the answer is the second: loss = ln 4 − ln 3.
    query, vector = torch.tensor([[1.0]]), torch.tensor([[0.0], [math.log(3.0)]])
    found = full_softmax(query, vector, torch.tensor([[1]]), torch.tensor([[1.0]]))
    assert float(found.loss_B.sum()) == pytest.approx(math.log(4 / 3))
    assert found.candidate_KD[:, 0].tolist() == pytest.approx([0.25, 0.75])  # share, times the query
    assert found.answer_BMD.tolist() == [[[-1.0]]]  # and the answer's own part, −weight times the query
    assert found.query_BD.tolist() == [[pytest.approx(0.75 * math.log(3) - math.log(3))]]


def slow_loss(head: Tensor, tail: Tensor, matrix: Tensor, facts: list[tuple[int, int, int]], penalty: float, share: float) -> Tensor:
    """Cross entropy and penalty of every fact, one by one."""
    total = head.new_zeros(())
    for h, r, t in facts:
        image = head[h] @ matrix[r]
        scores = torch.stack([image @ tail[e] for e in range(len(tail))])
        total = total + scores.exp().sum().log() - scores[t]
        lengths = head[h].square().sum() + tail[t].square().sum()
        images = image.square().sum() + (matrix[r] @ tail[t]).square().sum()
        total = total + penalty * (lengths + share * images)
    return total


QUESTIONS = torch.tensor([[0, 3], [4, 2]])  # heads of two tiles, of relations 1 and 2
ANSWERS = torch.tensor([[[1, 2], [0, 0]], [[3, 3], [4, 1]]])
WEIGHTS = torch.tensor([[[1.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 1.0]]], dtype=torch.float64)
RELATION = torch.tensor([1, 2])
FACTS = [(0, 1, 1), (0, 1, 2), (3, 1, 0), (4, 2, 3), (2, 2, 4), (2, 2, 1)]


@pytest.mark.parametrize(("penalty", "share"), [(0.0, 0.0), (0.3, 0.0), (0.2, 0.7)])
def test_questions_with_several_answers_are_the_facts_one_by_one(penalty: float, share: float) -> None:
    head, tail, matrix = random(E, D).requires_grad_(), (random(E, D) + 0.3).requires_grad_(), random(S, D, D).requires_grad_()
    slow_loss(head, tail, matrix, FACTS, penalty, share).backward()
    with torch.no_grad():
        tiles = PlainTiles(matrix, RELATION)
        query = tiles.product(head[QUESTIONS])
        answers = full_softmax(query.flatten(0, 1), tail, ANSWERS.flatten(0, 1), WEIGHTS.flatten(0, 1))
        found = question_gradients(tiles, head[QUESTIONS], tail[ANSWERS.view(2, 4)], WEIGHTS.view(2, 4), answers, query, penalty, share)
        head_gradient = torch.zeros_like(head).index_add_(0, QUESTIONS.flatten(), found.head_TWD.flatten(0, 1))
        tail_gradient = answers.candidate_KD.clone().index_add_(0, ANSWERS.flatten(), found.answer_TXD.flatten(0, 1))
        matrix_gradient = torch.zeros_like(matrix).index_add_(0, RELATION, torch.bmm(found.left_TYD.mT, found.right_TYD))
    torch.testing.assert_close(head_gradient, head.grad)
    torch.testing.assert_close(tail_gradient, tail.grad)
    torch.testing.assert_close(matrix_gradient, matrix.grad)
    torch.testing.assert_close(answers.loss_B.sum(), slow_loss(head, tail, matrix, FACTS, 0.0, 0.0).detach())


def test_orientation_is_head_times_matrix_times_tail() -> None:
    # A matrix that is not symmetric: e0 M = e1, so the question (e0, r) must prefer e1, and the gradient of its transpose would differ.
    vector = torch.eye(2, dtype=torch.float64)
    matrix = torch.tensor([[[0.0, 5.0], [0.0, 0.0]]], dtype=torch.float64)
    query = PlainTiles(matrix, torch.tensor([0])).product(vector[:1][None])
    right = full_softmax(query[0], vector, torch.tensor([[1]]), torch.ones(1, 1, dtype=torch.float64)).loss_B.sum()
    wrong = full_softmax(query[0], vector, torch.tensor([[0]]), torch.ones(1, 1, dtype=torch.float64)).loss_B.sum()
    assert float(right) == pytest.approx(math.log(1 + math.exp(-5)))
    assert float(wrong) == pytest.approx(5 + float(right))


def test_drawn_candidates_by_finite_differences() -> None:
    query, candidate, answer = random(2, D), random(4, D), random(2, 2, D)
    weight = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    found = sampled_softmax(query, candidate, answer, weight, num_entities=12)

    def loss(q: Tensor, c: Tensor, a: Tensor) -> Tensor:
        return sampled_softmax(q, c, a, weight, 12).loss_B.sum()

    torch.testing.assert_close(found.query_BD, numeric_gradient(lambda x: loss(x, candidate, answer), query))
    torch.testing.assert_close(found.candidate_KD, numeric_gradient(lambda x: loss(query, x, answer), candidate))
    torch.testing.assert_close(found.answer_BMD, numeric_gradient(lambda x: loss(query, candidate, x), answer), atol=1e-8, rtol=1e-6)


def test_drawing_everything_but_the_answer_is_the_full_softmax() -> None:
    query, vector = random(1, D), random(E, D)
    full = full_softmax(query, vector, torch.tensor([[2]]), torch.ones(1, 1, dtype=torch.float64))
    others = [0, 1, 3, 4]
    drawn = sampled_softmax(query, vector[others], vector[[2]][None], torch.ones(1, 1, dtype=torch.float64), num_entities=len(others))
    torch.testing.assert_close(full.loss_B.sum(), drawn.loss_B.sum())
    torch.testing.assert_close(full.query_BD, drawn.query_BD)
    torch.testing.assert_close(full.candidate_KD[others], drawn.candidate_KD)


def test_paths_by_finite_differences_with_the_scale_held_fixed() -> None:
    head, middle, tail, matrix = random(1, 2, D), random(1, 2, D) * 2, random(E, D), random(S, D, D)
    gold, weight = torch.tensor([[3], [1]]), torch.ones(2, 1, dtype=torch.float64)
    first, second = PlainTiles(matrix, torch.tensor([1])), PlainTiles(matrix, torch.tensor([3]))
    step = path_forward(first, second, head, middle)
    found = full_softmax(step.query_TWD.flatten(0, 1), tail, gold, weight)
    query_gradient = found.query_BD.view_as(head)
    image_gradient, head_gradient = path_backward(first, second, step, query_gradient)
    first_gradient, second_gradient = torch.bmm(head.mT, image_gradient), torch.bmm(step.image_TWD.mT, query_gradient)

    def loss(h: Tensor, one: Tensor, two: Tensor) -> Tensor:
        query = (h[0] @ one) * step.scale_TW1[0] @ two
        return full_softmax(query, tail, gold, weight).loss_B.sum()

    torch.testing.assert_close(step.image_TWD.norm(dim=-1), middle.norm(dim=-1))
    torch.testing.assert_close(head_gradient, numeric_gradient(lambda x: loss(x, matrix[1], matrix[3]), head))
    torch.testing.assert_close(first_gradient[0], numeric_gradient(lambda x: loss(head, x, matrix[3]), matrix[1].clone()))
    torch.testing.assert_close(second_gradient[0], numeric_gradient(lambda x: loss(head, matrix[1], x), matrix[3].clone()))


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_huge_scores_stay_finite(size: float) -> None:
    query, vector = torch.full((1, 1), size), torch.tensor([[1.0], [0.5], [-1.0]])
    found = full_softmax(query, vector, torch.tensor([[2]]), torch.ones(1, 1))
    assert all(bool(value.isfinite().all()) for value in (found.loss_B.sum(), found.query_BD, found.candidate_KD))


def test_not_a_number_is_not_hidden() -> None:
    found = full_softmax(torch.tensor([[math.nan]]), torch.ones(2, 1), torch.tensor([[0]]), torch.ones(1, 1))
    assert not bool(found.loss_B.sum().isfinite())


def test_padding_adds_nothing() -> None:
    query, vector = random(2, D), random(E, D)
    one = full_softmax(query[:1], vector, torch.tensor([[2]]), torch.ones(1, 1, dtype=torch.float64))
    padded = full_softmax(query, vector, torch.tensor([[2, 0], [0, 0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(one.loss_B.sum(), padded.loss_B.sum())
    torch.testing.assert_close(one.candidate_KD, padded.candidate_KD)
    assert float(padded.query_BD[1].abs().max()) == 0


@pytest.mark.parametrize("entities", [1, 5, 64, 130])
def test_the_padded_table_is_the_table(entities: int) -> None:
    query, vector, answer = random(3, D), random(entities, D), torch.tensor([[0, 0], [entities - 1, 0], [entities // 2, entities - 1]])
    weight = torch.tensor([[1.0, 0.0], [0.7, 1.0], [0.0, 0.0]], dtype=torch.float64)
    found, expected = compare_at_once(query, vector, answer, weight), full_softmax(query, vector, answer, weight)
    for value, wanted in zip(found, (expected.loss_B, expected.query_BD, expected.candidate_KD), strict=True):
        torch.testing.assert_close(value, wanted)


def test_nothing_but_padding_moves_nothing() -> None:
    query, vector = random(2, D), random(E, D)
    found = full_softmax(query, vector, torch.zeros(2, 1, dtype=torch.int64), torch.zeros(2, 1, dtype=torch.float64))
    assert all(float(value.abs().sum()) == 0 for value in (found.loss_B, found.query_BD, found.candidate_KD, found.answer_BMD))
    assert found.query_BD.shape == (2, D) and found.candidate_KD.shape == (E, D)


def test_a_table_made_a_few_rows_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    query, vector = random(7, D), random(E, D) + 0.2
    answer, weight = torch.randint(E, (7, 2), generator=generator()), torch.rand(7, 2, dtype=torch.float64, generator=generator())
    whole = full_softmax(query, vector, answer, weight)
    monkeypatch.setattr(softmax, "CACHED", 1)
    monkeypatch.setattr(softmax, "LEAST_ROWS", 3)
    parts = full_softmax(query, vector, answer, weight)
    for one, other in ((whole.loss_B, parts.loss_B), (whole.query_BD, parts.query_BD), (whole.candidate_KD, parts.candidate_KD)):
        torch.testing.assert_close(one, other)


def test_a_large_table_of_16_bits_is_the_table_up_to_their_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    # 9 bits of significand: a score of about 4 is off by 2^-7 at most, its share by as much of itself.
    query, vector = random(40, 16).float(), random(90, 16).float()
    answer, weight = torch.randint(90, (40, 2), generator=generator()), torch.rand(40, 2, generator=generator())
    exact = full_softmax(query, vector, answer, weight)
    monkeypatch.setattr(softmax, "CACHED_VECTORS", 0)
    monkeypatch.setattr(softmax, "rough_type", lambda device: torch.bfloat16)
    rough = full_softmax(query, vector, answer, weight)
    for one, other in ((rough.loss_B, exact.loss_B), (rough.query_BD, exact.query_BD), (rough.candidate_KD, exact.candidate_KD)):
        assert one.dtype == torch.float32 and not torch.equal(one, other), "that it is made of 16 bits can be seen"
        assert float((one - other).abs().max()) < 0.02 * float(other.abs().max())
    assert torch.equal(rough.answer_BMD, exact.answer_BMD)


@pytest.mark.parametrize(
    ("dtype", "unit", "expected"),
    [
        (torch.float32, torch.bfloat16, torch.bfloat16),
        (torch.float32, None, torch.float32),
        (torch.float64, torch.bfloat16, torch.float64),
    ],
)
def test_tables_of_16_bits_are_made_where_a_processor_multiplies_them(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, unit: torch.dtype | None, expected: torch.dtype
) -> None:
    monkeypatch.setattr(softmax, "rough_type", lambda device: unit)
    assert softmax.table_type(torch.zeros(1, 1, dtype=dtype)) == expected


def test_a_large_table_without_rounding_is_the_table_and_its_memory_can_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    query, vector = random(7, D), random(E, D)
    answer, weight = torch.randint(E, (7, 2), generator=generator()), torch.rand(7, 2, dtype=torch.float64, generator=generator())
    weight[2] = 0  # padding
    small = full_softmax(query, vector, answer, weight)
    monkeypatch.setattr(softmax, "CACHED_VECTORS", 0)
    room = Room()
    earlier = full_softmax(query * 3, vector * 2, answer, weight, room)
    kept, place = earlier.candidate_KD.clone(), room.take("scores", (1, 1), query).data_ptr()
    large = full_softmax(query, vector, answer, weight, room)
    assert room.take("scores", (1, 1), query).data_ptr() == place and torch.equal(earlier.candidate_KD, kept)
    for one, other in ((small.loss_B, large.loss_B), (small.query_BD, large.query_BD), (small.candidate_KD, large.candidate_KD)):
        torch.testing.assert_close(one, other)
