from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from walked import Prefix, prefixes_of

import relcode.sampling.walks as walks_module
from relcode.graph.adjacency import Adjacency
from relcode.graph.dataset import Dataset
from relcode.sampling.walks import WalkStream, walks_per_length

CPU = torch.device("cpu")
# Entity 4 of 5 has no edge; directed degrees are 4, 2, 3, 1, 0. Two facts join 0 and 2, by different relations.
FACTS = torch.tensor([[0, 0, 1], [0, 1, 2], [2, 0, 0], [1, 1, 2], [0, 0, 3]])
DEGREES = [4, 2, 3, 1, 0]
CHI_999 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32, 8: 26.12, 9: 27.88}


def chi_square(count: list[float], expected: list[float]) -> float:
    return sum((observed - mean) ** 2 / mean for observed, mean in zip(count, expected, strict=True))


def stream_of(edges: int = 4000, mean: float = 1.0, longest: int = 4, power: float = 1.0, seed: int = 0, **options: Any) -> WalkStream:
    adjacency = Adjacency.build(FACTS, 5, 2)
    return WalkStream(adjacency, 4, edges=edges, mean=mean, longest=longest, power=power, seed=seed, device=CPU, **options)


def walks_in(prefixes: list[Prefix]) -> list[Prefix]:
    """Return the prefixes that no other one continues: the whole walks."""
    inner = {path.rows[:-1] for path in prefixes}
    return [path for path in prefixes if path.rows not in inner]


def poisson_at_least(length: int, mean: float) -> float:
    """P(1 + Poisson(mean) ≥ length), from the definition."""
    return 1 - sum(math.exp(-mean) * mean**i / math.factorial(i) for i in range(length - 1))


def test_numbers_of_walks_by_hand() -> None:
    # e⁻¹ = .3679: of 1,000 walks 632 take a second step, 264 a third, 80 a fourth, 19 a fifth, 4 a sixth, 1 a seventh.
    assert walks_per_length(1000, 1.0, 20) == [1000, 632, 264, 80, 19, 4, 1]
    assert walks_per_length(1000, 1.0, 3) == [1000, 632, 264]
    assert walks_per_length(1000, 1.0, 1) == [1000]


def test_without_extra_steps_walks_are_single_facts() -> None:
    assert walks_per_length(17, 0.0, 6) == [17]
    assert walks_per_length(1, 1.0, 6) == [1, 1]


@pytest.mark.parametrize("mean", [0.1, 0.5, 1.0, 2.5, 20.0])
@pytest.mark.parametrize("walks", [1, 37, 5000])
def test_numbers_of_walks_are_the_expected_ones_rounded(mean: float, walks: int) -> None:
    at_least = walks_per_length(walks, mean, 12)
    assert at_least == walks_per_length(walks, mean, 12)
    assert len(at_least) <= 12 and at_least[0] == walks
    assert at_least == sorted(at_least, reverse=True)
    for length, count in enumerate(at_least, start=1):
        assert abs(count - walks * poisson_at_least(length, mean)) <= 0.5 + 1e-6
    if len(at_least) < 12:
        assert walks * poisson_at_least(len(at_least) + 1, mean) <= 0.5 + 1e-6


@pytest.mark.parametrize("mean", [0.3, 0.5, 1.0, 2.0])
def test_lengths_fit_draws_from_one_plus_poisson(mean: float) -> None:
    at_least = [*walks_per_length(1_000_000, mean, 8), 0]
    share = [(more - less) / 1_000_000 for more, less in itertools.pairwise(at_least)]
    draws = 20_000
    drawn = np.minimum(1 + np.random.default_rng(0).poisson(mean, draws), len(share))
    count = np.bincount(drawn, minlength=len(share) + 1)[1:].tolist()
    while share[-1] * draws < 5:  # a chi-square needs some draws in every class
        share[-2:], count[-2:] = [sum(share[-2:])], [sum(count[-2:])]
    assert chi_square(count, [draws * part for part in share]) < CHI_999[len(share) - 1]


