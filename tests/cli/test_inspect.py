from __future__ import annotations

import json
from pathlib import Path

import pytest

import relcode as package


def test_codes_show_heatmap_sparsity_and_dimensions(relcode, family_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = relcode("codes", family_run)
    assert result.code == 0 and "grandparent" in result.out and "The two largest entries hold" in result.out
    assert "no two relations share the first part of their names" in result.out and "most frequent domain" not in result.out
    monkeypatch.setattr("relcode.analysis.topics.domain", lambda name: name[-1])  # as if some did
    result = relcode("codes", family_run)
    assert "Is a dimension one topic?" in result.out and "most frequent domain" in result.out and "by chance (p = " in result.out
    assert max(map(len, relcode("codes", family_run, "--top", 1).out.split("What each")[0].splitlines())) <= 100


def test_codes_as_json(relcode, family_run: Path) -> None:
    record = json.loads(relcode("codes", family_run, "--json", "--top", 2).out)
    assert [len(record["relations"]), len(record["dimensions"])] == [12, 4]
    assert all(len(one["strongest"]) <= 2 for one in record["dimensions"])
    assert record["sparsity"]["relations"] == 12
    assert 0 < record["topics"]["p_value"] <= 1 and len(record["topics"]["topics"]) <= 4
    assert all(one["code_cosine"] >= 0.9 for one in record["alike"])


def test_codes_as_files(relcode, family_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    result = relcode("codes", family_run, "--png", tmp_path / "codes.png", "--html", tmp_path / "codes.html")
    assert result.code == 0 and "codes.png" in result.err
    assert (tmp_path / "codes.png").read_bytes().startswith(b"\x89PNG") and "grandparent" in (tmp_path / "codes.html").read_text(encoding="utf-8")


def test_codes_against_another_run(relcode, family_run: Path) -> None:
    pytest.importorskip("scipy")
    result = relcode("codes", family_run, "--against", family_run, "--json")
    assert json.loads(result.out)["against"]["agreement"] == pytest.approx(1)
    assert "agreement 1.000" in relcode("codes", family_run, "--against", family_run).out


def test_a_run_without_codes_says_so(relcode, family, tmp_path: Path) -> None:
    package.train(family, "base", out=tmp_path / "run", dim=4, epochs=1, edges=64, progress=False, device="cpu", settings={"sampling.tile": 8})
    result = relcode("codes", tmp_path / "run")
    assert (result.code, result.out) == (2, "") and "no autoencoder" in result.err


def test_constraints_of_a_dataset_and_of_a_run(relcode, family_run: Path) -> None:
    text = relcode("constraints", family_run, "--min-pairs", 10).out
    assert "parent/parent" in text and "cosine" in text and "mean rank of the relation" in text
    record = json.loads(relcode("constraints", family_run, "--min-pairs", 10, "--json").out)
    assert {"path", "relation", "shared", "jaccard", "rank"} <= set(record["compositions"][0])
    world = relcode("constraints", "world")
    assert world.code == 0 and "city_timezone/timezone_country" in world.out and "cosine" not in world.out
    rules = relcode("constraints", family_run, "--min-pairs", 10, "--rules", "anyburl").out
    assert "grandparent(X,Y) <= parent(X,A), parent(A,Y)" in rules


def test_where_no_composition_is_found_the_limits_are_named_and_no_table_is_drawn(relcode, family_run: Path) -> None:
    lines = relcode("constraints", family_run, "--min-pairs", 10_000, "--min-jaccard", 0.5).out.splitlines()
    assert lines == [
        "0 compositions in the training facts of family (filter paper, 10000 pairs, Jaccard 0.5)",
        "to find some, lower --min-pairs (here 10000) or --min-jaccard (here 0.5), or take --filter all",
        "the model proposes no other whose path joins 10000 pairs or more (--min-pairs)",
    ]
    assert "--filter" not in relcode("constraints", "world", "--min-pairs", 10_000, "--filter", "all").out


def test_a_run_proposes_and_shows_pairs_for_and_against(relcode, family_run: Path) -> None:
    result = relcode("constraints", family_run, "--min-pairs", 10, "--examples", 2, "--propose", 2)
    assert result.code == 0 and "parent/parent = grandparent" in result.out and "  for      " in result.out and "  against  " in result.out
    assert "Proposed by the model" in result.out and "looking for what the model proposes" in result.err
    record = json.loads(relcode("constraints", family_run, "--min-pairs", 10, "--examples", 2, "--json").out)
    one = next(one for one in record["compositions"] if (one["path"], one["relation"]) == ("parent/parent", "grandparent"))
    assert len(one["examples"]) == len(one["counter_examples"]) == 2 and set(one["examples"][0]) == {"head", "middle", "tail"}
    assert 0 < one["head_coverage"] <= 1 and isinstance(record["proposed"], list)


def test_nearest_relations_of_every_pair(relcode, family_run: Path) -> None:
    lines = relcode("constraints", family_run, "--nearest", 2, "--filter", "not-inverse").out.splitlines()
    assert lines[0].split("\t") == ["r1", "r2", "nearest", "place", "cosine"] and len(lines) > 50
    rows = [line.split("\t") for line in lines[1:]]
    assert ["parent", "parent"] in [row[:2] for row in rows] and {row[3] for row in rows} == {"1", "2"}
    assert all(row[2] not in row[:2] for row in rows)
    assert "asked of a run" in relcode("constraints", "world", "--nearest", 2).err


def test_the_papers_evaluation_of_several_runs(relcode, family_run: Path) -> None:
    result = relcode("constraints", family_run, family_run, "--evaluate", "--list", "not-inverse", "--min-pairs", 10)
    assert result.code == 0 and "mean of 2" in result.out and "± deviation" in result.out and "chance" in result.out
    record = json.loads(relcode("constraints", family_run, family_run, "--evaluate", "--min-pairs", 10, "--json").out)
    assert record["deviation"]["mrr"] == 0 and record["mean"]["mrr"] == record["runs"][0]["mrr"] > record["mean"]["random_mrr"]
    alone = json.loads(relcode("constraints", family_run, "--evaluate", "--min-pairs", 10, "--json").out)
    assert alone["deviation"]["mr"] is None and alone["runs"][0] == record["runs"][0]


def test_runs_on_other_facts_are_not_compared(relcode, family_run: Path, tmp_path: Path) -> None:
    facts = [("a", "r", "b"), ("b", "r", "c")]
    package.train(facts, "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, progress=False, device="cpu")
    result = relcode("constraints", family_run, tmp_path / "run", "--evaluate")
    assert result.code == 2 and "was trained on other facts" in result.err
    assert "no composition with 50 shared pairs" in relcode("constraints", tmp_path / "run", "--evaluate").err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("world",), "takes one dataset or run, not 2"),
        (("--nearest", 2, "--json"), "choose one"),
        (("--filter", "none"), "unknown filter 'none'"),
        (("--rules", "prolog"), "unknown form of rules 'prolog'"),
        (("--rules", "amie", "--json"), "choose one"),
        (("--min-pairs", 0), "min_pairs is 0"),
        (("--min-jaccard", 2), "min_jaccard is 2"),
    ],
)
def test_constraints_refuse(relcode, family_run: Path, options: tuple[object, ...], message: str) -> None:
    result = relcode("constraints", family_run, *options)
    assert (result.code, result.out) == (2, "") and message in result.err


