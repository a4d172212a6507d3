"""From evidence to probability: calibrators fitted on facts that training did not see, and how far off they are on others.

    probability(h, r, t) = σ(slope_r · lift + head_r · [h has a tail] + tail_r · [t has a head] + intercept_r)
    lift = evidence + ½ ln(n_r · n_r⁻¹),   n_r: how many tails a head of r has on average, n_r⁻¹: how many heads a tail has

(Platt 1999, with two more inputs.) Evidence is ln of a share of the answers, about 1/n where a question has n answers: the lift is evidence
without that. What it says that a question has an answer already depends on n too: a city whose country is known needs no second one, while what
treats one disease may well treat another. So, with once(r) = 1/n_r, which is 1 where a head has one tail,

    slope_r     = slope     + δ_r1                      head_r = head + once(r)   · head' + δ_r2
    intercept_r = intercept + δ_r4                      tail_r = tail + once(r⁻¹) · tail' + δ_r3

fitted together by scikit-learn's logistic regression. Its penalty ‖δ_r‖²/2 keeps a relation of few candidates near the weights that all share, and
lets one of many go its own way; shared weights (the intercept is free) pay as much as δ where they are ``SHARED_SCALE`` times as large. Entities of
another type than the relation's have no place in the fit, and get no probability; so that they can be put in order among the others, their log-odds
are lowered by what facts are rarer among them on valid, ln((facts/pairs of another type) / (facts/pairs of the right type)).

A probability means nothing without the population it was fitted on. Here that is what a person is shown: of each relation, the most probable
candidates of the right type that no other split states, ``PER_FACT`` for each held-out fact that it has, or that its share of the training facts lets
expect if those are more:

    candidates of r = PER_FACT · max(1, held-out facts of r, round(training facts of r · held-out facts / training facts))

True are those that the held-out split states, false all others. So 0.3 reads: of suggestions like this one, three in ten were facts of the held-out
split. A relation without held-out facts is among them, all of its candidates false: left out of the fit, it would get what other relations' weights
make of it, up to 1.000. A probability errs on the careful side where the knowledge base does not state all that is true, and on the other where fewer
facts are missing than the held-out split holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from relcode.analysis.best_pairs import PairFinder
from relcode.analysis.candidates import Candidates
from relcode.analysis.evidence import fact_evidence
from relcode.analysis.found_pairs import NEVER, Search, Shifts
from relcode.errors import DataError, MissingExtra
from relcode.graph.facts import contains
from relcode.graph.known import KnownAnswers
from relcode.model.score import Scorer

PER_FACT = 10  # candidates in the population for each held-out fact of the relation
SHARED_SCALE = 3.0  # how much larger weights that all relations share may be than what a relation adds to them, for the same penalty
LEAST_SLOPE = 0.01  # where evidence speaks against facts: every candidate is about as probable as any other
ROUNDS = 2  # the population is gathered by evidence, then once more by the probabilities fitted on that
BINS = 10  # of equal width, for the expected calibration error


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Weights of the inputs of one calibrator; the slope is positive, so that more evidence is never less probable."""

    slope: float
    head: float
    tail: float
    intercept: float

    def log_odds(self, input_X3: Tensor) -> Tensor:
        """Return ln p/(1−p) for rows of inputs: evidence, [h has a tail], [t has a head]; float64."""
        return input_X3.double() @ torch.tensor([self.slope, self.head, self.tail], dtype=torch.float64) + self.intercept


@dataclass(frozen=True, slots=True)
class Calibrators:
    """The calibrators of a run, one for each named relation, by number.

    ``other`` ≤ 0 is added to the log-odds of pairs of another type, which puts them in order but makes them no probability to trust.
    """

    of_relation: tuple[Calibrator, ...]
    other: float = 0.0

    def probabilities(self, relation_X: Tensor, input_X3: Tensor, other_X: Tensor) -> Tensor:
        """Return the probability of each pair by its named relation, its inputs, and whether it is of another type; float64."""
        odds_X = torch.zeros(len(input_X3), dtype=torch.float64)
        for relation in relation_X.unique().tolist():
            which_X = relation_X == relation
            odds_X[which_X] = self.of_relation[relation].log_odds(input_X3[which_X])
        return torch.sigmoid(odds_X + self.other * other_X)

    def shifts(self, relation: int) -> Shifts:
        """Return what is worth as much evidence as the other inputs, for a named relation."""
        one = self.of_relation[relation]
        return Shifts(one.head / one.slope, one.tail / one.slope, self.other / one.slope)

    def least_worth(self, relation: int, probability: float) -> float:
        """Return the worth from which on the probability is reached."""
        if probability <= 0 or probability >= 1:
            return NEVER if probability <= 0 else -NEVER
        one = self.of_relation[relation]
        return (math.log(probability) - math.log1p(-probability) - one.intercept) / one.slope