@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0, 2.0])
def test_walks_of_a_batch_have_these_lengths(mean: float) -> None:
    stream = stream_of(edges=600, mean=mean)
    prefixes = prefixes_of(stream.batch(1, torch.Generator()))
    longest = Counter(len(path.relations) for path in walks_in(prefixes))
    walks = sum(longest.values())
    at_least = [sum(count for length, count in longest.items() if length >= most) for most in range(1, max(longest) + 1)]
    assert at_least == walks_per_length(walks, mean, 4)
    assert abs(len(prefixes) - 600) <= 4  # about as many path steps as asked for


def test_walks_follow_real_edges(family: Dataset) -> None:
    adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
    R = family.num_relations
    facts = set(map(tuple, family.train.tolist()))
    stream = WalkStream(adjacency, family.num_directed, edges=500, mean=1.5, longest=5, power=0.75, seed=0, device=CPU)
    prefixes = prefixes_of(stream.batch(0, torch.Generator()))
    assert max(len(path.relations) for path in prefixes) == 5
    for path in prefixes:
        for head, relation, tail in zip((path.head, *path.tails), path.relations, path.tails, strict=False):
            assert ((head, relation, tail) if relation < R else (tail, relation - R, head)) in facts
    assert {relation for path in prefixes for relation in path.relations} == set(range(2 * R))


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0, 2.0])
def test_walks_start_by_the_power_of_the_degree(power: float) -> None:
    prefixes = prefixes_of(stream_of(edges=6000, mean=0.0, power=power).batch(2, torch.Generator()))
    count = Counter(path.head for path in prefixes)
    assert count[4] == 0  # no edge leaves it, whatever the power
    weight = [degree**power for degree in DEGREES[:4]]
    expected = [len(prefixes) * each / sum(weight) for each in weight]
    assert chi_square([count[entity] for entity in range(4)], expected) < CHI_999[3]


@pytest.mark.parametrize("depth", [0, 1])
def test_each_step_is_uniform_over_the_edges_that_leave(depth: int) -> None:
    prefixes = prefixes_of(stream_of(edges=12_000, mean=2.0, longest=2).batch(3, torch.Generator()))
    taken: Counter[tuple[int, int, int]] = Counter()
    for path in prefixes:
        if len(path.relations) == depth + 1:
            taken[(path.head, *path.tails)[depth], path.relations[depth], path.tails[depth]] += 1
    edges = [fact for h, r, t in FACTS.tolist() for fact in ((h, r, t), (t, r + 2, h))]
    for head, degree in enumerate(DEGREES[:3]):
        leaving = [edge for edge in edges if edge[0] == head]
        count = [taken[edge] for edge in leaving]
        assert len(count) == degree
        assert chi_square(count, [sum(count) / degree] * degree) < CHI_999[degree - 1]
    assert set(taken) == set(edges)  # walking back the way one came is allowed


def test_each_prefix_chooses_each_of_its_matrices_alike() -> None:
    prefixes = prefixes_of(stream_of(edges=20_000, mean=3.0, longest=4).batch(4, torch.Generator()))
    for length in (1, 2, 3, 4):
        count = Counter(path.chosen for path in prefixes if len(path.relations) == length)
        assert set(count) == set(range(length))
        if length > 1:
            expected = sum(count.values()) / length
            assert chi_square([count[place] for place in range(length)], [expected] * length) < CHI_999[length - 1]


def test_rows_of_a_level_are_sorted_by_relation_and_none_is_padding() -> None:
    stream = stream_of(edges=300)
    for step in range(3):
        levels = stream.batch(step, torch.Generator()).levels
        assert [len(level.relation_T) for level in levels] == stream.at_least  # the same shapes in every step
        for level in levels:
            assert level.source_TW.shape == level.tail_TW.shape == level.weight_TW.shape == level.chosen_TW.shape == (len(level.relation_T), 1)
            assert level.relation_T.tolist() == sorted(level.relation_T.tolist())
            assert (level.weight_TW == 1).all()
        assert (levels[0].chosen_TW == 1).all()  # a single fact has one matrix


