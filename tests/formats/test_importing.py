from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from formats.writers import WRITERS, iri, table, triples
from hypothesis import given, settings
from hypothesis import strategies as st

import relcode
from relcode.errors import DataError, OutputError, SettingError
from relcode.formats.importing import import_facts
from relcode.formats.prefixes import expand
from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset
from relcode.graph.vocab import SortedVocab

Fact = tuple[str, str, str]
FACTS = [("a", "knows", "b"), ("b", "knows", "c"), ("ç 🙂", "likes", "a"), ("a", "likes", "b"), ("a", "knows", "b")]

# No space at the ends (OpenKE's files cannot keep it), no line breaks or tabs (no name may have them).
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=6)


def facts_of(dataset: Dataset) -> set[Fact]:
    every = torch.cat([dataset.train, dataset.valid, dataset.test]).tolist()
    return {(dataset.entities[h], dataset.relations[r], dataset.entities[t]) for h, r, t in every}


def expanded(dataset: Dataset) -> set[Fact]:
    return {tuple(expand(name, dataset.prefixes) for name in fact) for fact in facts_of(dataset)}  # type: ignore[misc]


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_facts_come_out_of_every_form(name: str, tmp_path: Path) -> None:
    write, is_rdf = WRITERS[name]
    write(tmp_path / name, FACTS)
    imported = import_facts(tmp_path / name, split=False, out=tmp_path / "out")
    expected = {tuple(iri(n) for n in fact) for fact in FACTS} if is_rdf else set(FACTS)
    assert expanded(imported.dataset) == expected
    assert imported.summary.sources[0].facts == 5 and imported.dataset.duplicates["train"] == 1
    again = load_dataset(tmp_path / "out")
    assert again.fingerprint == imported.dataset.fingerprint and again.prefixes == imported.dataset.prefixes
    if not is_rdf:
        assert again.fingerprint == dataset_from_facts(FACTS).fingerprint


@settings(max_examples=15)
@given(facts=st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=12), rng=st.randoms(use_true_random=False))
@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("a.csv.zst", "a.nt.gz", "a.nt.zst", "a.feather", "b.tsv")])
def test_any_names_survive_and_the_order_of_lines_does_not_show(
    tmp_path_factory: pytest.TempPathFactory, name: str, facts: list[Fact], rng: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("round")
    write, is_rdf = WRITERS[name]
    write(folder / name, facts)
    header = {"header": False} if name.endswith((".tsv", ".gz")) else {}  # a name may happen to be "head"
    first = import_facts(folder / name, split=False, **header).dataset
    assert expanded(first) == ({tuple(iri(n) for n in fact) for fact in facts} if is_rdf else set(facts))
    (folder / "other").mkdir()
    write(folder / "other" / name, rng.sample(facts, len(facts)))
    second = import_facts(folder / "other" / name, split=False, **header).dataset
    assert second.fingerprint == first.fingerprint and second.duplicates == first.duplicates


def test_in_memory_sources_are_the_same_too() -> None:
    expected = dataset_from_facts(FACTS).fingerprint
    dictionary = table(FACTS).set_column(1, "relation", table(FACTS)["relation"].dictionary_encode())
    for source in (table(FACTS), dictionary, FACTS, dataset_from_facts(FACTS)):
        assert import_facts(source, split=False).dataset.fingerprint == expected
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    assert import_facts(pd.DataFrame(FACTS, columns=["s", "p", "o"]), split=False).dataset.fingerprint == expected


def test_the_door_of_the_package_is_the_same_function() -> None:
    assert relcode.import_facts is import_facts


def test_splits_are_kept_or_made(tmp_path: Path) -> None:
    (tmp_path / "train.nt").write_text(triples(FACTS[:2]), encoding="utf-8")
    (tmp_path / "valid.nt").write_text(triples(FACTS[2:3]), encoding="utf-8")
    (tmp_path / "test.ttl").write_text(triples(FACTS[3:4]), encoding="utf-8")
    kept = import_facts(tmp_path).dataset
    assert [len(kept.split(split)) for split in ("train", "valid", "test")] == [2, 1, 1]
    named = import_facts(tmp_path / "train.nt", valid=tmp_path / "valid.nt", test=tmp_path / "test.ttl").dataset
    assert named.fingerprint == kept.fingerprint
    ring = [(f"e{i}", f"r{step}", f"e{(i + step) % 60}") for i in range(60) for step in (1, 2, 3)]
    (tmp_path / "ring.txt").write_text("".join("\t".join(fact) + "\n" for fact in ring), encoding="utf-8")
    assert import_facts(tmp_path / "ring.txt").dataset.fingerprint == load_dataset(tmp_path / "ring.txt").fingerprint


def test_labels_come_from_rdf_or_from_their_file(tmp_path: Path) -> None:
    lines = '<http://x/a> <http://x/r> <http://x/b> .\n<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> "{}"{} .\n'
    for label, language, expected in (("Ada", "@en", "Ada"), ("Ada", "", "Ada"), ("Ada", "@fr", None), ("A\\nb", "@en-GB", "A b")):
        path = tmp_path / "l.nt"
        path.write_text(lines.format(label, language), encoding="utf-8")
        dataset = import_facts(path, split=False).dataset
        assert dataset.labels.get("ns1:a") == expected
    (tmp_path / "d").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "d" / f"{split}.txt").write_text("a\tr\tb\n", encoding="utf-8")
    (tmp_path / "d" / "labels.tsv").write_text("a\tAda\nzz\tnobody\n", encoding="utf-8")
    stored = import_facts(tmp_path / "d", out=tmp_path / "o").dataset
    assert dict(stored.labels) == {"a": "Ada"} and stored.label(0) == "Ada"
    assert dict(import_facts(tmp_path / "o", out=tmp_path / "o2").dataset.labels) == {"a": "Ada"}


