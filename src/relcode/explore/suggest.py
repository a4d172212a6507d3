"""Suggestions by name: the most probable facts that are not in the knowledge base, of the whole of it or of a part.

for one in suggest(relcode.load("runs/world"), relations=["country_neighbour"], top=5):
    print(one.probability, one.head, one.relation, one.tail)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from relcode.analysis.best_pairs import PairFinder
from relcode.analysis.calibration import inputs_of
from relcode.analysis.explain import supports
from relcode.analysis.found_pairs import Pairs, Search
from relcode.errors import SettingError
from relcode.explore.asking import check_top
from relcode.explore.model import Model
from relcode.explore.probability import block_numbers
from relcode.graph.adjacency import Adjacency
from relcode.model.score import Scorer

ROUNDING = 1e-4  # of evidence: equals of the least probable one are not lost
MOST_OF_RELATION = 10_000  # suggestions of one relation that can be asked for


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A fact that no split states, by names as stored: its probability (None without calibration), score u·M·v and evidence.

    ``typed`` is false where head or tail are unlike the relation's (``any_type``): such facts had no part in the calibration, so they have no
    probability, and come last.
    ``evidence`` is the mean of the logarithms of its share of the answers to (head, relation, ?) and to (?, relation, tail). ``reason`` is the best
    path of training facts that supports it, where reasons were asked for and there is one.
    """

    head: str
    relation: str
    tail: str
    probability: float | None
    score: float
    evidence: float
    reason: str = ""
    typed: bool = True

    @property
    def order(self) -> tuple[float, float, str, str, str]:
        """Sort by this: most probable first, then by evidence, then by name."""
        return (-(self.probability if self.probability is not None else 0.0), -self.evidence, self.relation, self.head, self.tail)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``reason`` only where there is one, ``typed`` only where it is false."""
        return {name: value for name, value in asdict(self).items() if (name != "reason" or value) and (name != "typed" or not value)}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be suggested, by name: ``top`` facts of each relation (all of them where none is named), of the heads given or of all.

    A relation may be ``^name``: then ``heads`` are the tails of the facts. ``any_type`` lifts the limit to entities that look like a relation's heads
    and tails.
    """

    relations: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    top: int = 100
    min_probability: float = 0.0
    any_type: bool = False
    reasons: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        check_top(self.top)
        if self.top > MOST_OF_RELATION:
            raise SettingError(f"top cannot be {self.top}: at most {MOST_OF_RELATION:,} facts of a relation can be suggested")
        if not 0 <= self.min_probability <= 1:
            raise SettingError(f"the least probability cannot be {self.min_probability}: it must be from 0 to 1")


