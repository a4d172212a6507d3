"""The batch a training step looks at: walks from many heads, laid out level by level in tiles of one relation."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

import torch
from torch import Tensor

from relcode.ops.rows import row_counts


@dataclass(frozen=True, slots=True)
class Level:
    """The l-th step of all walks that have one, grouped by the relation taken; every prefix of a walk is a training path."""

    relation_T: Tensor  # the directed relation of each tile
    source_TW: Tensor  # where the row comes from: an entity at level 1, a row of the level before (flattened) later on
    tail_TW: Tensor  # the entity reached
    weight_TW: Tensor  # 1 for a training path, 0 for padding and for what is noise alone
    chosen_TW: Tensor  # 1 where the path so far (and those that grow from it, until the next 1) updates this level's matrix
    noise_TW: Tensor  # 1 where noises are scored: at the path itself or, where relations are noise too, at the end of its chain (sampling/chains.py)


@dataclass(frozen=True, slots=True)
class PathBatch:
    """Walks as levels; a batch of single facts has one."""

    levels: tuple[Level, ...]


def copy_batch_(target: object, source: object) -> None:
    """Copy a batch, of walks or of questions, into the tensors of another of the same shape, in as few launches as torch can."""
    torch._foreach_copy_(batch_tensors(target), batch_tensors(source))


def batch_tensors(batch: object) -> list[Tensor]:
    """Return the tensors of a batch in a fixed order, however its records are nested."""
    if isinstance(batch, Tensor):
        return [batch]
    if isinstance(batch, tuple):
        return [tensor for part in batch for tensor in batch_tensors(part)]
    return [tensor for item in fields(batch) for tensor in batch_tensors(getattr(batch, item.name))] if is_dataclass(batch) else []


def group_by_relation(relation_P: Tensor, num_directed: int, width: int) -> tuple[Tensor, Tensor]:
    """Lay P rows out in tiles of ``width`` rows of one relation.

    Returns the relation of each tile and, for each place in a tile, the row that stands there (P where none does). The number of tiles on
    CUDA is the most there can be, ⌊P/W⌋ + min(P, S) (P for tiles of one row), so that shapes do not depend on the data and nothing waits for the
    device; tiles nobody needs are empty.
    """
    rows, device = len(relation_P), relation_P.device
    order_P = torch.argsort(relation_P, stable=True)
    count_S = row_counts(relation_P, torch.ones_like(relation_P), num_directed)
    tiles_S = (count_S + width - 1) // width
    most = int(tiles_S.sum()) if device.type == "cpu" else rows if width == 1 else rows // width + min(rows, num_directed)
    first_tile_S = tiles_S.cumsum(0) - tiles_S
    first_row_S = count_S.cumsum(0) - count_S
    sorted_P = relation_P[order_P]
    place_P = torch.arange(rows, device=device) - first_row_S[sorted_P]
    source_TW = torch.full((most, width), rows, device=device)
    source_TW.view(-1)[first_tile_S[sorted_P] * width + place_P] = order_P
    tile_T = torch.arange(most, device=device)
    relation_T = torch.searchsorted(tiles_S.cumsum(0), tile_T, right=True)
    # Empty tiles are spread over all relations: the zeros they add would otherwise queue up at one matrix.
    return torch.where(relation_T < num_directed, relation_T, tile_T % num_directed), source_TW
