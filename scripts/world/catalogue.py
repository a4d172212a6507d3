"""The relations of `world`: what each means, where it comes from, and how its facts came to be."""

from __future__ import annotations

from dataclasses import dataclass

GEONAMES, AIRPORTS, CLDR, TZ = "GeoNames", "airportsdata", "Unicode CLDR", "tz database"
# How a fact came to be, in the words of the README.
STATED, JOINED, COMPUTED = "stated", "joined", "computed"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation: its name, its topic, the sources of its facts, how they were made, and a sentence."""

    name: str
    topic: str
    source: str
    made: str
    meaning: str


RELATIONS: tuple[Relation, ...] = (
    Relation("city_country", "place", GEONAMES, STATED, "the city lies in the country"),
    Relation("city_nearest_city", "place", GEONAMES, COMPUTED, "of all cities here, the nearest to it (great-circle distance)"),
    Relation("city_us_state", "place", GEONAMES, STATED, "the city of the United States lies in that state"),
    Relation("country_capital", "place", GEONAMES, STATED, "the country's capital"),
    Relation("country_continent", "place", GEONAMES, STATED, "the continent of the country, one of seven"),
    Relation("country_neighbour", "place", GEONAMES, STATED, "the two countries share a land border (both directions are stated)"),
    Relation("country_subregion", "place", CLDR, STATED, "the United Nations' subregion of the country"),
    Relation("region_part_of", "place", CLDR, STATED, "the region is part of the larger region"),
    Relation("country_calling_zone", "place", GEONAMES, COMPUTED, "the world numbering zone: first digit of the country's calling code"),
    Relation("airport_country", "airport", AIRPORTS, STATED, "the airport lies in the country"),
    Relation("airport_subdivision", "airport", AIRPORTS, STATED, "the state, province or region the airport lies in"),
    Relation("airport_city", "airport", f"{AIRPORTS}, {GEONAMES}", JOINED, "the airport's city, found by name and distance alone"),
    Relation("airport_timezone", "time", AIRPORTS, STATED, "the time zone of the airport"),
    Relation("city_timezone", "time", GEONAMES, STATED, "the time zone of the city"),
    Relation("country_timezone", "time", TZ, STATED, "a clock the country has kept since 1970 (zone1970.tab: Norway keeps Berlin's)"),
    Relation("timezone_country", "time", TZ, STATED, "the country the zone is meant for (zone.tab: Oslo's is Norway's)"),
    Relation("timezone_link", "time", TZ, STATED, "the zone is kept as another name for that zone"),
    Relation("timezone_area", "time", TZ, STATED, "the continent or ocean that the zone's name begins with"),
    Relation("timezone_metazone", "time", CLDR, STATED, "what people call the zone's time"),
    Relation("timezone_offset", "time", TZ, COMPUTED, "the zone's standard offset from UTC in 2026 (the smaller one)"),
    Relation("timezone_summer_offset", "time", TZ, COMPUTED, "the larger offset in 2026, where clocks change"),
    Relation("country_currency", "money", CLDR, STATED, "legal tender today (earlier currencies are dropped)"),
    Relation("country_former_currency", "money", CLDR, STATED, "legal tender once, ended after 1945, shared by two countries or more"),
    Relation("country_money", "money", GEONAMES, STATED, "the everyday name of the country's money, such as Dollar"),
    Relation("currency_unit", "money", CLDR, COMPUTED, "the unit in the currency's name, its last word: Dollar in Canadian Dollar"),
    Relation("country_official_language", "language", CLDR, STATED, "official in the whole country, by law or in fact"),
    Relation("country_regional_language", "language", CLDR, STATED, "official in a part of the country"),
    Relation("country_other_language", "language", CLDR, STATED, "not official, used by one person in twenty or more"),
    Relation("language_script", "language", CLDR, STATED, "the script the language is most likely written in"),
    Relation("language_homeland", "language", CLDR, STATED, "the country the language is most likely met in"),
    Relation("country_first_weekday", "custom", CLDR, STATED, "the day a week begins with"),
    Relation("country_clock", "custom", CLDR, STATED, "12-hour or 24-hour clock in short times"),
    Relation("country_date_order", "custom", CLDR, STATED, "order of day, month and year in short dates"),
    Relation("country_decimal_mark", "custom", CLDR, STATED, "the mark before decimals"),
    Relation("country_thousands_mark", "custom", CLDR, STATED, "the mark between thousands"),
)
NAMES = tuple(relation.name for relation in RELATIONS)

# (first, second, third): first/second ≈ third where the sources that state them do not know of each other.
INDEPENDENT_COMPOSITIONS: tuple[tuple[str, str, str], ...] = (
    ("city_timezone", "timezone_country", "city_country"),
    ("airport_timezone", "timezone_country", "airport_country"),
    ("airport_city", "city_timezone", "airport_timezone"),
    ("airport_city", "city_country", "airport_country"),
    ("country_currency", "currency_unit", "country_money"),
    ("country_subregion", "region_part_of", "country_continent"),
    ("country_capital", "city_timezone", "^timezone_country"),
)
