"""Distances on the globe."""

from __future__ import annotations

import math
from collections.abc import Sequence

from world.sources import Airport, City

EARTH_KM = 6371.0


def distance_km(a: City | Airport, b: City | Airport) -> float:
    """Great-circle distance by the haversine formula, 2R asin √(sin²(Δφ/2) + cos φ₁ cos φ₂ sin²(Δλ/2)), φ latitude, λ longitude."""
    phi_1, phi_2 = math.radians(a.lat), math.radians(b.lat)
    half_phi, half_lambda = (phi_2 - phi_1) / 2, math.radians(b.lon - a.lon) / 2
    inside = math.sin(half_phi) ** 2 + math.cos(phi_1) * math.cos(phi_2) * math.sin(half_lambda) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(min(1.0, inside)))


def nearest(of: City, among: Sequence[City]) -> tuple[City, float]:
    """Return the nearest other city and its distance (the smaller GeoNames number where two are equally near)."""
    others = [(distance_km(of, city), city.id, city) for city in among if city.id != of.id]
    km, _, city = min(others, key=lambda item: item[:2])
    return city, km
