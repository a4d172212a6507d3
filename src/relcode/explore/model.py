"""A trained model as people use it: names in, names out.

model = relcode.load("runs/world-joint-comp")
model.predict_tails("Lyon", "city_country")
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from relcode.analysis.candidates import Candidates
from relcode.analysis.codes import RelationCodes, relation_codes
from relcode.analysis.evidence import TailVectors
from relcode.config import Settings
from relcode.errors import RunError, SettingError
from relcode.evaluation.protocol import Protocol
from relcode.evaluation.ranking import known_answers, rank_facts
from relcode.evaluation.report import Report, evaluate
from relcode.experiment import choose_device
from relcode.explore.asking import best_entities, check_finite, check_top, joined_by, reached, relation_scores
from relcode.explore.memory import parse_memory
from relcode.explore.names import Names
from relcode.explore.path_answers import PathAnswers, with_beam
from relcode.explore.probability import Calibration, answer_probabilities, calibrate, load_calibration, probabilities
from relcode.explore.records import Answer, Answers, FactScore, RelationAnswer
from relcode.graph.dataset import Dataset
from relcode.graph.facts import contains
from relcode.graph.known import KnownAnswers
from relcode.graph.paths import invert_path
from relcode.model.parameters import Parameters, scorer_of
from relcode.model.score import Scorer
from relcode.ops.diagonal import compose, identity_like, whole
from relcode.runs.run import Run, open_run

if TYPE_CHECKING:
    from relcode.explore.suggest import Suggestion

Floats = np.ndarray[Any, np.dtype[np.float32]]


class Model:
    """A run opened for questions. Relations may be given as ``^name`` for the inverse, entities by name or by a label only one has."""

    def __init__(self, run: Run, dataset: Dataset, parameters: Parameters) -> None:
        """Put together what a run holds; people call :meth:`open`."""
        self.run = run
        self.dataset = dataset
        self.parameters = parameters
        self.scorer: Scorer = scorer_of(parameters, run.settings, dataset.seen_E)
        self.names = Names(dataset)

    @classmethod
    def open(cls, folder: str | Path, device: str = "auto") -> Model:
        """Open a run folder on a device: "auto", "cpu" or "cuda"."""
        place = choose_device(device)
        run = open_run(folder)
        dataset = run.load_dataset()
        sizes = {"entities": dataset.num_entities, "relations": dataset.num_relations}
        if {key: run.about["data"].get(key) for key in sizes} != sizes:
            raise RunError(f"{run.folder} is damaged: its names are not as many as run.json says")
        return cls(run, dataset, run.load_parameters(place))

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.run.folder

    @property
    def settings(self) -> Settings:
        """The settings it was trained with."""
        return self.run.settings

    @cached_property
    def known(self) -> KnownAnswers:
        """The known answers of all splits."""
        return known_answers(self.dataset)

    @cached_property
    def candidates(self) -> Candidates:
        """Which entities look like the heads and tails of each relation."""
        return Candidates.of(self.dataset.train, self.dataset.num_entities, self.dataset.num_relations)

    @cached_property
    def tail_vectors(self) -> TailVectors:
        """The vectors of relations' candidate tails, as far as they are kept."""
        return TailVectors(self.scorer, self.candidates)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What turns scores into probabilities; None before ``relcode calibrate`` (or ``explore.probability.calibrate``)."""
        return load_calibration(self)

    def __repr__(self) -> str:
        """Show the folder, the recipe, the sizes and the data."""
        sizes = self.settings.model
        blocks = f", b={sizes.block}" if sizes.block else ""
        return f"Model({str(self.folder)!r}: {self.settings.recipe}, d={sizes.dim}{blocks}, on {self.dataset.name})"

    # -- how good it is

    def evaluate(self, split: str = "test", protocol: str | Protocol = "realistic", memory: int | str | None = None) -> Report:
        """Rank the facts of a split in both directions; ``memory`` (bytes, or text such as "2GB") bounds what that takes."""
        return evaluate(self.scorer, self.dataset, split, protocol, parse_memory(memory), self.known)

    # -- what it answers

    def predict_tails(self, head: str, relation: str, top: int = 10, new: bool = False) -> Answers[Answer]:
        """Return the best answers to (head, relation, ?); ``new`` leaves out those the facts give already."""
        question, entity, step = self.asked("head", head, relation)
        return self.answers(question, entity, (step,), top, new)

    def predict_heads(self, tail: str, relation: str, top: int = 10, new: bool = False) -> Answers[Answer]:
        """Return the best answers to (?, relation, tail), asked as (tail, ^relation, ?)."""
        question, entity, step = self.asked("tail", tail, relation)
        return self.answers(question, entity, (step,), top, new)

    def answer_path(self, head: str, path: str, top: int = 10, new: bool = False) -> PathAnswers:
        """Return the best answers at the end of a path ``r1/^r2/r3`` from ``head``, by composed matrices and (``.beam``) through entities between."""
        entity, numbers = self.names.entity(head), self.names.path(path)
        question = {"head": self.dataset.entities[entity], "path": self.names.path_text(numbers)}
        return with_beam(self, self.answers(question, entity, numbers, top, new), entity, numbers, top, new)

    def predict_relations(self, head: str, tail: str, top: int = 10, new: bool = False) -> Answers[RelationAnswer]:
        """Return the best answers to (head, ?, tail) among all directed relations."""
        check_top(top)
        first, last = self.names.entity(head), self.names.entity(tail)
        score_S = relation_scores(self.scorer, first, last).cpu()
        known_S = joined_by(self.known, first, last, self.dataset.num_directed)
        order = [s for s in score_S.argsort(descending=True, stable=True).tolist() if not (new and known_S[s])][:top]
        if not bool(self.dataset.seen_E[[first, last]].all()):
            order = []
        probability = probabilities(self, torch.tensor([[first, s, last] for s in order], dtype=torch.int64).reshape(-1, 3))
        answers = tuple(
            RelationAnswer(rank, self.names.path_text((s,)), float(score_S[s]), bool(known_S[s]), probable)
            for rank, (s, probable) in enumerate(zip(order, probability, strict=True), start=1)
        )
        question = {"head": self.dataset.entities[first], "tail": self.dataset.entities[last]}
        return Answers(question, answers, RelationAnswer, self._note((first, last), ()))

    def suggest(self, relations: Sequence[str] = (), heads: Sequence[str] = (), **wishes: Any) -> list[Suggestion]:
        """Return the most probable facts that are not known; ``wishes`` are those of ``relcode.explore.suggest.suggest``: top, reasons, …"""
        from relcode.explore.suggest import suggest

        return suggest(self, relations, heads, **wishes)

    # -- what it thinks of facts

    def calibrate(self, memory: int | str | None = None) -> Calibration:
        """Turn scores into probabilities by the valid split, measure them on test, and keep them with the run."""
        return calibrate(self, memory)

    def score(self, head: str, relation: str, tail: str) -> float:
        """Return u_h M_r v_t. Scores of one (head, relation) can be compared with each other; for another question use ranks."""
        fact_13 = torch.tensor([[self.names.entity(head), self.names.relation(relation), self.names.entity(tail)]])
        return float(self.scorer.score_facts(fact_13))

    def score_facts(self, facts: Iterable[Sequence[str]], memory: int | str | None = None) -> list[FactScore]:
        """Return score and filtered ranks, of the tail and of the head, for each fact (head, relation, tail)."""
        return list(self._score_facts([(self.names.entity(h), self.names.relation(r), self.names.entity(t)) for h, r, t in facts], memory))

    # -- what it is made of

    @property
    def has_codes(self) -> bool:
        """Say whether its relations have codes: there is an autoencoder, and it has begun to learn."""
        return self.parameters.encoder_CQ is not None and (self.settings.coder.start == 0 or bool(self.parameters.coder_count))

    def codes(self) -> RelationCodes:
        """Return the codes of all directed relations."""
        return relation_codes(self.parameters, self.settings, self.dataset.relations)

    def vector(self, name: str, role: Literal["head", "tail"] = "head") -> Floats:
        """Return the vector of an entity as it is used when scoring: u as a head or v as a tail; float32 [D]."""
        if role not in ("head", "tail"):
            raise SettingError(f"role cannot be {role!r}: it must be head or tail")
        vector_ED = self.scorer.head_ED if role == "head" else self.scorer.tail_ED
        return _array(vector_ED[self.names.entity(name)])

    def matrix(self, name: str) -> Floats:
        """Return the matrix of a relation, of ``^name`` or of a path (the product) as it is used when scoring; float32 [D, D]."""
        path = [self.scorer.matrix_SDD[relation] for relation in self.names.path(name)]
        return _array(whole(functools.reduce(compose, path, identity_like(self.scorer.matrix_SDD))))

    # -- the work behind the questions

    def asked(self, role: Literal["head", "tail"], name: str, relation: str) -> tuple[dict[str, str], int, int]:
        """Look up a question that gives a head or a tail: itself in names as stored, the entity, and the directed relation to follow from it."""
        entity, number = self.names.entity(name), self.names.relation(relation)
        question = {role: self.dataset.entities[entity], "relation": self.names.path_text((number,))}
        return question, entity, number if role == "head" else invert_path((number,), self.dataset.num_relations)[0]

    def answers(
        self, question: dict[str, str], head: int, path: tuple[int, ...], top: int, new: bool, score_E: Tensor | None = None
    ) -> Answers[Answer]:
        """Answer (head, path, ?); ``question`` says how it was put, ``score_E`` are its scores where they are there already."""
        check_top(top)
        note = self._note((head,), path)
        if not bool(self.dataset.seen_E[head]):
            return Answers(question, (), Answer, note)
        known_X = reached(self.known, head, path)
        if score_E is None:
            score_E = self.scorer.scores(self.scorer.path_queries(torch.tensor([head]), path))[0]
        check_finite(score_E)
        entities, scores = best_entities(self.scorer, score_E, known_X, top, new)
        known = set(known_X.tolist())
        probability = answer_probabilities(self, head, path[0], entities, score_E, known) if len(path) == 1 else [None] * len(entities)
        answers = tuple(
            Answer(rank, self.dataset.entities[entity], self.dataset.label(entity), score, entity in known, probable)
            for rank, (entity, score, probable) in enumerate(zip(entities, scores, probability, strict=True), start=1)
        )
        return Answers(question, answers, Answer, note)

    def _note(self, entities: Sequence[int], path: Sequence[int]) -> str:
        """Say which parts of a question training never saw, and what that means."""
        unseen = [repr(self.dataset.entities[entity]) for entity in entities if not self.dataset.seen_E[entity]]
        if unseen:
            return f"{' and '.join(unseen)} never occurred in training, so nothing is known about it: its vector is zero and no answer can be ranked"
        untrained = [s for s in path if not bool(self._trained_R[s % self.dataset.num_relations])]
        return f"no training fact has the relation {self.names.path_text(untrained[:1])}: the answers are guesses" if untrained else ""

    @cached_property
    def _trained_R(self) -> Tensor:
        """Tell for each relation whether a training fact has it; bool [R]."""
        return torch.bincount(self.dataset.train[:, 1], minlength=self.dataset.num_relations) > 0

    def _score_facts(self, facts: Sequence[tuple[int, int, int]], memory: int | str | None) -> Iterator[FactScore]:
        """Score facts whose relation may be an inverse: (h, ^r, t) is the fact (t, r, h) with its two questions exchanged."""
        R = self.dataset.num_relations
        fact_N3 = torch.tensor([(h, r, t) if r < R else (t, r - R, h) for h, r, t in facts], dtype=torch.int64).reshape(-1, 3)
        ranks = rank_facts(self.scorer, self.dataset, fact_N3, self.known, memory_bytes=parse_memory(memory))
        score_2N, rank_2N = ranks.score_N.reshape(2, -1).tolist(), ranks.realistic_N.reshape(2, -1).tolist()
        stored_N3 = torch.cat([self.dataset.train, self.dataset.valid, self.dataset.test])
        known_N = contains(stored_N3, fact_N3, self.dataset.num_entities, R).tolist()
        probability_N = probabilities(self, fact_N3)
        for row, (head, relation, tail) in enumerate(facts):
            asked, other = (0, 1) if relation < R else (1, 0)
            yield FactScore(
                head=self.dataset.entities[head],
                relation=self.names.path_text((relation,)),
                tail=self.dataset.entities[tail],
                score=score_2N[asked][row],
                rank=rank_2N[asked][row],
                head_score=score_2N[other][row],
                head_rank=rank_2N[other][row],
                known=known_N[row],
                note=self._note((head, tail), (relation,)),
                probability=probability_N[row],
            )


def _array(values: Tensor) -> Floats:
    """Return a tensor as a numpy array of its own."""
    array: Floats = values.detach().cpu().float().numpy().copy()
    return array
