"""The slow truth for a training step: loops over training paths in double precision. Shares no code with relcode's own step."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from walked import Prefix, prefixes_of

from relcode.config import Settings
from relcode.model.parameters import Parameters
from relcode.sampling.batches import PathBatch


def gold_share(x: Tensor, k: int) -> float:
    """k/(k + s), s = exp(x)."""
    return k / (k + math.exp(x.item()))


def noise_share(x: Tensor, k: int) -> float:
    """s/(k + s), s = exp(x)."""
    return math.exp(x.item()) / (k + math.exp(x.item()))


def squared(x: Tensor) -> float:
    return float((x.detach() ** 2).sum())


class StepOracle:
    """One step of the counted SGD by loops over training paths, in double precision, with autograd for the gradients.

    Written from the description: rows in force are raw/(1 + rate·decay·τ); raw rows gather rate·gradient; matrices move at
    rate/(1 + rate·decay·τ); the summed updates of a row are divided by 1 + damping·rate·Σ |w|‖y‖² and count for as much less; annealing scales both.
    """

    def __init__(self, parameters: Parameters, batch: PathBatch, noises: list[Tensor], settings: Settings, anneal: float) -> None:
        updates, self.k = settings.updates, settings.sampling.noises
        self.before = {name: value.clone().double() for name, value in parameters.tensors().items()}
        raw = self.before
        fall = updates.vector_rate * updates.vector_decay
        d = settings.model.dim
        self.head_ED = (raw["head_ED"] / (1 + fall * raw["head_count_E"])[:, None]).requires_grad_()
        self.tail_ED = (raw["tail_ED"] / (1 + fall * raw["tail_count_E"])[:, None]).requires_grad_()
        norm = raw["matrix_SDD"].flatten(1).norm(dim=1)[:, None, None]
        self.matrix_SDD = (raw["matrix_SDD"] * math.sqrt(d) / norm if settings.model.normalise else raw["matrix_SDD"].clone()).requires_grad_()
        one = updates.path_matrices == "one" and len(batch.levels) > 1
        heads, tails, matrices = ([0.0] * size for size in (len(self.head_ED), len(self.tail_ED), len(self.matrix_SDD)))
        head_curve, tail_curve, matrix_curve = [0.0] * len(heads), [0.0] * len(tails), [0.0] * len(matrices)
        scale = (math.sqrt(d) / norm.flatten()).tolist() if settings.model.normalise else [1.0] * len(matrices)
        self.loss = through = torch.zeros((), dtype=torch.float64)
        self.paths = prefixes_of(batch)
        for path in self.paths:
            depth, way = len(path.relations) - 1, path.weighed
            noise = noises[depth][way.rows[-1][0] if settings.sampling.noise_sharing == "tile" else 0].tolist()
            self.loss = self.loss + self.path_loss(path, noise, None)
            through = through + self.path_loss(path, noise, path.chosen if one else None)
            heads[path.head] += 1
            tails[path.tail] += 1
            for entity in noise:
                tails[entity] += self.k / len(noise)
            weighed = self.k / len(noise)
            for each, entities, weight, share in ((path, [path.tail], 1.0, gold_share), (way, noise, weighed, noise_share)):
                rows = self.rows_of(each)  # x_1 = u, x_2 = u M_1, …, and y at the end
                bends = [(entity, weight * share(rows[-1] @ self.tail_ED[entity], self.k)) for entity in entities]
                bend = sum(part * squared(self.tail_ED[entity]) for entity, part in bends)
                head_curve[path.head] += bend
                for entity, part in bends:
                    tail_curve[entity] += part * squared(rows[-1])
                for place, relation in enumerate(each.relations):  # what is scored bends every matrix row it goes through that is updated
                    if not one or each.marks[place]:
                        matrix_curve[relation] += bend * squared(rows[place]) * scale[relation]
            if not one or path.chosen == depth:  # each row that a matrix multiplies is one update of it
                matrices[path.relations[-1]] += 1
        head, tail = torch.autograd.grad(-self.loss, [self.head_ED, self.tail_ED], retain_graph=True)
        (matrix,) = torch.autograd.grad(-through, [self.matrix_SDD])
        self.gradients = {"head_ED": head, "tail_ED": tail, "matrix_SDD": matrix}  # of the objective, uphill

        def factor(curves: list[float], damping: float, rates: list[float]) -> Tensor:
            pairs = zip(curves, rates, strict=True)
            return torch.tensor([anneal / (1 + damping * rate * curve) for curve, rate in pairs], dtype=torch.float64)

        head_factor = factor(head_curve, updates.vector_damping, [updates.vector_rate] * len(heads))
        tail_factor = factor(tail_curve, updates.vector_damping, [updates.vector_rate] * len(tails))
        rate_S = updates.matrix_rate / (1 + updates.matrix_rate * updates.matrix_decay * raw["matrix_count_S"])
        matrix_factor = factor(matrix_curve, updates.matrix_damping, rate_S.tolist())
        self.after = {
            "head_ED": raw["head_ED"] + updates.vector_rate * head_factor[:, None] * head,
            "tail_ED": raw["tail_ED"] + updates.vector_rate * tail_factor[:, None] * tail,
            "matrix_SDD": raw["matrix_SDD"] + (rate_S * matrix_factor)[:, None, None] * matrix,
            "head_count_E": raw["head_count_E"] + torch.tensor(heads).double() * head_factor * (1 + self.k),
            "tail_count_E": raw["tail_count_E"] + torch.tensor(tails).double() * tail_factor,
            "matrix_count_S": raw["matrix_count_S"] + torch.tensor(matrices).double() * matrix_factor,
        }

    def rows_of(self, path: Prefix) -> list[Tensor]:
        rows = [self.head_ED[path.head].detach()]
        for relation in path.relations:
            rows.append(rows[-1] @ self.matrix_SDD[relation].detach())
        return rows

    def path_loss(self, path: Prefix, noise: list[int], only: int | None) -> Tensor:
        def row_of(relations: tuple[int, ...]) -> Tensor:
            row = self.head_ED[path.head]
            for place, relation in enumerate(relations):
                matrix = self.matrix_SDD[relation]
                row = row @ (matrix if only in (None, place) else matrix.detach())
            return row

        s = torch.exp(row_of(path.relations) @ self.tail_ED[path.tail])
        loss, row = -torch.log(s / (self.k + s)), row_of(path.weighed.relations)
        for entity in noise:
            loss = loss - self.k / len(noise) * torch.log(self.k / (self.k + torch.exp(row @ self.tail_ED[entity])))
        return loss
