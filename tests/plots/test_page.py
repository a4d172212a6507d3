from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relcode.analysis.codes import codes_of
from relcode.analysis.maps import PointMap
from relcode.errors import MissingExtra
from relcode.graph.vocab import Vocab
from relcode.plots.page import codes_page, maps_page, save_page

pytest.importorskip("plotly")

NASTY = "<script>alert(1)</script>"
CODES = codes_of(torch.tensor([[1.0, 0], [3, 1], [2, 0], [1, 1]]), Vocab(["film_country", NASTY], "relation"))


def points() -> PointMap:
    names = ("film_country", NASTY, "^film_country", f"^{NASTY}")
    return PointMap(NASTY, "relation", names, names, torch.eye(4)[:, :2].double(), torch.tensor([1, 10, 100, 1000]), 2.0, 3, 2, "UMAP")


@pytest.mark.parametrize("page", [codes_page(CODES, title="Codes & more"), maps_page([points(), replace(points(), title="second")], title="Maps")])
def test_a_page_stands_alone_and_runs_nobodys_script(page: str) -> None:
    assert page.startswith("<!doctype html>") and len(page) > 1_000_000  # plotly itself is in it
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert NASTY not in page
    assert "film_country" in page


def test_the_title_is_text() -> None:
    assert "<title>Codes &amp; more</title>" in codes_page(CODES, title="Codes & more")


def test_a_page_names_units_and_dimensions() -> None:
    page = codes_page(CODES)
    assert "share of code" in page and "strongest relations" in page and "The two largest entries hold" in page
    assert "training facts" in maps_page([points()])


def test_a_page_is_written(tmp_path: Path) -> None:
    save_page("<!doctype html>\n", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "<!doctype html>\n"


def test_a_missing_plotly_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingExtra, match=r"relcode\[explorer\]"):
        codes_page(CODES)


def test_no_map_is_refused() -> None:
    with pytest.raises(ValueError, match="no map"):
        maps_page([])
