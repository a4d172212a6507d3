from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from relcode.analysis import refit
from relcode.analysis.refit import EntityProblem, Refitter, sample, spread
from relcode.graph.facts import directed, unique_facts
from relcode.model.score import Scorer

E, R, D = 7, 3, 4


def random_facts(seed: int, number: int = 36) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    columns = [torch.randint(size, (number,), generator=generator) for size in (E, R, E)]
    return unique_facts(torch.stack(columns, dim=1), E, R)


def random_scorer(seed: int, shared: bool = False) -> Scorer:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    head_ED = normal(E, D)
    return Scorer(head_ED, head_ED if shared else normal(E, D), normal(2 * R, D, D), torch.ones(E, dtype=torch.bool))


def slow_objective(scorer: Scorer, facts: Tensor, entity: int, w: Tensor, roles: str, mean: Tensor, ridge: float, removed: set[int]) -> Tensor:
    """Return what the fit of one vector maximises, edge by edge over all facts and all entities."""
    total = -ridge / 2 * (w - mean).square().sum()
    for row, fact in enumerate(facts.tolist()):
        for a, s, b in directed(torch.tensor([fact]), R).tolist():
            if a == entity and "head" in roles and row not in removed:
                score_E = scorer.tail_ED @ (w @ scorer.matrix_SDD[s])
                total = total + score_E[b] - score_E.logsumexp(0)
            if "tail" in roles:
                query = scorer.head_ED[a] @ scorer.matrix_SDD[s]
                scores = torch.stack([query @ w if e == entity else query @ scorer.tail_ED[e] for e in range(E)])
                if b != entity:  # whatever the answer is, the entity is one of those it is not
                    rest = torch.cat([scores[:entity], scores[entity + 1 :]]).logsumexp(0)
                    total = total - (scores.logsumexp(0) - rest)
                elif row not in removed:
                    total = total + scores[b] - scores.logsumexp(0)
    return total


