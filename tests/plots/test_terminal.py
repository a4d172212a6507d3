from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from relcode.analysis.codes import RelationCodes, codes_of, heatmap_order
from relcode.graph.vocab import Vocab
from relcode.plots.terminal import CodeHeatmap, heatmap_lines, heatmap_rows


def one_hot(relations: int = 3, dimensions: int = 4) -> RelationCodes:
    names = [f"relation_{number}" for number in range(relations)]
    return codes_of(torch.eye(dimensions).repeat(2 * relations, 1)[: 2 * relations], Vocab(names, "relation"))


def test_the_whole_picture_by_hand() -> None:
    code_SC = torch.tensor([[6.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    assert heatmap_lines(codes_of(code_SC, Vocab(["capital_of"], "relation")), 60) == [
        "Relation codes (share of code in each dimension)",
        "             1  2  3",
        " capital_of ██ ▓▓ ░░",
        "^capital_of",
        "░░ ≥ 5%  ▒▒ ≥ 15%  ▓▓ ≥ 30%  ██ ≥ 50%  of a relation's code",
    ]


def test_ascii_alone_where_the_terminal_has_no_more() -> None:
    lines = heatmap_lines(one_hot(), 70, ascii_only=True)
    assert all(line.isascii() for line in lines)
    assert "@@" in lines[2]


@pytest.mark.parametrize("width", [16, 24, 40, 63, 80, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    lines = heatmap_lines(one_hot(12, 16), width)
    assert max(map(len, lines)) <= width
    assert len(lines) >= 24 + 3


def test_every_relation_has_its_row_and_its_mark_in_the_right_column() -> None:
    codes = one_hot(3, 4)
    lines = heatmap_lines(codes, 80)
    for row, line in zip(heatmap_order(codes), lines[2:-1], strict=True):
        name, mark = line.split()
        assert name == codes.short[row] and mark == "██"
        column = int(codes.dominant_S[row])
        assert line.index("██") == lines[1].index(f" {column + 1}")


def test_rows_are_chosen_from_every_dimension() -> None:
    codes = one_hot(40, 4)
    rows = heatmap_rows(codes, 13)
    assert len(rows) == 12 and sorted(codes.dominant_S[rows].tolist()) == sorted([0, 1, 2, 3] * 3)
    assert "12 of 80" in heatmap_lines(codes, 80, most=13)[0]
    assert heatmap_rows(codes) == heatmap_order(codes)


def test_codes_of_zeros_are_rows_without_marks() -> None:
    codes = codes_of(torch.zeros(6, 4), Vocab(["a", "b", "c"], "relation"))
    assert len(heatmap_rows(codes, 2)) == 2
    assert heatmap_lines(codes, 60)[2:-1] == [f"{name:>8}" for name in ("^a", "^b", "^c", "a", "b", "c")]


def test_rich_prints_the_same_text_in_the_width_it_has() -> None:
    codes = one_hot(3, 16)
    page = io.StringIO()
    Console(file=page, width=72, color_system=None, force_terminal=False).print(CodeHeatmap(codes))
    printed = [line.rstrip() for line in page.getvalue().splitlines()]
    # A text stream in memory has no encoding to speak of; rich takes it as UTF-8.
    assert printed == [line.rstrip() for line in heatmap_lines(codes, 72)]
