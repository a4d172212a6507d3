from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from completion import random_case, slow_evidence
from small_model import small_model

from relcode.analysis.candidates import Candidates
from relcode.analysis.evidence import TailVectors, fact_evidence, log_share, log_sum_exp, log_totals
from relcode.errors import NotFinite


def test_evidence_by_hand() -> None:
    # Heads of r in train are a and c, tails b and a; half of its heads are tails and the other way round, so a, b and c are candidates for both.
    # u_a M_r = (1, 2): a 5, b 11, c -1.   u_b M_^r = (0, 1): a 2, b 4, c 0.
    model = small_model()
    candidates = Candidates.of(model.dataset.train, 4, 2)
    assert candidates.tails(0).tolist() == [0, 1, 2] and candidates.heads(0).tolist() == [0, 1, 2]
    there = 11 - math.log(math.exp(5) + math.exp(11) + math.exp(-1))
    back = 2 - math.log(math.exp(2) + math.exp(4) + math.exp(0))
    found = fact_evidence(model.scorer, candidates, torch.tensor([[0, 0, 1], [1, 2, 0]]))
    assert found.tolist() == pytest.approx([(there + back) / 2] * 2, rel=1e-5)  # the same fact, told from both ends


@pytest.mark.parametrize("seed", range(3))
def test_evidence_agrees_with_loops_over_all_triples_in_both_directions(seed: int) -> None:
    case = random_case(seed)
    E, S = case.dataset.num_entities, case.dataset.num_directed
    facts_N3 = torch.cartesian_prod(torch.arange(E), torch.arange(S), torch.arange(E))
    found = fact_evidence(case.scorer, case.candidates, facts_N3, block_numbers=20).tolist()
    expected = [slow_evidence(case, *fact) for fact in facts_N3.tolist()]
    assert found == pytest.approx(expected, abs=1e-4)
    assert max(found) <= 1e-6


def test_vectors_that_are_kept_are_those_of_the_candidates_within_the_bound() -> None:
    case = random_case()
    S, entity_X = case.dataset.num_directed, torch.arange(5)
    for most_bytes in (0, 200, 10**9):
        kept, seen = TailVectors(case.scorer, case.candidates, most_bytes), set()
        for relation in [*range(S), *range(S), 0]:
            assert torch.equal(kept.of(relation), case.scorer.tail_ED[case.candidates.tails(relation)])
            total_B = kept.log_totals(case.scorer.path_queries(entity_X, (relation,)), relation)
            expected_B = log_totals(case.scorer, case.candidates, entity_X, relation)
            assert torch.allclose(total_B, expected_B, atol=1e-5)
            for chosen_X in (torch.tensor([3, 1]), entity_X, entity_X):  # the first two are kept, then all
                found_X = kept.totals(chosen_X, case.scorer.path_queries(chosen_X, (relation,)), relation)
                assert torch.allclose(found_X, expected_B[chosen_X], atol=1e-5)
            assert len(kept._totals) == min(len(seen | {relation}), max(1, most_bytes // (16 * case.scorer.num_entities)))
            seen.add(relation)
            assert sum(one.nbytes for one in kept._kept.values()) == kept._bytes <= most_bytes


def test_totals_come_out_alike_in_any_blocks() -> None:
    case = random_case()
    head_H = torch.arange(case.dataset.num_entities)
    whole = log_totals(case.scorer, case.candidates, head_H, 0)
    assert torch.allclose(whole, log_totals(case.scorer, case.candidates, head_H, 0, block_numbers=1), atol=1e-5)


def test_large_scores_do_not_overflow() -> None:
    score = torch.tensor([[1e9, 0.0, -1e9], [-1e9, -1e9, -1e9]])
    assert log_sum_exp(score.clone()).tolist() == pytest.approx([1e9, -1e9 + math.log(3)])
    shares = log_share(torch.tensor([1e9, -1e9]), torch.tensor([0.0, 0.0]), torch.tensor([False, False]))
    assert shares.tolist() == [0.0, -1e9]


def test_what_is_not_a_number_is_a_failure() -> None:
    case = random_case()
    broken = replace(case.scorer, tail_ED=case.scorer.tail_ED.masked_fill(torch.eye(14, 4).bool(), float("nan")))
    with pytest.raises(NotFinite, match="NaN or infinite"):
        fact_evidence(broken, case.candidates, case.dataset.train)


def test_edges() -> None:
    case = random_case()
    assert fact_evidence(case.scorer, case.candidates, torch.empty((0, 3), dtype=torch.int64)).tolist() == []
    none = Candidates.of(torch.empty((0, 3), dtype=torch.int64), case.dataset.num_entities, case.dataset.num_relations)
    assert fact_evidence(case.scorer, none, case.dataset.train[:1]).tolist() == [-math.inf]
    assert log_totals(case.scorer, none, torch.tensor([0]), 0).tolist() == [-math.inf]
