"""State the facts: records of the sources in, (head, relation, tail) of named things out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from world import cldr, regions, sources
from world.geometry import distance_km, nearest
from world.names import Thing, choose_names, fold
from world.sources import Airport, City

Key = tuple[str, str]
Fact = tuple[str, str, str]

CITIES_PER_COUNTRY = 40
CITY_POPULATION = 150_000
AIRPORT_CITY_KM = 60.0
SAME_CITY_KM, SAME_NAME_KM = 20.0, 80.0
AIRPORTS_PER_SUBDIVISION = 3
# Rows of GeoNames that hide the city they belong to (it gives this quarter of Memphis more people than Memphis).
NOT_CITIES = {("US", "New South Memphis")}
# Landing places that are no airports.
NOT_AIRPORTS = ("seaplane", "heliport", "coordinates", "railway", "bus station")
# The area a zone's name begins with -> region known elsewhere, or a name of its own.
AREAS = {"America": "019", "Africa": "002", "Asia": "142", "Europe": "150", "Antarctica": "AN"}
OTHER_AREAS = {
    "Arctic": "Arctic Ocean",
    "Atlantic": "Atlantic Ocean",
    "Australia": "Australian time zones",
    "Indian": "Indian Ocean",
    "Pacific": "Pacific Ocean",
}


@dataclass(slots=True)
class Statements:
    """What has been stated so far: things by (kind, id), and facts between them."""

    things: dict[Key, Thing] = field(default_factory=dict)
    facts: list[tuple[Key, str, Key]] = field(default_factory=list)

    def thing(self, kind: str, ident: str, *names: str) -> Key:
        """Make a thing known, with its names from short to long, and return its key."""
        key = (kind, ident)
        self.things.setdefault(key, Thing(kind, ident, names))
        return key

    def state(self, head: Key, relation: str, tail: Key) -> None:
        """State one fact."""
        self.facts.append((head, relation, tail))

    def named(self) -> list[Fact]:
        """Return the facts by name, each once, sorted; things without a fact get no name."""
        used = {key for head, _, tail in self.facts for key in (head, tail)}
        name = choose_names({key: self.things[key] for key in sorted(used)})
        return sorted({(name[head], relation, name[tail]) for head, relation, tail in self.facts})


def find_capitals(rows: dict[str, dict[str, object]], files: Iterable[str]) -> dict[str, City]:
    """Return country -> its capital among the city files, larger cities first: the same spelling, else an alternative name."""
    found: dict[str, City] = {}
    wanted = {code: fold(str(row["capital"])) for code, row in rows.items() if row["capital"]}
    for file in files:
        cities = [c for c in sources.cities(file) if c.country in wanted and c.country not in found]
        cities.sort(key=lambda c: (-c.population, c.id))
        # All spellings come before all alternative names: Delhi has New Delhi among its alternative ones.
        same = [c for c in cities if fold(c.name) == wanted[c.country]]
        other = [c for c in cities if wanted[c.country] in map(fold, c.other_names)]
        for city in (*same, *other):
            found.setdefault(city.country, city)
    return found


def choose_cities(every: list[City], capitals: dict[str, City]) -> list[City]:
    """Return all capitals and each country's largest other cities, by GeoNames number.

    At most 40 a country, of at least 150,000 people, none within 20 km of a larger one or 80 km of a larger one of its name,
    for GeoNames lists boroughs and some cities twice (Kashan).
    """
    chosen = {city.id: city for city in capitals.values()}
    count = Counter(city.country for city in chosen.values())
    for city in sorted(every, key=lambda c: (-c.population, c.id)):
        full = count[city.country] >= CITIES_PER_COUNTRY
        if full or city.population < CITY_POPULATION or city.id in chosen or (city.country, city.name) in NOT_CITIES:
            continue
        near = [c for c in chosen.values() if c.population >= city.population and abs(c.lat - city.lat) < 1 and c.country == city.country]
        if all(distance_km(city, other) >= (SAME_NAME_KM if fold(city.name) == fold(other.name) else SAME_CITY_KM) for other in near):
            count[city.country] += 1
            chosen[city.id] = city
    return [chosen[ident] for ident in sorted(chosen)]


def serve(airports: list[Airport], cities: list[City]) -> dict[str, City]:
    """Return airport -> its city: one of that name (or alternative name) within 60 km, whatever country either is said to be in."""
    by_name: dict[str, list[City]] = {}
    for city in cities:
        for name in {fold(n) for n in (city.name, *city.other_names)}:
            by_name.setdefault(name, []).append(city)
    served = {}
    for airport in airports:
        near = [c for c in by_name.get(fold(airport.city), []) if distance_km(airport, c) <= AIRPORT_CITY_KM]
        if near:
            served[airport.id] = min(near, key=lambda c: (fold(c.name) != fold(airport.city), -c.population, c.id))
    return served


def state_zones(out: Statements, countries: dict[str, Key]) -> dict[str, Key]:
    """State what the tz database and CLDR say of the zones of zone.tab; return zone -> key, aliases included."""
    rows, links = sources.tz_rows("zone.tab"), sources.tz_links()
    zones = {zone: out.thing("zone", zone, zone.replace("_", " ")) for zone, _ in rows}
    for zone, (country, *_) in rows:
        key = zones[zone]
        if country in countries:
            out.state(key, "timezone_country", countries[country])
        area = zone.split("/")[0]
        out.state(key, "timezone_area", region_thing(out, AREAS[area]) if area in AREAS else out.thing("region", area, OTHER_AREAS[area]))
        if links.get(zone) in zones:
            out.state(key, "timezone_link", zones[links[zone]])
        if name := cldr.metazone(zone):
            out.state(key, "timezone_metazone", out.thing("metazone", name, name))
        low, high = sources.tz_offsets(zone)
        out.state(key, "timezone_offset", out.thing("offset", str(low), cldr.offset_name(low)))
        if high != low:
            out.state(key, "timezone_summer_offset", out.thing("offset", str(high), cldr.offset_name(high)))
    for zone, its_countries in sources.tz_rows("zone1970.tab"):
        for country in its_countries:
            if zone in zones and country in countries:
                out.state(countries[country], "country_timezone", zones[zone])
    return zones | {alias: zones[target] for alias, target in links.items() if alias not in zones and target in zones}


def region_thing(out: Statements, code: str) -> Key:
    """Return the key of a UN region (three digits) or GeoNames continent (two letters), the same key where both mean the same."""
    same = {"AF": "002", "AS": "142", "EU": "150", "OC": "009", "NA": "003", "SA": "005"}
    code = same.get(code, code)
    name = sources.continents()[code] if code.isalpha() else cldr.territory_name(code)
    # "Antarctica" is also GeoNames' country, which keeps the plain name.
    return out.thing("region", code, name, f"{name} (continent)")


def state_countries(out: Statements) -> dict[str, Key]:
    """State what GeoNames and CLDR say of countries (capitals, cities and clocks come later); return code -> key."""
    rows = sources.countries()
    keys = {code: out.thing("country", code, row["name"].strip()) for code, row in rows.items()}
    for code, row in rows.items():
        key = keys[code]
        out.state(key, "country_continent", region_thing(out, row["continentcode"]))
        for other in filter(None, row["neighbours"].split(",")):
            if other in keys:
                out.state(key, "country_neighbour", keys[other])
                out.state(keys[other], "country_neighbour", key)
        if digits := [c for c in row["phone"] if c.isdigit()]:
            out.state(key, "country_calling_zone", out.thing("calling", digits[0], f"World numbering zone {digits[0]}"))
        if row["currencyname"]:
            out.state(key, "country_money", unit_thing(out, row["currencyname"]))
    for region, codes in regions.COUNTRIES_OF_REGION.items():
        for code in codes.split():
            if code in keys:
                out.state(keys[code], "country_subregion", region_thing(out, region))
    for region, parts in regions.REGIONS_OF_REGION.items():
        for part in parts.split():
            out.state(region_thing(out, part), "region_part_of", region_thing(out, region))
    return keys


def unit_thing(out: Statements, name: str) -> Key:
    """Return the key of a unit of money, one for all spellings ("Colón", "Colon")."""
    return out.thing("unit", fold(name), name, f"{name} (unit of money)")


def state_cldr(out: Statements, countries: dict[str, Key]) -> None:
    """State money, languages and customs as CLDR has them."""
    for relation, code, currency in cldr.currencies(countries):
        name = cldr.currency_name(currency)
        key = out.thing("currency", currency, name)
        out.state(countries[code], relation, key)
        out.state(key, "currency_unit", unit_thing(out, cldr.currency_unit(currency)))
    for relation, code, language in cldr.languages(countries):
        name = cldr.language_name(language)
        key = out.thing("language", language, name, f"{name} language")
        out.state(countries[code], relation, key)
        script, home = cldr.likely(language)
        if script:
            out.state(key, "language_script", out.thing("script", script, f"{script} script"))
        if home in countries:
            out.state(key, "language_homeland", countries[home])
    for relation, code, custom in cldr.customs(countries):
        out.state(countries[code], relation, out.thing("custom", custom, custom))


def state_cities(out: Statements, cities: list[City], countries: dict[str, Key], zones: dict[str, Key]) -> dict[int, Key]:
    """State country, clock, nearest city and (in the United States) state of each city; return number -> key."""
    states, keys = sources.us_states(), {}
    near = {city.id: nearest(city, cities)[0] for city in cities}
    for city in cities:
        country = out.things[countries[city.country]].names[0]
        where = f"{states[city.state]}, {country}" if city.country == "US" and city.state in states else country
        qualified = f"{city.name} (city)" if fold(city.name) == fold(country) else f"{city.name} ({where})"
        keys[city.id] = out.thing("city", str(city.id), city.name, qualified, f"{city.name} ({country}, near {near[city.id].name})")
        out.state(keys[city.id], "city_country", countries[city.country])
        if city.zone in zones:
            out.state(keys[city.id], "city_timezone", zones[city.zone])
        if city.country == "US" and city.state in states:
            out.state(keys[city.id], "city_us_state", subdivision_thing(out, states[city.state], "US", country))
    for city in cities:
        out.state(keys[city.id], "city_nearest_city", keys[near[city.id].id])
    return keys


def subdivision_thing(out: Statements, name: str, code: str, country: str) -> Key:
    """Return the key of a state, province or region of a country."""
    longer = f"{name} (state of the United States)" if code == "US" else f"{name} (region of {country})"
    return out.thing("subdivision", f"{code} {fold(name)}", name, longer)


def state_airports(out: Statements, cities: list[City], keys: dict[int, Key], countries: dict[str, Key], zones: dict[str, Key]) -> None:
    """State country, clock, city and subdivision of the airports of the cities here and of all that are called international."""
    every = [a for a in sources.airports() if a.country in countries and not any(word in a.name.casefold() for word in NOT_AIRPORTS)]
    served = serve(every, cities)
    chosen = [a for a in every if a.id in served or "international" in a.name.casefold()]
    per_subdivision = Counter((a.country, fold(a.subdivision)) for a in chosen)
    for airport in chosen:
        country = out.things[countries[airport.country]].names[0]
        known = fold(airport.city) in fold(airport.name) or not airport.city
        name = airport.name if known else f"{airport.name} ({airport.city})"
        place = [p for p in dict.fromkeys(("" if known else airport.city, airport.subdivision, country)) if p]
        longer = (f"{airport.name} ({', '.join(dict.fromkeys((*place[:-2], country)))})", f"{airport.name} ({', '.join(place)})")
        key = out.thing("airport", airport.id, name, *longer)
        out.state(key, "airport_country", countries[airport.country])
        if airport.zone in zones:
            out.state(key, "airport_timezone", zones[airport.zone])
        if airport.id in served:
            out.state(key, "airport_city", keys[served[airport.id].id])
        if airport.subdivision and per_subdivision[airport.country, fold(airport.subdivision)] >= AIRPORTS_PER_SUBDIVISION:
            out.state(key, "airport_subdivision", subdivision_thing(out, airport.subdivision, airport.country, country))


def all_facts() -> list[Fact]:
    """Return every fact of `world`, by name, sorted."""
    out = Statements()
    countries = state_countries(out)
    zones = state_zones(out, countries)
    state_cldr(out, countries)
    capitals = find_capitals(sources.countries(), ("cities15000.json", "cities1000.json", "cities500.json"))
    cities = choose_cities(sources.cities("cities15000.json"), capitals)
    keys = state_cities(out, cities, countries, zones)
    for code, city in capitals.items():
        out.state(countries[code], "country_capital", keys[city.id])
    state_airports(out, cities, keys, countries, zones)
    return out.named()
