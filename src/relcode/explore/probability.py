"""Probabilities of facts: calibrators fitted on a run's valid split, kept with the run, and what they are calibrated against.

model = relcode.load("runs/world")
calibrate(model)                                                  # once; the run keeps it in calibration.json
model.predict_tails("Bilbao", "city_country")[0].probability
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from relcode.analysis.best_pairs import PairFinder
from relcode.analysis.calibration import (
    PER_FACT,
    Bin,
    Calibrator,
    Calibrators,
    Reliability,
    fact_inputs,
    fit_split,
    inputs_of,
    population,
    reliability,
)
from relcode.analysis.evidence import check_totals, log_share, log_sum_exp
from relcode.errors import DataError, MissingExtra, OutputError, RunError, SettingError, counted
from relcode.explore.memory import parse_memory
from relcode.graph.known import KnownAnswers
from relcode.runs.files import read_json, write_text

if TYPE_CHECKING:
    from relcode.explore.model import Model
    from relcode.runs.run import Run

FILE = "calibration.json"
FORMAT = 2  # 1 had weights of its own for relations with valid facts alone: such a file does not count, and the run is calibrated anew
HOW = "relcode calibrate"
FEW = 50  # valid facts: with fewer, a share of one half has a standard error of more than 0.07

Progress = Callable[[int, int], None]  # how much is done, of how much


@dataclass(frozen=True, slots=True)
class Measured:
    """Probabilities compared with a split: how many of the population were its facts and how many not, before calibration and after."""

    split: str
    facts: int
    others: int
    missed: int  # facts of the split that are not in the population
    before: Reliability  # of exp(evidence), the geometric mean of the two shares
    after: Reliability


@dataclass(frozen=True, eq=False)
class Calibration:
    """The calibrators of a run, what they were fitted on, and how they did on test (None where the data have no test split)."""

    calibrators: Calibrators
    per_fact: int
    facts: int
    others: int
    missed: int
    measured: Measured | None
    weights: str  # SHA-256 of the weights it belongs to

    @property
    def against(self) -> str:
        """Say in one sentence what the probabilities are calibrated against."""
        ratio = 1 + self.others / max(1, self.facts)
        return (
            f"probabilities are calibrated on the valid split: of the best candidates of every relation, one in {ratio:.0f} was a valid fact; "
            "what no split states counts as false"
        )

    @property
    def caution(self) -> str:
        """Say in one line that there was little to calibrate with; nothing where there was enough."""
        valid = self.facts + self.missed
        return f"only {counted(valid, 'valid fact')}: probabilities are rough; calibrate with {FEW} or more to rely on them" if valid < FEW else ""

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return plain values; ``names`` are those of the relations."""
        relations = {name: asdict(one) for name, one in zip(names, self.calibrators.of_relation, strict=True)}
        return {
            "format": FORMAT,
            "weights_sha256": self.weights,
            "against": self.against,
            "caution": self.caution,
            "population": {"split": "valid", "per_fact": self.per_fact, "facts": self.facts, "others": self.others, "missed": self.missed},
            "other_type": self.calibrators.other,
            "relations": relations,
            "measured": None if self.measured is None else asdict(self.measured),
        }


def calibrate(model: Model, memory: int | str | None = None, store: bool = True) -> Calibration:
    """Fit calibrators on the valid split, measure them on test, and keep them with the run."""
    data = model.dataset
    if not len(data.valid):
        raise DataError(f"{data.name} has no facts in its valid split, so there is nothing to calibrate with: train on data with a valid split")
    calibrators, fitted = fit_split(_finder(model, ("train", "test"), memory), data.train, data.valid)
    measured = _measure(model, calibrators, memory) if len(data.test) else None
    found = Calibration(calibrators, PER_FACT, fitted.facts, fitted.others, fitted.missed, measured, weights_of(model.run))
    if store:
        store_calibration(model, found)
    return found


