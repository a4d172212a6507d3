"""The stream of questions: every fact is an answer once an epoch, tiles have one relation, plans depend on seed and epoch alone."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from relcode.graph.adjacency import Adjacency
from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset
from relcode.graph.facts import directed
from relcode.sampling.questions import PathStream, QuestionStream

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load_dataset("world")


def stream_of(dataset: Dataset, seed: int = 0, answers: int = 3, paths: PathStream | None = None) -> QuestionStream:
    facts = directed(dataset.train, dataset.num_relations)
    return QuestionStream(facts, dataset.num_directed, questions=256, tile=8, answers=answers, seed=seed, device=CPU, paths=paths)


def answered(stream: QuestionStream, epoch: int) -> Counter[tuple[int, int, int]]:
    found: Counter[tuple[int, int, int]] = Counter()
    for step in range(epoch * stream.steps_per_epoch, (epoch + 1) * stream.steps_per_epoch):
        batch = stream.batch(step, torch.Generator())
        relation_TWM = batch.relation_T[:, None, None].expand_as(batch.answer_TWM)
        head_TWM = batch.head_TW[..., None].expand_as(batch.answer_TWM)
        used = batch.weight_TWM > 0
        found.update(zip(head_TWM[used].tolist(), relation_TWM[used].tolist(), batch.answer_TWM[used].tolist(), strict=True))
    return found


@pytest.mark.parametrize("answers", [1, 3, 50])
def test_every_directed_fact_is_an_answer_once_an_epoch(world: Dataset, answers: int) -> None:
    facts = Counter(map(tuple, directed(world.train, world.num_relations).tolist()))
    stream = stream_of(world, answers=answers)
    assert answered(stream, 0) == facts
    assert answered(stream, 3) == facts


def test_answers_carry_the_weight_of_their_fact(world: Dataset) -> None:
    facts = directed(world.train, world.num_relations)
    weight = torch.rand(len(facts), generator=torch.Generator().manual_seed(1))
    served = QuestionStream(facts, world.num_directed, weight_N=weight, questions=256, tile=8, answers=4, seed=0, device=CPU, paths=None)
    found: dict[tuple[int, int, int], float] = {}
    for step in range(served.steps_per_epoch):
        batch = served.batch(step, torch.Generator())
        for tile, row, place in (batch.weight_TWM > 0).nonzero().tolist():
            key = (int(batch.head_TW[tile, row]), int(batch.relation_T[tile]), int(batch.answer_TWM[tile, row, place]))
            found[key] = float(batch.weight_TWM[tile, row, place])
    assert found == {tuple(fact): each for fact, each in zip(facts.tolist(), weight.tolist(), strict=True)}


def test_plans_depend_on_seed_and_epoch_alone(world: Dataset) -> None:
    one, again, other = stream_of(world), stream_of(world), stream_of(world, seed=1)
    step = 2 * one.steps_per_epoch + 1
    one.batch(0, torch.Generator())  # what was asked before plays no part
    here, there = one.batch(step, torch.Generator()), again.batch(step, torch.Generator())
    assert torch.equal(here.answer_TWM, there.answer_TWM) and torch.equal(here.head_TW, there.head_TW)
    assert not torch.equal(here.head_TW, other.batch(step, torch.Generator()).head_TW)
    assert not torch.equal(here.head_TW, one.batch(1, torch.Generator()).head_TW)


def test_paths_are_real_walks_of_the_tile_s_two_relations(world: Dataset) -> None:
    adjacency = Adjacency.build(world.train, world.num_entities, world.num_relations)
    paths = PathStream(adjacency, world.num_directed, tiles=16, tile=4, seed=3, device=CPU)
    stream = stream_of(world, paths=paths)
    edges = set(map(tuple, directed(world.train, world.num_relations).tolist()))
    seen = 0
    for step in (0, 1, stream.steps_per_epoch + 2):
        found = stream.batch(step, torch.Generator()).paths
        assert found is not None and found.head_TW.shape == (16, 4)
        for tile in range(16):
            first, second = int(found.first_T[tile]), int(found.second_T[tile])
            for h, m, t, w in zip(*(x[tile].tolist() for x in (found.head_TW, found.middle_TW, found.tail_TW, found.weight_TW)), strict=True):
                if w:
                    assert (h, first, m) in edges and (m, second, t) in edges and h != t
                    seen += 1
    assert seen > 50


def test_a_kb_where_every_walk_comes_back_has_no_paths() -> None:
    tiny = dataset_from_facts({"train": [("a", "r", "b")], "valid": [], "test": []})
    adjacency = Adjacency.build(tiny.train, tiny.num_entities, tiny.num_relations)
    paths = PathStream(adjacency, tiny.num_directed, tiles=2, tile=2, seed=0, device=CPU)
    found = stream_of(tiny, paths=paths).batch(0, torch.Generator()).paths
    assert found is not None and float(found.weight_TW.sum()) == 0
