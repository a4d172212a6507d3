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
    facts_to_find,
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


def once(*tails: float) -> torch.Tensor:
    """Return once_S of relations whose heads have so many tails, and whose tails have as many heads."""
    return 1 / torch.tensor(tails * 2)


def probability(found: Calibrators, relation: int, *inputs: float) -> float:
    return float(found.probabilities(torch.tensor([relation]), torch.tensor([inputs]), torch.tensor([False])))


def test_weights_that_made_the_facts_are_found_again() -> None:
    made = [Calibrator(1.5, -2.0, 0.5, 2.0), Calibrator(0.8, 0.0, -1.0, 0.0)]
    found = fit(drawn(made, 20_000), once(1, 4))
    fresh = drawn(made, 5_000, seed=1)
    for relation, one in enumerate(made):
        assert found.of_relation[relation].slope == pytest.approx(one.slope, abs=0.1)
        which_X = fresh.relation_X == relation
        gap = found.probabilities(fresh.relation_X, fresh.input_X3, torch.zeros_like(fresh.true_X))[which_X] - torch.sigmoid(
            one.log_odds(fresh.input_X3[which_X])
        )
        assert float(gap.abs().mean()) < 0.01


def test_calibrated_scores_fit_and_others_do_not() -> None:
    made = [Calibrator(2.0, -3.0, 0.0, 1.0)] * 3
    found, fresh = fit(drawn(made, 3_000), once(1, 1, 1)), drawn(made, 3_000, seed=1)
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
        found = fit(both, once(1, 1, 1, 1, 1)).of_relation
        assert (abs(found[3].intercept - found[0].intercept) < 2) == near
        if near:
            assert found[4].intercept == pytest.approx(found[0].intercept, abs=0.5)  # a relation without any


def test_more_evidence_is_never_less_probable() -> None:
    upside_down = drawn([Calibrator(-2.0, 0.0, 0.0, -4.0)], 3_000)
    found = fit(upside_down, once(3))
    share = upside_down.facts / 3_000
    assert found.of_relation[0].slope > 0
    assert probability(found, 0, -1.0, 1.0, 0.0) == pytest.approx(share, abs=0.02)  # evidence says nothing: as many as there are on the whole


def test_a_share_counts_by_how_many_answers_there_are() -> None:
    """A tenth of the answers is much where there are a hundred, and little where there is one: ½ ln(n · n) more evidence, here ln 100."""
    found = fit(drawn([Calibrator(1.5, 0.0, 0.0, 2.0)], 5_000), once(1, 100))
    few, many = (probability(found, relation, evidence, 0.0, 0.0) for relation, evidence in ((0, -1.0), (1, -1.0 - math.log(100))))
    assert few == pytest.approx(probability(fit(drawn([Calibrator(1.5, 0.0, 0.0, 2.0)], 5_000), once(1)), 0, -1.0, 0.0, 0.0), abs=1e-3)
    assert many == pytest.approx(few, abs=0.05)  # of the second there are no candidates, so it has what all share


def test_relations_without_held_out_facts_are_not_sure() -> None:
    """What many-valued relations teach was carried over to rare relations of one value, all of whose suggestions then had a probability of 1.000."""
    generator = torch.Generator().manual_seed(0)
    inputs, relations, true = [], [], []
    for relation, tails in enumerate((10, 15, 30)):
        evidence_X = -math.log(tails) - 1.5 + torch.randn(300, generator=generator, dtype=torch.float64)
        asked_X2 = (torch.rand(300, 2, generator=generator) < 0.7).double()
        inputs.append(torch.cat([evidence_X[:, None], asked_X2], dim=1))
        relations.append(torch.full((300,), relation))
        odds_X = 3 * (evidence_X + math.log(tails)) + 3 * asked_X2.sum(dim=1) - 4
        true.append(torch.rand(300, generator=generator, dtype=torch.float64) < torch.sigmoid(odds_X))
    for relation in (3, 4):  # heads and tails are met once, and nothing is held out
        inputs.append(torch.tensor([[-0.5 - 0.2 * i, 1.0, 1.0] for i in range(10)], dtype=torch.float64))
        relations.append(torch.full((10,), relation))
        true.append(torch.zeros(10, dtype=torch.bool))
    found = fit(Population(torch.cat(inputs), torch.cat(relations), torch.cat(true), 0), once(10, 15, 30, 1, 1))
    assert probability(found, 0, -math.log(10), 1.0, 1.0) > 0.7
    assert max(probability(found, relation, -0.5, 1.0, 1.0) for relation in (3, 4)) < 0.3


