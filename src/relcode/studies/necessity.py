"""Are explanations needed? The average over many facts of what removing the named facts does, against removing as many random ones.

For each of N facts that training never saw, asked in a direction drawn at random: the facts of its two entities that carry the belief are named
(``relcode.analysis.influence``), removed, and both entities fitted again on what is left, everything else frozen; and likewise without as many
random facts of the same entities. Measured are ln rank, the log-odds of the answer and its likelihood. The difference between both removals is
averaged over the facts, with the 95 % interval of the bootstrap over facts (Efron 1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.influence import Inquiry
from relcode.errors import SettingError
from relcode.explore.model import Model
from relcode.explore.reasons import refitter_of
from relcode.explore.records import record_table

RESAMPLES = 10_000
INTERVAL = 0.95


@dataclass(frozen=True, slots=True)
class Necessity:
    """One fact: what was removed, and its rank and log-odds after fitting without nothing, without what carries it, and without random facts.

    ``random_*`` are means over the draws, of ln rank for the rank. ``run_rank`` is that of the run itself, before anything was fitted again.
    """

    head: str
    relation: str
    tail: str
    facts: int  # that the two entities have
    removed: int
    emptied: bool  # whether one of the entities lost all its facts, in which case random facts are partly the same ones
    run_rank: float
    nothing_rank: float
    named_rank: float
    random_rank: float
    nothing_log_odds: float
    named_log_odds: float
    random_log_odds: float
    nothing_likelihood: float
    named_likelihood: float
    random_likelihood: float


@dataclass(frozen=True, slots=True)
class Effect:
    """How far a measure falls, on average over the facts: without the named facts, without random ones, and the difference with its interval."""

    measure: str
    named: float
    random: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class NecessityReport:
    """The averages, and the facts behind them.

    ``kept`` averages over the facts both of whose entities keep some facts: where an entity loses all of them, random ones are the same ones.
    """

    effects: tuple[Effect, ...]
    kept: tuple[Effect, ...]
    rows: tuple[Necessity, ...]
    top: int
    draws: int
    seed: int

    @property
    def worse(self) -> float:
        """Return the part of the facts whose log-odds fall farther without the named facts than without random ones."""
        return sum(row.named_log_odds < row.random_log_odds for row in self.rows) / len(self.rows) if self.rows else math.nan

    def table(self) -> pa.Table:
        """Return one row a fact."""
        return record_table(self.rows, Necessity)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        about = {"facts": len(self.rows), "top": self.top, "draws": self.draws, "seed": self.seed, "resamples": RESAMPLES, "interval": INTERVAL}
        found = {"effects": _by_measure(self.effects), "kept": _by_measure(self.kept), "kept_facts": sum(not row.emptied for row in self.rows)}
        return {**about, "worse_than_random": self.worse if self.rows else None, **found, "rows": [asdict(row) for row in self.rows]}


def _by_measure(found: Sequence[Effect]) -> dict[str, dict[str, float]]:
    """Return effects by their measure, as plain values."""
    return {one.measure: {name: value for name, value in asdict(one).items() if name != "measure"} for one in found}


def necessity(
    model: Model,
    facts: int = 200,
    top: int = 5,
    draws: int = 5,
    seed: int = 0,
    split: str = "test",
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> NecessityReport:
    """Measure on ``facts`` facts of a split, drawn at random; the ``top`` facts that carry each are named. ``progress`` hears how many are done."""
    for name, value in (("facts", facts), ("top", top), ("draws", draws)):
        if value < 1:
            raise SettingError(f"{name} cannot be {value}: it must be at least 1")
    generator = torch.Generator().manual_seed(seed)
    questions = draw_questions(model, split, facts, generator)
    rows = []
    for number, question in enumerate(questions):
        progress(number, len(questions))
        rows.append(measure(model, question, top, draws, generator))
    progress(len(questions), len(questions))
    kept = [row for row in rows if not row.emptied]
    return NecessityReport(tuple(effects(rows, seed)), tuple(effects(kept, seed)) if kept else (), tuple(rows), top, draws, seed)


def draw_questions(model: Model, split: str, number: int, generator: torch.Generator) -> list[tuple[int, int, int]]:
    """Return facts of a split whose entities were both trained and have other facts, each turned round with probability ½."""
    data = model.dataset
    fact_N3 = data.split(split)
    fact_N3 = fact_N3[data.seen_E[fact_N3[:, 0]] & data.seen_E[fact_N3[:, 2]]]
    if not len(fact_N3):
        raise SettingError(f"no fact of {split} has two entities that were trained, so none can be asked about")
    chosen_N3 = fact_N3[torch.randperm(len(fact_N3), generator=generator)[:number]]
    turned_N = torch.rand(len(chosen_N3), generator=generator) < 0.5
    R = data.num_relations
    return [(t, r + R, h) if turned else (h, r, t) for (h, r, t), turned in zip(chosen_N3.tolist(), turned_N.tolist(), strict=True)]


def measure(model: Model, question: tuple[int, int, int], top: int, draws: int, generator: torch.Generator) -> Necessity:
    """Name, remove, fit again and measure for one question (head, directed relation, tail)."""
    head, relation, tail = question
    inquiry = Inquiry(refitter_of(model), model.known, head, relation, tail)
    row_X, fall_X = inquiry.falls()
    named_X = row_X[: min(top, int((fall_X > 0).sum()))]
    removals = [row_X[:0], named_X, *(inquiry.random_removal(named_X, generator) for _ in range(draws))]
    found = inquiry.outcome(removals)
    names = model.dataset.entities
    problems = (inquiry.head_problem, inquiry.tail_problem)
    return Necessity(
        head=names[head],
        relation=model.names.path_text((relation,)),
        tail=names[tail],
        facts=len(row_X),
        removed=len(named_X),
        emptied=any(bool(torch.isin(one.row_F, named_X).all()) for one in problems),
        run_rank=float(inquiry.as_trained().rank_A[0]),
        **{f"{arm}_rank": value for arm, value in _arms(found.rank_A.log()).items() for value in [math.exp(value)]},
        **{f"{arm}_log_odds": value for arm, value in _arms(found.log_odds_A).items()},
        **{f"{arm}_likelihood": value for arm, value in _arms(found.likelihood_A).items()},
    )


def _arms(value_A: Tensor) -> dict[str, float]:
    """Return the values after removing nothing, the named facts, and random ones (their mean)."""
    return {"nothing": float(value_A[0]), "named": float(value_A[1]), "random": float(value_A[2:].mean())}


def effects(rows: Sequence[Necessity], seed: int = 0) -> Iterator[Effect]:
    """Average how far the answer falls: ln rank upwards, log-odds and likelihood downwards."""
    columns: dict[str, Callable[[Necessity, str], float]] = {
        "ln rank": lambda row, arm: math.log(getattr(row, f"{arm}_rank")),
        "log-odds": lambda row, arm: -getattr(row, f"{arm}_log_odds"),
        "likelihood": lambda row, arm: -getattr(row, f"{arm}_likelihood"),
    }
    for measured, value in columns.items():
        value_N3 = torch.tensor([[value(row, arm) for arm in ("nothing", "named", "random")] for row in rows], dtype=torch.float64).reshape(-1, 3)
        named_N, random_N = value_N3[:, 1] - value_N3[:, 0], value_N3[:, 2] - value_N3[:, 0]
        low, high = bootstrap(named_N - random_N, torch.Generator().manual_seed(seed))
        yield Effect(measured, float(named_N.mean()), float(random_N.mean()), float((named_N - random_N).mean()), low, high)


def bootstrap(value_N: Tensor, generator: torch.Generator, resamples: int = RESAMPLES, interval: float = INTERVAL) -> tuple[float, float]:
    """Return the ends of the percentile interval of the mean, over resamples with replacement."""
    if not len(value_N):
        return math.nan, math.nan
    mean_W = torch.stack([value_N[torch.randint(len(value_N), (len(value_N),), generator=generator)].mean() for _ in range(resamples)])
    ends = torch.tensor([(1 - interval) / 2, (1 + interval) / 2], dtype=value_N.dtype)
    low, high = mean_W.quantile(ends).tolist()
    return low, high
