"""Why the model believes a fact, by name: what supports it, what speaks against it, and whether the support is needed.

explain(relcode.load("runs/world"), "Bilbao", "city_country", "Spain", verify=True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.composition import flat_unit
from relcode.analysis.explain import PathSupport, answers_per_head, candidate_mean, edges_from, similar_facts, supports, without_fact
from relcode.analysis.refit import Refitter, random_removal
from relcode.evaluation.ranking import rank_facts
from relcode.explore.asking import best_entities, check_top
from relcode.explore.model import Model
from relcode.explore.records import record_table
from relcode.graph.adjacency import Adjacency
from relcode.model.parameters import vectors_in_force
from relcode.model.score import Scorer

ONE_ANSWER = 1.5  # a relation usually has one answer where its heads have at most so many on average
DRAWS = 5  # random removals that an explanation is compared with
NAMED = 3  # answers named of a relation with a similar code

Fact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Path:
    """A path that joins head and tail. ``cosine``: of its matrix with the relation's; ``adds``: its part of the score above the mean candidate's.

    ``weight`` = cosine · adds / length puts paths in order.

    ``facts`` holds the edges of each grounding shown, as stored (head, relation, tail), in the order of the path; ``groundings`` counts all found.
    """

    path: str
    cosine: float
    adds: float
    weight: float
    groundings: int
    facts: tuple[tuple[Fact, ...], ...]


@dataclass(frozen=True, slots=True)
class SimilarFact:
    """A training fact of the same relation whose head and tail have vectors like those asked about."""

    head: str
    relation: str
    tail: str
    head_cosine: float
    tail_cosine: float


@dataclass(frozen=True, slots=True)
class SimilarRelation:
    """A relation that the head has, with a code like the asked one's; ``answers`` are some of what it leads to."""

    relation: str
    code_cosine: float
    matrix_cosine: float
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rival:
    """An entity that scores above the tail asked about."""

    entity: str
    score: float
    known: bool


@dataclass(frozen=True, slots=True)
class Arm:
    """Score, filtered rank and likelihood (softmax over the trained entities) after the two vectors were fitted without ``removed`` facts."""

    arm: str
    removed: float
    score: float
    rank: float
    likelihood: float


@dataclass(frozen=True)
class Verification:
    """The necessity test: all arms are fitted from the same start, none with the fact itself; ``random`` is the mean of ``draws`` arms.

    ``available`` counts the facts of both entities. Of an entity in ``emptied`` every fact is removed, by the random arms as well: these then differ
    from the explanation in the other entity only.
    """

    nothing: Arm
    explanation: Arm
    random: Arm
    draws: tuple[Arm, ...]
    removed: tuple[Fact, ...]
    available: int
    emptied: tuple[str, ...]

    def table(self) -> pa.Table:
        """Return one row for each arm."""
        return record_table((self.nothing, self.explanation, self.random, *self.draws), Arm)