def test_facts_to_find_by_hand() -> None:
    # 20 training facts and 5 held out, a quarter: of 9, 9, 2 and 0, 2.25, 2.25, 0.5 and none are expected; the first has four, the last one.
    train_N3 = torch.tensor([[0, 0, 1]] * 9 + [[0, 1, 1]] * 9 + [[0, 2, 1]] * 2)
    held_out_N3 = torch.tensor([[1, 0, 0]] * 4 + [[1, 3, 0]])
    assert facts_to_find(train_N3, held_out_N3, 4).tolist() == [4, 2, 1, 0]
    assert facts_to_find(train_N3[:0], held_out_N3[:0], 2).tolist() == [0, 0]


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
    usual = Calibrator(1.2, -2.0, -0.5, 1.0)
    calibrators = Calibrators((usual, Calibrator(0.6, 1.0, -1.0, 0.5), usual), other=-2.0)
    for relation in range(case.dataset.num_relations):
        shifts = calibrators.shifts(relation)
        pairs = case.finder().best(Search(relation=relation, top=60, any_type=True, shifts=shifts))
        relation_X = torch.full_like(pairs.head_X, relation)
        input_X3 = inputs_of(pairs.evidence_X, pairs.head_asked_X, pairs.tail_asked_X)
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
        expected_X3 = inputs_of(pairs.evidence_X, pairs.head_asked_X, pairs.tail_asked_X)
        assert torch.allclose(input_X3, expected_X3, atol=1e-5) and other_X.tolist() == pairs.other_X.tolist()


def test_a_known_fact_is_asked_about_as_if_it_were_not() -> None:
    data = dataset_from_facts([("a", "r", "b"), ("c", "r", "b"), ("c", "r", "d")])
    candidates = Candidates.of(data.train, 4, 1)
    known = KnownAnswers(data.train, 4, 1)
    case = random_case(0)
    scorer = type(case.scorer)(torch.randn(4, 2), torch.randn(4, 2), torch.randn(2, 2, 2), data.seen_E)
    input_X3, _ = fact_inputs(scorer, candidates, known, torch.tensor([[0, 0, 1], [0, 0, 3]]))
    # (a, r, b): a has no other tail, b another head. (a, r, d): a has the tail b, d the head c.
    assert input_X3[:, 1:].tolist() == [[0, 1], [1, 1]]


def test_the_population_is_the_best_candidates_for_each_held_out_fact() -> None:
    case = random_case(1)
    data = case.dataset
    others = KnownAnswers(torch.cat([data.train, data.test]), data.num_entities, data.num_relations)
    finder = type(case.finder())(case.scorer, case.candidates, others)
    valid_N3 = data.valid[data.valid[:, 1] != 1]  # relation 1 has its candidates all the same
    found = population(finder, data.train, valid_N3, per_fact=3)
    for relation, size in enumerate(facts_to_find(data.train, valid_N3, data.num_relations).tolist()):
        pairs = finder.best(Search(relation=relation, top=3 * size))
        which_X = found.relation_X == relation
        assert len(pairs) > 0
        assert found.input_X3[which_X, 0].tolist() == pytest.approx(pairs.evidence_X.tolist())
        stated = {(h, t) for h, r, t in valid_N3.tolist() if r == relation}
        assert found.true_X[which_X].tolist() == [pair in stated for pair in zip(pairs.head_X.tolist(), pairs.tail_X.tolist(), strict=True)]
    assert found.facts + found.missed == len(valid_N3) and found.facts + found.others == len(found.true_X)


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
            fit(same, once(1))
    case = random_case()
    with pytest.raises(DataError, match="nothing to calibrate with"):
        fit_split(case.finder(), case.dataset.train, case.dataset.valid[:0])