def test_a_map_of_two_runs(relcode, family_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("relcode.analysis.maps._umap", lambda data, *_: data[:, :2].double())  # UMAP takes long to load; it has its own tests
    result = relcode("map", family_run, family_run, "--png", tmp_path / "map.png")
    assert result.code == 0 and "participation ratio" in result.out and f"wrote {tmp_path / 'map.png'}" in result.err
    assert "laying out 12 points of" in result.err and "2 of 2" in result.err and (tmp_path / "map.png").stat().st_size > 1000
    assert "say where to draw" in relcode("map", family_run).err
    first, second = json.loads(relcode("map", family_run, family_run, "--json").out)
    assert first == second and len(first["points"]) == 12 and {"name", "x", "y", "frequency"} <= set(first["points"][0])
    assert 1 <= first["participation_ratio"] <= first["most_ratio"]


@pytest.mark.parametrize("kind", [(), ("--entities",)])
def test_a_map_can_be_laid_out_elsewhere(relcode, family_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, ...]) -> None:
    monkeypatch.setattr("relcode.analysis.maps._umap", lambda data, *_: data[:, :2].double())
    file = tmp_path / "map.safetensors"
    result = relcode("map", family_run, *kind, "--points", file)
    assert (result.code, result.out) == (0, "") and f"wrote {file}" in result.err
    ((there,), (here,)) = (json.loads(relcode("map", place, *kind, "--json").out) for place in (file, family_run))
    assert {**there, "run": ""} == {**here, "run": ""} and len(there["points"]) > 10
    assert "ends in .safetensors" in relcode("map", family_run, "--points", tmp_path / "map.json").err
    assert "one run" in relcode("map", family_run, family_run, "--points", file).err


def test_a_file_that_holds_no_map_is_refused(relcode, family_run: Path, tmp_path: Path) -> None:
    weights = next(family_run.glob("*.safetensors"), None) or next((family_run / "checkpoints").glob("*.safetensors"))
    assert "holds no map" in relcode("map", weights, "--json").err
    (tmp_path / "x.safetensors").write_bytes(b"nonsense")
    assert "damaged" in relcode("map", tmp_path / "x.safetensors", "--json").err


@pytest.mark.parametrize("command", ["codes", "map"])
@pytest.mark.parametrize(
    ("option", "name", "message"),
    [("--png", "x.foo", "must end in .png, .svg or .pdf"), ("--png", "x", "must end in"), ("--html", "x.png", "must end in .html")],
)
def test_files_of_another_kind_are_refused_before_any_work(relcode, tmp_path: Path, command: str, option: str, name: str, message: str) -> None:
    result = relcode(command, tmp_path / "no-run", option, tmp_path / name)
    assert (result.code, result.out) == (2, "") and message in result.err and not list(tmp_path.iterdir())
