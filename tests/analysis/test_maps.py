from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from relcode.analysis.maps import (
    cosine_distances,
    dimensions_holding,
    entity_map,
    lay_out_distances,
    lay_out_vectors,
    names_to_show,
    participation_ratio,
    principal_variances,
    relation_map,
)
from relcode.errors import MissingExtra, NotFinite
from relcode.graph.dataset import Dataset
from relcode.model.score import Scorer


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def scorer(family: Dataset) -> Scorer:
    vectors = gaussian(family.num_entities, 8)
    return Scorer(vectors, vectors, gaussian(family.num_directed, 8, 8, seed=1), family.seen_E)


def test_distances_are_those_of_the_unit_vectors() -> None:
    unit = torch.nn.functional.normalize(gaussian(7, 5).double(), dim=1)
    torch.testing.assert_close(cosine_distances(unit @ unit.T), torch.cdist(unit, unit), atol=1e-7, rtol=0)


def test_distances_survive_rounding() -> None:
    # Cosines just above 1 must not become NaN.
    distances = cosine_distances(torch.full((2, 2), 1.0000001, dtype=torch.float64))
    assert distances.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("axes", [1, 2, 5])
def test_points_spread_alike_along_n_axes_have_ratio_n(axes: int) -> None:
    points = torch.cat([torch.eye(5)[:axes], -torch.eye(5)[:axes]]).double()
    variances = principal_variances(points @ points.T)
    assert participation_ratio(variances) == pytest.approx(axes)
    assert dimensions_holding(variances) == axes


def test_the_mean_does_not_count() -> None:
    points = gaussian(30, 4).double()
    moved = points + 100
    assert participation_ratio(principal_variances(moved @ moved.T)) == pytest.approx(participation_ratio(principal_variances(points @ points.T)))


def test_variances_against_the_covariance_of_the_columns() -> None:
    points = gaussian(30, 4).double() * torch.tensor([5.0, 2, 1, 0.1])
    expected = torch.linalg.eigvalsh((points - points.mean(0)).T @ (points - points.mean(0))).flip(0)
    torch.testing.assert_close(principal_variances(points @ points.T)[:4], expected)


def test_nothing_varies() -> None:
    variances = principal_variances(torch.ones(3, 3))
    assert participation_ratio(variances) == 0 and dimensions_holding(variances) == 0


def test_relation_map(scorer: Scorer, family: Dataset) -> None:
    points = relation_map(scorer, family, title="joint", seed=3)
    S = family.num_directed
    assert points.point_N2.shape == (S, 2) and bool(points.point_N2.isfinite().all())
    counts = torch.bincount(family.train[:, 1], minlength=family.num_relations)
    assert points.frequency_N.tolist() == counts.tolist() * 2
    assert 1 < points.participation_ratio <= points.most_ratio == S - 1
    assert f"{min(15, S - 1)} neighbours, seed 3" in points.method
    table = points.table()
    assert table["name"].to_pylist()[S // 2] == "^" + family.relations[0]
    again = relation_map(scorer, family, title="joint", seed=3)
    torch.testing.assert_close(again.point_N2, points.point_N2, rtol=0, atol=0)
    assert all(number < S // 2 for number in names_to_show(points, 100))
    assert points.frequency_N[names_to_show(points, 1)[0]] == counts.max()


def test_relations_on_few_axes_have_a_lower_ratio(scorer: Scorer, family: Dataset) -> None:
    flat = gaussian(family.num_directed, 2, seed=2) @ gaussian(2, 64, seed=3)
    low = Scorer(scorer.head_ED, scorer.tail_ED, flat.reshape(-1, 8, 8), scorer.seen_E)
    low_map, high_map = (relation_map(one, family) for one in (low, scorer))
    assert low_map.participation_ratio <= 2 + 1e-6 < 5 < high_map.participation_ratio
    assert low_map.dimensions_90 <= 2


def test_entity_map_takes_the_most_frequent(scorer: Scorer, family: Dataset) -> None:
    points = entity_map(scorer, family, most=20)
    counts = torch.bincount(family.train[:, [0, 2]].flatten(), minlength=family.num_entities)
    assert points.frequency_N.tolist() == counts.sort(descending=True).values[:20].tolist()
    assert points.kind == "entity" and points.point_N2.shape == (20, 2)
    assert set(points.names[:2]) == {"female", "male"}


def test_clusters_stay_together() -> None:
    centres = torch.nn.functional.normalize(gaussian(2, 12, seed=4), dim=1)
    unit = torch.nn.functional.normalize(centres.repeat_interleave(20, 0) + 0.05 * gaussian(40, 12, seed=5), dim=1)
    for points, _ in (lay_out_distances(cosine_distances((unit @ unit.T).double()), 0, 8), lay_out_vectors(unit, 0, 8)):
        within = torch.cdist(points[:20], points[:20]).mean() + torch.cdist(points[20:], points[20:]).mean()
        assert torch.cdist(points[:20], points[20:]).mean() > within


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_points_are_laid_out_without_umap(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    unit = torch.nn.functional.normalize(gaussian(count, 2).double(), dim=1)
    points, method = lay_out_distances(cosine_distances(unit @ unit.T), 0)
    assert method == "first two principal axes"
    torch.testing.assert_close(torch.cdist(points, points), torch.cdist(unit, unit), atol=1e-6, rtol=0)


def test_a_missing_umap_is_one_line(scorer: Scorer, family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtra, match=r"umap-learn.*relcode\[analysis\]"):
        relation_map(scorer, family)


def test_values_that_are_not_finite_are_an_error(scorer: Scorer, family: Dataset) -> None:
    scorer.matrix_SDD[0, 0, 0] = torch.nan
    with pytest.raises(NotFinite):
        relation_map(scorer, family)
