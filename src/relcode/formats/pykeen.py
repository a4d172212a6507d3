"""PyKEEN: its triples factories in, our datasets out, and the importers it looks for.

PyKEEN finds importers of files by entry points: ``pykeen.triples.extension_importer`` by the ending of a file and
``pykeen.triples.prefix_importer`` by what a path begins with. Both take their key from the *function's name*, not from the entry point's; hence the
names of the functions made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from relcode.errors import DataError, MissingExtra
from relcode.formats.prefixes import expand
from relcode.graph.facts import COLUMNS

if TYPE_CHECKING:
    from relcode.graph.dataset import Dataset

Triples = np.ndarray[Any, np.dtype[np.str_]]


def is_factory(one: Any) -> bool:
    """Tell whether something is a triples factory with names."""
    return all(hasattr(one, name) for name in ("mapped_triples", "entity_to_id", "relation_to_id"))


def table_of_factory(factory: Any) -> pa.Table:
    """Return the facts of a triples factory as a table of names. Inverse triples are not stored in it, so there are none to leave out."""
    numbers_N3 = factory.mapped_triples.cpu().numpy()
    names = [_names(mapping) for mapping in (factory.entity_to_id, factory.relation_to_id, factory.entity_to_id)]
    columns = []
    for position, column in enumerate(names):
        number_N = numbers_N3[:, position]
        if len(number_N) and (number_N.min() < 0 or number_N.max() >= len(column)):
            raise DataError(f"the triples factory uses the number {int(number_N.max())} for a {COLUMNS[position]}, which has no name in it")
        columns.append(column.take(pa.array(number_N)))
    return pa.table(columns, names=list(COLUMNS))


def _names(mapping: Mapping[str, int]) -> pa.Array:
    """Return names by number; numbers that have none are null."""
    names: list[str | None] = [None] * (max(mapping.values(), default=-1) + 1)
    for name, number in mapping.items():
        names[number] = str(name)
    return pa.array(names, pa.large_utf8())


def to_pykeen(dataset: Dataset) -> Any:
    """Return a dataset as PyKEEN's: three triples factories with our numbers and names. Facts whose entity train lacks are kept, as here."""
    try:
        from pykeen.datasets.base import EagerDataset
        from pykeen.triples import TriplesFactory
    except ImportError:
        raise MissingExtra("pykeen", "compare", "handing a dataset over to PyKEEN") from None
    entity_to_id = {name: number for number, name in enumerate(dataset.entities)}
    relation_to_id = {name: number for number, name in enumerate(dataset.relations)}
    factories = [
        TriplesFactory(dataset.split(split).clone(), entity_to_id=entity_to_id, relation_to_id=relation_to_id) for split in ("train", "test", "valid")
    ]
    return EagerDataset(*factories, metadata={"name": dataset.name})


def load_triples(where: str) -> Triples:
    """Read all facts of a source, or of a dataset by name, as PyKEEN wants them: an array of texts [N, 3], no fact twice, IRIs written out."""
    from relcode.formats.importing import import_facts

    dataset = import_facts(where, split=False).dataset
    facts_N3 = np.concatenate([dataset.split(split).numpy() for split in ("train", "valid", "test")])
    entities, relations = (
        np.array([expand(name, dataset.prefixes) for name in vocab], dtype=object) for vocab in (dataset.entities, dataset.relations)
    )
    return np.stack([entities[facts_N3[:, 0]], relations[facts_N3[:, 1]], entities[facts_N3[:, 2]]], axis=1).astype(str)


def _importer(name: str) -> Callable[[str], Triples]:
    """Return a function that reads a source for PyKEEN, called ``name``: PyKEEN goes by what it is called."""

    def importer(path: str) -> Triples:
        return load_triples(path)

    importer.__name__ = importer.__qualname__ = name
    importer.__doc__ = f"Read a file that ends in .{name} for PyKEEN."
    return importer


nt, nq, ttl, trig, rdf = (_importer(ending) for ending in ("nt", "nq", "ttl", "trig", "rdf"))
nt_gz, ttl_gz, parquet, feather = (_importer(ending) for ending in ("nt.gz", "ttl.gz", "parquet", "feather"))
relcode = _importer("relcode")
