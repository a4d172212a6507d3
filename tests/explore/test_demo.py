from __future__ import annotations

from pathlib import Path

import relcode
from relcode.explore.demo import demo_settings, findings, fresh_folder


def test_folders_are_fresh(tmp_path: Path) -> None:
    assert fresh_folder(tmp_path) == tmp_path / "demo-1"
    (tmp_path / "demo-1").mkdir()
    assert fresh_folder(tmp_path) == tmp_path / "demo-2"


def test_the_quick_settings_differ_in_length_only_where_they_say_so() -> None:
    assert demo_settings().recipe == demo_settings(quick=True).recipe == "default"
    assert demo_settings(quick=True).training.epochs == 3 and demo_settings().training.epochs is None  # chosen from the data


def test_findings_cover_everything_the_demonstration_shows(family_run: Path) -> None:
    found = findings(relcode.load(family_run, device="cpu"))
    assert found.report.both.mrr > found.baseline.both.mrr
    assert 0 < len(found.new_facts) <= 10
    assert found.codes is not None and found.compositions.min_pairs == 50