def store_calibration(model: Model, found: Calibration) -> None:
    """Keep a calibration with the run, and make it the model's."""
    write_text(model.folder / FILE, json.dumps(found.to_json(model.dataset.relations.names), indent=2, ensure_ascii=False) + "\n")
    model.__dict__["calibration"] = found  # what the model had looked up before is out of date


def _measure(model: Model, calibrators: Calibrators, memory: int | str | None) -> Measured:
    """Compare with the test split, in a population gathered as that of valid was."""
    tested = population(_finder(model, ("train", "valid"), memory), model.dataset.train, model.dataset.test, calibrators)
    before = reliability(tested.input_X3[:, 0].exp(), tested.true_X)
    after = reliability(calibrators.probabilities(tested.relation_X, tested.input_X3, torch.zeros_like(tested.true_X)), tested.true_X)
    return Measured("test", tested.facts, tested.others, tested.missed, before, after)


def _finder(model: Model, splits: Sequence[str], memory: int | str | None) -> PairFinder:
    """Return what finds the candidates that none of the splits states."""
    data = model.dataset
    known = KnownAnswers(torch.cat([data.split(name) for name in splits]), data.num_entities, data.num_relations)
    return PairFinder(model.scorer, model.candidates, known, block_numbers(memory))


def block_numbers(memory: int | str | None) -> int | None:
    """Return how many scores may be held at a time within a bound on memory (bytes, or text such as "2GB"); None without a bound."""
    bound = parse_memory(memory)
    if bound is None:
        return None
    if bound < 2**20:
        raise SettingError(f"{bound} bytes of memory are too few: give at least 1MB, better some hundred")
    return bound // 16  # a block of scores, as much again for the work on it, and as much for queries


def weights_of(run: Run) -> str:
    """Return the SHA-256 of the weights that answer for a run."""
    return run.status.best_sha256 if run.status.best is not None else run.status.checkpoint_sha256


def load_calibration(model: Model) -> Calibration | None:
    """Read a run's calibration; None where it has none, one of other weights (the run was trained further since), or one of an older format."""
    path = model.folder / FILE
    if not path.is_file():
        return None
    tree = read_json(path)
    if tree.get("format") == 1:
        return None
    if tree.get("format") != FORMAT:
        raise RunError(f"{path} has calibration format {tree.get('format')!r}, this relcode reads {FORMAT}: make it again with {HOW} {model.folder}")
    if tree.get("weights_sha256") != weights_of(model.run):
        return None
    try:
        return _read(tree, model)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged ({type(error).__name__}: {error}): make it again with {HOW} {model.folder}") from None


def _read(tree: dict[str, Any], model: Model) -> Calibration:
    of_relation = tuple(_read_calibrator(tree["relations"][name]) for name in model.dataset.relations.names)
    counts = tree["population"]
    measured = tree["measured"]
    if measured is not None:
        both = {name: _read_reliability(measured[name]) for name in ("before", "after")}
        measured = Measured(**{**measured, **both})
    other = float(tree["other_type"])
    if not -math.inf < other <= 0:
        raise ValueError(f"other_type cannot be {other}")
    calibrators = Calibrators(of_relation, other)
    sizes = {name: int(counts[name]) for name in ("per_fact", "facts", "others", "missed")}
    return Calibration(calibrators=calibrators, measured=measured, weights=str(tree["weights_sha256"]), **sizes)


def _read_calibrator(values: dict[str, float]) -> Calibrator:
    numbers = {name: float(values[name]) for name in ("slope", "head", "tail", "intercept")}
    if not all(map(math.isfinite, numbers.values())) or numbers["slope"] <= 0:
        raise ValueError(f"{values} is no calibrator: its numbers must be finite and its slope positive")
    return Calibrator(**numbers)


def _read_reliability(values: dict[str, Any]) -> Reliability:
    return Reliability(float(values["error"]), float(values["brier"]), tuple(Bin(**one) for one in values["bins"]))