@pytest.mark.parametrize(("shared", "as_head", "roles"), [(False, True, "head"), (False, False, "tail"), (True, True, "head tail")])
@pytest.mark.parametrize("removed", [set(), {3, 5, 8, 9}])
def test_the_solution_is_the_best_by_a_slow_objective(shared: bool, as_head: bool, roles: str, removed: set[int]) -> None:
    scorer, facts = random_scorer(1, shared), random_facts(1)
    problem = Refitter(scorer, facts).problem(2, as_head)
    w_D = problem.fit(problem.keep([torch.tensor(sorted(removed), dtype=torch.int64)]))[0].requires_grad_()
    slow_objective(scorer, facts, 2, w_D, roles, problem.mean_D, float(problem.ridge_A), removed).backward()
    assert w_D.grad is not None and float(w_D.grad.abs().max()) < 5e-3
    value = problem.value(w_D.detach()[None], problem.keep([torch.tensor(sorted(removed), dtype=torch.int64)]))
    assert float(value) == pytest.approx(
        float(slow_objective(scorer, facts, 2, w_D.detach(), roles, problem.mean_D, float(problem.ridge_A), removed)), rel=1e-6
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("as_head", [False, True])
def test_gradient_and_curvature_are_those_of_the_value(shared: bool, as_head: bool) -> None:
    scorer, facts = random_scorer(2, shared), random_facts(2)
    problem = Refitter(scorer, facts).problem(4, as_head)
    keep_AF = problem.keep([torch.tensor([], dtype=torch.int64), problem.row_F[:3]])
    w_AD = torch.randn(2, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradient_AD, curvature_ADD = problem.curve(w_AD, keep_AF)
    step = 1e-4
    for arm in range(2):
        for place in range(D):
            nudge = torch.zeros(2, D, dtype=torch.float64)
            nudge[arm, place] = step
            slope = (problem.value(w_AD + nudge, keep_AF) - problem.value(w_AD - nudge, keep_AF))[arm] / (2 * step)
            bend_D = (problem.curve(w_AD + nudge, keep_AF)[0] - problem.curve(w_AD - nudge, keep_AF)[0])[arm] / (2 * step)
            assert float(gradient_AD[arm, place]) == pytest.approx(float(slope), rel=1e-5, abs=1e-6)
            assert torch.allclose(curvature_ADD[arm, place], -bend_D, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_gradients_of_facts_add_up_to_what_the_facts_pull(shared: bool) -> None:
    scorer, facts = random_scorer(3, shared), random_facts(3)
    problem = Refitter(scorer, facts).problem(1, as_head=True)
    w_D = torch.randn(D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    every, none = torch.ones(1, len(problem.row_F), dtype=torch.float64), torch.zeros(1, len(problem.row_F), dtype=torch.float64)
    pull_D = (problem.curve(w_D[None], every)[0] - problem.curve(w_D[None], none)[0])[0]
    gradient_FD = torch.stack([role.gradients(w_D, len(problem.row_F)) for role in problem.roles]).sum(dim=0)
    assert torch.allclose(gradient_FD.sum(dim=0), pull_D)
    one = none.clone()
    one[0, 2] = 1
    assert torch.allclose(gradient_FD[2], (problem.curve(w_D[None], one)[0] - problem.curve(w_D[None], none)[0])[0])


def test_influence_is_the_slope_of_leaving_a_fact_out() -> None:
    """Weigh a fact a little less, fit again: the change of g is the influence times that little."""
    scorer, facts = random_scorer(4, shared=True), random_facts(4)
    problem = Refitter(scorer, facts).problem(3, as_head=True)
    keep_1F = torch.ones(1, len(problem.row_F), dtype=torch.float64)
    target_D = torch.randn(D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    influence_F = problem.influence(problem.fit(keep_1F)[0], target_D)
    little = 0.02
    for fact in range(len(problem.row_F)):
        less, more = keep_1F.clone(), keep_1F.clone()
        less[0, fact], more[0, fact] = 1 - little, 1 + little
        fall = (problem.fit(more)[0] - problem.fit(less)[0]) @ target_D / (2 * little)
        assert float(influence_F[fact]) == pytest.approx(float(fall), rel=0.05, abs=2e-3)
    assert float(influence_F.abs().max()) > 0.05


def test_removing_facts_of_others_changes_nothing_and_own_facts_do() -> None:
    scorer, facts = random_scorer(1), random_facts(1)
    problem = Refitter(scorer, facts).problem(2, as_head=True)
    others = torch.tensor([row for row in range(len(facts)) if row not in problem.row_F.tolist()])
    nothing_D, others_D, all_D = problem.fit(problem.keep([others[:0], others, problem.row_F]))
    assert torch.equal(nothing_D, others_D) and not torch.allclose(nothing_D, all_D, atol=1e-3)
    assert torch.allclose(all_D, problem.mean_D, atol=1e-6)  # with no edge left u_h is the mean vector


def test_where_the_search_starts_does_not_matter() -> None:
    problem = Refitter(random_scorer(5, shared=True), random_facts(5)).problem(0, as_head=True)
    keep_1F = torch.ones(1, len(problem.row_F), dtype=torch.float64)
    far = replace(problem, start_D=problem.start_D + 30)
    assert torch.allclose(problem.fit(keep_1F), far.fit(keep_1F), atol=1e-3)


def test_the_fact_asked_about_is_left_out_as_stored() -> None:
    facts = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 2], [3, 2, 0]])
    refitter = Refitter(random_scorer(0), facts)
    assert refitter.rows(0).tolist() == [0, 1, 2, 3] and refitter.rows(0, (0, 0, 1)).tolist() == [1, 2, 3]
    assert refitter.rows(6).tolist() == []
    problem = refitter.problem(6, as_head=True)
    assert torch.allclose(problem.fit(problem.keep([torch.tensor([], dtype=torch.int64)]))[0], problem.mean_D)


def test_fitted_vectors_are_as_far_from_the_mean_as_trained_ones() -> None:
    """Train by the fit itself, at a strength of the prior that is then found again."""
    scorer, facts = random_scorer(6), random_facts(6)
    strength = torch.tensor([0.8], dtype=torch.float64)
    first = Refitter(scorer, facts)
    problems = [replace(first.problem(entity, as_head=True), ridge_A=strength) for entity in range(E)]
    head_ED = torch.cat([problem.fit(torch.ones(1, len(problem.row_F), dtype=torch.float64)) for problem in problems])
    again = Refitter(replace(scorer, head_ED=head_ED), facts)
    mean_D, ridge_1 = again._priors[0]
    unit = spread(head_ED, scorer.seen_E)[1]
    assert unit * refit.RIDGES[-1] < float(ridge_1) < unit * refit.RIDGES[0]
    far = trained = 0.0
    for entity in range(E):
        problem = again.problem(entity, as_head=True)
        far += float((problem.fit(torch.ones(1, len(problem.row_F), dtype=torch.float64)) - mean_D).square().sum())
        trained += float((head_ED[entity] - mean_D).square().sum())
    assert math.sqrt(far / trained) == pytest.approx(1, abs=0.1)


def test_the_spread_worked_by_hand() -> None:
    mean, unit = spread(torch.tensor([[1.0, 0.0], [3.0, 0.0], [9.0, 9.0]]), torch.tensor([True, True, False]))
    assert mean.tolist() == [2, 0] and unit == pytest.approx(2)  # variances 1 and 0


def test_a_sample_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, facts = random_scorer(7), random_facts(7)
    exact = Refitter(scorer, facts).problem(2, as_head=True)
    monkeypatch.setattr(refit, "NOISE_ENTITIES", 2)
    sampled = Refitter(scorer, facts).problem(2, as_head=True)
    role = sampled.roles[0]
    assert isinstance(role, refit.HeadRole) and len(role.candidate_YD) <= 4 < E
    assert float(role.log_weight_Y.exp().sum()) == pytest.approx(E)
    assert isinstance(exact.roles[0], refit.HeadRole) and exact.roles[0].log_weight_Y.tolist() == [0] * E
    assert sample(torch.arange(50), 5).tolist() == sample(torch.arange(50), 5).tolist()


def test_an_extreme_start_ends_finite() -> None:
    scorer = random_scorer(8)
    big = replace(scorer, tail_ED=scorer.tail_ED * 1e3)
    problem: EntityProblem = Refitter(big, random_facts(8)).problem(1, as_head=True)
    assert bool(problem.fit(torch.ones(1, len(problem.row_F), dtype=torch.float64)).isfinite().all())
