"""Looking around in a run: search of names, the facts and neighbours of an entity, the profile of a relation, groundings of a composition.

Every method returns plain values, ready for JSON. What is needed for all questions (indexes, mined compositions) is made once, when first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from relcode.analysis.codes import RelationCodes, alike_codes, describe_dimensions, sparsity
from relcode.analysis.composition import flat_unit, triples_of
from relcode.analysis.maps import entity_map, relation_map
from relcode.analysis.names import short_directed_names
from relcode.analysis.topics import topic_test
from relcode.errors import PathSyntaxError
from relcode.explore.asking import check_top
from relcode.explore.compositions import Constraints, NamedComposition, constraints
from relcode.explore.model import Model
from relcode.explore.search import NameIndex
from relcode.explore.suggest import suggest_about
from relcode.graph.compositions import MIN_JACCARD, MIN_PAIRS, Composition, Grounding, counter_examples, examples
from relcode.graph.known import KnownAnswers

Record = dict[str, Any]
STARTERS = 4  # questions to begin with
COSINE_BLOCK = 64  # relations compared with all others at a time


class Browser:
    """A model with what is needed to look around in it."""

    def __init__(self, model: Model) -> None:
        """Take an opened run."""
        self.model, self.dataset = model, model.dataset

    # -- names

    @cached_property
    def short(self) -> tuple[str, ...]:
        """Short names of all directed relations."""
        return short_directed_names(self.dataset.relations)

    @cached_property
    def facts_of_E(self) -> list[int]:
        """How many facts of all splits each entity is in."""
        ends_X = torch.cat([self.dataset.split(split)[:, [0, 2]].flatten() for split in ("train", "valid", "test")])
        counts: list[int] = torch.bincount(ends_X, minlength=self.dataset.num_entities).tolist()
        return counts

    @cached_property
    def facts_of_R(self) -> list[int]:
        """How many training facts each relation has."""
        counts: list[int] = torch.bincount(self.dataset.train[:, 1], minlength=self.dataset.num_relations).tolist()
        return counts

    @cached_property
    def _entity_index(self) -> NameIndex:
        labels = [self.dataset.label(number) for number in range(self.dataset.num_entities)]
        return NameIndex(self.dataset.entities.names, labels, self.facts_of_E)

    @cached_property
    def _relation_index(self) -> NameIndex:
        return NameIndex(self.dataset.relations.names, self.short[: self.dataset.num_relations], self.facts_of_R)

    def entities(self, text: str = "", top: int = 10) -> Record:
        """Find entities by a part of their name or label; with no text, the most frequent ones."""
        check_top(top)
        return {"query": text, "entities": [self._entity(number) for number in self._entity_index.search(text, top)]}

    def relations(self, text: str = "", entity: str | None = None, top: int = 10) -> Record:
        """Find directed relations; ``^`` before the text finds inverses only. With an entity, those it has come first, in both directions."""
        check_top(top)
        R, inverse = self.dataset.num_relations, text.lstrip().startswith("^")
        found = self._relation_index.search(text.strip().removeprefix("^").strip("<> "), R)
        own = self._own_relations(self.model.names.entity(entity)) if entity is not None else {}
        directed = [number + R for number in found] if inverse else [number + shift for shift in (0, R) for number in found]
        order = sorted(directed, key=lambda number: number not in own)[:top]
        return {"query": text, "relations": [self._relation(number) | {"has": own.get(number, 0)} for number in order]}

    def _entity(self, number: int) -> Record:
        return {"name": self.dataset.entities[number], "label": self.dataset.label(number), "facts": self.facts_of_E[number]}

    def _relation(self, number: int) -> Record:
        R = self.dataset.num_relations
        path = self.model.names.path_text((number,))
        return {"relation": path, "short": self.short[number], "inverse": number >= R, "facts": self.facts_of_R[number % R]}

    def labels(self, names: Sequence[str]) -> Record:
        """Return the labels of some entities, those left out that have none or that nobody knows."""
        return {"labels": {name: self.dataset.labels[name] for name in names if name in self.dataset.labels}}

    # -- an entity

    @cached_property
    def _trained(self) -> KnownAnswers:
        return KnownAnswers(self.dataset.train, self.dataset.num_entities, self.dataset.num_relations)

    def _own_relations(self, entity: int) -> dict[int, int]:
        """Return the directed relations that an entity is the head of, with how many facts each."""
        known, S = self.model.known, self.dataset.num_directed
        low, high = torch.searchsorted(known.key_Q, torch.tensor([entity * S, (entity + 1) * S])).tolist()
        keys, sizes = (known.key_Q[low:high] % S).tolist(), known.offset_Q1[low : high + 1].diff().tolist()
        return dict(zip(keys, sizes, strict=True))

    def facts(self, entity: str, top: int = 20) -> Record:
        """Return the known facts of an entity by directed relation, at most ``top`` of each; ``trained`` is false for facts held out of training."""
        check_top(top)
        number = self.model.names.entity(entity)
        groups = []
        for relation, total in sorted(self._own_relations(number).items(), key=lambda pair: self.short[pair[0] % self.dataset.num_relations]):
            trained = set(self._trained.of(number, relation).tolist())
            shown = self.model.known.of(number, relation)[:top].tolist()
            facts = [{"entity": self.dataset.entities[e], "label": self.dataset.label(e), "trained": e in trained} for e in shown]
            groups.append({"relation": self.model.names.path_text((relation,)), "short": self.short[relation], "total": total, "facts": facts})
        return self._entity(number) | {"trained": bool(self.dataset.seen_E[number]), "relations": groups}

    def neighbours(self, entity: str, top: int = 10) -> Record:
        """Return the entities whose vectors (as tails) have the highest cosine with this one's; none for an entity never trained."""
        check_top(top)
        number = self.model.names.entity(entity)
        record = self._entity(number) | {"neighbours": []}
        if not bool(self.dataset.seen_E[number]):
            return record
        tail_ED = self.model.scorer.tail_ED
        cosine_E = (tail_ED @ tail_ED[number] / (tail_ED.norm(dim=1) * tail_ED[number].norm()).clamp_min(1e-30)).cpu()
        cosine_E[~self.dataset.seen_E] = -torch.inf
        cosine_E[number] = -torch.inf
        best = cosine_E.topk(min(top, max(0, int(self.dataset.seen_E.sum()) - 1)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        record["neighbours"] = [self._entity(other) | {"cosine": cosine} for other, cosine in pairs]
        return record

    def suggestions(self, entity: str, top: int = 10, *, reasons: bool = False, any_type: bool = False) -> Record:
        """Return the most probable new facts with an entity as head or tail."""
        name = self.dataset.entities[self.model.names.entity(entity)]
        found = suggest_about(self.model, name, top, reasons=reasons, any_type=any_type)
        return {"entity": name, "suggestions": [one.to_json() for one in found]}

    # -- relations

    @cached_property
    def _codes(self) -> RelationCodes | None:
        return self.model.codes() if self.model.has_codes else None

    @cached_property
    def _cosine_SS(self) -> Tensor:
        """Cosines of the relations' matrices, in blocks; [S, S]."""
        unit_SQ = flat_unit(self.model.scorer.matrix_SDD.detach())
        return torch.cat([block @ unit_SQ.T for block in unit_SQ.split(COSINE_BLOCK)]).cpu()

    def codes(self, top: int = 5) -> Record:
        """Return how sparse the codes are, each dimension by its ``top`` strongest relations and whether it is one topic, and every code."""
        check_top(top)
        found = self.model.codes()
        topics = topic_test(found, self.dataset.relations, torch.Generator().manual_seed(0))
        return {
            "sparsity": _finite(asdict(sparsity(found))),
            "dimensions": [asdict(one) for one in describe_dimensions(found, top)],
            "relations": found.table().to_pylist(),
            "topics": _finite(asdict(topics) | {"significant": topics.significant}),
            "alike": [asdict(one) for one in alike_codes(found, self.model.scorer.matrix_SDD, top=top)],
        }

    def relation(self, relation: str, top: int = 8) -> Record:
        """Return a directed relation's code, its nearest relations by matrix, and some facts."""
        check_top(top)
        number = self.model.names.relation(relation)
        codes = self._codes
        share = codes.share_SC[number].tolist() if codes is not None else None
        return self._relation(number) | {"code": share, "nearest": self._nearest(number, top), "examples": self._examples(number, top)}

    def _nearest(self, number: int, top: int) -> list[Record]:
        """Return the relations whose matrices are most like this one's; its code's cosine beside, where there are codes."""
        cosine_S, codes = self._cosine_SS[number], self._codes
        order = [other for other in cosine_S.argsort(descending=True, stable=True).tolist() if other != number][:top]
        alike_S = torch.cosine_similarity(codes.code_SC, codes.code_SC[number][None], dim=1).tolist() if codes is not None else None
        return [self._relation(s) | {"cosine": float(cosine_S[s]), "code_cosine": alike_S[s] if alike_S else None} for s in order]

    def _examples(self, number: int, top: int) -> list[Record]:
        """Return some training facts of a relation, from all over its list."""
        R = self.dataset.num_relations
        row_X = (self.dataset.train[:, 1] == number % R).nonzero().squeeze(1)
        chosen = row_X[torch.linspace(0, len(row_X) - 1, min(top, len(row_X))).long()] if len(row_X) else row_X
        pairs = [(h, t) if number < R else (t, h) for h, _, t in self.dataset.train[chosen].tolist()]
        return [self._named({"head": head, "tail": tail}) for head, tail in pairs]

    # -- compositions

    @cached_property
    def mined(self) -> Constraints:
        """The compositions of the training facts by the usual limits."""
        return constraints(self.model)

    @cached_property
    def _usual(self) -> list[NamedComposition]:
        """The same by name, with their places by the matrices."""
        return self.mined.named()

    def compositions(
        self,
        min_pairs: int = MIN_PAIRS,
        min_jaccard: float = MIN_JACCARD,
        filter_name: str = "paper",
        relation: str | None = None,
        propose: int = 0,
    ) -> Record:
        """Return the compositions that the training facts support, all or those with a relation, and so many that the model proposes beyond."""
        wanted = None if relation is None else self.model.names.relation(relation) % self.dataset.num_relations
        usual = (min_pairs, min_jaccard, filter_name) == (MIN_PAIRS, MIN_JACCARD, "paper")
        found = self.mined if usual else constraints(self.model, min_pairs, min_jaccard, filter_name)
        named = zip(self._usual if usual else found.named(), triples_of(found.compositions) % self.dataset.num_relations, strict=True)
        limits = {"dataset": self.dataset.name, "filter": filter_name, "min_pairs": min_pairs, "min_jaccard": min_jaccard}
        listed = [one.to_json() for one, relations_3 in named if wanted is None or wanted in relations_3.tolist()]
        return limits | {"compositions": listed, "proposed": [asdict(one) for one in found.proposed(propose)]}

    def composition(self, path: str, relation: str, top: int = 10) -> Record:
        """Return pairs that the path r1/r2 joins through a middle: ``examples`` that the relation joins too, and ``counter_examples``."""
        check_top(top)
        steps, r3 = self.model.names.path(path), self.model.names.relation(relation)
        if len(steps) != 2:
            raise PathSyntaxError(f"a composition has a path of 2 steps, r1/r2; {path!r} has {len(steps)}")
        one = Composition(steps[0], steps[1], r3, 0, 0, 0)
        index = self.mined.index
        against = counter_examples(index, one, top)
        return {
            "path": self.model.names.path_text(steps),
            "relation": self.model.names.path_text((r3,)),
            "examples": [self._grounding(found) for found in examples(index, one, top)],
            "counter_examples": [self._grounding(found) | {"known": self._is_known(found.head, r3, found.tail)} for found in against],
        }

    def _grounding(self, found: Grounding) -> Record:
        return self._named({"head": found.head, "middle": found.middle, "tail": found.tail})

    def _is_known(self, head: int, relation: int, tail: int) -> bool:
        """Tell whether some split states a fact."""
        return bool((self.model.known.of(head, relation) == tail).any())

    def _named(self, numbers: dict[str, int]) -> Record:
        """Return the names, and the labels, of entities by their roles."""
        names = {role: self.dataset.entities[number] for role, number in numbers.items()}
        return names | {f"{role}_label": self.dataset.label(number) for role, number in numbers.items()}

    # -- the whole

    def map(self, kind: str = "relations", seed: int = 0) -> Record:
        """Lay out relations (or entities) in the plane."""
        place = entity_map if kind == "entities" else relation_map
        found = place(self.model.scorer, self.dataset, seed=seed)
        figures = {"participation_ratio": found.participation_ratio, "most_ratio": found.most_ratio, "dimensions_90": found.dimensions_90}
        return {"kind": found.kind, "method": found.method, **figures, "points": found.table().to_pylist()}

    def about(self) -> Record:
        """Return what is served: data, model, and some questions to begin with."""
        data, settings = self.dataset, self.model.settings
        facts = {split: len(data.split(split)) for split in ("train", "valid", "test")}
        has_codes = self.model.parameters.encoder_CQ is not None
        return {
            "dataset": data.name,
            "entities": data.num_entities,
            "relations": data.num_relations,
            "facts": facts,
            "labels": len(data.labels),
            "recipe": settings.recipe,
            "dim": settings.model.dim,
            "block": settings.model.block or None,
            "code_dim": settings.model.code_dim if has_codes else None,
            "probabilities": self.model.calibration.against if self.model.calibration is not None else None,
            "starters": self._starters,
        }

    @cached_property
    def _starters(self) -> list[Record]:
        """Questions that can be asked: facts of the most frequent relations, held-out ones where there are some, and one path that goes on."""
        facts_N3 = self.dataset.test if len(self.dataset.test) else self.dataset.train
        count_R = torch.bincount(facts_N3[:, 1], minlength=self.dataset.num_relations)
        facts_of_E = torch.tensor(self.facts_of_E)
        starters: list[Record] = []
        for relation in count_R.argsort(descending=True, stable=True)[:STARTERS].tolist():
            own_X3 = facts_N3[facts_N3[:, 1] == relation]
            if not len(own_X3):
                break
            head, _, tail = own_X3[facts_of_E[own_X3[:, 0]].argmax()].tolist()
            starters.append({"head": self.dataset.entities[head], "relation": self.model.names.path_text((relation,))})
            onward = {s: n for s, n in self._own_relations(tail).items() if s % self.dataset.num_relations != relation and n <= 3}
            if onward and not any("path" in one for one in starters):
                steps = (relation, max(onward, key=lambda s: (s < self.dataset.num_relations, self.facts_of_R[s % self.dataset.num_relations])))
                starters.append({"head": self.dataset.entities[head], "path": self.model.names.path_text(steps)})
        return starters


def _finite(values: Record) -> Record:
    """Return the values with None for NaN, which JSON does not have."""
    return {name: None if isinstance(value, float) and value != value else value for name, value in values.items()}
