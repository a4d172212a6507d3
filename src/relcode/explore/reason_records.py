"""The records of an explanation: what supports a fact, what speaks against it, and whether the support is needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from relcode.explore.records import record_table

Fact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class CarryingFact:
    """A training fact of the head or the tail, and how far the answer's log-odds would fall if it were left out (estimated, in nats)."""

    head: str
    relation: str
    tail: str
    fall: float


@dataclass(frozen=True, slots=True)
class Path:
    """A path that joins head and tail. ``cosine``: of its matrix with the relation's; ``adds``: its part of the score above the mean candidate's.

    ``carries``: how far the answer's log-odds would fall without its facts at head and tail (null where that was not asked for). cosine · carries
    puts paths in order, then ``weight`` = cosine · adds / length.

    ``facts`` holds the edges of each grounding shown, as stored (head, relation, tail), in the order of the path; ``groundings`` counts all found.
    """

    path: str
    cosine: float
    adds: float
    carries: float | None
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
    """Score, filtered rank and likelihood (against all that are not known answers) after the two vectors were fitted without ``removed`` facts."""

    arm: str
    removed: float
    score: float
    rank: float
    likelihood: float


@dataclass(frozen=True)
class Verification:
    """The necessity test: the facts that carry the belief are removed, or as many random ones; no arm is fitted on the fact itself.

    ``random`` is the mean of ``draws`` arms.

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
    facts: tuple[CarryingFact, ...]
    paths: tuple[Path, ...]
    similar: tuple[SimilarFact, ...]
    codes: tuple[SimilarRelation, ...]
    rivals: tuple[Rival, ...]
    answers_per_head: float | None
    against: tuple[str, ...]
    note: str = ""
    verification: Verification | None = None
    probability: float | None = None  # calibrated; None where the run is not, and for entities unlike the relation's

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``note`` and ``verification`` only where there is one."""
        return {name: value for name, value in asdict(self).items() if name not in ("note", "verification") or value}

    def tables(self) -> dict[str, pa.Table]:
        """Return every part as an Arrow table, by its name."""
        answers = pa.array([list(one.answers) for one in self.codes], pa.list_(pa.utf8()))
        codes = {"relation": pa.array([one.relation for one in self.codes], pa.utf8())}
        codes |= {name: pa.array([getattr(one, name) for one in self.codes], pa.float64()) for name in ("code_cosine", "matrix_cosine")}
        return {
            "facts": record_table(self.facts, CarryingFact),
            "paths": self.table(),
            "similar": record_table(self.similar, SimilarFact),
            "codes": pa.table(codes | {"answers": answers}),
            "rivals": record_table(self.rivals, Rival),
        }

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
                "carries": pa.array([one.carries for one, _ in rows], pa.float64()),
                "weight": pa.array([one.weight for one, _ in rows], pa.float64()),
                "groundings": pa.array([one.groundings for one, _ in rows], pa.int64()),
                "facts": pa.array(edges, pa.list_(fact)),
            }
        )
