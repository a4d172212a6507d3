from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_model import small_model

from relcode.errors import DataError, PathSyntaxError, RelcodeError, SettingError, UnknownName
from relcode.explore.names import Names
from relcode.explore.questions import Question, Wish, ask, ask_together, read_named_facts, read_questions
from relcode.graph.vocab import Vocab


def test_what_is_missing_is_asked_for() -> None:
    model = small_model()
    assert ask(model, Question(head="a", relation="r")).answers == model.predict_tails("a", "r").answers
    assert ask(model, Question(tail="a", relation="r")).answers == model.predict_heads("a", "r").answers
    assert ask(model, Question(head="a", tail="b")).answers == model.predict_relations("a", "b").answers
    assert ask(model, Question(head="a", path="r/s"), top=1, new=True).answers == model.answer_path("a", "r/s", 1, True).answers


@pytest.mark.parametrize(
    "given", [{}, {"head": "a"}, {"head": "a", "relation": "r", "tail": "b"}, {"tail": "a", "path": "r"}, {"relation": "r", "path": "r"}]
)
def test_what_is_no_question_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(SettingError, match="a question gives a head and a relation"):
        Question(**given)


def test_questions_asked_together_have_the_answers_they_have_alone() -> None:
    model = small_model()
    questions = [
        Question(head="a", relation="r"),
        Question(head="nobody", relation="r"),
        Question(tail="b", relation="^s"),
        Question(head="a", path="r/s"),
        Question(head="d", relation="r"),  # never trained
        Question(head="a", tail="b"),
        Question(head="c", relation="^r"),
        Question(head="a", relation="nothing"),
    ]
    wishes = [Wish(question, top=1 + place % 3, new=place % 2 == 0) for place, question in enumerate(questions)]
    found = ask_together(model, [*wishes, Wish(questions[0], top=0)])
    assert len(found) == len(wishes) + 1 and ask_together(model, []) == []
    for wish, one in zip(wishes, found, strict=False):
        try:
            expected = ask(model, wish.question, wish.top, wish.new)
        except UnknownName as error:
            assert isinstance(one, UnknownName) and str(one) == str(error)
        else:
            assert not isinstance(one, RelcodeError) and one.to_json() == expected.to_json()
    assert isinstance(found[-1], SettingError) and "top cannot be 0" in str(found[-1])


def test_questions_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.tsv"
    file.write_text("a\tr\nb\tr/^s\nb\t^s\n", encoding="utf-8")
    assert read_questions(small_model(), file) == [
        Question(head="a", relation="r"),
        Question(head="b", path="r/^s"),
        Question(head="b", relation="^s"),
    ]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"a\tr\nzz\tr\n", UnknownName, "q.tsv, line 2: unknown entity 'zz'"),
        (b"a\tr\nb\tr//s\n", PathSyntaxError, "q.tsv, line 2: path 'r//s'"),
        (b"a r\n", DataError, "q.tsv, line 1: 1 field"),
        (b"a\tr\tb\n", DataError, "q.tsv, line 1: 3 field"),
        (b"\xff\tr\n", DataError, "q.tsv, line 1: not UTF-8"),
        (b"", DataError, "q.tsv: empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: bytes, error: type[Exception], message: str) -> None:
    file = tmp_path / "q.tsv"
    file.write_bytes(content)
    with pytest.raises(error, match=message):
        read_questions(small_model(), file)


def test_questions_and_facts_are_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\tr\n")))
    assert read_questions(small_model(), "-") == [Question(head="a", relation="r")]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\t^r\tb\n")))
    assert read_named_facts(small_model(), "-") == [("a", "^r", "b")]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\tr\tb\na\tq\tb\n")))
    with pytest.raises(UnknownName, match="standard input, line 2: unknown relation 'q'"):
        read_named_facts(small_model(), "-")


def test_a_header_of_facts_to_score_is_left_out_unless_it_names_a_known_relation(tmp_path: Path) -> None:
    file, said = tmp_path / "facts.tsv", []
    file.write_text("tail\thead\trelation\nb\ta\tr\n", encoding="utf-8")
    assert read_named_facts(small_model(), file, said.append) == [("a", "r", "b")] and "names the columns (tail, head, relation)" in said[0]
    file.write_text("head\trelation\ttail\na\tr\tb\na\tq\tb\n", encoding="utf-8")
    with pytest.raises(UnknownName, match="line 3: unknown relation 'q'"):
        read_named_facts(small_model(), file)
    model = small_model()
    model.dataset = replace(model.dataset, relations=Vocab(["r", "type"], "relation"))
    model.names = Names(model.dataset)
    file.write_text("object\ttype\ta\na\tr\tb\n", encoding="utf-8")
    with pytest.raises(UnknownName, match="line 1: unknown entity 'object'"):
        read_named_facts(model, file)


@pytest.mark.parametrize("form", ["csv", "parquet", "nt"])
def test_facts_come_in_every_form_that_import_reads(tmp_path: Path, form: str) -> None:
    model, file, said = small_model(), tmp_path / f"facts.{form}", []
    if form == "csv":
        file.write_text("subject,predicate,object\na,r,b\nb,r,a\na,r,b\n", encoding="utf-8")
    elif form == "parquet":
        pq.write_table(pa.table({"head": ["a", "b", "a"], "relation": ["r"] * 3, "tail": ["b", "a", "b"]}), file)
    else:
        model.dataset = replace(model.dataset, prefixes={"ex": "http://x.org/"})
        model.dataset = replace(model.dataset, entities=Vocab(["ex:a", "ex:b", "c", "d"]), relations=Vocab(["ex:r", "s"], "relation"))
        model.names = Names(model.dataset)
        file.write_text("".join(f"<http://x.org/{h}> <http://x.org/r> <http://x.org/{t}> .\n" for h, t in ("ab", "ba", "ab")), encoding="utf-8")
    prefix = "ex:" if form == "nt" else ""
    expected = [tuple(prefix + name for name in fact) for fact in (("a", "r", "b"), ("b", "r", "a"), ("a", "r", "b"))]
    assert read_named_facts(model, file, said.append) == expected, "in order, and repeated facts as often as they come"
    assert bool(said) == (form != "nt"), "what was guessed is said"


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no /dev/fd here")
def test_facts_and_questions_come_through_pipes() -> None:
    """Which can be read only once: looking for their form would empty them."""

    def pipe(text: bytes) -> str:
        read, write = os.pipe()
        os.write(write, text)
        os.close(write)
        return f"/dev/fd/{read}"

    model = small_model()
    assert read_named_facts(model, pipe(b"a\tr\tb\nb\ts\tc\n")) == [("a", "r", "b"), ("b", "s", "c")]
    assert read_questions(model, pipe(b"a\tr\n")) == [Question(head="a", relation="r")]


def test_an_unknown_name_in_a_table_says_which_fact_it_is(tmp_path: Path) -> None:
    file = tmp_path / "facts.csv"
    file.write_text("head,relation,tail\na,r,b\na,r,zz\n", encoding="utf-8")
    with pytest.raises(UnknownName, match=r"facts.csv, fact 2: unknown entity 'zz'"):
        read_named_facts(small_model(), file)
    with pytest.raises(DataError, match=r"no such file|cannot be|No such"):
        read_named_facts(small_model(), tmp_path / "missing.csv")
    empty = tmp_path / "empty.csv"
    empty.write_text("head,relation,tail\n", encoding="utf-8")
    with pytest.raises(DataError, match="no facts"):
        read_named_facts(small_model(), empty)
