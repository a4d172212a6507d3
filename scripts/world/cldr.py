"""What Unicode CLDR says, read through babel: names, money, languages, customs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cache

from babel import Locale, UnknownLocaleError
from babel.core import get_global

# Country (code), relation and what is stated of it.
Row = tuple[str, str, str]

ENGLISH = Locale("en")
OTHER_LANGUAGE_PERCENT = 5.0
FORMER_CURRENCY_SINCE = 1945
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DECIMAL_MARKS = {".": "Decimal point", ",": "Decimal comma", "\u066b": "Arabic decimal mark"}
THOUSANDS_MARKS = {
    ".": "Thousands point",
    ",": "Thousands comma",
    "\u066c": "Arabic thousands mark",
    "\u00a0": "Thousands space",
    "\u202f": "Thousands space",
    "\u2019": "Thousands apostrophe",
    "'": "Thousands apostrophe",
}
DATE_ORDERS = {"dmy": "Day, month, year", "mdy": "Month, day, year", "ymd": "Year, month, day", "ydm": "Year, day, month"}


def territory_name(code: str) -> str:
    """Return the English name of a region."""
    name: str = ENGLISH.territories[code]
    return name


def currency_name(code: str) -> str:
    """Return the English name of a currency."""
    name: str = ENGLISH.currencies[code]
    return name


def currency_unit(code: str) -> str:
    """Return the last word of the currency's name, years in brackets aside: Ruble of Russian Ruble (1991 to 1998)."""
    return currency_name(code).split(" (")[0].split()[-1]


def language_name(code: str) -> str:
    """Return the English name of a language."""
    name: str = ENGLISH.languages[code]
    return name


def offset_name(offset: timedelta) -> str:
    """Return an offset from UTC as people write it, such as UTC-03:30."""
    minutes = round(offset.total_seconds() / 60)
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


@cache
def _old_names() -> dict[str, list[str]]:
    """Return zone -> names it had before (CLDR keeps old names as its keys)."""
    old: dict[str, list[str]] = {}
    for alias, zone in sorted(get_global("zone_aliases").items()):
        old.setdefault(zone, []).append(alias)
    return old


def metazone(zone: str) -> str | None:
    """Return what people call the zone's time, such as Central European Time; None where CLDR gives no name."""
    zones = get_global("meta_zones")
    found = next((zones[name] for name in (zone, *_old_names().get(zone, ())) if name in zones), None)
    names = ENGLISH.meta_zones.get(found, {}).get("long", {}) if found else {}
    name: str | None = names.get("generic") or names.get("standard")
    return name


def currencies(countries: Iterable[str]) -> Iterator[Row]:
    """Yield (relation, country, currency): legal tender today, and former tender that two countries or more shared."""
    table = get_global("territory_currencies")
    former: set[tuple[str, str]] = set()
    for code in countries:
        rows = [(name, end) for name, _, end, tender in table.get(code, ()) if tender and name in ENGLISH.currencies]
        now = {name for name, end in rows if end is None}
        for name in sorted(now):
            yield "country_currency", code, name
        former |= {(code, name) for name, end in rows if end and end[0] > FORMER_CURRENCY_SINCE and name not in now}
    shared = Counter(name for _, name in former)
    for code, name in sorted(former):
        if shared[name] > 1:
            yield "country_former_currency", code, name


def languages(countries: Iterable[str]) -> Iterator[Row]:
    """Yield (relation, country, language), each language of a country once, under the most official of its three relations."""
    relation_of = {
        "official": "country_official_language",
        "de_facto_official": "country_official_language",
        "official_regional": "country_regional_language",
        None: "country_other_language",
    }
    strength = list(dict.fromkeys(relation_of.values()))
    for code in countries:
        best: dict[str, str] = {}
        for tag, row in sorted(get_global("territory_languages").get(code, {}).items()):
            language, relation = tag.split("_")[0], relation_of[row["official_status"]]
            too_few = relation == "country_other_language" and row["population_percent"] < OTHER_LANGUAGE_PERCENT
            if too_few or language not in ENGLISH.languages:
                continue
            best[language] = min(best.get(language, relation), relation, key=strength.index)
        for language, relation in sorted(best.items()):
            yield relation, code, language


def likely(language: str) -> tuple[str | None, str | None]:
    """Return the English name of the language's likeliest script, and its likeliest country's code."""
    _, script, home = [*get_global("likely_subtags").get(language, "").split("_"), "", ""][:3]
    return ENGLISH.scripts.get(script), home or None


def _locale(country: str) -> Locale | None:
    """Return the locale of the country's most used official language that CLDR has data for."""
    rows = get_global("territory_languages").get(country, {})
    official = [(-row["population_percent"], tag) for tag, row in rows.items() if row["official_status"] in ("official", "de_facto_official")]
    for _, tag in sorted(official):
        try:
            found = Locale.parse(f"{tag}_{country}")
        except (UnknownLocaleError, ValueError):
            continue
        if found.territory == country:
            return found
    return None


def customs(countries: Iterable[str]) -> Iterator[Row]:
    """Yield (relation, country, custom), as the locale of the country's main official language has it."""
    for code in countries:
        locale = _locale(code)
        if locale is None:
            continue
        date, time = locale.date_formats["short"].pattern, locale.time_formats["short"].pattern
        order = "".join(dict.fromkeys(c for c in date.lower() if c in "dmy"))
        # Some locales name digits of their own but keep the marks under Latin digits.
        symbols = {**locale.number_symbols["latn"], **locale.number_symbols.get(locale.default_numbering_system, {})}
        yield "country_first_weekday", code, WEEKDAYS[locale.first_week_day]
        yield "country_clock", code, "24-hour clock" if "H" in time else "12-hour clock"
        yield "country_date_order", code, DATE_ORDERS[order]
        yield "country_decimal_mark", code, DECIMAL_MARKS[symbols["decimal"]]
        yield "country_thousands_mark", code, THOUSANDS_MARKS[symbols["group"]]
