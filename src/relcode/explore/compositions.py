"""Compositions r1/r2 ≈ r3 by name: how well the facts support them, where a model's matrices put r3, and what it proposes beyond the facts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from relcode.analysis.composition import CompositionReport, composition_ranks, evaluate_compositions, joined_pairs, nearest, triples_of
from relcode.analysis.discovery import FoundComposition, GroundedPair, found_compositions
from relcode.errors import RunError, SettingError
from relcode.explore.model import Model
from relcode.graph.compositions import (
    MIN_JACCARD,
    MIN_PAIRS,
    Composition,
    Grounding,
    PairIndex,
    amie_lines,
    anyburl_lines,
    counter_examples,
    examples,
    find_filter,
    keep,
    mine_index,
    rules,
    self_relations,
)
from relcode.graph.dataset import Dataset, load_dataset
from relcode.graph.paths import format_path

FORMS = ("amie", "anyburl")


@dataclass(frozen=True, slots=True)
class NamedComposition:
    """A composition: ``path`` (r1/r2) joins nearly the pairs that ``relation`` (r3) joins.

    ``shared`` pairs and what follows come from the training facts: ``examples`` are pairs of the path that the relation joins too,
    ``counter_examples`` pairs that it does not. With a model, ``rank`` is the place of r3 among all directed relations by cosine of its matrix with
    M_1 M_2, 1 the nearest.
    """

    path: str
    relation: str
    shared: int
    jaccard: float
    confidence: float
    head_coverage: float
    examples: tuple[GroundedPair, ...] = ()
    counter_examples: tuple[GroundedPair, ...] = ()
    rank: float | None = None
    cosine: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; rank and cosine only with a model."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class Constraints:
    """The compositions that the training facts of a dataset support, each once (r1/r2 ≈ r3 and its mirror ^r2/^r1 ≈ ^r3 are one)."""

    dataset: Dataset
    model: Model | None
    index: PairIndex
    compositions: tuple[Composition, ...]
    filter_name: str
    min_pairs: int
    min_jaccard: float

    def named(self, shown: int = 0) -> list[NamedComposition]:
        """Return them by name, in order, with at most ``shown`` examples and counter-examples; with a model, each with its rank and cosine."""
        pairs: list[tuple[float | None, float | None]] = [(None, None)] * len(self.compositions)
        if self.model is not None and self.compositions:
            rank_N, cosine_N = composition_ranks(self.model.scorer.matrix_SDD, triples_of(self.compositions))
            pairs = list(zip(rank_N.tolist(), cosine_N.tolist(), strict=True))
        relations = self.dataset.relations
        return [
            NamedComposition(
                path=format_path((one.r1, one.r2), relations),
                relation=format_path((one.r3,), relations),
                shared=one.shared,
                jaccard=one.jaccard,
                confidence=one.confidence,
                head_coverage=one.head_coverage,
                examples=self._pairs(examples(self.index, one, shown)),
                counter_examples=self._pairs(counter_examples(self.index, one, shown)),
                rank=rank,
                cosine=cosine,
            )
            for one, (rank, cosine) in zip(self.compositions, pairs, strict=True)
        ]

    def _pairs(self, grounded: Sequence[Grounding]) -> tuple[GroundedPair, ...]:
        """Put labels to pairs."""
        label = self.dataset.label
        return tuple(GroundedPair(label(one.head), label(one.middle), label(one.tail)) for one in grounded)

    def proposed(self, top: int, shown: int = 3) -> tuple[FoundComposition, ...]:
        """Return what the model proposes and the facts do not support yet, at most ``top``, each with pairs to look at; nothing without a model."""
        if self.model is None or top < 1:
            return ()
        found = found_compositions(
            self.model.scorer,
            self.dataset,
            filter=self.filter_name,
            top=top,
            shown=shown,
            min_pairs=self.min_pairs,
            min_jaccard=self.min_jaccard,
        )
        return found.proposed

    def nearest(self, top: int) -> pa.Table:
        """Return for every pair r1/r2 that some entity joins the ``top`` relations nearest to M_1 M_2 that the filter allows, a row each."""
        if self.model is None:
            raise SettingError("which relations are nearest to M1·M2 is asked of a run, not of a dataset")
        chosen = find_filter(self.filter_name)
        alone = self_relations(self.index) if chosen.self_relations else frozenset()
        return nearest(self.model.scorer.matrix_SDD, joined_pairs(self.index), top, chosen, alone).table(self.dataset.relations)

    def table(self, shown: int = 0) -> pa.Table:
        """Return one row a composition."""
        pairs = pa.list_(pa.struct([(name, pa.utf8()) for name in ("head", "middle", "tail")]))
        rows = [asdict(one) for one in self.named(shown)]
        kinds = {"path": pa.utf8(), "relation": pa.utf8(), "shared": pa.int64(), "examples": pairs, "counter_examples": pairs}
        names = ("path", "relation", "shared", "jaccard", "confidence", "head_coverage", "examples", "counter_examples", "rank", "cosine")
        return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64())) for name in names})

    def rule_lines(self, form: str) -> Iterator[str]:
        """Write them as rules in the form of "amie" or "anyburl"."""
        if form not in FORMS:
            raise SettingError(f"unknown form of rules {form!r}: known are {', '.join(FORMS)}")
        if form == "amie":
            return amie_lines(self.compositions, self.dataset.relations, self.index)
        return anyburl_lines(self.compositions, self.dataset.relations)


def constraints(
    where: str | Path | Dataset | Model,
    min_pairs: int = MIN_PAIRS,
    min_jaccard: float = MIN_JACCARD,
    filter_name: str = "paper",
    device: str = "auto",
) -> Constraints:
    """Mine the training facts of a dataset, or of a run's data; a run (opened on ``device``) adds what its matrices say."""
    model = where if isinstance(where, Model) else None
    if isinstance(where, str | Path) and (Path(where) / "run.json").is_file():
        model = Model.open(where, device)
    dataset = model.dataset if model is not None else where if isinstance(where, Dataset) else load_dataset(where)  # type: ignore[arg-type]
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    kept = keep(mine_index(index, min_pairs=min_pairs, min_jaccard=min_jaccard), filter_name, index)
    return Constraints(dataset, model, index, tuple(rules(kept, dataset.num_relations)), filter_name, min_pairs, min_jaccard)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The paper's evaluation of one run: mean rank and mean of 1/rank of r3, with M_2 and with a random matrix in its place."""

    run: str
    mr: float
    mrr: float
    random_mr: float
    random_mrr: float

    @classmethod
    def of(cls, run: str, report: CompositionReport) -> RunFigures:
        """Take the figures out of a report."""
        return cls(run, report.mr, report.mrr, report.random_mr, report.random_mrr)