def probabilities(model: Model, facts_N3: Tensor) -> list[float | None]:
    """Return the calibrated probability of each fact, whose relation may be directed; or None.

    None without calibration, where an entity or relation was never trained, and for entities unlike the relation's heads or tails: the calibration
    had none such.
    """
    calibration = model.calibration
    if calibration is None or not len(facts_N3):
        return [None] * len(facts_N3)
    R = model.dataset.num_relations
    stored_N3 = torch.where(facts_N3[:, 1:2] < R, facts_N3, facts_N3.flip(1) - torch.tensor([0, R, 0]))  # (h, ^r, t) is the fact (t, r, h)
    input_N3, other_N = fact_inputs(model.scorer, model.candidates, model.known, stored_N3)
    probability_N = calibration.calibrators.probabilities(stored_N3[:, 1], input_N3, other_N)
    known_N = model.dataset.seen_E[stored_N3[:, 0]] & model.dataset.seen_E[stored_N3[:, 2]] & input_N3[:, 0].isfinite() & ~other_N
    return [one if sure else None for one, sure in zip(probability_N.tolist(), known_N.tolist(), strict=True)]


def answer_probabilities(model: Model, head: int, relation: int, answers: Sequence[int], score_E: Tensor, known: Set[int]) -> list[float | None]:
    """Return what :func:`probabilities` does for the facts (head, relation, answer), several times as fast.

    The scores of all entities that the question gave, ``score_E``, and its known answers are there already; what is left is to ask each answer back.
    All are trained.
    """
    calibration, candidates, scorer = model.calibration, model.candidates, model.scorer
    inverse = candidates.inverse(relation)
    tail_T = candidates.tails(relation)
    if calibration is None or not answers or not len(tail_T):
        return [None] * len(answers)
    answer_X = torch.tensor(answers)
    back_XD = scorer.path_queries(answer_X, (inverse,))
    there_X, back_X = score_E[answer_X.to(scorer.device)], back_XD @ scorer.tail_ED[head]
    typed_X, head_typed = candidates.are_heads(answer_X, inverse), candidates.are_heads(torch.tensor([head]), relation)
    total = log_sum_exp(score_E[tail_T.to(scorer.device)][None])
    check_totals(total)
    evidence_X = log_share(there_X, total, typed_X.to(scorer.device)) / 2
    evidence_X += log_share(back_X, model.tail_vectors.totals(answer_X.to(scorer.device), back_XD, inverse), head_typed.to(scorer.device)) / 2
    row_Y, entity_Y = model.known.pairs(answer_X, torch.full_like(answer_X, inverse))
    # A known fact is asked about as if it were not: its questions have an answer already if they have another one.
    asked = torch.tensor([len(known) > (one in known) for one in answers])
    back_asked = torch.bincount(row_Y[entity_Y != head], minlength=len(answers)) > 0
    if relation >= model.dataset.num_relations:  # (h, ^r, t) is the fact (t, r, h)
        relation, asked, back_asked = inverse, back_asked, asked
    input_X3 = inputs_of(evidence_X.cpu(), asked, back_asked)
    probability_X = torch.sigmoid(calibration.calibrators.of_relation[relation].log_odds(input_X3))
    return [one if typed and bool(head_typed) else None for one, typed in zip(probability_X.tolist(), typed_X.tolist(), strict=True)]


def ensure_calibration(model: Model, memory: int | str | None = None) -> str:
    """Calibrate a run that is not, if that can be done; return a line that says what was done or why not, nothing where it was calibrated before.

    Where the run's folder cannot be written, the calibration lasts as long as the model is open.
    """
    if model.calibration is not None:
        return ""
    try:
        found = calibrate(model, memory, store=False)
    except (MissingExtra, DataError) as error:
        return f"no probabilities, only scores: {error}"
    try:
        store_calibration(model, found)
    except OutputError as error:
        model.__dict__["calibration"] = found
        return f"calibrated on the valid split, and not kept ({error})"
    return f"calibrated on the valid split, once; kept in {model.folder / FILE} (relcode calibrate shows how well it fits)"


def how_to_calibrate(folder: Path) -> str:
    """Say in one line how a run gets probabilities."""
    return f"no probabilities yet; get them with: {HOW} {folder}"
