"""Compositions r1/r2 ≈ r3 by name: how well the facts support them, and where the model's matrices put r3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relcode.analysis.composition import composition_ranks, triples_of
from relcode.errors import SettingError
from relcode.explore.model import Model
from relcode.graph.compositions import MIN_JACCARD, MIN_PAIRS, Composition, PairIndex, amie_lines, anyburl_lines, keep, mine_index, rules
from relcode.graph.dataset import Dataset, load_dataset
from relcode.graph.paths import format_path

FORMS = ("amie", "anyburl")


@dataclass(frozen=True, slots=True)
class NamedComposition:
    """A composition: ``path`` (r1/r2) joins nearly the pairs that ``relation`` (r3) joins.

    ``shared`` pairs and ``jaccard`` come from the training facts. With a model, ``rank`` is the place of r3 among all directed relations by cosine of
    its matrix with M_1 M_2, 1 the nearest.
    """

    path: str
    relation: str
    shared: int
    jaccard: float
    confidence: float
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

    def named(self) -> list[NamedComposition]:
        """Return them by name, in order; with a model, each with its rank and cosine."""
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
                rank=rank,
                cosine=cosine,
            )
            for one, (rank, cosine) in zip(self.compositions, pairs, strict=True)
        ]

    def rule_lines(self, form: str) -> Iterator[str]:
        """Write them as rules in the form of "amie" or "anyburl"."""
        if form not in FORMS:
            raise SettingError(f"unknown form of rules {form!r}: known are {', '.join(FORMS)}")
        if form == "amie":
            return amie_lines(self.compositions, self.dataset.relations, self.index)
        return anyburl_lines(self.compositions, self.dataset.relations)


def constraints(
    where: str | Path | Dataset | Model, min_pairs: int = MIN_PAIRS, min_jaccard: float = MIN_JACCARD, filter_name: str = "paper"
) -> Constraints:
    """Mine the training facts of a dataset, or of a run's data; a run adds what its matrices say."""
    model = where if isinstance(where, Model) else None
    if isinstance(where, str | Path) and (Path(where) / "run.json").is_file():
        model = Model.open(where)
    dataset = model.dataset if model is not None else where if isinstance(where, Dataset) else load_dataset(where)  # type: ignore[arg-type]
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    kept = keep(mine_index(index, min_pairs=min_pairs, min_jaccard=min_jaccard), filter_name, index)
    return Constraints(dataset, model, index, tuple(rules(kept, dataset.num_relations)))
