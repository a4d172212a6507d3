from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from relcode.analysis.codes import RelationCodes, Sparsity, codes_of
from relcode.errors import MissingExtra, OutputError
from relcode.graph.vocab import Vocab
from relcode.plots.heatmap import caption, draw_codes, save_codes

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture
def codes() -> RelationCodes:
    names = Vocab(["currency_of_gdp", "currency_of_budget", "film_country"], "relation")
    return codes_of(torch.tensor([[1.0, 0], [3, 1], [0, 2], [2, 0], [1, 1], [0, 5]]), names)


def test_the_picture_shows_the_shares_with_names_and_units(codes: RelationCodes) -> None:
    figure = draw_codes(codes, title="Codes of a test")
    axes, bar = figure.axes[0], figure.axes[-1]
    names = [label.get_text() for label in axes.get_yticklabels()]
    shown = axes.images[0].get_array().data
    for name, row in zip(names, shown.tolist(), strict=True):
        assert row == codes.share_SC[codes.short.index(name)].tolist()
    assert sorted(names) == sorted(codes.short)
    assert "Codes of a test" in figure.get_suptitle()
    assert axes.get_xlabel() and axes.get_ylabel() and "share of code" in bar.get_ylabel()
    assert axes.images[0].get_cmap().name == "cividis"
    assert axes.images[0].get_clim() == (0, 1)


def test_the_scale_ends_at_the_next_tenth() -> None:
    names = Vocab(["a"], "relation")
    for code, end in [([0.31, 0.35, 0.34], 0.4), ([0.6, 0.4, 0.0], 0.6), ([0.0, 0.0, 0.0], 0.1)]:
        assert draw_codes(codes_of(torch.tensor([code, [0.0] * 3], dtype=torch.float64), names)).axes[0].images[0].get_clim() == (0, end)


def test_dimensions_are_headed_by_their_words(codes: RelationCodes) -> None:
    (top,) = draw_codes(codes).axes[0].child_axes
    assert [label.get_text().split(",")[0] for label in top.get_xticklabels()] == ["currency", "film"]


def test_a_picture_is_written(codes: RelationCodes, tmp_path: Path) -> None:
    save_codes(codes, tmp_path / "codes.png")
    assert (tmp_path / "codes.png").read_bytes().startswith(b"\x89PNG")
    save_codes(codes, tmp_path / "codes.svg")
    assert "<svg" in (tmp_path / "codes.svg").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes.png", "codes.svg"]


def test_pyplot_is_left_alone(codes: RelationCodes) -> None:
    draw_codes(codes)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_many_relations_are_cut_to_the_strongest_and_it_says_so() -> None:
    many = codes_of(torch.eye(4).repeat(100, 1), Vocab([f"r{number}" for number in range(200)], "relation"))
    assert "120 of 400" in draw_codes(many).get_suptitle()


def test_a_place_that_cannot_be_written_is_one_line(codes: RelationCodes, tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        save_codes(codes, tmp_path / "nowhere" / "codes.png")


def test_a_missing_matplotlib_is_one_line(codes: RelationCodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"relcode\[analysis\]"):
        draw_codes(codes)


def test_caption_says_when_codes_are_zero() -> None:
    nan = float("nan")
    assert caption(Sparsity(nan, nan, 4, 4, 0)) == "All codes are zero"
    assert caption(Sparsity(0.71, 3.4, 1, 4, 2)) == "The two largest entries hold 71% of a code, 3.4 entries exceed 10 %; 1 codes are zero"
