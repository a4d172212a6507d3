"""Vectors in other programs' files: read back with those programs' own readers where they are here, by their formats' rules where not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from relcode.errors import OutputError, SettingError
from relcode.formats import export
from relcode.formats.export import Vectors, term, write_npz, write_ntriples, write_parquet, write_projector, write_safetensors, write_word2vec
from relcode.ops.diagonal import whole_array

NAMES = ("a b", "é\tq", "^x", "</y>", "😀", '"z"\n')
WRITERS = [write_safetensors, write_npz, write_parquet, write_projector, write_word2vec]


def vectors(codes: bool = True, names: tuple[str, ...] = NAMES, block: int = 3) -> Vectors:
    """Return vectors of 3 numbers, of 6 where ``block`` is 2."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    return Vectors(
        entities=names,
        relations=("r", "s/t", "^r", "^<s/t>"),
        labels={"é\tq": "a label\nof two lines"},
        head_ED=draw(len(names), 3 if block == 3 else 6),
        tail_ED=draw(len(names), 3 if block == 3 else 6),
        matrix_SDD=draw(4, 3 if block == 3 else 6, block),
        code_SC=draw(4, 2) if codes else None,
        about={"recipe": "joint"},
    )


@pytest.mark.parametrize("codes", [True, False])
def test_safetensors_hold_arrays_names_and_orientation(tmp_path: Path, codes: bool) -> None:
    from safetensors import safe_open

    given = vectors(codes)
    write_safetensors(given, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", framework="np") as handle:
        assert {name: handle.get_tensor(name).tolist() for name in handle.keys()} == {  # noqa: SIM118
            name: array.tolist() for name, array in given.arrays().items()
        }
        told = json.loads(handle.metadata()["relcode"])
    assert tuple(told["entities"]) == NAMES and tuple(told["relations"]) == given.relations and "head[h] @ matrix[r] @ tail[t]" in told["orientation"]
    assert ("code" in given.arrays()) == codes


def test_npz_needs_no_pickle(tmp_path: Path) -> None:
    write_npz(vectors(), tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as found:
        assert tuple(found["entities"].tolist()) == NAMES and tuple(found["relations"].tolist()) == vectors().relations
        assert all(np.array_equal(found[name], array) for name, array in vectors().arrays().items())


def by_hand(given: Vectors) -> np.ndarray:
    """Return matrices of three blocks of 2×2 whole, each number put in its place."""
    found = np.zeros((4, 6, 6), dtype=np.float32)
    for i in range(6):
        for j in range(2):
            found[:, i, i // 2 * 2 + j] = given.matrix_SDD[:, i, j]
    return found


@pytest.mark.parametrize("form", ["safetensors", "npz"])
def test_matrices_of_blocks_are_written_as_these(tmp_path: Path, form: str) -> None:
    """And the lines of docs/export.md make them whole, and score without that."""
    given = vectors(block=2)
    if form == "npz":
        write_npz(given, tmp_path / "x")
        with np.load(tmp_path / "x", allow_pickle=False) as found:
            array = dict(found)
    else:
        from safetensors import safe_open

        write_safetensors(given, tmp_path / "x")
        with safe_open(tmp_path / "x", framework="np") as handle:
            array = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
            told = json.loads(handle.metadata()["relcode"])
        assert told["block"] == 2 and "block[r, 0]" in told["orientation"] and "head[h] @ matrix[r] @ tail[t]" in told["orientation"]
    assert array["block"].shape == (4, 3, 2, 2) and array["block"].dtype == np.float32 and "matrix" not in array
    text = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith(("matrix = ", "print(np.einsum("))]
    assert len(lines) == 2
    for r in range(4):
        shown: list[float] = []
        place = {"np": np, "r": r, "h": 1, "t": 2, "print": shown.append, **array}
        exec("\n".join(lines), place)
        assert np.array_equal(place["matrix"], by_hand(given)[r])
        assert shown == [pytest.approx(given.head_ED[1] @ by_hand(given)[r] @ given.tail_ED[2], rel=1e-5)]


@pytest.mark.parametrize("rows", [1, 3])
def test_parquet_has_them_whole_however_many_rows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE_BYTES", rows * 160)
    given, made = vectors(block=2), []
    monkeypatch.setattr(export, "whole_array", lambda part: made.append(len(part)) or whole_array(part))
    write_parquet(given, tmp_path / "x")
    found = pq.read_table(tmp_path / "x" / "relations.parquet")
    assert np.array_equal(np.array(found["matrix"].to_pylist(), dtype=np.float32).reshape(4, 6, 6), by_hand(given))
    assert max(made) == rows and "block" not in json.loads(found.schema.metadata[b"relcode"])


def test_npz_refuses_names_that_would_fill_the_disk(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="use --format parquet"):
        write_npz(vectors(names=("x" * 100_000_000, "y")), tmp_path / "x.npz")
    with pytest.raises(SettingError, match="use --format parquet"):
        write_npz(vectors(names=("x\0", "x")), tmp_path / "x.npz")  # NumPy drops NULs at the end
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_parquet_has_a_row_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE_BYTES", rows * 45)
    given = vectors()
    write_parquet(given, tmp_path / "x")
    entities, relations = pq.read_table(tmp_path / "x" / "entities.parquet"), pq.read_table(tmp_path / "x" / "relations.parquet")
    assert tuple(entities["name"].to_pylist()) == NAMES and entities["label"].to_pylist()[:2] == [None, "a label\nof two lines"]
    assert np.array_equal(np.array(entities["head"].to_pylist(), dtype=np.float32), given.head_ED)
    assert np.array_equal(np.array(entities["tail"].to_pylist(), dtype=np.float32), given.tail_ED)
    assert np.array_equal(np.array(relations["matrix"].to_pylist(), dtype=np.float32).reshape(4, 3, 3), given.matrix_SDD)
    assert np.array_equal(np.array(relations["code"].to_pylist(), dtype=np.float32), given.code_SC)
    assert json.loads(relations.schema.metadata[b"relcode"])["recipe"] == "joint"


def test_the_projectors_files_have_as_many_lines_as_points(tmp_path: Path) -> None:
    given = vectors()
    write_projector(given, tmp_path / "x")
    rows = [line.split("\t") for line in (tmp_path / "x" / "entities.tsv").read_text().splitlines()]
    assert np.array_equal(np.array(rows, dtype=np.float32), given.head_ED)
    names = (tmp_path / "x" / "entities_names.tsv").read_text(encoding="utf-8").split("\n")
    assert names[0] == "name\tlabel" and names[2] == "é q\ta label of two lines" and len(names) == len(NAMES) + 2
    config = (tmp_path / "x" / "projector_config.pbtxt").read_text()
    assert all((tmp_path / "x" / name.strip('"')).exists() for name in config.split() if ".tsv" in name) and config.count("embeddings {") == 2


def test_word2vec_text_is_read_by_its_rules(tmp_path: Path) -> None:
    given = vectors()
    write_word2vec(given, tmp_path / "x.txt")
    first, *lines = (tmp_path / "x.txt").read_text(encoding="utf-8").splitlines()
    assert first == "6 3" and [line.split(" ")[0] for line in lines] == ["a_b", "é_q", "^x", "</y>", "😀", '"z"_']
    assert np.array_equal(np.array([line.split(" ")[1:] for line in lines], dtype=np.float32), given.head_ED)


@pytest.mark.parametrize("names", [("a b", "a_b"), ("", "x")])
def test_word2vec_refuses_names_it_cannot_tell_apart(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(SettingError, match="use --format parquet"):
        write_word2vec(vectors(names=names), tmp_path / "x.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", WRITERS)
def test_what_exists_is_not_written_over_and_a_failure_leaves_nothing(tmp_path: Path, write, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        write(vectors(), tmp_path / "x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="exists already"):
        write(vectors(), tmp_path / "link")
    with pytest.raises(OutputError, match="cannot write"):
        write(vectors(), tmp_path / "x" / "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "x"] and (tmp_path / "x").read_text() == "mine"


# -- N-Triples


@pytest.mark.parametrize(
    ("name", "kind", "prefixes", "expected"),
    [
        ("Lyon", "entity", {}, "<urn:relcode:entity:Lyon>"),
        ("a b/é", "relation", {}, "<urn:relcode:relation:a%20b%2F%C3%A9>"),
        ("http://x.org/a", "entity", {}, "<http://x.org/a>"),
        ("http://x.org/a b", "entity", {}, "<urn:relcode:entity:http%3A%2F%2Fx.org%2Fa%20b>"),
        ("http://x.org/> <http://evil/", "entity", {}, "<urn:relcode:entity:http%3A%2F%2Fx.org%2F%3E%20%3Chttp%3A%2F%2Fevil%2F>"),
        ("wd:Q1", "entity", {"wd": "http://www.wikidata.org/entity/"}, "<http://www.wikidata.org/entity/Q1>"),
        ("wd:Q1", "entity", {}, "<urn:relcode:entity:wd%3AQ1>"),
        ("_:b1", "entity", {}, "_:b1"),
        ("_:b1", "relation", {}, "<urn:relcode:relation:_%3Ab1>"),
        ('"x"@en', "entity", {}, '"x"@en'),
        ('"1"^^<http://www.w3.org/2001/XMLSchema#int>', "entity", {}, '"1"^^<http://www.w3.org/2001/XMLSchema#int>'),
        ('"x" . <a> <b> <c>', "entity", {}, "<urn:relcode:entity:%22x%22%20.%20%3Ca%3E%20%3Cb%3E%20%3Cc%3E>"),
        ('"x\n"', "entity", {}, "<urn:relcode:entity:%22x%0A%22>"),
        ("", "entity", {}, "<urn:relcode:entity:>"),
    ],
)
def test_names_become_terms(name: str, kind: str, prefixes: dict[str, str], expected: str) -> None:
    assert term(name, kind, prefixes) == expected


def test_every_line_is_one_triple_for_a_parser_whatever_the_names(tmp_path: Path) -> None:
    ox = pytest.importorskip("pyoxigraph")
    facts = [(head, relation, tail, 0.25) for head in NAMES for relation in ("r", "s t", "a>b") for tail in (*NAMES, "_:b", '"l"@fr')]
    assert write_ntriples(facts, tmp_path / "x.nt", base="https://example.org/kb/") == len(facts)
    triples = list(ox.parse(path=str(tmp_path / "x.nt"), format=ox.RdfFormat.N_TRIPLES))
    assert len(triples) == len(facts) and len({str(triple.predicate) for triple in triples}) == 3
    assert (tmp_path / "x.nt").read_text().splitlines()[0].endswith(" . # probability 0.2500")
    with pytest.raises(SettingError, match="is no IRI"):
        write_ntriples(facts, tmp_path / "y.nt", base="> <")
