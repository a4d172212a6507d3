from __future__ import annotations

import math

import pytest
import torch
from completion import random_case

from relcode.analysis.calibration import (
    Calibrator,
    Calibrators,
    Population,
    fact_inputs,
    fit,
    fit_split,
    inputs_of,
    other_type_odds,
    population,
    reliability,
)
from relcode.analysis.candidates import Candidates
from relcode.analysis.found_pairs import Search
from relcode.errors import DataError
from relcode.graph.dataset import dataset_from_facts
from relcode.graph.known import KnownAnswers

pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")


def drawn(weights: list[Calibrator], count: int, seed: int = 0) -> Population:
    """Draw candidates of as many relations as there are weights, true with the probability that the weights give."""
    generator = torch.Generator().manual_seed(seed)
    inputs, relations, true = [], [], []
    for relation, one in enumerate(weights):
        evidence_X = -5 * torch.rand(count, generator=generator, dtype=torch.float64)
        asked_X2 = (torch.rand(count, 2, generator=generator) < 0.5).double()
        inputs.append(torch.cat([evidence_X[:, None], asked_X2], dim=1))
        relations.append(torch.full((count,), relation))
        true.append(torch.rand(count, generator=generator, dtype=torch.float64) < torch.sigmoid(one.log_odds(inputs[-1])))
    return Population(torch.cat(inputs), torch.cat(relations), torch.cat(true), 0)


def test_weights_that_made_the_facts_are_found_again() -> None:
    made = [Calibrator(1.5, -2.0, 0.5, 2.0), Calibrator(0.8, 0.0, -1.0, 0.0)]
    found = fit(drawn(made, 20_000), 2)
    fresh = drawn(made, 5_000, seed=1)
    for relation, one in enumerate(made):
        assert found.of(relation).slope == pytest.approx(one.slope, abs=0.1)
        which_X = fresh.relation_X == relation
        gap = found.probabilities(fresh.relation_X, fresh.input_X3, torch.zeros_like(fresh.true_X))[which_X] - torch.sigmoid(
            one.log_odds(fresh.input_X3[which_X])
        )
        assert float(gap.abs().mean()) < 0.01


def test_calibrated_scores_fit_and_others_do_not() -> None:
    made = [Calibrator(2.0, -3.0, 0.0, 1.0)] * 3
    found, fresh = fit(drawn(made, 3_000), 3), drawn(made, 3_000, seed=1)
    before = reliability(fresh.input_X3[:, 0].exp(), fresh.true_X)
    after = reliability(found.probabilities(fresh.relation_X, fresh.input_X3, torch.zeros_like(fresh.true_X)), fresh.true_X)
    assert after.error < 0.02 < before.error and after.brier < before.brier


def test_few_facts_stay_near_what_all_share_and_many_go_their_own_way() -> None:
    usual, special = Calibrator(1.5, 0.0, 0.0, 1.0), Calibrator(1.5, 0.0, 0.0, -3.0)
    for count, near in ((12, True), (5_000, False)):
        rest = drawn([usual] * 3, 2_000)
        few = drawn([special], count, seed=3)
        both = Population(
            torch.cat([rest.input_X3, few.input_X3]), torch.cat([rest.relation_X, few.relation_X + 3]), torch.cat([rest.true_X, few.true_X]), 0
        )
        found = fit(both, 5)
        assert (abs(found.of(3).intercept - found.of(0).intercept) < 2) == near
        assert found.of(4) == found.shared  # a relation without any


def test_more_evidence_is_never_less_probable() -> None:
    upside_down = drawn([Calibrator(-2.0, 0.0, 0.0, -4.0)], 3_000)
    found = fit(upside_down, 1)
    assert found.shared.slope > 0 and found.own == {}


def test_the_expected_calibration_error_by_hand() -> None:
    probability = torch.tensor([0.05, 0.05, 0.95, 0.95, 1.0, 0.55])
    true = torch.tensor([False, True, True, True, False, False])
    found = reliability(probability, true)
    # Bins: two at .05 with share 1/2; three with mean 2.9/3 and share 2/3; one at .55 with share 0.
    assert found.error == pytest.approx((2 * 0.45 + 3 * (2.9 / 3 - 2 / 3) + 0.55) / 6, abs=1e-6)
    assert [one.count for one in found.bins] == [2, 0, 0, 0, 0, 1, 0, 0, 0, 3]
    assert found.brier == pytest.approx((0.05**2 + 0.95**2 + 2 * 0.05**2 + 1 + 0.55**2) / 6, abs=1e-6)
    assert reliability(torch.empty(0), torch.empty(0, dtype=torch.bool)).error == 0


