"""Maps: relations or entities as points in the plane, near where the model holds them alike, and a figure for how low-dimensional they are.

    distance(r, s) = ‖m_r/‖m_r‖ − m_s/‖m_s‖‖ = √(2 − 2 cos(M_r, M_s))

This is the released program's setting (UMAP, McInnes et al. 2018; 15 neighbours, Euclidean, matrices of unit norm). For relations the distances come
from one S×S product of the matrices, so UMAP never sees their d² numbers (d·b with blocks).

    participation ratio = (Σ λ_i)² / Σ λ_i²        λ the variances along the principal axes

is n where n axes share the variance alike and 1 where one holds it all: the paper's "low dimension manifold", measured.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.names import directed_names, short_directed_names
from relcode.errors import DataError, MissingExtra, NotFinite
from relcode.graph.dataset import Dataset
from relcode.model.score import Scorer
from relcode.runs.files import read_tensors, write_tensors

NEIGHBOURS = 15
FEWEST = 5  # with fewer points UMAP has nothing to lay out; the two first principal axes are drawn instead
MOST_ENTITIES = 4000


@dataclass(frozen=True, eq=False)
class PointMap:
    """Points in the plane with their names."""

    title: str
    kind: str  # "relation" or "entity"
    names: tuple[str, ...]
    short: tuple[str, ...]
    point_N2: Tensor  # the axes have no unit: only who is near whom means something
    frequency_N: Tensor  # training facts of each
    participation_ratio: float
    most_ratio: int  # the largest value the ratio could have
    dimensions_90: int  # principal axes that hold 90 % of the variance
    method: str  # how the points were placed, in words

    def table(self) -> pa.Table:
        """Return one row a point."""
        return pa.table(
            {
                "name": pa.array(self.names, pa.utf8()),
                "short": pa.array(self.short, pa.utf8()),
                "x": pa.array(self.point_N2[:, 0].tolist(), pa.float64()),
                "y": pa.array(self.point_N2[:, 1].tolist(), pa.float64()),
                "frequency": pa.array(self.frequency_N.tolist(), pa.int64()),
            }
        )


@dataclass(frozen=True, eq=False)
class MapData:
    """All that a map is made of but the places of its points: small enough to be carried from where a model is to where UMAP is.

    Relations come with their distances, entities with their unit vectors.
    """

    title: str
    kind: str
    names: tuple[str, ...]
    short: tuple[str, ...]
    frequency_N: Tensor
    participation_ratio: float
    most_ratio: int
    dimensions_90: int
    distance_NN: Tensor | None = None
    vector_ND: Tensor | None = None

    def lay_out(self, seed: int = 0, neighbours: int = NEIGHBOURS) -> PointMap:
        """Place the points."""
        if self.distance_NN is not None:
            point_N2, method = lay_out_distances(self.distance_NN, seed, neighbours)
        else:
            assert self.vector_ND is not None
            point_N2, method = lay_out_vectors(self.vector_ND, seed, neighbours)
        shared = {name: getattr(self, name) for name in (*TOLD, "names", "short", "frequency_N")}
        return PointMap(point_N2=point_N2, method=method, **shared)

    def save(self, path: Path) -> None:
        """Write it as one safetensors file."""
        tensors = {name: value for name in TENSORS if (value := getattr(self, name)) is not None}
        told = {name: getattr(self, name) for name in (*TOLD, "names", "short")}
        write_tensors(path, tensors, {"map": json.dumps(told, ensure_ascii=False)})

    @classmethod
    def load(cls, path: Path) -> MapData:
        """Read what :meth:`save` wrote."""
        tensors, metadata = read_tensors(path)
        try:
            told: dict[str, Any] = json.loads(metadata["map"]) | tensors
            told |= {name: tuple(told[name]) for name in ("names", "short")}
            return cls(**told)
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{path} holds no map: relcode map RUN --points FILE writes one") from None


TOLD = ("title", "kind", "participation_ratio", "most_ratio", "dimensions_90")
TENSORS = ("frequency_N", "distance_NN", "vector_ND")


def relation_data(scorer: Scorer, dataset: Dataset, *, title: str = "") -> MapData:
    """Gather the matrices of all directed relations, as distances."""
    unit_SQ = torch.nn.functional.normalize(scorer.matrix_SDD.detach().cpu().float().flatten(1), dim=1)
    gram_SS = _finite(unit_SQ @ unit_SQ.T).double()
    count_R = torch.bincount(dataset.train[:, 1], minlength=dataset.num_relations)
    variance_S = principal_variances(gram_SS)
    return MapData(
        title=title or dataset.name,
        kind="relation",
        names=directed_names(dataset.relations),
        short=short_directed_names(dataset.relations),
        frequency_N=count_R.repeat(2),
        participation_ratio=participation_ratio(variance_S),
        most_ratio=max(1, min(len(unit_SQ) - 1, unit_SQ.shape[1])),
        dimensions_90=dimensions_holding(variance_S),
        distance_NN=cosine_distances(gram_SS).float(),
    )


def entity_data(scorer: Scorer, dataset: Dataset, *, title: str = "", most: int = MOST_ENTITIES) -> MapData:
    """Gather the tail vectors of the ``most`` most frequent entities that were trained."""
    count_E = torch.bincount(dataset.train[:, [0, 2]].flatten(), minlength=dataset.num_entities)
    order = sorted(range(dataset.num_entities), key=lambda one: (-int(count_E[one]), dataset.entities[one]))
    chosen = [one for one in order if count_E[one] > 0][:most]
    unit_ND = _finite(torch.nn.functional.normalize(scorer.tail_ED.detach().cpu().float()[chosen], dim=1))
    names = tuple(dataset.label(one) for one in chosen)
    # With more vectors than numbers in each, the d×d products of the columns have the same variances as the N×N ones of the rows.
    column_DN = (unit_ND - unit_ND.mean(dim=0)).double().T
    variance_D = torch.linalg.eigvalsh(column_DN @ column_DN.T).clamp_min(0).flip(0)
    return MapData(
        title=title or dataset.name,
        kind="entity",
        names=names,
        short=names,
        frequency_N=count_E[chosen],
        participation_ratio=participation_ratio(variance_D),
        most_ratio=max(1, min(len(unit_ND) - 1, unit_ND.shape[1])),
        dimensions_90=dimensions_holding(variance_D),
        vector_ND=unit_ND,
    )


def relation_map(scorer: Scorer, dataset: Dataset, *, title: str = "", seed: int = 0, neighbours: int = NEIGHBOURS) -> PointMap:
    """Lay out the matrices of all directed relations."""
    return relation_data(scorer, dataset, title=title).lay_out(seed, neighbours)


def entity_map(
    scorer: Scorer, dataset: Dataset, *, title: str = "", seed: int = 0, neighbours: int = NEIGHBOURS, most: int = MOST_ENTITIES
) -> PointMap:
    """Lay out the tail vectors of the ``most`` most frequent entities that were trained."""
    return entity_data(scorer, dataset, title=title, most=most).lay_out(seed, neighbours)


def cosine_distances(gram_NN: Tensor) -> Tensor:
    """Return √(2 − 2 cos) for the cosines given: the Euclidean distances of the unit vectors; exactly 0 to oneself."""
    distance_NN = (2 - 2 * gram_NN).clamp_min(0).sqrt()
    return ((distance_NN + distance_NN.T) / 2).fill_diagonal_(0)


def principal_variances(gram_NN: Tensor) -> Tensor:
    """Return the variances along the principal axes of N vectors, largest first, from the vectors' products with each other."""
    variance_N: Tensor = torch.linalg.eigvalsh(_centred(gram_NN.double()))
    return variance_N.clamp_min(0).flip(0)