def test_blank_nodes_of_two_files_are_not_the_same(tmp_path: Path) -> None:
    for name in ("a.nt", "b.nt"):
        (tmp_path / name).write_text("_:x <http://x/r> <http://x/a> .\n_:x <http://x/r> <http://x/b> .\n", encoding="utf-8")
    both = import_facts(tmp_path / "a.nt", tmp_path / "b.nt", split=False).dataset
    assert [name for name in both.entities if name.startswith("_:")] == ["_:1.x", "_:2.x"]
    alone = import_facts(tmp_path / "a.nt", split=False).dataset
    assert "_:x" in alone.entities and len(alone.train) == 2
    (tmp_path / "c.ttl").write_text("<http://x/a> <http://x/r> [ <http://x/r> [] ] .", encoding="utf-8")
    first, second = (import_facts(tmp_path / "c.ttl", split=False).dataset for _ in range(2))
    assert first.fingerprint == second.fingerprint and {"_:b0", "_:b1"} <= set(first.entities)


def test_what_was_skipped_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.nq"
    path.write_text('<http://x/a> <http://x/r> "l" .\n<http://x/a> <http://x/r> <http://x/b> <http://g/1> .\nnonsense\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.nq, line 3: not N-Quads"):
        import_facts(path)
    summary = import_facts(path, split=False, skip_bad=True).summary
    assert summary.sources[0].skipped == {"literals (keep them with --literals)": 1, "not N-Quads": 1}
    assert any("1 facts were in named graphs" in note for note in summary.notes)
    kept = import_facts(path, split=False, skip_bad=True, literals=True).dataset
    assert '"l"' in kept.entities and len(kept.train) == 2


def test_mistakes_get_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tr\tb\n", encoding="utf-8")
    (tmp_path / "some.foo").write_text("hello\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        import_facts(tmp_path / "a.tsv", out=tmp_path / "out")
    with pytest.raises(SettingError, match="unknown option 'literal'"):
        import_facts(tmp_path / "a.tsv", literal=True)
    with pytest.raises(SettingError, match="unknown format 'ntripels'"):
        import_facts(tmp_path / "a.tsv", form="ntripels")
    with pytest.raises(DataError, match="of which format"):
        import_facts(tmp_path / "some.foo")
    with pytest.raises(DataError, match="no such folder or file"):
        import_facts(tmp_path / "none.tsv")
    with pytest.raises(DataError, match="no file of facts"):
        import_facts(tmp_path / "out")
    with pytest.raises(SettingError, match="name at least one source"):
        import_facts()
    with pytest.raises(DataError, match=r"no facts \(skipped: 1 literals"):
        (tmp_path / "l.nt").write_text('<http://x/a> <http://x/r> "l" .\n', encoding="utf-8")
        import_facts(tmp_path / "l.nt")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_folder_of_files_is_one_dataset_and_splits_do_not_mix_with_others(tmp_path: Path) -> None:
    (tmp_path / "one.nt").write_text(triples(FACTS[:2]), encoding="utf-8")
    (tmp_path / "two.nt.gz").write_bytes(__import__("gzip").compress(triples(FACTS[2:]).encode()))
    (tmp_path / "readme.md").write_text("not facts", encoding="utf-8")
    assert len(import_facts(tmp_path, split=False).dataset.train) == 4
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "train.nt").write_text(triples(FACTS), encoding="utf-8")
    with pytest.raises(DataError, match="some sources are splits"):
        import_facts(tmp_path / "s", tmp_path / "one.nt")


def test_names_lie_in_mapped_memory(tmp_path: Path) -> None:
    dataset = import_facts(FACTS, split=False, out=tmp_path / "o").dataset
    assert isinstance(dataset.entities, SortedVocab) and isinstance(dataset.entities.array, pa.LargeStringArray)
    dataset.train[0, 0] = 1  # a private map: the file stays as it is
    assert load_dataset(tmp_path / "o").fingerprint == dataset_from_facts(FACTS).fingerprint


def test_a_dataset_is_named_after_its_folder(tmp_path: Path) -> None:
    """Not after the file: files called facts.tsv are many."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "facts.tsv").write_text("a\tr\tb\nb\tr\ta\n", encoding="utf-8")
        source, out = tmp_path / name / "facts.tsv", tmp_path / f"kb-{name}"
        assert import_facts(source, out=out, split=False).dataset.name == load_dataset(out).name == f"kb-{name}"
    assert import_facts(source, split=False).dataset.name == "facts"
    assert import_facts(source, out=tmp_path / "other", name="mine", split=False).dataset.name == "mine"
