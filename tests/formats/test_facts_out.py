from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relcode.errors import SettingError
from relcode.formats import facts_out
from relcode.formats.facts_out import form_of, iri_of, name_of, write_rows

COLUMNS: dict[str, type] = {"head": str, "relation": str, "tail": str, "probability": float, "score": float}
NAMES = ["Bilbao", 'a, "b"', "Zürich/ö", "日本 🗾", "שלום", "<script>", "x;y", "50 %"]
ROWS = [
    {"head": name, "relation": "r/of it", "tail": "T", "probability": None if place == 1 else 0.5 + place / 100, "score": -1.25 * place}
    for place, name in enumerate(NAMES)
]


def written(tmp_path: Path, form: str) -> Path:
    path = tmp_path / f"facts.{form}"
    assert write_rows(path, form, iter(ROWS), COLUMNS) == len(ROWS)
    return path


def test_text_forms_can_be_read_back(tmp_path: Path) -> None:
    lines = written(tmp_path, "tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == list(COLUMNS)
    assert [line.split("\t")[0] for line in lines[1:]] == NAMES
    assert lines[2].split("\t")[3] == "" and float(lines[3].split("\t")[3]) == 0.52
    with written(tmp_path, "csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["head"] for row in rows] == NAMES and [float(row["score"]) for row in rows] == [row["score"] for row in ROWS]
    records = [json.loads(line) for line in written(tmp_path, "jsonl").read_text(encoding="utf-8").splitlines()]
    assert records == ROWS


def test_parquet_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_out, "BATCH", 3)
    assert pq.read_table(written(tmp_path, "parquet")).to_pylist() == ROWS
    assert pq.ParquetFile(tmp_path / "facts.parquet").num_row_groups == 3


def test_n_triples_are_three_iris_that_name_the_fact(tmp_path: Path) -> None:
    lines = written(tmp_path, "nt").read_text(encoding="ascii").splitlines()
    assert lines[0] == "<urn:relcode:entity:Bilbao> <urn:relcode:relation:r%2Fof%20it> <urn:relcode:entity:T> ."
    assert [name_of(line.split()[0].strip("<>")) for line in lines] == NAMES


def test_n_triples_are_read_by_others(tmp_path: Path) -> None:
    pyoxigraph = pytest.importorskip("pyoxigraph")
    path = written(tmp_path, "nt")
    triples = list(pyoxigraph.parse(path.read_bytes(), format=pyoxigraph.RdfFormat.N_TRIPLES))
    assert [name_of(triple.subject.value) for triple in triples] == NAMES


def test_iris_stay_and_prefixes_are_written_out() -> None:
    assert iri_of("http://example.org/a#b", "entity") == "http://example.org/a#b"
    assert iri_of("wd:Q42", "entity", {"wd": "http://www.wikidata.org/entity/"}) == "http://www.wikidata.org/entity/Q42"
    assert iri_of("note: see", "entity") == "urn:relcode:entity:note%3A%20see"  # a space, so no IRI
    assert name_of(iri_of("urn:relcode:entity:x", "relation")) == "urn:relcode:entity:x"


@given(st.text(min_size=1), st.text(min_size=1), st.sampled_from(["entity", "relation"]))
def test_no_name_is_lost_and_no_two_meet(one: str, other: str, kind: str) -> None:
    try:
        one.encode(), other.encode()
    except UnicodeEncodeError:
        return  # half a surrogate pair is no name
    first, second = iri_of(one, kind), iri_of(other, kind)  # type: ignore[arg-type]
    assert name_of(first) == one and (first == second) == (one == other)
    assert not set(first) & set('<>"{}|^`\\ \n\t')


def test_the_form_follows_the_ending_or_the_wish() -> None:
    assert [form_of(Path(f"a.{ending}")) for ending in ("TSV", "csv", "ndjson", "parquet", "nt")] == ["tsv", "csv", "jsonl", "parquet", "nt"]
    assert form_of(Path("a.txt"), "csv") == "csv"
    with pytest.raises(SettingError, match="does not tell its form"):
        form_of(Path("a.txt"))
    with pytest.raises(SettingError, match="unknown form 'xml'"):
        form_of(Path("a.txt"), "xml")


def test_no_rows_are_a_file_too(tmp_path: Path) -> None:
    for form in ("tsv", "csv", "jsonl", "parquet", "nt"):
        assert write_rows(tmp_path / form, form, [], COLUMNS) == 0
    assert pq.read_table(tmp_path / "parquet").column_names == list(COLUMNS)