def participation_ratio(variance_N: Tensor) -> float:
    """Return (Σ λ)²/Σ λ²; 0 where nothing varies."""
    square = float((variance_N**2).sum())
    return float(variance_N.sum()) ** 2 / square if square > 0 else 0.0


def dimensions_holding(variance_N: Tensor, part: float = 0.9) -> int:
    """Return how many principal axes hold that part of the variance; 0 where nothing varies."""
    total = float(variance_N.sum())
    return int((variance_N.cumsum(0) < part * total).sum()) + 1 if total > 0 else 0


def lay_out_distances(distance_NN: Tensor, seed: int, neighbours: int = NEIGHBOURS) -> tuple[Tensor, str]:
    """Place N points by UMAP from their distances; return [N, 2] and how it was done."""
    if len(distance_NN) < FEWEST:
        gram_NN = -_centred(distance_NN.double() ** 2) / 2  # classical scaling: distances back to products
        return _principal_plane(gram_NN), "first two principal axes"
    return _umap(distance_NN.float(), "precomputed", seed, neighbours), f"UMAP, {min(neighbours, len(distance_NN) - 1)} neighbours, seed {seed}"


def lay_out_vectors(vector_ND: Tensor, seed: int, neighbours: int = NEIGHBOURS) -> tuple[Tensor, str]:
    """Place N points by UMAP from their vectors, Euclidean; return [N, 2] and how it was done."""
    if len(vector_ND) < FEWEST:
        return _principal_plane((vector_ND @ vector_ND.T).double()), "first two principal axes"
    return _umap(vector_ND, "euclidean", seed, neighbours), f"UMAP, {min(neighbours, len(vector_ND) - 1)} neighbours, seed {seed}"


def _umap(data: Tensor, metric: str, seed: int, neighbours: int) -> Tensor:
    """Call UMAP; one seed, one picture."""
    try:
        from umap import UMAP
    except ImportError:
        raise MissingExtra("umap-learn", "analysis", "a map") from None
    with warnings.catch_warnings():
        # It says that a seed means one thread and that distances cannot be inverted: both are meant so.
        warnings.simplefilter("ignore")
        layout = UMAP(n_neighbors=min(neighbours, len(data) - 1), metric=metric, random_state=seed, n_jobs=1)
        return torch.from_numpy(layout.fit_transform(data.numpy())).double()


def _principal_plane(gram_NN: Tensor) -> Tensor:
    """Return the coordinates on the first two principal axes, zeros where there are fewer."""
    value_N, vector_NN = torch.linalg.eigh(_centred(gram_NN))
    plane = vector_NN.flip(1)[:, :2] * value_N.flip(0)[:2].clamp_min(0).sqrt()
    return torch.nn.functional.pad(plane, (0, 2 - plane.shape[1]))


def _centred(gram_NN: Tensor) -> Tensor:
    """Return the products of the vectors after their mean is taken off."""
    return gram_NN - gram_NN.mean(dim=0, keepdim=True) - gram_NN.mean(dim=1, keepdim=True) + gram_NN.mean()


def _finite(values: Tensor) -> Tensor:
    """Refuse values that are not finite."""
    if not bool(values.isfinite().all()):
        raise NotFinite("a matrix or vector of the run is not finite: the run diverged, so there is nothing to map")
    return values


def names_to_show(points: PointMap, most: int) -> Sequence[int]:
    """Return the points whose names a still picture shows: the most frequent ones, one of each relation and its inverse."""
    order = sorted(range(len(points.names)), key=lambda one: (-int(points.frequency_N[one]), points.names[one]))
    half = len(points.names) // 2
    return [one for one in order if points.kind != "relation" or one < half][:most]
