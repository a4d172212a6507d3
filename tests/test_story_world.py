"""The story on real facts: the demo's recipe on the bundled KB, for a third of the demo's time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import relcode
from relcode.analysis.composition import composition_ranks
from relcode.evaluation.baseline import most_frequent_answers
from relcode.evaluation.report import evaluate
from relcode.explore.model import Model
from relcode.graph.paths import parse_path
from relcode.recipes import recipe

INDEPENDENT = (  # first and third relation of one source, the second of another: see the README of the dataset
    ("city_timezone/timezone_country", "city_country"),
    ("airport_timezone/timezone_country", "airport_country"),
    ("airport_city/city_timezone", "airport_timezone"),
    ("airport_city/city_country", "airport_country"),
    ("country_currency/currency_unit", "country_money"),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder: Path = tmp_path_factory.mktemp("story") / "run"
    return relcode.train("world", settings=recipe("default"), epochs=10, validations=1, out=folder, progress=False)


def test_it_completes_facts_far_better_than_the_most_frequent_answer(model: Model) -> None:
    baseline = evaluate(most_frequent_answers(model.dataset), model.dataset, "test")
    assert model.evaluate().both.mrr >= 2 * baseline.both.mrr


@pytest.mark.parametrize(("path", "third"), INDEPENDENT)
def test_two_relations_compose_into_the_third(model: Model, path: str, third: str) -> None:
    first, second = parse_path(path, model.dataset.relations)
    triple_N3 = torch.tensor([[first, second, model.dataset.relations.index(third)]])
    rank_N, _ = composition_ranks(model.scorer.matrix_SDD, triple_N3)
    assert rank_N.item() <= 5  # of 70 directed relations
