"""The whole story on the family tree: train, find that a parent's parent is a grandparent, predict the grandparents that were held out."""

from __future__ import annotations

from pathlib import Path

import relcode
from relcode.evaluation.baseline import most_frequent_answers
from relcode.evaluation.report import evaluate
from relcode.explore.compositions import constraints


def test_parent_of_parent_is_found_to_be_grandparent(family_run: Path) -> None:
    found = {(one.path, one.relation): one for one in constraints(relcode.load(family_run), 10, 0.4, "not-inverse").named()}
    rank = found["parent/parent", "grandparent"].rank
    assert rank is not None and rank <= 3  # of twelve; parent itself is always near


def test_grandparents_that_were_held_out_are_predicted(family_run: Path) -> None:
    model = relcode.load(family_run)
    report = model.evaluate("test")
    baseline = evaluate(most_frequent_answers(model.dataset), model.dataset, "test")
    assert report.both.mrr > 0.6 and report.both.hits[10] > 0.9
    assert report.both.mrr > 2 * baseline.both.mrr
    assert report.head.mrr > 0.5 and report.tail.mrr > 0.5  # in both directions


def test_the_path_answers_as_the_relation_does(family_run: Path) -> None:
    model = relcode.load(family_run)
    of_path = {one.entity for one in model.answer_path("Ada_4", "parent/parent", top=8)}
    known = {one.entity for one in model.answer_path("Ada_4", "parent/parent", top=100) if one.known}
    assert len(known) == 4 and len(of_path & known) >= 3
