"""From what a person types to numbers: entities by name or by label, relations by name or ^name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from relcode.errors import SettingError, UnknownName
from relcode.formats.prefixes import namespace_end
from relcode.graph.dataset import Dataset
from relcode.graph.paths import format_path, parse_path, relation_id
from relcode.graph.vocab import Vocab

LISTED = 5  # at most this many of the entities that share a label are named in a message


class AmbiguousName(UnknownName):
    """A label that several entities have."""

    def __init__(self, label: str, names: Sequence[str]) -> None:
        """Name the entities that have the label."""
        super().__init__("entity", label, [])
        listed = ", ".join(repr(name) for name in names[:LISTED]) + (", …" if len(names) > LISTED else "")
        self.args = (f"the label {label!r} belongs to {len(names)} entities: give one of their names, {listed}",)


def in_prefixes(iri: str, prefixes: Mapping[str, str], known: Vocab) -> str:
    """Return a whole IRI as a vocabulary with these prefixes (prefix to namespace) has it: itself where it is known or no namespace fits."""
    begins = max((one for one in prefixes.items() if iri[: namespace_end(iri)].startswith(one[1])), key=lambda one: len(one[1]), default=None)
    return iri if iri in known or begins is None else f"{begins[0]}:{iri[len(begins[1]) :]}"


def check_text(what: str, name: object) -> None:
    """Refuse a name that is no text, such as the number of an entity."""
    if not isinstance(name, str):
        raise SettingError(f"{what} is given as text; got {' '.join(repr(name).split())[:80]} ({type(name).__name__})")


class Names:
    """The names of a dataset as people use them."""

    def __init__(self, dataset: Dataset) -> None:
        """Take the vocabularies and labels; nothing is indexed before it is asked for."""
        self.dataset = dataset

    def entity(self, text: str) -> int:
        """Return the number of the entity called ``text``, by its name or, where that is unknown, by a label that no other entity has."""
        check_text("an entity", text)
        entities = self.dataset.entities
        if text in entities:
            return entities.index(text)
        holders = self._holders.get(text, ())
        if len(holders) == 1:
            return entities.index(holders[0])
        if holders:
            raise AmbiguousName(text, holders)
        known = [*entities.close_names(text), *(self._labels.close_names(text) if self._holders else ())]
        raise UnknownName("entity", text, known)

    def relation(self, text: str) -> int:
        """Return the directed number of one relation, ``r`` or ``^r``."""
        check_text("a relation", text)
        return relation_id(text, self.dataset.relations)

    def path(self, text: str) -> tuple[int, ...]:
        """Return the directed numbers of a path such as ``r1/^r2/r3``."""
        check_text("a path", text)
        return parse_path(text, self.dataset.relations)

    def path_text(self, path: Sequence[int]) -> str:
        """Write directed relations as a path that can be read back."""
        return format_path(path, self.dataset.relations)

    @cached_property
    def _holders(self) -> Mapping[str, Sequence[str]]:
        """The entities that have each label."""
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for name, label in self.dataset.labels.items():
            holders[label].append(name)
        return holders

    @cached_property
    def _labels(self) -> Vocab:
        """The labels as a vocabulary, for its search of close names."""
        return Vocab(list(self._holders), "entity")
