from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import relcode as package


def test_evaluate_prints_one_json_object_with_the_promised_keys(relcode, family_run: Path) -> None:
    result = relcode("evaluate", family_run, "--json")
    assert (result.code, result.err) == (0, "")
    record = json.loads(result.out)
    keys = {"mr", "mrr", "hits@1", "hits@3", "hits@10", "n", "unseen"}
    assert {"protocol", "split", "head", "tail", "seen_only", *keys} <= set(record)
    assert all(keys <= set(record[part]) for part in ("head", "tail", "seen_only"))
    assert (record["protocol"], record["split"], record["n"], record["head"]["n"]) == ("realistic", "test", 24, 12)
    assert 0 <= record["hits@10"] <= 1
    assert record == json.loads(json.dumps(package.load(family_run).evaluate().to_json()))


def test_evaluate_another_split_and_protocol_by_relation(relcode, family_run: Path) -> None:
    record = json.loads(relcode("evaluate", family_run, "--split", "valid", "--protocol", "paper", "--relations", "--memory", "50MB", "--json").out)
    assert (record["protocol"], record["split"], list(record["relations"])) == ("paper", "valid", ["grandparent"])
    text = relcode("evaluate", family_run, "--relations").out
    assert "family test, protocol realistic: 12 facts" in text and "grandparent" in text and "MRR" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "dev"), "unknown split 'dev': known are train, valid, test"),
        (("--protocol", "mine"), "unknown protocol 'mine': known are realistic, paper"),
        (("--memory", "lots"), "memory cannot be 'lots'"),
        (("--memory", "10"), "too few to rank in"),
    ],
)
def test_evaluate_refuses_what_there_is_not(relcode, family_run: Path, options: tuple[str, ...], message: str) -> None:
    result = relcode("evaluate", family_run, *options)
    assert result.code == 2 and result.out == "" and result.err.count("\n") == 1 and message in result.err


def test_predict_prints_the_record_of_the_model(relcode, family_run: Path) -> None:
    model = package.load(family_run)
    result = relcode("predict", family_run, "--head", "Ada_4", "--relation", "grandparent", "--top", 4, "--json")
    assert json.loads(result.out) == model.predict_tails("Ada_4", "grandparent", top=4).to_json()
    result = relcode("predict", family_run, "--tail", "Ada_1", "--relation", "grandparent", "--new", "--json")
    assert json.loads(result.out) == model.predict_heads("Ada_1", "grandparent", new=True).to_json()
    result = relcode("predict", family_run, "--head", "Ada_1", "--relation", "^parent", "--json")
    assert json.loads(result.out) == model.predict_tails("Ada_1", "^parent").to_json()
    result = relcode("predict", family_run, "--head", "Ada_4", "--path", "parent/^parent", "--json")
    assert json.loads(result.out) == model.answer_path("Ada_4", "parent/^parent").to_json()
    result = relcode("predict", family_run, "--head", "Ada_4", "--tail", "Abe_4", "--json")
    assert json.loads(result.out) == model.predict_relations("Ada_4", "Abe_4").to_json()


def test_predict_marks_known_answers(relcode, family_run: Path) -> None:
    lines = relcode("predict", family_run, "--head", "Ada_4", "--relation", "sibling", "--top", 70).out.splitlines()
    assert lines[0] == "Ada_4  sibling  ?"
    (known,) = [line for line in lines if line.endswith("known") and "rank" not in line]
    assert "Abe_4" in known
    assert "label" not in lines[1]  # where labels say nothing new


def test_many_questions_from_a_file_or_standard_input(relcode, family_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = package.load(family_run)
    content = "Ada_4\tgrandparent\nAda_4\tparent/parent\n"
    (tmp_path / "q.tsv").write_text(content)
    rows = [line.split("\t") for line in relcode("predict", family_run, "--queries", tmp_path / "q.tsv", "--top", 2).out.splitlines()]
    assert rows[0] == ["head", "path", "rank", "entity", "label", "score", "known", "probability"]
    assert [row[:3] for row in rows[1:]] == [["Ada_4", path, rank] for path in ("grandparent", "parent/parent") for rank in ("1", "2")]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))
    lines = relcode("predict", family_run, "--queries", "-", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [
        model.predict_tails("Ada_4", "grandparent").to_json(),
        model.answer_path("Ada_4", "parent/parent").to_json(),
    ]


def test_a_bad_question_among_many_prints_nothing(relcode, family_run: Path, tmp_path: Path) -> None:
    (tmp_path / "q.tsv").write_text("Ada_4\tgrandparent\nAda_44\tgrandparent\n")
    result = relcode("predict", family_run, "--queries", tmp_path / "q.tsv")
    assert (result.code, result.out) == (2, "") and "q.tsv, line 2: unknown entity 'Ada_44': did you mean 'Ada_4'" in result.err
    assert relcode("predict", family_run, "--queries", tmp_path / "q.tsv", "--head", "Ada_4").code == 2


def test_an_unseen_entity_is_said(relcode, tmp_path: Path) -> None:
    facts = {"train": [("a", "r", "b"), ("b", "r", "c")], "valid": [("a", "r", "c")], "test": [("z", "r", "a")]}
    package.train(package.dataset_from_facts(facts), "base", out=tmp_path / "run", dim=2, epochs=1, edges=4, tile=2, progress=False, device="cpu")
    result = relcode("predict", tmp_path / "run", "--head", "z", "--relation", "r")
    assert result.code == 0 and "'z' never occurred in training" in result.err and "no answers" in result.out
    assert "note" in json.loads(relcode("predict", tmp_path / "run", "--head", "z", "--relation", "r", "--json").out)
    result = relcode("evaluate", tmp_path / "run")
    assert result.code == 0 and "seen only" in result.out and "1 fact holds an entity never trained" in result.err


def test_score_gives_each_fact_its_score_and_ranks(relcode, family_run: Path, tmp_path: Path) -> None:
    facts = [("Ada_4", "grandparent", "Ada_2"), ("Ada_4", "grandparent", "Bob_1")]
    (tmp_path / "facts.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    expected = package.load(family_run).score_facts(facts)
    result = relcode("score", family_run, tmp_path / "facts.tsv", "--json")
    assert [json.loads(line) for line in result.out.splitlines()] == [one.to_json() for one in expected]
    rows = [line.split("\t") for line in relcode("score", family_run, tmp_path / "facts.tsv").out.splitlines()]
    assert rows[0][:5] == ["head", "relation", "tail", "score", "rank"]
    assert float(rows[1][3]) == pytest.approx(expected[0].score, rel=1e-4) and float(rows[1][4]) == expected[0].rank


def test_score_names_the_line_of_an_unknown_name(relcode, family_run: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("Ada_4\tgrandparent\tAda_2\nAda_4\tgranparent\tAda_2\n")
    result = relcode("score", family_run, tmp_path / "facts.tsv")
    assert (result.code, result.out) == (2, "") and "facts.tsv, line 2: unknown relation 'granparent': did you mean 'grandparent'" in result.err
