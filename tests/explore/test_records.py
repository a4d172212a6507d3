from __future__ import annotations

from small_model import small_dataset, small_model

from relcode.explore.records import Answer, Answers, record_table


def test_answers_print_as_lines() -> None:
    answers = small_model(labels={"b": "Bee"}).predict_tails("a", "r", top=2)
    lines = repr(answers).splitlines()
    assert lines[0] == "a  r  ?" and len(lines) == 3
    assert lines[1].split() == ["1", "Bee", f"{answers[0].score:.3f}", "known"] and str(answers) == repr(answers)
    relations = repr(small_model().predict_relations("a", "b", top=1))
    assert relations.startswith("a  ?  b\n   1  ")


def test_no_answers_and_notes_are_said() -> None:
    text = repr(Answers({"tail": "a", "relation": "r"}, (), Answer, "be careful"))
    assert text == "?  r  a\nno answers\n(be careful)"


def test_a_dataset_prints_its_sizes() -> None:
    assert repr(small_dataset()) == "Dataset('small': 4 entities, 2 relations; facts: train 3, valid 1, test 1)"


def test_a_table_of_nothing_has_its_columns() -> None:
    assert record_table((), Answer).column_names[:3] == ["rank", "entity", "label"]