FIGURES = ("mr", "mrr", "random_mr", "random_mrr")


@dataclass(frozen=True)
class ConstraintEvaluation:
    """The paper's evaluation of several runs on one list of compositions, mirrors counted, as the paper does.

    ``mean`` and ``deviation`` (of a sample; None for one run) are over the runs; chance is a random order of the relations.
    """

    dataset: str
    filter: str
    min_pairs: int
    min_jaccard: float
    compositions: int
    relations: int
    draws: int
    runs: tuple[RunFigures, ...]
    chance_mr: float
    chance_mrr: float

    @property
    def mean(self) -> dict[str, float]:
        """Return the mean of each figure over the runs."""
        return {name: statistics.fmean(getattr(run, name) for run in self.runs) for name in FIGURES}

    @property
    def deviation(self) -> dict[str, float | None]:
        """Return the standard deviation of each figure over the runs; None where there is one run."""
        return {name: statistics.stdev(getattr(run, name) for run in self.runs) if len(self.runs) > 1 else None for name in FIGURES}

    def table(self) -> pa.Table:
        """Return one row a run."""
        text = {"run": pa.array([run.run for run in self.runs], pa.utf8())}
        return pa.table(text | {name: pa.array([getattr(run, name) for run in self.runs], pa.float64()) for name in FIGURES})

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "mean": self.mean, "deviation": self.deviation}


def evaluate_constraints(
    models: Sequence[Model], filter_name: str = "paper", min_pairs: int = MIN_PAIRS, min_jaccard: float = MIN_JACCARD, draws: int = 5, seed: int = 0
) -> ConstraintEvaluation:
    """Rank r3 by cosine with M_1 M_2 for each composition of a list that the training facts give, in every run; the runs must share their facts."""
    first = models[0].dataset
    for model in models[1:]:
        if model.dataset.fingerprint != first.fingerprint:
            raise RunError(f"{model.folder} was trained on other facts than {models[0].folder}: their compositions cannot be compared")
    index = PairIndex.build(first.train, first.num_entities, first.num_relations)
    listed = keep(mine_index(index, min_pairs=min_pairs, min_jaccard=min_jaccard), filter_name, index)
    if not listed:
        raise SettingError(f"{first.name} has no composition with {min_pairs} shared pairs and Jaccard similarity {min_jaccard:g}: ask for fewer")
    reports = [evaluate_compositions(model.scorer.matrix_SDD, listed, torch.Generator().manual_seed(seed), draws) for model in models]
    return ConstraintEvaluation(
        dataset=first.name,
        filter=filter_name,
        min_pairs=min_pairs,
        min_jaccard=min_jaccard,
        compositions=len(listed),
        relations=first.num_directed,
        draws=draws,
        runs=tuple(RunFigures.of(str(model.folder), report) for model, report in zip(models, reports, strict=True)),
        chance_mr=reports[0].chance_mr,
        chance_mrr=reports[0].chance_mrr,
    )
