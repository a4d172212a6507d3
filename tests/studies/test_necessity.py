from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relcode.errors import SettingError
from relcode.explore.model import Model
from relcode.studies.necessity import Necessity, NecessityReport, bootstrap, draw_questions, effects, necessity


@pytest.fixture(scope="module")
def model(family_run: Path) -> Model:
    return Model.open(family_run, "cpu")


@pytest.fixture(scope="module")
def report(model: Model) -> NecessityReport:
    return necessity(model, facts=12, top=3, draws=4)


def test_named_facts_are_needed_more_than_random_ones(report: NecessityReport) -> None:
    found = {one.measure: one for one in report.effects}
    assert list(found) == ["ln rank", "log-odds", "likelihood"]
    for one in found.values():
        assert one.difference == pytest.approx(one.named - one.random) and one.low < one.difference < one.high
    assert found["log-odds"].low > 0 and found["likelihood"].low > 0 and found["log-odds"].named > 0.5
    assert 0.5 < report.worse <= 1


def test_rows_say_what_was_done(model: Model, report: NecessityReport) -> None:
    data = model.dataset
    held_out = {(data.entities[h], data.relations[r], data.entities[t]) for h, r, t in data.test.tolist()}
    turned = [row for row in report.rows if row.relation.startswith("^")]
    assert len(report.rows) == 12 and 0 < len(turned) < 12
    for row in report.rows:
        assert ((row.tail, row.relation[1:], row.head) if row in turned else (row.head, row.relation, row.tail)) in held_out
        assert 0 < row.removed <= 3 < row.facts and row.nothing_likelihood > row.named_likelihood
    scored = model.score_facts([(row.head, row.relation, row.tail) for row in report.rows])
    assert [row.run_rank for row in report.rows] == [one.rank for one in scored]


def test_it_repeats_and_becomes_json_and_a_table(model: Model, report: NecessityReport) -> None:
    assert necessity(model, facts=12, top=3, draws=4) == report
    record = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert record["facts"] == 12 and record["effects"]["ln rank"]["low"] == report.effects[0].low and len(record["rows"]) == 12
    assert report.table().num_rows == 12 and report.table().column_names[:3] == ["head", "relation", "tail"]


def test_questions_are_drawn_among_trained_entities(model: Model) -> None:
    questions = draw_questions(model, "test", 1000, torch.Generator().manual_seed(0))
    assert len(questions) == 12 == len(set(questions))
    nobody = Model.__new__(Model)
    nobody.dataset = replace(model.dataset, train=model.dataset.train[:0])
    with pytest.raises(SettingError, match="no fact of test"):
        draw_questions(nobody, "test", 5, torch.Generator())


def test_effects_worked_by_hand() -> None:
    ranks = {"nothing_rank": 1.0, "named_rank": math.e**2, "random_rank": math.e, "run_rank": 1.0}
    odds = {"nothing_log_odds": 3.0, "named_log_odds": 1.0, "random_log_odds": 2.5}
    chance = {"nothing_likelihood": 0.9, "named_likelihood": 0.5, "random_likelihood": 0.8}
    row = Necessity(head="a", relation="r", tail="b", facts=5, removed=2, emptied=False, **ranks, **odds, **chance)
    found = {one.measure: (one.named, one.random, one.difference, one.low, one.high) for one in effects([row, row])}
    assert found["ln rank"] == pytest.approx((2, 1, 1, 1, 1))
    assert found["log-odds"] == pytest.approx((2, 0.5, 1.5, 1.5, 1.5)) and found["likelihood"] == pytest.approx((0.4, 0.1, 0.3, 0.3, 0.3))


def test_the_interval_covers_as_it_says() -> None:
    """Of many samples from a distribution of mean 1, about 95 % have an interval that holds 1."""
    generator = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(200):
        low, high = bootstrap(1 + torch.randn(60, generator=generator, dtype=torch.float64), generator, resamples=400)
        held += low <= 1 <= high
    assert 0.88 < held / 200 < 0.99
    assert all(math.isnan(end) for end in bootstrap(torch.empty(0, dtype=torch.float64), generator))


@pytest.mark.parametrize("wrong", [{"facts": 0}, {"top": 0}, {"draws": 0}])
def test_mistakes_are_told(model: Model, wrong: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="cannot be 0"):
        necessity(model, **wrong)
