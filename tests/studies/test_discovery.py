from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relcode.errors import DataError, RunError, SettingError
from relcode.experiment import Advanced, Finished, Started
from relcode.graph.compositions import FILTERS, PairIndex
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.graph.facts import contains
from relcode.recipes import recipe
from relcode.studies.discovery import Discovery, DiscoveryReport, Plan, choose, counted_ranks, judge, removed_facts, study, without


def chain(pairs: int = 12, extra: int = 6) -> Dataset:
    """Return facts in which r/s = t but for ``extra`` facts of t that no r/s explains; u/v = w likewise, on other entities."""
    facts = []
    for first, second, third, mark in (("r", "s", "t", "x"), ("u", "v", "w", "y")):
        for number in range(pairs):
            a, b, c = (f"{mark}{place}{number}" for place in "abc")
            facts += [(a, first, b), (b, second, c), (a, third, c)]
        facts += [(f"{mark}d{number}", third, f"{mark}c{number}") for number in range(extra)]
    return dataset_from_facts(facts, name="chain")


def index_of(data: Dataset) -> PairIndex:
    return PairIndex.build(data.train, data.num_entities, data.num_relations)


def test_compositions_to_hold_out_do_not_touch_each_other() -> None:
    data = chain()
    names = data.relations.names
    chosen = choose(index_of(data), min_pairs=5, min_jaccard=0.4, least_left=3)
    assert [(names[one.r1], names[one.r2], names[one.r3]) for one in chosen] == [("r", "s", "t"), ("u", "v", "w")]
    assert len(choose(index_of(data), most=1, min_pairs=5, min_jaccard=0.4, least_left=3)) == 1
    assert choose(index_of(data), min_pairs=5, min_jaccard=0.4, least_left=7) == []  # too few facts of r3 would be left
    # r/s = t and ^r/t = s hold both: once t is held out, s is a step of it and stays.
    dense = dataset_from_facts(
        [(f"a{n}", "r", f"b{n}") for n in range(9)] + [(f"b{n}", "s", f"c{n}") for n in range(12)] + [(f"a{n}", "t", f"c{n}") for n in range(12)]
    )
    thirds = [one.r3 for one in choose(index_of(dense), min_pairs=5, min_jaccard=0.4, least_left=1)]
    assert len(thirds) == 1


@pytest.mark.parametrize(("part", "expected"), [(0.0, 0), (0.5, 6), (1.0, 12)])
def test_what_is_taken_out_is_that_part_of_the_shared_pairs(part: float, expected: int) -> None:
    data = chain()
    index = index_of(data)
    chosen = choose(index, min_pairs=5, min_jaccard=0.4, least_left=3)
    taken = removed_facts(index, chosen, part, seed=3)
    assert len(taken) == 2 * expected and bool(contains(data.train, taken, data.num_entities, data.num_relations).all())
    assert all(data.entities[int(h)][1] == "a" for h in taken[:, 0])  # never a fact that r/s does not explain
    less = without(data, taken)
    assert len(less.train) == len(data.train) - len(taken) and not bool(contains(less.train, taken, data.num_entities, data.num_relations).any())
    half = {tuple(fact) for fact in removed_facts(index, chosen, part / 2, seed=3).tolist()}
    assert half <= {tuple(fact) for fact in taken.tolist()}
    if 0 < part < 1:
        assert {tuple(fact) for fact in removed_facts(index, chosen, part, seed=4).tolist()} != {tuple(fact) for fact in taken.tolist()}


def test_counting_has_nothing_to_count_with_all_shared_pairs_gone() -> None:
    data = chain()
    index = index_of(data)
    chosen = choose(index, min_pairs=5, min_jaccard=0.4, least_left=3)
    confidence, rank, allowed = counted_ranks(index, chosen, FILTERS["paper"], frozenset())
    assert confidence.tolist() == [1, 1] and rank.tolist() == allowed.tolist() == [1, 1]
    bare = index_of(without(data, removed_facts(index, chosen, 1.0, 0)))
    confidence, rank, allowed = counted_ranks(bare, chosen, FILTERS["paper"], frozenset())
    # All 12 directed relations tie at confidence 0, and so do the 8 that are not r1, r2 or their inverses.
    assert confidence.tolist() == [0, 0] and rank.tolist() == [6.5, 6.5] and allowed.tolist() == [4.5, 4.5]


