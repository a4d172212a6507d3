"""Why the model believes a fact, by name: what supports it, what speaks against it, and whether the support is needed.

explain(relcode.load("runs/world"), "Bilbao", "city_country", "Spain", verify=True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from relcode.analysis.composition import flat_unit
from relcode.analysis.explain import (
    NumberedFact,
    PathSupport,
    answers_per_head,
    candidate_mean,
    edges_from,
    similar_facts,
    stored,
    supports,
    without_fact,
)
from relcode.analysis.influence import Inquiry
from relcode.analysis.refit import Refitter
from relcode.explore.asking import best_entities, check_top, entity_scores
from relcode.explore.model import Model
from relcode.explore.reason_records import Arm, CarryingFact, Explanation, Fact, Path, Rival, SimilarFact, SimilarRelation, Verification
from relcode.graph.adjacency import Adjacency

ONE_ANSWER = 1.5  # a relation usually has one answer where its heads have at most so many on average
DRAWS = 5  # random removals that an explanation is compared with
NAMED = 3  # answers named of a relation with a similar code

# What fitting again needs of a model (a noise sample, the strength of the prior) is the same for all questions to it.
_REFITTERS: WeakKeyDictionary[Model, Refitter] = WeakKeyDictionary()


def refitter_of(model: Model) -> Refitter:
    """Return what fits entities of a model again, made once for each model."""
    if model not in _REFITTERS:
        _REFITTERS[model] = Refitter(model.scorer, model.dataset.train)
    return _REFITTERS[model]


def explain(
    model: Model, head: str, relation: str, tail: str, top: int = 5, verify: bool = False, seed: int = 0, *, facts: bool = True
) -> Explanation:
    """Explain why the model believes (head, relation, tail); ``verify`` adds the necessity test, whose random removals ``seed`` draws.

    Without ``facts`` it is not measured which facts carry the belief, which takes most of the time, and nothing can be verified.
    """
    check_top(top)
    reasons = _Reasons(model, model.names.entity(head), model.names.relation(relation), model.names.entity(tail), measured=facts)
    explanation = reasons.explanation(top)
    if verify and explanation.facts:
        return replace(explanation, verification=reasons.verify(explanation, seed))
    return explanation


class _Reasons:
    """The work on one question in numbers."""

    def __init__(self, model: Model, head: int, relation: int, tail: int, measured: bool) -> None:
        self.model, self.fact = model, (head, relation, tail)
        self.dataset, self.scorer = model.dataset, model.scorer.to("cpu")
        self.facts_N3 = without_fact(self.dataset.train, head, relation, tail, self.dataset.num_relations)
        self.is_trained = bool(self.dataset.seen_E[[head, tail]].all())
        self.is_measured = measured and self.is_trained

    @cached_property
    def adjacency(self) -> Adjacency:
        """The training facts but the one asked about."""
        return Adjacency.build(self.facts_N3, self.dataset.num_entities, self.dataset.num_relations)

    @cached_property
    def inquiry(self) -> Inquiry:
        """The fits of the two vectors."""
        return Inquiry(refitter_of(self.model), self.model.known, *self.fact)

    @cached_property
    def falls(self) -> dict[NumberedFact, float]:
        """How far the log-odds would fall without each fact of the two entities, the farthest first."""
        row_X, fall_X = self.inquiry.falls()
        facts = map(tuple, self.dataset.train[row_X].tolist())
        return dict(zip(facts, fall_X.tolist(), strict=True))

    def explanation(self, top: int) -> Explanation:
        """Gather what speaks for the fact and what against it."""
        (h, r, t), entities = self.fact, self.dataset.entities
        name = self.model.names.path_text((r,))
        (scored,) = self.model.score_facts([(entities[h], name, entities[t])])
        query_D = self.scorer.path_queries(torch.tensor([h]), (r,))[0]
        falls = self.falls if self.is_measured else None
        carrying = [(fact, fall) for fact, fall in (falls or {}).items() if fall > 0][:top]
        found = supports(self.scorer, self.adjacency, h, r, t, falls)[:top] if self.is_trained else []
        alike = similar_facts(self.scorer, self.facts_N3, h, r, t, top) if self.is_trained else []
        explanation = Explanation(
            head=entities[h],
            relation=name,
            tail=entities[t],
            known=scored.known,
            score=scored.score,
            above_mean=float(query_D @ (self.scorer.tail_ED[t] - candidate_mean(self.scorer))),
            rank=scored.rank,
            head_rank=scored.head_rank,
            facts=tuple(CarryingFact(*self._named(*fact), fall) for fact, fall in carrying),
            paths=tuple(self._path(one) for one in found),
            similar=tuple(SimilarFact(entities[a], name, entities[b], of_head, of_tail) for a, b, of_head, of_tail in alike),
            codes=tuple(self._similar_codes(top)),
            rivals=tuple(self._rivals(query_D, top)),
            answers_per_head=_number(answers_per_head(self.facts_N3, r, self.dataset.num_relations)),
            against=(),
            note=scored.note,
            probability=scored.probability,
        )
        return replace(explanation, against=tuple(self._against(explanation)))

    def _path(self, found: PathSupport) -> Path:
        """Name a path and the edges of its groundings."""
        h, _, t = self.fact
        groundings = []
        for between in found.between:
            stops = (h, *between, t)
            groundings.append(tuple(self._named(stops[i], s, stops[i + 1]) for i, s in enumerate(found.path)))
        text = self.model.names.path_text(found.path)
        return Path(text, found.cosine, found.adds, found.carries, found.weight, found.groundings, tuple(groundings))

    def _named(self, head: int, relation: int, tail: int) -> Fact:
        """Write an edge as the fact that is stored."""
        head, relation, tail = stored(head, relation, tail, self.dataset.num_relations)
        return self.dataset.entities[head], self.dataset.relations[relation], self.dataset.entities[tail]

    def _similar_codes(self, top: int) -> Iterator[SimilarRelation]:
        """Go through the other relations that the head has, those with the codes most like the asked one's first; none without an autoencoder."""
        h, r, _ = self.fact
        if not self.model.has_codes or not self.is_trained:
            return
        relation_X, tail_X = edges_from(self.adjacency, h)
        code_SC = self.model.codes().code_SC
        cosine_S = torch.cosine_similarity(code_SC, code_SC[r][None], dim=1)
        own = [s for s in relation_X.unique().tolist() if s != r]
        for s in sorted(own, key=lambda s: (-float(cosine_S[s]), s))[:top]:
            matrix = float((flat_unit(self.scorer.matrix_SDD[[s]]) * flat_unit(self.scorer.matrix_SDD[[r]])).sum())
            answers = tuple(self.dataset.entities[x] for x in tail_X[relation_X == s][:NAMED].tolist())
            yield SimilarRelation(self.model.names.path_text((s,)), float(cosine_S[s]), matrix, answers)

    def _rivals(self, query_D: Tensor, top: int) -> Iterator[Rival]:
        """Go through the best entities that score above the tail."""
        h, r, t = self.fact
        if not self.is_trained:
            return
        known_X = self.model.known.of(h, r)
        score = float(query_D @ self.scorer.tail_ED[t])
        for entity, rival in zip(*best_entities(self.scorer, entity_scores(self.scorer, query_D), known_X, top, False), strict=True):
            if entity == t or rival <= score:
                return
            yield Rival(self.dataset.entities[entity], rival, bool((known_X == entity).any()))

    def _against(self, explanation: Explanation) -> Iterator[str]:
        """Say what speaks against the fact, a sentence each."""
        h, r, t = self.fact
        R, facts_N3 = self.dataset.num_relations, self.facts_N3
        head_column, tail_column = (0, 2) if r < R else (2, 0)
        facts_X3 = facts_N3[facts_N3[:, 1] == r % R]
        others = facts_X3[facts_X3[:, head_column] == h][:, tail_column].tolist()
        mean = explanation.answers_per_head
        if explanation.rank > 1:
            yield f"{explanation.tail} is only number {explanation.rank:g} among the answers that are not known"
        if others and mean is not None and mean <= ONE_ANSWER:
            named = ", ".join(self.dataset.entities[other] for other in others[:NAMED]) + (", …" if len(others) > NAMED else "")
            better = [rival.entity for rival in explanation.rivals if rival.known]
            place = f", and {', '.join(better)} scores above {explanation.tail}" if better else ""
            yield f"{explanation.relation} usually has one answer ({mean:.2f} on average), and {explanation.head} has {named} already{place}"
        train_X3 = self.dataset.train[self.dataset.train[:, 1] == r % R]
        if not bool((train_X3[:, head_column] == h).any()) and self.is_trained:
            little = " (which tells little where heads have one answer)" if mean is not None and mean <= ONE_ANSWER else ""
            yield f"{explanation.head} is the head of no training fact of {explanation.relation}{little}"
        if not bool((facts_X3[:, tail_column] == t).any()) and self.is_trained:
            yield f"{explanation.tail} is the tail of no other training fact of {explanation.relation}"
        if not explanation.paths and self.is_trained:
            yield "no path of up to three training facts supports it"

    # -- is it needed?

    def verify(self, explanation: Explanation, seed: int) -> Verification:
        """Fit again without the facts that carry the belief, and without as many random ones of the same entities."""
        row_X, _ = self.inquiry.falls()
        removed_X = row_X[: len(explanation.facts)]
        generator = torch.Generator().manual_seed(seed)
        removals = [row_X[:0], removed_X, *(self.inquiry.random_removal(removed_X, generator) for _ in range(DRAWS))]
        found = self.inquiry.outcome(removals)
        figures = zip(removals, found.score_A.tolist(), found.rank_A.tolist(), found.likelihood_A.tolist(), strict=True)
        names = ("nothing", "explanation", *["random"] * DRAWS)
        arms = [Arm(name, len(removed), *values) for name, (removed, *values) in zip(names, figures, strict=True)]
        problems = {self.fact[0]: self.inquiry.head_problem, self.fact[2]: self.inquiry.tail_problem}
        return Verification(
            nothing=arms[0],
            explanation=arms[1],
            random=_mean_arm(arms[2:]),
            draws=tuple(arms[2:]),
            removed=tuple((one.head, one.relation, one.tail) for one in explanation.facts),
            available=len(row_X),
            emptied=tuple(self.dataset.entities[entity] for entity, one in problems.items() if bool(torch.isin(one.row_F, removed_X).all())),
        )


def _mean_arm(arms: Sequence[Arm]) -> Arm:
    """Return the mean of several arms."""
    values = {name: sum(getattr(arm, name) for arm in arms) / len(arms) for name in ("removed", "score", "rank", "likelihood")}
    return Arm(arm="random (mean)", **values)


def _number(value: float) -> float | None:
    """Return a number, or nothing for NaN, which JSON does not have."""
    return value if math.isfinite(value) else None