@pytest.mark.parametrize(("asked", "most"), [(1, 1), (2, 2), (7, 7), (16, 16), (10**6, 304)])
def test_walks_of_a_step_that_share_a_head(asked: int, most: int) -> None:
    """Each draw of a head gives so many walks, one less where they do not come out even; of every length as many as ever."""
    # 304 walks of 600 path steps, from a KB so large that no head is drawn twice.
    facts = torch.stack([torch.arange(100_000), torch.zeros(100_000, dtype=torch.long), torch.arange(100_000).roll(1)], dim=1)
    adjacency = Adjacency.build(facts, 100_000, 1)
    plain, stream = (
        WalkStream(adjacency, 2, edges=600, mean=1.0, longest=4, power=1.0, seed=0, device=CPU, head_walks=walks) for walks in (1, asked)
    )
    assert (stream.at_least, stream.steps_per_epoch) == (plain.at_least, plain.steps_per_epoch)
    prefixes = prefixes_of(stream.batch(3, torch.Generator()))
    times = Counter(path.head for path in prefixes if len(path.relations) == 1)
    heads = math.ceil(304 / most)
    assert times.total() == 304 == stream.at_least[0] and len(times) == heads
    assert set(times.values()) <= {304 // heads, math.ceil(304 / heads)} and max(times.values()) == most
    for length, count in enumerate(stream.at_least, start=1):  # long walks and short ones from every head
        long = Counter(path.head for path in prefixes if len(path.relations) == length)
        assert long.total() == count and max(long.values()) == math.ceil(count / heads)


def test_heads_that_walks_share_are_drawn_by_the_power_of_the_degree() -> None:
    count = Counter(path.head for path in prefixes_of(stream_of(edges=60_000, mean=0.0, head_walks=10, power=0.75).batch(2, torch.Generator())))
    weight = [degree**0.75 for degree in DEGREES[:4]]
    assert chi_square([count[entity] / 10 for entity in range(4)], [6000 * each / sum(weight) for each in weight]) < CHI_999[3]


def test_an_epoch_takes_as_many_steps_as_there_are_directed_edges(family: Dataset) -> None:
    adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
    stream = WalkStream(adjacency, family.num_directed, edges=64, mean=1.0, longest=4, power=1.0, seed=0, device=CPU)
    per_step = len(prefixes_of(stream.batch(0, torch.Generator())))
    assert abs(per_step - 64) <= 2
    assert stream.steps_per_epoch == round(2 * len(family.train) / per_step)
    assert stream_of(edges=10_000).steps_per_epoch == 1


def test_walks_depend_on_the_seed_and_the_step_alone(family: Dataset) -> None:
    def steps(seed: int, order: list[int]) -> dict[int, list[Prefix]]:
        adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
        stream = WalkStream(adjacency, family.num_directed, edges=40, mean=1.0, longest=4, power=1.0, seed=seed, device=CPU)
        return {step: prefixes_of(stream.batch(step, torch.Generator().manual_seed(step))) for step in order}

    many = 3 * (2 * 40) // 40 + 40  # some epochs
    forth, back, other = steps(1, [*range(many)]), steps(1, [*reversed(range(many))]), steps(2, [*range(many)])
    assert forth == back
    assert all(forth[step] != other[step] for step in range(many))
    assert len({tuple(prefixes) for prefixes in forth.values()}) == many  # fresh walks in every step


def test_many_steps_are_planned_in_parts(monkeypatch: pytest.MonkeyPatch, family: Dataset) -> None:
    monkeypatch.setattr(walks_module, "MOST_PLANNED", 100)
    adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
    stream = WalkStream(adjacency, family.num_directed, edges=40, mean=1.0, longest=4, power=1.0, seed=0, device=CPU)
    assert stream.planned_steps == 2 < stream.steps_per_epoch
    assert len({tuple(prefixes_of(stream.batch(step, torch.Generator()))) for step in range(7)}) == 7