@dataclass(frozen=True)
class Explanation:
    """Why (head, relation, tail) is believed or not. ``above_mean`` is the score less the mean candidate's, of which paths add parts."""

    head: str
    relation: str
    tail: str
    known: bool
    score: float
    above_mean: float
    rank: float
    head_rank: float
    paths: tuple[Path, ...]
    similar: tuple[SimilarFact, ...]
    codes: tuple[SimilarRelation, ...]
    rivals: tuple[Rival, ...]
    answers_per_head: float | None
    against: tuple[str, ...]
    note: str = ""
    verification: Verification | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``note`` and ``verification`` only where there is one."""
        return {name: value for name, value in asdict(self).items() if name not in ("note", "verification") or value}

    def table(self) -> pa.Table:
        """Return the paths as an Arrow table, one row for each grounding: path, its figures, and the edges as a list of facts."""
        rows = [(one, facts) for one in self.paths for facts in one.facts]
        fact = pa.struct([("head", pa.utf8()), ("relation", pa.utf8()), ("tail", pa.utf8())])
        edges = [[dict(zip(("head", "relation", "tail"), edge, strict=True)) for edge in facts] for _, facts in rows]
        return pa.table(
            {
                "path": pa.array([one.path for one, _ in rows], pa.utf8()),
                "cosine": pa.array([one.cosine for one, _ in rows], pa.float64()),
                "adds": pa.array([one.adds for one, _ in rows], pa.float64()),
                "weight": pa.array([one.weight for one, _ in rows], pa.float64()),
                "groundings": pa.array([one.groundings for one, _ in rows], pa.int64()),
                "facts": pa.array(edges, pa.list_(fact)),
            }
        )


def explain(model: Model, head: str, relation: str, tail: str, top: int = 5, verify: bool = False, seed: int = 0) -> Explanation:
    """Explain why the model believes (head, relation, tail); ``verify`` adds the necessity test, whose random removals ``seed`` draws."""
    check_top(top)
    reasons = _Reasons(model, model.names.entity(head), model.names.relation(relation), model.names.entity(tail))
    explanation = reasons.explanation(top)
    if verify and reasons.is_trained and reasons.shown(explanation):
        return replace(explanation, verification=reasons.verify(explanation, seed))
    return explanation


class _Reasons:
    """The work on one question in numbers."""

    def __init__(self, model: Model, head: int, relation: int, tail: int) -> None:
        self.model, self.fact = model, (head, relation, tail)
        self.dataset, self.scorer = model.dataset, model.scorer.to("cpu")
        self.facts_N3 = without_fact(self.dataset.train, head, relation, tail, self.dataset.num_relations)
        self.is_trained = bool(self.dataset.seen_E[[head, tail]].all())

    @cached_property
    def adjacency(self) -> Adjacency:
        """The training facts but the one asked about."""
        return Adjacency.build(self.facts_N3, self.dataset.num_entities, self.dataset.num_relations)

    def explanation(self, top: int) -> Explanation:
        """Gather what speaks for the fact and what against it."""
        (h, r, t), entities = self.fact, self.dataset.entities
        name = self.model.names.path_text((r,))
        (scored,) = self.model.score_facts([(entities[h], name, entities[t])])
        query_D = self.scorer.path_queries(torch.tensor([h]), (r,))[0]
        found = supports(self.scorer, self.adjacency, h, r, t)[:top] if self.is_trained else []
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
            paths=tuple(self._path(one) for one in found),
            similar=tuple(SimilarFact(entities[a], name, entities[b], of_head, of_tail) for a, b, of_head, of_tail in alike),
            codes=tuple(self._similar_codes(top)),
            rivals=tuple(self._rivals(query_D, top)),
            answers_per_head=_number(answers_per_head(self.facts_N3, r, self.dataset.num_relations)),
            against=(),
            note=scored.note,
        )
        return replace(explanation, against=tuple(self._against(explanation)))

    def _path(self, found: PathSupport) -> Path:
        """Name a path and the edges of its groundings."""
        h, _, t = self.fact
        groundings = []
        for between in found.between:
            stops = (h, *between, t)
            groundings.append(tuple(self._named(stops[i], s, stops[i + 1]) for i, s in enumerate(found.path)))
        return Path(self.model.names.path_text(found.path), found.cosine, found.adds, found.weight, found.groundings, tuple(groundings))

    def _named(self, head: int, relation: int, tail: int) -> Fact:
        """Write an edge as the fact that is stored."""
        if relation >= self.dataset.num_relations:
            head, relation, tail = tail, relation - self.dataset.num_relations, head
        return self.dataset.entities[head], self.dataset.relations[relation], self.dataset.entities[tail]

    def _similar_codes(self, top: int) -> Iterator[SimilarRelation]:
        """Go through the other relations that the head has, those with the codes most like the asked one's first; none without an autoencoder."""
        h, r, _ = self.fact
        if self.model.parameters.encoder_CQ is None or not self.is_trained:
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
        for entity, rival in zip(*best_entities(self.scorer, query_D, known_X, top, False), strict=True):
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

    def shown(self, explanation: Explanation) -> tuple[Fact, ...]:
        """Return the facts shown that hold the head or the tail, each once: those of paths, and similar ones."""
        ends = {explanation.head, explanation.tail}
        edges = [edge for path in explanation.paths for facts in path.facts for edge in facts]
        edges += [self._named(*self._numbers(one)) for one in explanation.similar]
        return tuple(dict.fromkeys(edge for edge in edges if ends & {edge[0], edge[2]}))

    def _numbers(self, one: SimilarFact) -> tuple[int, int, int]:
        """Return a similar fact in numbers."""
        return self.dataset.entities.index(one.head), self.fact[1], self.dataset.entities.index(one.tail)

    def verify(self, explanation: Explanation, seed: int) -> Verification:
        """Fit again without the facts shown, and without as many random ones of the same entities."""
        removed = self.shown(explanation)
        refitter = Refitter(self._training_scorer(), self.facts_N3, self.fact[0], self.fact[2], self.model.settings.sampling.noises)
        removed_X = torch.tensor([self._row(edge) for edge in removed])
        generator = torch.Generator().manual_seed(seed)
        draws = [self._arm(refitter, "random", random_removal(refitter, removed_X, generator)) for _ in range(DRAWS)]
        rows = {entity: refitter.rows(entity) for entity in (refitter.head, refitter.tail)}
        return Verification(
            nothing=self._arm(refitter, "nothing", removed_X[:0]),
            explanation=self._arm(refitter, "explanation", removed_X),
            random=_mean_arm(draws),
            draws=tuple(draws),
            removed=removed,
            available=len(torch.cat(list(rows.values())).unique()),
            emptied=tuple(self.dataset.entities[entity] for entity, row_X in rows.items() if bool(torch.isin(row_X, removed_X).all())),
        )

    def _training_scorer(self) -> Scorer:
        """Return the vectors as training uses them, heads at their own length."""
        parameters, settings = self.model.parameters, self.model.settings
        head_ED = vectors_in_force(parameters.head_ED, parameters.head_count_E, settings.updates).cpu()
        return replace(self.scorer, head_ED=head_ED).with_unseen_zero()

    def _row(self, edge: Fact) -> int:
        """Return the position of a fact among the training facts."""
        number = [self.dataset.entities.index(edge[0]), self.dataset.relations.index(edge[1]), self.dataset.entities.index(edge[2])]
        return int((self.facts_N3 == torch.tensor(number)).all(dim=1).nonzero()[0, 0])

    def _arm(self, refitter: Refitter, name: str, removed_X: Tensor) -> Arm:
        """Fit without some facts, and score and rank the fact with the two vectors."""
        (h, r, t), R = self.fact, self.dataset.num_relations
        head_D, tail_D = refitter.refit(removed_X)
        head_ED, tail_ED = self.scorer.head_ED.clone(), self.scorer.tail_ED.clone()
        head_ED[h], tail_ED[t] = torch.nn.functional.normalize(head_D, dim=0), tail_D
        scorer = replace(self.scorer, head_ED=head_ED, tail_ED=tail_ED)
        fact_13 = torch.tensor([[h, r, t] if r < R else [t, r - R, h]])
        ranks = rank_facts(scorer, self.dataset, fact_13, self.model.known)
        asked = 0 if r < R else 1
        x_E = (tail_ED @ (head_D @ scorer.matrix_SDD[r])).masked_fill(~scorer.seen_E, -math.inf)
        return Arm(name, len(removed_X), float(ranks.score_N[asked]), float(ranks.realistic_N[asked]), float(x_E.softmax(0)[t]))


def _mean_arm(arms: Sequence[Arm]) -> Arm:
    """Return the mean of several arms."""
    values = {name: sum(getattr(arm, name) for arm in arms) / len(arms) for name in ("removed", "score", "rank", "likelihood")}
    return Arm(arm="random (mean)", **values)


def _number(value: float) -> float | None:
    """Return a number, or nothing for NaN, which JSON does not have."""
    return value if math.isfinite(value) else None
