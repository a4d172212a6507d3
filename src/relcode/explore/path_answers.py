"""Path questions by name: the ends of r1/^r2/r3 from an entity, by composed matrices and through the best entities on the way.

answers = relcode.load("runs/world").answer_path("Bilbao", "city_timezone/timezone_country")
answers[0].entity, answers.beam[0].entity, answers.beam[0].through
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from relcode.errors import SettingError
from relcode.evaluation.path_answers import WIDTH, beam_search
from relcode.explore.asking import reached
from relcode.explore.records import Answer, Answers

if TYPE_CHECKING:
    from relcode.explore.model import Model

MOST_STEPS = 16  # of a path that is asked about


@dataclass(frozen=True, slots=True)
class BeamAnswer:
    """An entity at the end of a path, reached through others. ``chance``: of all walks within the beam that end there.

    ``through`` names the entities on the likeliest of them, whose chance is ``best_chance``; ``stated`` tells for each of its steps whether the facts
    say it already. ``known``: facts alone lead to this end.
    """

    rank: int
    entity: str
    label: str
    chance: float
    known: bool
    through: tuple[str, ...]
    stated: tuple[bool, ...]
    best_chance: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"through": list(self.through), "stated": list(self.stated)}


@dataclass(frozen=True)
class PathAnswers(Answers[Answer]):
    """The answers to a path question: by composed matrices (this sequence itself), and through entities on the way (``beam``)."""

    beam: tuple[BeamAnswer, ...] = ()

    def beam_table(self) -> pa.Table:
        """Return the answers of the beam as an Arrow table."""
        kinds = {"rank": pa.int64(), "chance": pa.float64(), "known": pa.bool_(), "best_chance": pa.float64()}
        kinds |= {"entity": pa.utf8(), "label": pa.utf8(), "through": pa.list_(pa.utf8()), "stated": pa.list_(pa.bool_())}
        names = BeamAnswer.__dataclass_fields__
        return pa.table({name: pa.array([getattr(one, name) for one in self.beam], kinds[name]) for name in names})

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the question, ``answers`` by composed matrices, and ``beam``."""
        return {**super().to_json(), "beam": [one.to_json() for one in self.beam]}


def with_beam(model: Model, composed: Answers[Answer], head: int, path: Sequence[int], top: int, new: bool, width: int = WIDTH) -> PathAnswers:
    """Add the answers of the beam to those by composed matrices."""
    if len(path) > MOST_STEPS:
        raise SettingError(f"a path of {len(path)} steps is too long: at most {MOST_STEPS} can be asked")
    beam = tuple(_beam_answers(model, head, path, top, new, width)) if bool(model.dataset.seen_E[head]) else ()
    return PathAnswers(composed.question, composed.answers, composed.kind, composed.note, beam)


def _beam_answers(model: Model, head: int, path: Sequence[int], top: int, new: bool, width: int) -> list[BeamAnswer]:
    """Search through the best entities and name what is found."""
    scorer, names = model.scorer, model.dataset.entities
    with torch.inference_mode():
        ends = beam_search(scorer, torch.tensor([head]), torch.tensor([list(path)]), width)
        known_X = reached(model.known, head, path)
        log_E = ends.log_BE[0].clone()
        if new:
            log_E[known_X.to(log_E.device)] = -math.inf
        log_X, end_X = log_E.sort(descending=True, stable=True)
        kept = min(top, int((log_X > -math.inf).sum()))
        known, answers = set(known_X.tolist()), []
        for rank, (value, end) in enumerate(zip(log_X[:kept].tolist(), end_X[:kept].tolist(), strict=True), start=1):
            between, best = ends.between(0, end), float(ends.best_BE[0, end])
            stops = [head, *between, end]
            stated = tuple(stops[i + 1] in model.known.of(stops[i], path[i]).tolist() for i in range(len(path)))
            through = tuple(names[stop] for stop in between)
            answers.append(BeamAnswer(rank, names[end], model.dataset.label(end), math.exp(value), end in known, through, stated, math.exp(best)))
    return answers
