from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor
from walked import prefixes_of

from relcode.graph.dataset import Dataset
from relcode.graph.facts import directed
from relcode.sampling.facts import FactStream, epoch_seed

CPU = torch.device("cpu")


def stream_of(directed_N3: Tensor, num_directed: int, edges: int = 24, tile: int = 4, seed: int = 0, power: float = 1.0) -> FactStream:
    return FactStream(directed_N3, num_directed, edges=edges, tile=tile, seed=seed, device=CPU, power=power)


def served(stream: FactStream, epoch: int) -> list[list[tuple[int, int, int]]]:
    """Return the facts of each step of an epoch, in order."""
    first = epoch * stream.steps_per_epoch
    batches = [stream.batch(step, torch.Generator()) for step in range(first, first + stream.steps_per_epoch)]
    assert all(len(batch.levels) == 1 for batch in batches)
    return [[(path.head, path.relations[0], path.tail) for path in prefixes_of(batch)] for batch in batches]


@pytest.fixture(scope="module")
def facts(family: Dataset) -> Tensor:
    return directed(family.train, family.num_relations)


@pytest.mark.parametrize(("edges", "tile"), [(24, 4), (1, 1), (7, 3), (10_000, 32), (5, 100)])
def test_every_directed_fact_is_served_once_an_epoch(facts: Tensor, family: Dataset, edges: int, tile: int) -> None:
    stream = stream_of(facts, family.num_directed, edges, tile)
    for epoch in (0, 3):
        steps = served(stream, epoch)
        assert all(steps)  # no step is empty
        assert Counter(fact for step in steps for fact in step) == Counter(map(tuple, facts.tolist()))


def test_a_fact_that_is_there_twice_is_served_twice() -> None:
    facts = torch.tensor([[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    assert sorted(fact for step in served(stream_of(facts, 2), 0) for fact in step) == [(0, 0, 1), (0, 0, 1), (1, 1, 0)]


def test_a_step_has_the_size_asked_for_and_all_steps_have_one_shape(facts: Tensor, family: Dataset) -> None:
    stream = stream_of(facts, family.num_directed, edges=24, tile=4)
    for step in range(2 * stream.steps_per_epoch):
        level = stream.batch(step, torch.Generator()).levels[0]
        assert level.source_TW.shape == level.tail_TW.shape == level.weight_TW.shape == level.chosen_TW.shape == (6, 4)
        assert level.relation_T.shape == (6,)
        assert torch.equal(level.chosen_TW, level.weight_TW)
        assert set(level.weight_TW.flatten().tolist()) <= {0.0, 1.0}
        assert level.relation_T.tolist() == sorted(level.relation_T.tolist())


def test_tiles_hold_one_relation_and_are_full_but_for_one_of_each_relation(facts: Tensor, family: Dataset) -> None:
    stream = stream_of(facts, family.num_directed)
    partly: Counter[int] = Counter()
    relation_of = {(head, tail): set() for head, _, tail in facts.tolist()}
    for head, relation, tail in facts.tolist():
        relation_of[head, tail].add(relation)
    for step in range(stream.steps_per_epoch):
        level = stream.batch(step, torch.Generator()).levels[0]
        for t, relation in enumerate(level.relation_T.tolist()):
            rows = int(level.weight_TW[t].sum())
            partly[relation] += 0 < rows < 4
            for w in range(4):
                if level.weight_TW[t, w]:
                    assert relation in relation_of[int(level.source_TW[t, w]), int(level.tail_TW[t, w])]
    assert max(partly.values()) <= 1


def test_the_plan_depends_on_seed_and_epoch_alone(facts: Tensor, family: Dataset) -> None:
    stream = stream_of(facts, family.num_directed)
    first = served(stream, 2)
    served(stream, 0)  # going back and forth, or anew, changes nothing; nor does the generator handed in
    assert served(stream, 2) == first
    assert served(stream_of(facts, family.num_directed), 2) == first
    other = stream.batch(2 * stream.steps_per_epoch, torch.Generator().manual_seed(99))
    assert [(path.head, path.relations[0], path.tail) for path in prefixes_of(other)] == first[0]
    assert served(stream, 1) != first
    assert served(stream_of(facts, family.num_directed, seed=1), 2) != first


def test_facts_are_shuffled_within_and_across_tiles(facts: Tensor, family: Dataset) -> None:
    stream = stream_of(facts, family.num_directed, edges=4, tile=4)
    steps = served(stream, 0)
    relations = [step[0][1] for step in steps]
    assert relations != sorted(relations)
    together = [{frozenset(step) for step in served(stream, epoch)} for epoch in (0, 1)]
    assert len(together[0] & together[1]) < len(steps) / 4


@pytest.mark.parametrize("power", [0.0, 0.75, 2.0])
def test_facts_drawn_by_the_power_of_their_heads_degree(facts: Tensor, family: Dataset, power: float) -> None:
    stream = stream_of(facts, family.num_directed, edges=64, tile=8, power=power)
    degree_E = torch.bincount(facts[:, 0], minlength=family.num_entities).double()
    heads, taken, epochs = torch.zeros(family.num_entities, dtype=torch.float64), Counter[tuple[int, int, int]](), 12
    for epoch in range(epochs):
        drawn = [fact for step in served(stream, epoch) for fact in step]
        assert 0.9 * len(facts) <= len(drawn) <= len(facts)  # as many draws as there are facts, but for tiles that found no place
        taken.update(drawn)
        for head, _, _ in drawn:
            heads[head] += 1
    assert set(taken) <= set(map(tuple, facts.tolist()))
    expected_E = degree_E.pow(power) * (degree_E > 0)
    expected_E *= heads.sum() / expected_E.sum()
    some = expected_E > 0
    freedom = int(some.sum()) - 1
    chi_square = float(((heads - expected_E)[some] ** 2 / expected_E[some]).sum())
    assert chi_square < freedom + 3.3 * (2 * freedom) ** 0.5
    # Edges of one head are alike: of the busiest head none is taken much more often than another.
    busiest = int(degree_E.argmax())
    times = [taken[head, relation, tail] for head, relation, tail in map(tuple, facts.tolist()) if head == busiest]
    mean = sum(times) / len(times)
    assert sum((time - mean) ** 2 / mean for time in times) < len(times) + 3.3 * (2 * len(times)) ** 0.5


def test_epoch_seeds_differ_between_epochs_and_nearby_seeds() -> None:
    seeds = {epoch_seed(seed, epoch) for seed in range(60) for epoch in range(60)}
    assert len(seeds) == 3600
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert epoch_seed(3, 5) == epoch_seed(3, 5)
