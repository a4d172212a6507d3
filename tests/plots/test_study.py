from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relcode.errors import OutputError
from relcode.plots.study import LABELS, draw_discovery, draw_necessity, save_discovery, save_necessity
from relcode.studies.discovery import Discovery, DiscoveryReport
from relcode.studies.necessity import Necessity, NecessityReport, effects

pytest.importorskip("matplotlib")


def discovery() -> DiscoveryReport:
    first = Discovery("r/s", "t", 0.0, 0, 12, 0, 18, 0.9, 1.0, 1.0, 6.0, 0.2, 0.3, 1.0, 1.0, 1.0, 12, 8)
    return DiscoveryReport((first, replace(first, part=1.0, rank_allowed=2.0, counted_rank_allowed=4.5)))


def necessity() -> NecessityReport:
    ranks = {f"{arm}_rank": 1.0 for arm in ("run", "nothing", "named", "random")}
    odds = {"nothing_log_odds": 3.0, "named_log_odds": 1.0, "random_log_odds": 2.5}
    chance = {"nothing_likelihood": 0.9, "named_likelihood": 0.5, "random_likelihood": 0.8}
    rows = [Necessity(head="a", relation="r", tail="b", facts=5, removed=2, emptied=False, **ranks, **odds, **chance)] * 3
    return NecessityReport(tuple(effects(rows)), tuple(effects(rows)), tuple(rows), 5, 5, 0)


def test_discovery_shows_every_way_of_ranking() -> None:
    figure = draw_discovery(discovery(), title="Held-out discovery on tiny")
    (axes,), (legend,) = figure.axes, figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(LABELS.values())
    lines = {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines()}
    assert lines[LABELS["model"]] == [1, 0.5] and lines[LABELS["counting"]] == [1, pytest.approx(1 / 4.5)]
    assert "tiny" in axes.get_title() and "%" in axes.get_xlabel() and "1/rank" in axes.get_ylabel()


def test_necessity_shows_every_fact() -> None:
    report = necessity()
    report = replace(report, rows=(*report.rows, replace(report.rows[0], emptied=True)))
    (axes,) = draw_necessity(report).axes
    kept, emptied, mean = (dots.get_offsets() for dots in axes.collections)
    assert len(kept) == 3 and kept[0].tolist() == emptied[0].tolist() == mean[0].tolist() == [0.5, 2] and len(emptied) == 1
    assert "difference 1.50 nats (95 % interval 1.50 to 1.50)" in axes.get_title() and "nats" in axes.get_xlabel()


def test_files_are_written_in_the_form_asked_for(tmp_path: Path) -> None:
    save_discovery(discovery(), tmp_path / "a.svg")
    save_necessity(necessity(), tmp_path / "b.png")
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8") and (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OutputError, match=r"must end in \.png, \.svg or \.pdf"):
        save_necessity(necessity(), tmp_path / "b.gif")