def test_a_model_that_composes_is_first_and_one_that_does_not_is_not() -> None:
    data = chain()
    index = index_of(data)
    chosen = choose(index, min_pairs=5, min_jaccard=0.4, least_left=3)
    taken = removed_facts(index, chosen, 1.0, 0)
    matrix_SDD = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(0))
    for one in chosen:
        matrix_SDD[one.r3] = matrix_SDD[one.r1] @ matrix_SDD[one.r2]
    rows = judge(matrix_SDD, data, without(data, taken), chosen, taken, 1.0, 0)
    assert [(row.path, row.relation, row.rank, row.rank_allowed, row.removed, row.left) for row in rows] == [
        ("r/s", "t", 1, 1, 12, 6),
        ("u/v", "w", 1, 1, 12, 6),
    ]
    assert all(row.cosine == pytest.approx(1, abs=1e-5) and row.random_rank > 2 and (row.relations, row.allowed) == (12, 8) for row in rows)
    swapped = matrix_SDD.clone()
    swapped[chosen[0].r3] = matrix_SDD[chosen[0].r2] @ matrix_SDD[chosen[0].r1]  # s/r is not r/s
    assert judge(swapped, data, without(data, taken), chosen, taken, 1.0, 0)[0].cosine < 0.9


def test_averages_worked_by_hand() -> None:
    first = Discovery("r/s", "t", 1.0, 0, 12, 12, 6, 0.5, 2.0, 1.0, 6.0, 0.2, 0.3, 0.0, 6.5, 4.5, 12, 8)
    report = DiscoveryReport((first, replace(first, path="u/v", relation="w", rank=4.0, rank_allowed=2.0)))
    lines = {line.by: line for line in report.lines()}
    assert (lines["model"].mr, lines["model"].mrr, lines["model"].mrr_allowed, lines["model"].first_allowed) == (3, 0.375, 0.75, 0.5)
    assert (lines["counting"].mr, lines["random second"].mrr, lines["chance"].mr) == (6.5, 0.2, 6.5)
    assert lines["chance"].mrr_allowed == pytest.approx(sum(1 / k for k in range(1, 9)) / 8) and lines["model"].compositions == 2
    assert report.table().num_rows == 2


def small_plan(parts: tuple[float, ...] = (0.5, 1.0), epochs: int = 2) -> Plan:
    settings = recipe("base+comp").with_values(
        {"model.dim": 4, "training.epochs": epochs, "sampling.edges": 16, "sampling.tile": 4, "training.device": "cpu"}
    )
    return Plan.make(chain(30, 25), settings, parts, (0,), min_pairs=5)


def test_a_study_goes_on_where_it_was_left(tmp_path: Path) -> None:
    plan = small_plan()
    begun = study(plan, tmp_path)
    for event in begun:
        if isinstance(event, Discovery) and event.part == 0.5 and event.relation == "w":
            break
    begun.close()
    assert (tmp_path / "part-050-seed-0.json").exists() and not (tmp_path / "part-100-seed-0.json").exists()
    events = list(study(plan, tmp_path))
    assert [type(event) for event in events if not isinstance(event, Advanced)] == [Discovery] * 2 + [Started, Finished] + [Discovery] * 2
    again = list(study(plan, tmp_path))
    assert again == [event for event in events if isinstance(event, Discovery)]
    record = json.loads((tmp_path / "part-100-seed-0.json").read_text(encoding="utf-8"))
    assert record["removed"] == 60 and record["environment"]["device"] == "cpu" and len(record["rows"]) == 2
    with pytest.raises(RunError, match="other data, settings or compositions"):
        next(study(small_plan(epochs=3), tmp_path))


def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    plan = small_plan(parts=(1.0,), epochs=5)
    begun = study(plan, tmp_path)
    assert isinstance(next(begun), Started)
    begun.close()  # as when the process dies before the first step is saved
    events = list(study(plan, tmp_path))
    assert [row.relation for row in events if isinstance(row, Discovery)] == ["t", "w"]


@pytest.mark.parametrize("parts", [(), (1.5,), (-0.1, 0.5)])
def test_parts_are_checked(parts: tuple[float, ...]) -> None:
    with pytest.raises(SettingError, match="each lies between 0 and 1"):
        small_plan(parts)


def test_data_without_compositions_say_so() -> None:
    with pytest.raises(DataError, match="no composition to hold out"):
        Plan.make(dataset_from_facts([("a", "r", "b"), ("b", "r", "c")]), recipe("base"))
