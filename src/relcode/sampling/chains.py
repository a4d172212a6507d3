"""Noise on relations, as in the released program: noises of a path are reached through random relations behind the matrix that the path updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a level as they were drawn, T steps of P rows, before they are sorted by relation."""

    relation_TP: Tensor
    place_TP: Tensor  # the row of the level before that it comes from, counted in the order drawn; at level 1 its own
    tail_TP: Tensor
    weight_TP: Tensor
    chosen_TP: Tensor
    noise_TP: Tensor


def with_chains(drawn: Sequence[Rows], num_directed: int, together: int, generator: torch.Generator) -> Iterator[Rows]:
    """Return the walks of all levels with chains of noise behind them.

    A path of l steps that updates its matrix i scores u M_1 … M_l v with its tail, and u M_1 … M_i M* … M* v* with its noises: l − i relations drawn
    uniformly stand for the later ones. The program draws them for each noise, here all noises of a path share them: the same objective on average.

    Such a chain leaves its walk behind matrix i. It weighs no tail and chooses no matrix, so that its gradients wait for matrix i. At each level
    behind the first, every path that goes so far has a place for its chain, empty until the chain has left: shapes do not depend on what was drawn.
    More empty places bring the rows of a level to a multiple of ``together``.
    """
    counts = [rows.relation_TP.shape[1] for rows in drawn]
    yield drawn[0]
    choices = [torch.zeros_like(drawn[0].place_TP)]  # of the paths that end at each level, the level whose matrix they update
    for level, rows in enumerate(drawn[1:], start=1):
        choices.append(torch.where(rows.chosen_TP > 0, level, choices[-1][:, : counts[level]]))
    for level, rows in enumerate(drawn[1:], start=1):
        place, noise, tail = [rows.place_TP], [rows.chosen_TP], [rows.tail_TP]
        for last in range(level, len(drawn)):
            walk_TP, choice_TP = drawn[last].place_TP, choices[last]
            first = counts[level - 1] + sum(counts[level - 1 : last])  # below, walks come first, then chains by the length of their paths
            place.append(torch.where(choice_TP < level - 1, first + walk_TP, walk_TP))
            noise.append(((choice_TP < level) & (last == level)).float())
            tail.append(drawn[last].tail_TP)  # of no weight; one entity for all would be slow to add to
        more = sum(counts[level:])
        empty = -(counts[level] + more) % together
        random_TP = torch.randint(num_directed, (len(rows.relation_TP), more + empty), generator=generator, device=rows.relation_TP.device)
        yield Rows(
            relation_TP=torch.cat([rows.relation_TP, random_TP], dim=1),
            place_TP=pad(torch.cat(place, dim=1), (0, empty)),
            tail_TP=pad(torch.cat(tail, dim=1), (0, empty)),
            weight_TP=pad(rows.weight_TP, (0, more + empty)),
            chosen_TP=pad(rows.chosen_TP, (0, more + empty)),
            noise_TP=pad(torch.cat(noise, dim=1), (0, empty)),
        )
