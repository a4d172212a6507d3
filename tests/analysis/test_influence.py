from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from relcode.analysis.influence import Inquiry
from relcode.analysis.refit import Refitter
from relcode.errors import NotFinite
from relcode.graph.facts import unique_facts
from relcode.graph.known import KnownAnswers
from relcode.model.score import Scorer

E, R, D = 9, 3, 4


def inquiry(seed: int, shared: bool, head: int = 0, relation: int = 4, tail: int = 5, number: int = 50) -> Inquiry:
    generator = torch.Generator().manual_seed(seed)
    columns = [torch.randint(size, (number,), generator=generator) for size in (E, R, E)]
    facts = unique_facts(torch.stack(columns, dim=1), E, R)
    head_ED, tail_ED, matrix_SDD = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((E, D), (E, D), (2 * R, D, D)))
    scorer = Scorer(head_ED, head_ED if shared else tail_ED, matrix_SDD, torch.ones(E, dtype=torch.bool))
    return Inquiry(Refitter(scorer, facts), KnownAnswers(facts, E, R), head, relation, tail)


@pytest.mark.parametrize("shared", [False, True])
def test_outcomes_are_those_of_a_loop(shared: bool) -> None:
    asked = inquiry(1, shared)
    scorer, rows = asked.refitter.scorer, asked.head_problem.row_F
    removals = [rows[:0], rows[:2]]
    found = asked.outcome(removals)
    known = asked.known.of(0, 4).tolist()
    assert known
    for arm, removed in enumerate(removals):
        u_D, v_D = (problem.fit(problem.keep([removed]))[0] for problem in (asked.head_problem, asked.tail_problem))
        score = u_D @ scorer.matrix_SDD[4] @ v_D
        rivals = []
        for entity in range(E):
            if entity != 5 and entity not in known:
                rivals.append(u_D @ scorer.matrix_SDD[4] @ (u_D if shared and entity == 0 else scorer.tail_ED[entity]))
        assert float(found.score_A[arm]) == pytest.approx(float(score), rel=1e-3)
        assert float(found.rank_A[arm]) == 1 + sum(float(rival) > float(score) for rival in rivals)
        odds = float(score) - math.log(sum(math.exp(float(rival)) for rival in rivals))
        assert float(found.log_odds_A[arm]) == pytest.approx(odds, rel=1e-3, abs=1e-3)
        assert float(found.likelihood_A[arm]) == pytest.approx(1 / (1 + math.exp(-odds)), rel=1e-3)


@pytest.mark.parametrize("shared", [False, True])
def test_falls_agree_with_leaving_each_fact_out(shared: bool) -> None:
    """The estimate is of first order: it must put facts nearly in the order of what fitting again without each of them measures."""
    agreements = []
    for seed in range(6):
        asked = inquiry(seed, shared)
        rows, falls = asked.falls()
        assert rows.tolist() == sorted(rows.tolist(), key=lambda row: -float(falls[rows.tolist().index(row)]))
        assert set(rows.tolist()) == set(asked.head_problem.row_F.tolist()) | set(asked.tail_problem.row_F.tolist())
        odds = asked.outcome([rows[:0], *(rows[place : place + 1] for place in range(len(rows)))]).log_odds_A
        agreements.append(float(torch.corrcoef(torch.stack([falls, odds[0] - odds[1:]]))[0, 1]))
    assert sum(agreements) / len(agreements) > 0.8 and min(agreements) > 0.5


def test_removing_what_carries_hurts_more_than_removing_others() -> None:
    found: list[Tensor] = []
    generator = torch.Generator().manual_seed(0)
    for seed in range(8):
        asked = inquiry(seed, shared=True)
        rows, _ = asked.falls()
        odds = asked.outcome([rows[:0], rows[:3], *(asked.random_removal(rows[:3], generator) for _ in range(4))]).log_odds_A
        found.append(torch.stack([odds[0], odds[1], odds[2:].mean()]))
    nothing, carrying, random = torch.stack(found).mean(dim=0).tolist()
    assert carrying < random < nothing + 0.3 and carrying < nothing - 0.5


def test_the_fact_itself_is_never_fitted() -> None:
    plain = inquiry(1, shared=False)
    h, r, t = plain.refitter.facts_N3[7].tolist()
    for asked in (replace(plain, head=h, relation=r, tail=t), replace(plain, head=t, relation=r + R, tail=h)):
        assert 7 not in asked.head_problem.row_F.tolist() + asked.tail_problem.row_F.tolist()
        assert 7 not in asked.falls()[0].tolist()


def test_random_removals_take_as_many_of_each_entity() -> None:
    facts = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 1, 3], [3, 0, 1], [4, 0, 1], [5, 0, 6]])
    scorer = inquiry(0, shared=False).refitter.scorer
    asked = Inquiry(Refitter(scorer, facts), KnownAnswers(facts, E, R), 0, 2, 1)
    draws = [asked.random_removal(torch.tensor([0, 1, 3]), torch.Generator().manual_seed(seed)) for seed in range(9)]
    for drawn in draws:
        assert len(set(drawn.tolist())) == 3 and set(drawn[:2].tolist()) <= {0, 1, 2} and int(drawn[2]) in (3, 4)
    assert len({tuple(drawn.tolist()) for drawn in draws}) > 3
    assert torch.equal(draws[0], asked.random_removal(torch.tensor([0, 1, 3]), torch.Generator().manual_seed(0)))


def test_a_diverged_model_has_no_outcome() -> None:
    asked = inquiry(1, shared=False)
    broken = replace(asked.refitter.scorer, matrix_SDD=torch.full_like(asked.refitter.scorer.matrix_SDD, math.nan))
    with pytest.raises(NotFinite):
        replace(asked, refitter=Refitter(broken, asked.refitter.facts_N3)).outcome([torch.tensor([], dtype=torch.int64)])
