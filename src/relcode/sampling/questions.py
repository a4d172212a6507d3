"""The stream of questions (h, r, ?) with their known answers, in shuffled tiles of one relation: every directed fact is an answer once an epoch."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from relcode.graph.adjacency import Adjacency
from relcode.sampling.batches import group_by_relation
from relcode.sampling.facts import epoch_seed
from relcode.sampling.walks import random_edges

PATH_SEED = 1 << 20  # sets the seeds of paths apart from those of questions


@dataclass(frozen=True, slots=True)
class PathTiles:
    """Walks h → m → t of two steps; those of a tile take the same two relations, so that both products are tile by tile."""

    first_T: Tensor
    second_T: Tensor
    head_TW: Tensor
    middle_TW: Tensor
    tail_TW: Tensor
    weight_TW: Tensor  # 1 for a walk, 0 for padding


@dataclass(frozen=True, slots=True)
class QuestionBatch:
    """Questions in tiles of one relation, each with up to M answers, and two-step paths where they are asked for."""

    relation_T: Tensor
    head_TW: Tensor
    answer_TWM: Tensor
    weight_TWM: Tensor  # 1 for a known answer, less for an implied one, 0 for padding
    paths: PathTiles | None = None


class QuestionStream:
    """Serves all questions of a KB, epoch after epoch; the plan of an epoch depends on the seed and the epoch's number alone.

    A question with n answers is asked ⌈n/M⌉ times an epoch, each time with up to M answers drawn without replacement. So an answer is looked at as
    often as its fact occurs, while the costly part, the comparison with all entities, is shared by up to M of them.
    """

    def __init__(
        self,
        directed_N3: Tensor,
        num_directed: int,
        *,
        weight_N: Tensor | None = None,
        questions: int,
        tile: int,
        answers: int,
        seed: int,
        device: torch.device,
        paths: PathStream | None,
    ) -> None:
        """Hold the directed facts on ``device``, each with its weight (1 where none is given); a step asks about ``questions`` questions."""
        self.num_directed, self.tile, self.answers, self.seed, self.paths = num_directed, tile, answers, seed, paths
        facts_N3 = directed_N3.to(device)
        key_X, self.question_N, count_X = torch.unique(facts_N3[:, 0] * num_directed + facts_N3[:, 1], return_inverse=True, return_counts=True)
        self.tail_N = facts_N3[:, 2].contiguous()
        self.weight_N = torch.ones(len(facts_N3), device=device) if weight_N is None else weight_N.to(device, torch.float32)
        asked_X = (count_X + answers - 1) // answers
        self.first_fact_X, self.first_asked_X = count_X.cumsum(0) - count_X, asked_X.cumsum(0) - asked_X
        key_Y = torch.repeat_interleave(key_X, asked_X)
        self.head_Y, self.relation_Y = key_Y // num_directed, key_Y % num_directed
        tiles = int(((torch.bincount(self.relation_Y, minlength=num_directed) + tile - 1) // tile).sum())
        self.tiles_per_step = min(max(1, questions // tile), tiles)
        self.steps_per_epoch = -(-tiles // self.tiles_per_step)
        self._planned: tuple[int, QuestionBatch] | None = None

    def batch(self, step: int, generator: torch.Generator) -> QuestionBatch:
        """Return the batch of the given step; all its randomness is in the epoch's plan."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._planned is None or self._planned[0] != epoch:
            self._planned = (epoch, self._plan(epoch))
        plan, here = self._planned[1], slice(place * self.tiles_per_step, (place + 1) * self.tiles_per_step)
        return QuestionBatch(
            relation_T=plan.relation_T[here],
            head_TW=plan.head_TW[here],
            answer_TWM=plan.answer_TWM[here],
            weight_TWM=plan.weight_TWM[here],
            paths=None if self.paths is None else self.paths.batch(step, self.steps_per_epoch),
        )

    def _plan(self, epoch: int) -> QuestionBatch:
        """Return all the tiles of an epoch in their order; a step is a slice of them, so that serving it costs nothing."""
        device = self.tail_N.device
        generator = torch.Generator(device).manual_seed(epoch_seed(self.seed, epoch))
        order_N = torch.randperm(len(self.tail_N), generator=generator, device=device)
        order_N = order_N[torch.argsort(self.question_N[order_N], stable=True)]
        question_N = self.question_N[order_N]
        place_N = torch.arange(len(order_N), device=device) - self.first_fact_X[question_N]
        where_N = (self.first_asked_X[question_N] + place_N // self.answers, place_N % self.answers)
        answer_YM = torch.zeros(len(self.head_Y), self.answers, dtype=torch.int64, device=device)
        weight_YM = torch.zeros(len(self.head_Y), self.answers, device=device)
        answer_YM[where_N], weight_YM[where_N] = self.tail_N[order_N], self.weight_N[order_N]
        shuffled_Y = torch.randperm(len(self.head_Y), generator=generator, device=device)
        relation_T, source_TW = group_by_relation(self.relation_Y[shuffled_Y], self.num_directed, self.tile)
        asked_TW = torch.cat([shuffled_Y, shuffled_Y.new_full((1,), -1)])[source_TW]
        relation_T, asked_TW = shuffled_tiles(relation_T, asked_TW, self.steps_per_epoch, self.tiles_per_step, generator)
        return QuestionBatch(relation_T, self.head_Y[asked_TW], answer_YM[asked_TW], weight_YM[asked_TW] * (asked_TW[..., None] >= 0))


def shuffled_tiles(label_T: Tensor, row_TW: Tensor, steps: int, per_step: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the tiles that hold rows, in random order, cut or padded with empty ones (−1) to whole steps; tiles of a step are sorted by label."""
    device = label_T.device
    used_X = (row_TW >= 0).any(1).nonzero()[:, 0]
    used_X = used_X[torch.randperm(len(used_X), generator=generator, device=device)][: steps * per_step]
    missing = steps * per_step - len(used_X)
    filler = label_T[used_X[:1]] if len(used_X) else label_T.new_zeros(1)
    label_T = torch.cat([label_T[used_X], filler.expand(missing)])
    row_TW = torch.cat([row_TW[used_X], row_TW.new_full((missing, row_TW.shape[1]), -1)])
    step_T = torch.arange(len(label_T), device=device) // per_step
    order_T = torch.argsort(step_T * (int(label_T.max()) + 1) + label_T, stable=True)
    return label_T[order_T], row_TW[order_T]


class PathStream:
    """Serves walks of two steps in tiles of one pair of relations: an edge drawn uniformly, then a uniform one that leaves where it ended.

    Fresh walks are drawn for every epoch, as many as its steps take. One that comes back to where it began says nothing of composition
    and is left out.
    """

    def __init__(self, adjacency: Adjacency, num_directed: int, *, tiles: int, tile: int, seed: int, device: torch.device) -> None:
        """Hold the edges on ``device``; a step takes ``tiles`` tiles of ``tile`` walks."""
        self.adjacency = adjacency.to(device)
        self.head_N = self.adjacency.head_N
        self.num_directed, self.tiles, self.tile, self.seed = num_directed, tiles, tile, seed
        self._planned: tuple[int, PathTiles] | None = None

    def batch(self, step: int, steps_per_epoch: int) -> PathTiles:
        """Return the walks of the given step."""
        epoch, place = divmod(step, steps_per_epoch)
        if self._planned is None or self._planned[0] != epoch:
            self._planned = (epoch, self._plan(epoch, steps_per_epoch))
        here = slice(place * self.tiles, (place + 1) * self.tiles)
        return PathTiles(*(getattr(self._planned[1], item.name)[here] for item in fields(PathTiles)))

    def _plan(self, epoch: int, steps: int) -> PathTiles:
        device = self.head_N.device
        generator = torch.Generator(device).manual_seed(epoch_seed(self.seed + PATH_SEED, epoch))
        first_P = torch.randint(len(self.head_N), (steps * self.tiles * self.tile,), generator=generator, device=device)
        middle_P = self.adjacency.tail_N[first_P]
        second_P = random_edges(self.adjacency, self.adjacency.degree_E, middle_P, generator)
        head_P, tail_P = self.head_N[first_P], self.adjacency.tail_N[second_P]
        pair_P = self.adjacency.relation_N[first_P] * self.num_directed + self.adjacency.relation_N[second_P]
        onward_X = (head_P != tail_P).nonzero()[:, 0]
        pair_X, label_X = torch.unique(pair_P[onward_X], return_inverse=True)
        label_T, source_TW = group_by_relation(label_X, len(pair_X) + 1, self.tile)
        pair_X = torch.cat([pair_X, pair_X.new_zeros(1)])  # one more, for a KB where every walk comes back
        walk_TW = torch.cat([onward_X, onward_X.new_full((1,), -1)])[source_TW]
        label_T, walk_TW = shuffled_tiles(label_T, walk_TW, steps, self.tiles, generator)
        return PathTiles(
            first_T=pair_X[label_T] // self.num_directed,
            second_T=pair_X[label_T] % self.num_directed,
            head_TW=head_P[walk_TW],
            middle_TW=middle_P[walk_TW],
            tail_TW=tail_P[walk_TW],
            weight_TW=(walk_TW >= 0).float(),
        )
