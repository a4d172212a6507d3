"""Short names for IRIs, and back: ``http://www.w3.org/2004/02/skos/core#broader`` is ``skos:broader`` where ``skos`` stands for its beginning.

The rule that makes it reversible: no prefix is the scheme of an IRI that stays whole. So a name is an IRI itself, or a prefix, a colon and the
rest; and texts that begin with ``_:`` (blank nodes) or ``"`` (literals) are neither.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MOST_GUESSED = 100  # namespaces nobody declared that get a prefix, the most frequent first
MOST_COMPARED = 10_000  # namespaces that are compared with the declared ones
FEWEST_NAMES = 2  # names in such a namespace

WELL_KNOWN = {
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs",
    "http://www.w3.org/2001/XMLSchema#": "xsd",
    "http://www.w3.org/2002/07/owl#": "owl",
    "http://www.w3.org/2004/02/skos/core#": "skos",
    "http://www.w3.org/ns/prov#": "prov",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dct",
    "http://xmlns.com/foaf/0.1/": "foaf",
    "http://schema.org/": "schema",
    "https://schema.org/": "schemas",
    "http://dbpedia.org/ontology/": "dbo",
    "http://dbpedia.org/property/": "dbp",
    "http://dbpedia.org/resource/": "dbr",
    "http://www.wikidata.org/entity/": "wd",
    "http://www.wikidata.org/prop/direct/": "wdt",
    "http://yago-knowledge.org/resource/": "yago",
    "http://www.opengis.net/ont/geosparql#": "geo",
    "http://rdf.freebase.com/ns/": "fb",
    "http://purl.obolibrary.org/obo/": "obo",
}


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes chosen for some names: by prefix, and for each namespace that occurs what to write instead of it."""

    namespaces: Mapping[str, str]
    replacement: Mapping[str, str]

    def shorten(self, name: str) -> str:
        """Return the short form of an IRI, or the text itself."""
        if name.startswith(("_:", '"')):
            return name
        cut = namespace_end(name)
        short = self.replacement.get(name[:cut])
        return name if short is None else short + name[cut:]


def expand(name: str, namespaces: Mapping[str, str]) -> str:
    """Return the IRI (or blank node, or literal) that a short name stands for."""
    if name.startswith(("_:", '"')):
        return name
    prefix, colon, rest = name.partition(":")
    return namespaces[prefix] + rest if colon and prefix in namespaces else name


def namespace_end(iri: str) -> int:
    """Return where the last part of an IRI begins: after the last ``#``, else the last ``/``, else the last ``:``."""
    return (iri.rfind("#") + 1) or (iri.rfind("/") + 1) or (iri.rfind(":") + 1)


def choose_prefixes(names: Iterable[str], declared: Sequence[Mapping[str, str]] = ()) -> Prefixes:
    """Choose prefixes for IRIs: those declared in the files (in order), then well-known ones, then ns1, ns2, … for what is frequent."""
    counts: Counter[str] = Counter(name[: namespace_end(name)] for name in names if not name.startswith(("_:", '"')))
    wishes = _wanted(declared)
    home = {namespace: "" for namespace in counts}
    home |= {namespace: _longest(namespace, wishes) for namespace, _ in counts.most_common(MOST_COMPARED)}
    used = dict.fromkeys(value for value in home.values() if value)
    frequent = [namespace for namespace, count in counts.most_common() if not home[namespace] and (count >= FEWEST_NAMES or namespace in WELL_KNOWN)]
    frequent = [namespace for namespace in frequent if namespace in WELL_KNOWN or namespace.endswith(("#", "/"))]
    for namespace in sorted(frequent, key=lambda one: (-counts[one], one))[:MOST_GUESSED]:
        home[namespace] = namespace
        used[namespace] = None
    taken = {namespace.partition(":")[0] for namespace, value in home.items() if not value} | {"_"}  # schemes of what stays whole
    prefix_of: dict[str, str] = {}
    for namespace in used:
        prefix_of[namespace] = _free(wishes.get(namespace) or WELL_KNOWN.get(namespace), taken)
        taken.add(prefix_of[namespace])
    replacement = {namespace: f"{prefix_of[value]}:{namespace[len(value) :]}" for namespace, value in home.items() if value}
    return Prefixes({prefix: namespace for namespace, prefix in prefix_of.items()}, replacement)


def _wanted(declared: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return namespace → prefix as declared, the first declaration of a namespace first; nonsense is left out."""
    wanted: dict[str, str] = {}
    for prefixes in declared:
        for prefix, namespace in prefixes.items():
            if namespace and re.fullmatch(r"[\w.-]*", prefix):
                wanted.setdefault(namespace, prefix)
    return wanted


def _longest(namespace: str, wanted: Mapping[str, str]) -> str:
    """Return the longest declared namespace that a namespace begins with, or nothing."""
    if namespace in wanted:
        return namespace
    return max((one for one in wanted if namespace.startswith(one)), key=len, default="")


def _free(wish: str | None, taken: set[str]) -> str:
    """Return the prefix wished for, or one like it that is not taken yet; ns1, ns2, … where there is no wish."""
    if wish and wish not in taken:
        return wish
    stem, number = wish or "ns", 2 if wish else 1
    while f"{stem}{number}" in taken:
        number += 1
    return f"{stem}{number}"