@dataclass(frozen=True, eq=False)
class Population:
    """Candidates with their inputs, relation and whether the held-out split states them; and how many facts it has that are not among them."""

    input_X3: Tensor
    relation_X: Tensor
    true_X: Tensor
    missed: int

    @property
    def facts(self) -> int:
        """Return how many are true."""
        return int(self.true_X.sum())

    @property
    def others(self) -> int:
        """Return how many are not."""
        return len(self.true_X) - self.facts


@dataclass(frozen=True, slots=True)
class Bin:
    """The candidates whose probability lies in one interval: their number, mean probability, and the share of facts among them."""

    count: int
    probability: float
    share: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """How probabilities fit a population: expected calibration error Σ_b n_b/n · |share_b − probability_b|, the Brier score, and the bins."""

    error: float
    brier: float
    bins: tuple[Bin, ...]


def inputs_of(evidence_X: Tensor, head_asked_X: Tensor, tail_asked_X: Tensor) -> Tensor:
    """Return the inputs of calibrators for pairs: evidence, [h has a tail], [t has a head]; float64 [X, 3]."""
    return torch.stack([evidence_X.double(), head_asked_X.double(), tail_asked_X.double()], dim=1)


def fact_inputs(scorer: Scorer, candidates: Candidates, known: KnownAnswers, facts_N3: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inputs of any facts of named relations, and whether they are of another type; [N, 3] and [N], on the CPU.

    A fact that is itself known is asked about as if it were not: its questions have an answer already if they have another one.
    """
    head_N, relation_N, tail_N = facts_N3.unbind(1)
    evidence_N = fact_evidence(scorer, candidates, facts_N3)
    asked, other_N = [], torch.zeros(len(facts_N3), dtype=torch.bool)
    for question_N, answer_N, directed_N in ((head_N, tail_N, relation_N), (tail_N, head_N, relation_N + candidates.num_relations)):
        row_X, entity_X = known.pairs(question_N, directed_N)
        asked.append(torch.bincount(row_X[entity_X != answer_N[row_X]], minlength=len(facts_N3)) > 0)
        for directed in directed_N.unique().tolist():
            which_N = directed_N == directed
            other_N[which_N] |= ~torch.isin(question_N[which_N], candidates.heads(directed))
    return inputs_of(evidence_N, *asked), other_N


def facts_to_find(train_N3: Tensor, held_out_N3: Tensor, num_relations: int) -> Tensor:
    """Return for each relation how many held-out facts it has, or has by its share of the training facts, whichever is more; at least 1; [R].

    0 where no training fact has the relation: it has no candidates.
    """
    train_R, held_out_R = (torch.bincount(facts_N3[:, 1], minlength=num_relations) for facts_N3 in (train_N3, held_out_N3))
    share_R = (train_R.double() * len(held_out_N3) / max(1, len(train_N3))).round().long()
    return torch.where(train_R > 0, share_R.maximum(held_out_R).clamp_min(1), 0)


def population(
    finder: PairFinder, train_N3: Tensor, held_out_N3: Tensor, calibrators: Calibrators | None = None, per_fact: int = PER_FACT
) -> Population:
    """Gather the population of a held-out split, by evidence or by the probabilities of calibrators; ``finder`` knows all other splits' facts."""
    E, R = finder.candidates.num_entities, finder.candidates.num_relations
    inputs, relations, true = [torch.empty((0, 3), dtype=torch.float64)], [torch.empty(0, dtype=torch.int64)], [torch.empty(0, dtype=torch.bool)]
    for relation, size in enumerate(facts_to_find(train_N3, held_out_N3, R).tolist()):
        if not size:
            continue
        shifts = Shifts() if calibrators is None else calibrators.shifts(relation)
        pairs = finder.best(Search(relation=relation, top=per_fact * size, shifts=shifts))
        relation_X = torch.full_like(pairs.head_X, relation)
        inputs.append(inputs_of(pairs.evidence_X, pairs.head_asked_X, pairs.tail_asked_X))
        relations.append(relation_X)
        true.append(contains(held_out_N3, torch.stack([pairs.head_X, relation_X, pairs.tail_X], dim=1), E, R))
    true_X = torch.cat(true)
    return Population(torch.cat(inputs), torch.cat(relations), true_X, len(held_out_N3) - int(true_X.sum()))


def fit_split(finder: PairFinder, train_N3: Tensor, held_out_N3: Tensor, rounds: int = ROUNDS) -> tuple[Calibrators, Population]:
    """Fit calibrators on a held-out split, and return the population of the last round with them."""
    other = other_type_odds(finder.candidates, held_out_N3, len(finder.seen_X))
    calibrators = None
    for _ in range(rounds):
        found = population(finder, train_N3, held_out_N3, calibrators)
        calibrators = fit(found, finder.candidates.once_S, other)
    assert calibrators is not None
    return calibrators, found


def other_type_odds(candidates: Candidates, held_out_N3: Tensor, trained: int) -> float:
    """Return ln((facts/pairs of another type) / (facts/pairs of the right type)), at most 0; a half is added to both counts of facts."""
    typed, typed_pairs, pairs = 0, 0, 0
    for relation in held_out_N3[:, 1].unique().tolist():
        facts_X3 = held_out_N3[held_out_N3[:, 1] == relation]
        head_H, tail_T = candidates.heads(relation), candidates.tails(relation)
        typed += int((torch.isin(facts_X3[:, 0], head_H) & torch.isin(facts_X3[:, 2], tail_T)).sum())
        typed_pairs += len(head_H) * len(tail_T)
        pairs += trained**2
    others = len(held_out_N3) - typed
    odds = math.log((others + 0.5) / max(1, pairs - typed_pairs)) - math.log((typed + 0.5) / max(1, typed_pairs))
    return min(0.0, odds)


def fit(found: Population, once_S: Tensor, other: float = 0.0) -> Calibrators:
    """Fit the calibrators of a population, all at once; see the top of this file."""
    if not found.facts or not found.others:
        raise DataError(
            f"nothing to calibrate with: of the {len(found.true_X):,} candidates looked at {found.facts:,} are facts of the valid split; "
            "it needs facts and others, so give the data a larger valid split or train longer"
        )
    once_R2 = once_S.double().reshape(2, -1).T
    lift_R = -torch.where(once_R2 > 0, once_R2, 1.0).log().mean(dim=1)  # ½ ln(n_r · n_r⁻¹); nothing for a relation without training facts
    shared_6, own_R4 = _weights(found, once_R2, lift_R)
    plain_R4 = shared_6[[0, 1, 2, 5]].repeat(len(lift_R), 1)
    plain_R4[:, 1:3] += once_R2 * shared_6[3:5]
    if float(shared_6[0]) <= 0:
        share = found.facts / len(found.true_X)
        plain_R4 = torch.tensor([LEAST_SLOPE, 0.0, 0.0, math.log(share / (1 - share))], dtype=torch.float64).repeat(len(lift_R), 1)
    weight_R4 = torch.where(((plain_R4 + own_R4)[:, :1] > 0) & (shared_6[0] > 0), plain_R4 + own_R4, plain_R4)
    weight_R4[:, 3] += weight_R4[:, 0] * lift_R
    return Calibrators(tuple(Calibrator(*one) for one in weight_R4.tolist()), other)


def _weights(found: Population, once_R2: Tensor, lift_R: Tensor) -> tuple[Tensor, Tensor]:
    """Return the shared weights (slope, head, tail, head', tail', intercept) and what each relation adds (δ_r; none to head' and tail')."""
    try:
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtra("scikit-learn", "analysis", "calibrating probabilities") from None
    relation_X, rows = found.relation_X, len(found.true_X)
    input_X3 = found.input_X3.clone()
    input_X3[:, 0] += lift_R[relation_X]
    # A row holds the five inputs that all relations share, then three of them and a 1 in the four columns of its own relation.
    shared_X5 = torch.cat([input_X3, input_X3[:, 1:] * once_R2[relation_X]], dim=1)
    value_X9 = torch.cat([SHARED_SCALE * shared_X5, input_X3, torch.ones(rows, 1, dtype=torch.float64)], dim=1)
    column_X9 = torch.cat([torch.arange(5).expand(rows, 5), 5 + 4 * relation_X[:, None] + torch.arange(4)], dim=1)
    parts = (value_X9.flatten().numpy(), column_X9.flatten().numpy(), torch.arange(0, 9 * rows + 1, 9).numpy())
    fitted = LogisticRegression(max_iter=2000).fit(csr_matrix(parts, shape=(rows, 5 + 4 * len(lift_R))), found.true_X.numpy())
    weights = torch.from_numpy(fitted.coef_[0])
    return torch.cat([SHARED_SCALE * weights[:5], torch.from_numpy(fitted.intercept_)]), weights[5:].reshape(-1, 4)


def reliability(probability_X: Tensor, true_X: Tensor, bins: int = BINS) -> Reliability:
    """Compare probabilities with what is true, in bins of equal width."""
    count = max(1, len(probability_X))
    probability_X, hit_X = probability_X.double(), true_X.double()
    place_X = (probability_X * bins).long().clamp_(0, bins - 1)
    size_B, sum_B, hits_B = (torch.bincount(place_X, weights, bins) for weights in (torch.ones_like(hit_X), probability_X, hit_X))
    rows = zip(size_B.tolist(), sum_B.tolist(), hits_B.tolist(), strict=True)
    found = tuple(Bin(int(size), total / max(size, 1), hits / max(size, 1)) for size, total, hits in rows)
    error = sum(one.count * abs(one.share - one.probability) for one in found) / count
    return Reliability(error, float(((probability_X - hit_X) ** 2).sum()) / count, found)