class Suggester:
    """The work on one wish, relation after relation; ``searches`` lists it, ``found`` does one."""

    def __init__(self, model: Model, wanted: Wanted, memory: int | str | None = None) -> None:
        """Look up all names before any work is done."""
        if wanted.min_probability > 0 and model.calibration is None:
            raise SettingError(f"a least probability needs a calibrated run: relcode calibrate {model.folder}")
        self.model, self.wanted = model, wanted
        self.finder = PairFinder(model.scorer, model.candidates, model.known, block_numbers(memory))
        entities = [model.names.entity(name) for name in wanted.heads]
        asked = [model.names.relation(name) for name in wanted.relations] or model.dataset.train[:, 1].unique().tolist()
        if not entities:  # without heads, a relation and its inverse ask for the same facts
            asked = [relation % model.dataset.num_relations for relation in asked]
        entity_X = torch.tensor(sorted(set(entities))) if entities else None
        self.searches = [self._search(relation, entity_X, twice=relation - model.dataset.num_relations in asked) for relation in dict.fromkeys(asked)]
        self.notes = tuple(self._notes(entities))

    def _notes(self, entities: Sequence[int]) -> Iterator[str]:
        """Say which parts of the wish training never saw, and what is less sure than it looks."""
        data = self.model.dataset
        for entity in (one for one in entities if not bool(data.seen_E[one])):
            yield f"{data.entities[entity]!r} never occurred in training, so nothing can be suggested about it"
        for search in self.searches:
            if not len(self.model.candidates.heads(search.relation)):
                yield f"no training fact has the relation {data.relations[search.relation]}, so nothing can be suggested of it"
        if self.model.calibration is None:
            return
        if self.model.calibration.caution:
            yield self.model.calibration.caution
        if self.wanted.any_type:
            yield "entities unlike a relation's heads and tails had no part in the calibration: facts with them have no probability, and come last"

    def _search(self, relation: int, entity_X: Tensor | None, twice: bool) -> Search:
        """Say what to look for; an inverse relation is looked for as named, with heads and tails exchanged.

        ``twice``: this is an inverse whose relation is asked for too, with the same entities as heads; facts among them are left to that search.
        """
        R, wanted = self.model.dataset.num_relations, self.wanted
        calibration = self.model.calibration
        heads, tails = (entity_X, None) if relation < R else (None, entity_X)
        if twice and entity_X is not None:
            every_E = torch.arange(self.model.dataset.num_entities)
            heads = every_E[~torch.isin(every_E, entity_X)]
        search = Search(relation=relation % R, top=wanted.top, any_type=wanted.any_type, heads=heads, tails=tails)
        if calibration is None:
            return search
        least = calibration.calibrators.least_worth(relation % R, wanted.min_probability)
        return replace(search, least=least, shifts=calibration.calibrators.shifts(relation % R))

    def at_least(self, search: Search, other: Suggestion | None) -> Search:
        """Return a search that leaves out what is less probable than another suggestion: looking for that is in vain."""
        if other is None:
            return search
        calibration = self.model.calibration
        if calibration is None or other.probability is None:
            return replace(search, least=max(search.least, other.evidence))
        return replace(search, least=max(search.least, calibration.calibrators.least_worth(search.relation, other.probability) - ROUNDING))

    def cost(self, search: Search) -> int:
        """Return how many pairs a search looks at."""
        return self.finder.pairs_in(search)

    def found(self, search: Search) -> list[Suggestion]:
        """Return the suggestions of one relation, most probable first."""
        suggestions = sorted(self._named(search.relation, self.finder.best(search)), key=lambda one: one.order)
        return self.with_reasons(suggestions) if self.wanted.reasons else suggestions

    def with_reasons(self, found: Sequence[Suggestion]) -> list[Suggestion]:
        """Return suggestions with the best path that supports each."""
        return [replace(one, reason=self.reason(one)) for one in found]

    def _named(self, relation: int, pairs: Pairs) -> Iterator[Suggestion]:
        """Put names and probabilities to pairs."""
        data, calibration = self.model.dataset, self.model.calibration
        probability: Sequence[float | None] = [None] * len(pairs)
        if calibration is not None:
            relation_X = torch.full_like(pairs.head_X, relation)
            input_X3 = inputs_of(pairs.evidence_X, pairs.head_asked_X, pairs.tail_asked_X)
            probability = calibration.calibrators.probabilities(relation_X, input_X3, pairs.other_X).tolist()
        numbers = (pairs.head_X.tolist(), pairs.tail_X.tolist(), pairs.score_X.tolist(), pairs.evidence_X.tolist())
        for head, tail, score, evidence, probable, other in zip(*numbers, probability, pairs.other_X.tolist(), strict=True):
            sure = None if other else probable
            if sure is not None or self.wanted.min_probability == 0:
                yield Suggestion(data.entities[head], data.relations[relation], data.entities[tail], sure, score, evidence, typed=not other)

    def reason(self, one: Suggestion) -> str:
        """Return the best path of training facts that supports a suggestion, with its facts; empty where there is none."""
        entities, relations = self.model.dataset.entities, self.model.dataset.relations
        head, relation, tail = entities.index(one.head), relations.index(one.relation), entities.index(one.tail)
        found = supports(self._scorer, self._adjacency, head, relation, tail)
        if not found:
            return ""
        stops, facts = (head, *found[0].between[0], tail), []
        for start, step, end in zip(stops, found[0].path, stops[1:], strict=False):
            facts.append((start, step, end) if step < len(relations) else (end, step - len(relations), start))
        told = ", ".join(f"{entities[start]} {relations[step]} {entities[end]}" for start, step, end in facts)
        return f"{self.model.names.path_text(found[0].path)}: {told}"

    @cached_property
    def _adjacency(self) -> Adjacency:
        """The training facts, to look for paths in."""
        return Adjacency.build(self.model.dataset.train, self.model.dataset.num_entities, self.model.dataset.num_relations)

    @cached_property
    def _scorer(self) -> Scorer:
        """The model where paths are looked for."""
        return self.model.scorer.to("cpu")

    def all(self, progress: Callable[[int, int], None] | None = None) -> list[Suggestion]:
        """Return everything wanted, most probable first; ``progress`` is told how many pairs have been looked at, of how many."""
        costs = [self.finder.pairs_in(search) for search in self.searches]
        found: list[Suggestion] = []
        for number, search in enumerate(self.searches):
            if progress is not None:
                progress(sum(costs[:number]), sum(costs))
            found += self.found(search)
        return sorted(found, key=lambda one: one.order)


def suggest(
    model: Model,
    relations: Sequence[str] = (),
    heads: Sequence[str] = (),
    *,
    top: int = 100,
    min_probability: float = 0.0,
    any_type: bool = False,
    reasons: bool = False,
    memory: int | str | None = None,
) -> list[Suggestion]:
    """Return the ``top`` most probable new facts of each relation, most probable first; of these relations and heads, or of all.

    Without a calibration (``model.calibration`` is None) they come by falling evidence. ``memory`` bounds the scores held at a time.
    """
    wanted = Wanted(relations=tuple(relations), heads=tuple(heads), top=top, min_probability=min_probability, any_type=any_type, reasons=reasons)
    return Suggester(model, wanted, memory).all()


def suggest_about(model: Model, entity: str, top: int = 20, *, any_type: bool = False, reasons: bool = False) -> list[Suggestion]:
    """Return the ``top`` most probable new facts that hold an entity, as head or as tail, of whatever relation."""
    check_top(top)
    names = [model.names.path_text((relation,)) for relation in model.dataset.train[:, 1].unique().tolist()]
    both = [*names, *(f"^{name}" for name in names)]
    work = Suggester(model, Wanted(relations=tuple(both), heads=(entity,), top=top, any_type=any_type))
    found: list[Suggestion] = []
    for search in work.searches:
        found = sorted([*found, *work.found(work.at_least(search, found[-1] if len(found) == top else None))], key=lambda one: one.order)[:top]
    return work.with_reasons(found) if reasons else found
