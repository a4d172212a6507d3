"""How new facts come into a model that is trained: what is new finds its place first, while the rest holds still; then all of it moves, gently.

1. **Place.** Old rows are taken over with their counters and Adagrad's squares. A new entity begins at the mean image of its neighbours,

       u_e = Σ_(x,s,e) u_x M_s / n

   where (x, s, e) are the directed facts that lead to it from entities with a place (DURA's penalty draws u_x M_s towards v_e; see model/softmax.py).
   It has ``SQUARE_SHARE`` of the squares of old rows: with none, Adagrad's first step would forget where it began.
2. **Fit.** A pass over the new facts and some of the facts around them. Only what they touch moves: entities of new facts, and matrices of new
   relations. All else is put back after every step. New rows then have their first squares again, so that they go on moving faster than old ones.
3. **Settle.** Some epochs over all facts, in which rates fall to zero. Old rows hardly move: what they have learnt (squares, or the paper's counters)
   has made their rates small. This is where new entities learn what they are *not* the answer to; without it they rank too high elsewhere.
   Where steps are counted, rates of matrices hardly fall, so these begin with ``GENTLE`` of them: the state stands at a later step of its schedule.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from relcode.config import Settings
from relcode.graph.facts import directed
from relcode.graph.joining import Joined
from relcode.model.parameters import Parameters, enlarge, initial_parameters, matrices_in_force, vectors_in_force
from relcode.model.score import relation_queries
from relcode.training.advance import Stepper, Trainer, anneal_factor, make_trainer
from relcode.training.state import TrainState

GENTLE = 0.3  # share of the rates with which all rows begin to move where steps are counted
SQUARE_SHARE = 0.005
FIT_EPOCHS = 1
FEWEST_STEPS = 30
CONTEXT = 1.0  # old facts around the new ones for each of these
FEWEST_CONTEXT = 1000
SEED_STEP = 7919  # sets the draws of an extension apart from those of the run before


@dataclass(frozen=True, eq=False)
class Extension:
    """What an extension begins with: the facts, and the parameters and squares of before."""

    joined: Joined
    old: Parameters

    def begin(self, trainer: Trainer, epochs: int, seconds: float = math.inf) -> TrainState:
        """Place and fit what is new, in at most about ``seconds``; return the state that has ``epochs`` left of its run."""
        settings, device = trainer.settings, trainer.device
        seed = settings.training.seed + SEED_STEP
        parameters = placed(self.joined, self.old, settings, device)
        fit_(parameters, self.joined, settings, device, seconds)
        first_squares_(parameters, self.joined)
        step = (settings.training.length - epochs) * trainer.stream.steps_per_epoch
        return TrainState(parameters, step, torch.Generator(device).manual_seed(seed))


def extended_settings(settings: Settings, epochs: int, minutes: float | None) -> Settings:
    """Return the settings of a run in whose last ``epochs`` epochs rates fall to zero, from ``GENTLE`` where steps are counted.

    It is measured at its end alone.
    """
    values = {
        "epochs": epochs if settings.adagrad else round(epochs / GENTLE),
        "minutes": minutes,
        "validations": min(1, settings.training.validations),
        "patience": 0,
    }
    return settings.with_values({f"training.{name}": value for name, value in values.items()})


def placed(joined: Joined, old: Parameters, settings: Settings, device: torch.device) -> Parameters:
    """Return parameters for old and new: old rows as they were, new ones where their neighbours point."""
    data, generator = joined.dataset, torch.Generator().manual_seed(settings.training.seed + SEED_STEP)
    entities, directed_relations = data.num_entities - joined.old_entities, data.num_directed - 2 * joined.old_relations
    parameters = enlarge(old, initial_parameters(entities, directed_relations, settings, generator, device))
    fresh_X = joined.fresh_E.nonzero()[:, 0].to(device)
    start_XD = images(joined, parameters, settings, fresh_X)
    for name, value in parameters.tensors().items():
        if name in ("head_ED", "tail_ED"):
            value[fresh_X] = start_XD
        elif name in ("head_count_E", "tail_count_E"):
            value[fresh_X] = 0
    first_squares_(parameters, joined)
    return parameters


def first_squares_(parameters: Parameters, joined: Joined) -> None:
    """Give new entities a share of the mean square of trained ones, in place; nothing where there is no Adagrad."""
    trained_E = joined.dataset.seen_E & ~joined.fresh_E
    for square_ED in (parameters.head_square_ED, parameters.tail_square_ED):
        if square_ED is not None:
            device = square_ED.device
            square_ED[joined.fresh_E.to(device)] = SQUARE_SHARE * square_ED[trained_E.to(device)].mean()


def images(joined: Joined, parameters: Parameters, settings: Settings, fresh_X: Tensor) -> Tensor:
    """Return the mean image of the neighbours of each new entity, at the length of a trained vector; one without such neighbours keeps its draw."""
    data, device = joined.dataset, fresh_X.device
    head_ED = vectors_in_force(parameters.head_ED, parameters.head_count_E, settings.updates)
    edge_N3 = directed(joined.new_train, data.num_relations)
    fresh_R, placed_E = joined.fresh_R, data.seen_E & ~joined.fresh_E
    usable_N = placed_E[edge_N3[:, 0]] & joined.fresh_E[edge_N3[:, 2]] & ~fresh_R[edge_N3[:, 1] % data.num_relations]
    edge_N3 = edge_N3[usable_N]
    edge_N3 = edge_N3[edge_N3[:, 1].argsort(stable=True)]
    if not len(edge_N3):
        return parameters.head_ED[fresh_X]
    matrix_SDD = matrices_in_force(parameters.matrix_SDD, settings.model.normalise)
    image_ND = relation_queries(head_ED[edge_N3[:, 0].to(device)], matrix_SDD, edge_N3[:, 1])
    sum_ED = torch.zeros_like(head_ED).index_add_(0, edge_N3[:, 2].to(device), image_ND)
    length = head_ED[placed_E.to(device)].norm(dim=1).median()
    norm_X1 = sum_ED[fresh_X].norm(dim=1, keepdim=True)
    return torch.where(norm_X1 > 0, sum_ED[fresh_X] * (length / norm_X1.clamp_min(1e-30)), parameters.head_ED[fresh_X])


def local_facts(joined: Joined, generator: torch.Generator) -> Tensor:
    """Return the new facts and some of those around them: old facts of entities that new ones name, drawn without replacement."""
    data, new_N3 = joined.dataset, joined.new_train
    old_N3 = data.train[: len(data.train) - len(new_N3)]
    touched_E = touched_entities(joined)
    around_X = (touched_E[old_N3[:, 0]] | touched_E[old_N3[:, 2]]).nonzero()[:, 0]
    most = max(FEWEST_CONTEXT, round(CONTEXT * len(new_N3)))
    return torch.cat([new_N3, old_N3[around_X[torch.randperm(len(around_X), generator=generator)[:most]]]])


def touched_entities(joined: Joined) -> Tensor:
    """Tell for each entity whether a new fact names it; bool [E]."""
    touched_E = torch.zeros(joined.dataset.num_entities, dtype=torch.bool)
    touched_E[joined.new_train[:, 0]] = True
    touched_E[joined.new_train[:, 2]] = True
    return touched_E


class Still:
    """Holds rows still: after each step they are put back as they were."""

    def __init__(self, parameters: Parameters, moving_E: Tensor, moving_S: Tensor) -> None:
        """Keep a copy of all that may not move."""
        self.held: list[tuple[Tensor, Tensor | None, Tensor]] = []
        for name, value in parameters.tensors().items():
            letter = name.rpartition("_")[2][:1]
            moving = {"E": moving_E, "S": moving_S}.get(letter)
            row_X = None if moving is None else (~moving.to(value.device)).nonzero()[:, 0]
            self.held.append((value, row_X, value.clone() if row_X is None else value[row_X]))

    def put_back_(self) -> None:
        """Undo what a step did to these rows."""
        for value, row_X, kept in self.held:
            if row_X is None:
                value.copy_(kept)
            else:
                value.index_copy_(0, row_X, kept)


def fit_(parameters: Parameters, joined: Joined, settings: Settings, device: torch.device, seconds: float) -> None:
    """Move what the new facts touch, in place, by some epochs over them and the facts around; stop after ``seconds``."""
    seed = settings.training.seed + SEED_STEP
    facts_N3 = local_facts(joined, torch.Generator().manual_seed(seed))
    # Part of the facts: what rules between relations they seem to have is chance.
    less = {"softmax.path_weight": 0.0, "softmax.implied": None, "sampling.path_mean": 0.0, "model.autoencoder": False}
    alone = settings.with_values({**less, "training.seed": seed})
    trainer = make_trainer(replace(joined.dataset, train=facts_N3), alone, device)
    state = TrainState(parameters, 0, torch.Generator(device).manual_seed(seed))
    still = Still(parameters, touched_entities(joined), torch.cat([joined.fresh_R, joined.fresh_R]))
    stepper = Stepper(state, trainer.stream, trainer.noise, alone, device)
    steps, began = max(FEWEST_STEPS, FIT_EPOCHS * trainer.stream.steps_per_epoch), time.perf_counter()
    for step in range(steps):
        progress = max(step / steps, (time.perf_counter() - began) / seconds)
        if progress >= 1:
            break
        stepper.take(step, anneal_factor(progress, settings.updates.anneal), 1.0)
        still.put_back_()
