from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from relcode.errors import DataError, MissingExtra
from relcode.formats import pykeen
from relcode.formats.importing import import_facts
from relcode.graph.dataset import dataset_from_facts, load_dataset

FACTS = [("a", "r", "b"), ("b", "r", "c"), ("a", "s", "c")]
GROUPS = ("pykeen.triples.extension_importer", "pykeen.triples.prefix_importer")


def factory() -> SimpleNamespace:
    """What of a triples factory is looked at."""
    return SimpleNamespace(
        mapped_triples=torch.tensor([[2, 1, 0], [0, 1, 1], [2, 0, 1]]), entity_to_id={"a": 2, "b": 0, "c": 1}, relation_to_id={"r": 1, "s": 0}
    )


def test_a_triples_factory_comes_in() -> None:
    assert import_facts(factory(), split=False).dataset.fingerprint == dataset_from_facts(FACTS).fingerprint
    nameless = factory()
    nameless.mapped_triples[0, 0] = 7
    with pytest.raises(DataError, match="the number 7 for a head, which has no name"):
        import_facts(nameless)


def test_importers_read_all_facts_with_iris_written_out(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text("".join(f"<http://x/{h}> <http://x/{r}> <http://x/{t}> .\n" for h, r, t in FACTS), encoding="utf-8")
    found = pykeen.nt(str(path))
    assert isinstance(found, np.ndarray) and found.dtype.kind == "U"
    assert {tuple(row) for row in found.tolist()} == {tuple(f"http://x/{name}" for name in fact) for fact in FACTS}
    assert len(pykeen.relcode("world")) == sum(len(load_dataset("world").split(split)) for split in ("train", "valid", "test"))


@pytest.fixture
def found() -> dict[str, Any]:
    """Our importers, as an installed relcode tells of them."""
    found = {entry.name: entry.load() for group in GROUPS for entry in entry_points(group=group) if entry.value.startswith("relcode.")}
    if not found:
        pytest.skip("relcode was installed before it had entry points for PyKEEN: install it again")
    return found


def test_importers_are_called_what_pykeen_looks_for(found: dict[str, Any]) -> None:
    assert {"nt", "ttl", "rdf", "parquet", "relcode"} <= set(found)
    assert all(function.__name__.replace(".", "_") == name for name, function in found.items())


def test_without_pykeen_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pykeen.datasets", "pykeen.datasets.base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="needs pykeen, which is not installed"):
        pykeen.to_pykeen(dataset_from_facts(FACTS))


def test_pykeen_itself_reads_and_is_read(tmp_path: Path, found: dict[str, Any]) -> None:
    triples = pytest.importorskip("pykeen.triples", reason="PyKEEN is not installed")
    path = tmp_path / "a.nt"
    path.write_text("".join(f"<http://x/{h}> <http://x/{r}> <http://x/{t}> .\n" for h, r, t in FACTS), encoding="utf-8")
    read = triples.TriplesFactory.from_path(path)
    assert read.num_triples == 3 and set(read.entity_to_id) == {"http://x/a", "http://x/b", "http://x/c"}
    dataset = load_dataset("world")
    handed = pykeen.to_pykeen(dataset)
    assert handed.training.num_triples == len(dataset.train) and handed.validation.num_triples == len(dataset.valid)
    assert import_facts(handed.training, valid=handed.validation, test=handed.testing).dataset.fingerprint == dataset.fingerprint
