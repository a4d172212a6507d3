from __future__ import annotations

from pathlib import Path

import pytest

import relcode
from relcode.errors import SettingError
from relcode.explore.compositions import constraints
from relcode.graph.dataset import Dataset


def test_a_dataset_has_counts_and_no_ranks(family: Dataset) -> None:
    found = {(one.path, one.relation): one for one in constraints(family, 10, 0.4, "not-inverse").named()}
    one = found["parent/parent", "grandparent"]
    assert (one.rank, one.cosine) == (None, None) and "rank" not in one.to_json()
    # The path joins every pair of grandchild and grandparent; train lacks the 24 held out.
    pairs = {(h, t) for h, t in family.train[family.train[:, 1] == family.relations.index("grandparent")][:, [0, 2]].tolist()}
    assert (one.shared, one.confidence) == (len(pairs), pytest.approx(len(pairs) / (len(pairs) + 24)))


def test_a_run_adds_what_its_matrices_say(family_run: Path) -> None:
    from_model = constraints(relcode.load(family_run), 10, 0.4, "not-inverse").named()
    from_folder = constraints(str(family_run), 10, 0.4, "not-inverse").named()
    assert from_model == from_folder
    assert all(one.rank is not None and 1 <= one.rank <= 12 and -1 <= (one.cosine or 0) <= 1 for one in from_model)


def test_rules_are_written_in_both_forms(family: Dataset) -> None:
    found = constraints(family, 10, 0.4, "paper")
    assert any(line.endswith("grandparent(X,Y) <= parent(X,A), parent(A,Y)") for line in found.rule_lines("anyburl"))
    assert any("?a  parent  ?f  ?f  parent  ?b   => ?a  grandparent  ?b" in line for line in found.rule_lines("amie"))
    with pytest.raises(SettingError, match="unknown form of rules 'prolog': known are amie, anyburl"):
        found.rule_lines("prolog")
