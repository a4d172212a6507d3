from __future__ import annotations

import pytest

from relcode.cli import show
from relcode.cli.show import print_table, progress_line

ROWS = [("airport_timezone/timezone_country", "airport_country", 1207, 0.723), ("a/b", "", 3, 0.5)]


def test_a_wide_window_gets_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    print_table(("path", "relation", "shared", "jaccard"), ROWS, right=("shared", "jaccard"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["path", "relation", "shared", "jaccard"] and lines[2].split() == [ROWS[0][0], ROWS[0][1], "1,207", "0.723"]


def test_a_narrow_window_gets_a_line_for_each_value(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "45")
    print_table(("path", "relation", "shared", "jaccard"), ROWS, right=("shared", "jaccard"))
    out = capsys.readouterr().out
    assert out.splitlines()[:4] == ["path      airport_timezone/timezone_country", "relation  airport_country", "shared    1,207", "jaccard   0.723"]
    assert out.split("\n\n")[1].splitlines() == ["path      a/b", "shared    3", "jaccard   0.500"]  # what is empty is left out


def test_numbers_alone_stay_a_table_and_no_rows_are_no_trouble(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("", "MRR", "n"), [("both", 0.5, 10)], right=("MRR", "n"))
    assert capsys.readouterr().out.splitlines()[2].split() == ["both", "0.500", "10"]
    print_table(("path", "shared"), [], right=("shared",))
    assert "path" in capsys.readouterr().out


def test_progress_in_a_pipe_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 12.0, 12.0, 13.0, 30.0, 30.0])
    monkeypatch.setattr(show.time, "monotonic", lambda: next(clock))
    with progress_line("facts explained") as progress:
        for done in (1, 2, 3, 4):
            progress(done, 4)
    assert capsys.readouterr().err.splitlines() == ["2 of 4 facts explained", "4 of 4 facts explained"]
