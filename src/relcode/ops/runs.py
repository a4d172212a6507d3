"""Runs of rows that share a relation, and how they meet their matrices on the CPU.

A product of few rows takes as long as asking for it and reading its matrix. Where short runs belong to relations that follow each other, their
matrices already stand one behind the other in memory, and one batched product serves them all: a *stretch*. A longer run is a stretch of its own.

Runs are filled up to few different sizes, those of a stretch to one: oneDNN makes a program for every shape of product it meets and keeps 1,024 of
them; where every run had a shape of its own it made 80 a step, 0.18 ms each. MKL does not, and takes runs as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SHORT = 16  # rows of a run that shares a stretch; with more, asking is no longer what a product waits for
MOST = 8  # runs in a stretch


@dataclass(frozen=True, slots=True)
class Stretch:
    """``count`` relations from ``relation`` on; their rows first … last − 1 stand at the places begin … end − 1, filled up to as many for each."""

    relation: int
    count: int
    first: int
    last: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The stretches of rows that stand one behind the other, and where each row stands in them."""

    stretches: list[Stretch]
    as_they_are: bool  # no run is filled up: places are rows
    row_Z: Tensor  # the row at each place; where a run is filled up, one that follows or the last of all
    own_Z: Tensor  # whether it is one of the run
    place_X: Tensor  # the place of each row

    @classmethod
    def of(cls, relations: list[int], lengths: list[int], together: bool, most: int = MOST) -> Plan:
        """Plan runs of ``lengths`` rows: in stretches of at most ``most``, or (not ``together``) each as it is."""
        stretches: list[Stretch] = []
        widths: list[int] = []
        row = place = first = 0
        while first < len(relations):
            last = first + 1
            if together and lengths[first] <= SHORT:
                limit = min(len(relations), first + most)
                while last < limit and lengths[last] <= SHORT and relations[last] == relations[last - 1] + 1:
                    last += 1
            here = lengths[first:last]
            width = filled(max(here)) if together else here[0]
            stretches.append(Stretch(relations[first], len(here), row, row + sum(here), place, place + len(here) * width))
            widths += [width] * len(here)
            first, row, place = last, stretches[-1].last, stretches[-1].end
        if row == place:
            row_Z = torch.arange(row)
            return cls(stretches, True, row_Z, torch.ones_like(row_Z, dtype=torch.bool), row_Z)
        length_R, width_R = torch.tensor([lengths, widths], dtype=torch.long)
        run_Z = torch.repeat_interleave(width_R, output_size=place)
        within_Z = torch.arange(place) - (width_R.cumsum(0) - width_R)[run_Z]
        row_Z, own_Z = (length_R.cumsum(0) - length_R)[run_Z] + within_Z, within_Z < length_R[run_Z]
        return cls(stretches, False, row_Z.clamp_max_(row - 1), own_Z, own_Z.nonzero()[:, 0])


def filled(rows: int) -> int:
    """Return to how many rows a run is filled up."""
    return 4 if rows <= 4 else -(-rows // 8) * 8