def test_shifts_and_least_worth_put_pairs_in_the_order_of_their_probability() -> None:
    case = random_case(1)
    calibrators = Calibrators(Calibrator(1.2, -2.0, -0.5, 1.0), {1: Calibrator(0.6, 1.0, -1.0, 0.5)}, other=-2.0)
    for relation in range(case.dataset.num_relations):
        shifts = calibrators.shifts(relation, case.candidates)
        pairs = case.finder().best(Search(relation=relation, top=60, any_type=True, shifts=shifts))
        relation_X = torch.full_like(pairs.head_X, relation)
        input_X3 = inputs_of(case.candidates, relation_X, pairs.evidence_X, pairs.head_asked_X, pairs.tail_asked_X)
        probability_X = calibrators.probabilities(relation_X, input_X3, pairs.other_X)
        assert bool((probability_X.diff() <= 1e-6).all()) and float(probability_X[0]) > float(probability_X[-1])
        middle = float(probability_X[30]) - 1e-6
        least = calibrators.least_worth(relation, middle)
        fewer = case.finder().best(Search(relation=relation, top=60, any_type=True, shifts=shifts, least=least))
        assert len(fewer) == int((probability_X >= middle).sum())
    assert calibrators.least_worth(0, 0) == -math.inf and calibrators.least_worth(0, 1) == math.inf


def test_inputs_of_any_fact_are_those_of_the_pairs_found() -> None:
    case = random_case(2)
    for relation in range(case.dataset.num_relations):
        pairs = case.finder().best(Search(relation=relation, top=100, any_type=True))
        relation_X = torch.full_like(pairs.head_X, relation)
        facts_X3 = torch.stack([pairs.head_X, relation_X, pairs.tail_X], dim=1)
        input_X3, other_X = fact_inputs(case.scorer, case.candidates, case.known, facts_X3)
        expected_X3 = inputs_of(case.candidates, relation_X, pairs.evidence_X, pairs.head_asked_X, pairs.tail_asked_X)
        assert torch.allclose(input_X3, expected_X3, atol=1e-5) and other_X.tolist() == pairs.other_X.tolist()


def test_a_known_fact_is_asked_about_as_if_it_were_not() -> None:
    data = dataset_from_facts([("a", "r", "b"), ("c", "r", "b"), ("c", "r", "d")])
    candidates = Candidates.of(data.train, 4, 1)
    known = KnownAnswers(data.train, 4, 1)
    case = random_case(0)
    scorer = type(case.scorer)(torch.randn(4, 2), torch.randn(4, 2), torch.randn(2, 2, 2), data.seen_E)
    input_X3, _ = fact_inputs(scorer, candidates, known, torch.tensor([[0, 0, 1], [0, 0, 3]]))
    # (a, r, b): a has no other tail, b another head. (a, r, d): a has the tail b, d the head c.
    assert (input_X3[:, 1:] > 0).tolist() == [[False, True], [True, True]]


def test_the_population_is_the_best_candidates_for_each_held_out_fact() -> None:
    case = random_case(1)
    data = case.dataset
    others = KnownAnswers(torch.cat([data.train, data.test]), data.num_entities, data.num_relations)
    finder = type(case.finder())(case.scorer, case.candidates, others)
    found = population(finder, data.valid, per_fact=3)
    for relation, size in zip(*(part.tolist() for part in data.valid[:, 1].unique(return_counts=True)), strict=True):
        pairs = finder.best(Search(relation=relation, top=3 * size))
        which_X = found.relation_X == relation
        assert found.input_X3[which_X, 0].tolist() == pytest.approx(pairs.evidence_X.tolist())
        stated = {(h, t) for h, r, t in data.valid.tolist() if r == relation}
        assert found.true_X[which_X].tolist() == [pair in stated for pair in zip(pairs.head_X.tolist(), pairs.tail_X.tolist(), strict=True)]
    assert found.facts + found.missed == len(data.valid) and found.facts + found.others == len(found.true_X)


def test_other_types_by_hand() -> None:
    # Heads of r are a and b, tails c and d: 4 of 25 pairs of 5 trained entities. Held out: one fact of the right type, one of another.
    data = dataset_from_facts({"train": [("a", "r", "c"), ("b", "r", "d"), ("e", "s", "e")], "valid": [("a", "r", "d"), ("e", "r", "d")]})
    found = other_type_odds(Candidates.of(data.train, 5, 2), data.valid, 5)
    assert found == pytest.approx(math.log((1.5 / 21) / (1.5 / 4)))


def test_nothing_to_calibrate_with_is_said() -> None:
    one = drawn([Calibrator(1.0, 0.0, 0.0, 0.0)], 10)
    for all_true in (True, False):
        same = Population(one.input_X3, one.relation_X, torch.full_like(one.true_X, all_true), 0)
        with pytest.raises(DataError, match="nothing to calibrate with"):
            fit(same, 1)
    case = random_case()
    with pytest.raises(DataError, match="nothing to calibrate with"):
        fit_split(case.finder(), case.dataset.valid[:0])
