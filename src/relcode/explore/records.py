"""What comes back from a question: frozen records that a person, a table or a program can read."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

ARROW_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.utf8(), bool: pa.bool_(), float | None: pa.float64()}


@dataclass(frozen=True, slots=True)
class Answer:
    """One entity that answers a question: its place (from 1), name, label, score u·M·v, and whether the facts say so already.

    ``probability`` is calibrated (see ``Model.calibration``); None where the run has no calibration, and for the ends of paths.
    """

    rank: int
    entity: str
    label: str
    score: float
    known: bool
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class RelationAnswer:
    """One directed relation (``^r`` is the inverse of r) that may join two entities."""

    rank: int
    relation: str
    score: float
    known: bool
    probability: float | None = None


A = TypeVar("A", Answer, RelationAnswer)


@dataclass(frozen=True)
class Answers(Generic[A]):
    """The best answers to one question, best first. ``question`` repeats it in resolved names; ``note`` says what to be careful about."""

    question: Mapping[str, str]
    answers: tuple[A, ...]
    kind: type[A]
    note: str = ""

    def __len__(self) -> int:
        """Return how many answers there are."""
        return len(self.answers)

    def __getitem__(self, place: int) -> A:
        """Return one answer; the best is number 0."""
        return self.answers[place]

    def __iter__(self) -> Iterator[A]:
        """Go through the answers, best first."""
        return iter(self.answers)

    def __repr__(self) -> str:
        """Show the question and a line for each answer."""
        asked = self.question
        lines: list[str] = [f"{asked.get('head', '?')}  {asked.get('relation') or asked.get('path') or '?'}  {asked.get('tail', '?')}"]
        named = [(one.label if isinstance(one, Answer) else one.relation, one) for one in self.answers]
        width = max((len(name) for name, _ in named), default=0)
        lines += [f"{one.rank:>4}  {name:<{width}}  {one.score:8.3f}{'  known' if one.known else ''}" for name, one in named]
        return "\n".join([*lines, *([] if self.answers else ["no answers"]), *([f"({self.note})"] if self.note else [])])

    def table(self) -> pa.Table:
        """Return the answers as an Arrow table (``.to_pandas()`` makes a DataFrame of it)."""
        return record_table(self.answers, self.kind)

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the question, ``note`` where there is one, and ``answers``."""
        note = {"note": self.note} if self.note else {}
        return {**self.question, **note, "answers": [{name: getattr(answer, name) for name in answer.__slots__} for answer in self.answers]}


@dataclass(frozen=True, slots=True)
class FactScore:
    """A fact's score and its filtered ranks: ``rank`` of the tail asked for by (head, relation, ?), ``head_rank`` of the head by (?, relation, tail).

    The two directions have matrices, and so scores, of their own. Ranks count from 1, ties as the mean of the best and the worst place.
    """

    head: str
    relation: str
    tail: str
    score: float
    rank: float
    head_score: float
    head_rank: float
    known: bool
    note: str = ""
    probability: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``note`` only where there is one."""
        return {name: value for name, value in asdict(self).items() if name != "note" or value}


def record_table(records: Sequence[Any], kind: type) -> pa.Table:
    """Return records of one kind as an Arrow table, a column for each field."""
    hints = typing.get_type_hints(kind)
    return pa.table({name: pa.array([getattr(record, name) for record in records], ARROW_TYPES[hint]) for name, hint in hints.items()})
