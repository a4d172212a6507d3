"""The parameters and their counters, how they start, and the form in which they are in force.

Stored ("raw") values only gather rate · gradient. What is in force is

    vector    raw / (1 + rate·decay·τ)      one division is both the falling rate and the weight decay, so no dense decay pass is needed
    matrix    raw · √d / ‖raw‖              with ``normalise``; no gradient goes through the norm, and what is stored is never rescaled
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from relcode.config import CoderSettings, Settings, UpdateSettings
from relcode.model.score import Scorer
from relcode.ops.diagonal import identity_like


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All that is learnt. The tensors are changed in place; the record only names them."""

    head_ED: Tensor
    tail_ED: Tensor | None = None  # None where an entity has one vector, as head and as tail
    matrix_SDD: Tensor
    head_count_E: Tensor  # τ of head vectors; counters are float64, since limits and annealing make an update count for less than 1
    tail_count_E: Tensor
    matrix_count_S: Tensor
    encoder_CQ: Tensor | None = None  # A
    decoder_CQ: Tensor | None = None  # Bᵀ
    coder_count: Tensor | None = None
    head_square_ED: Tensor | None = None  # Adagrad's sums of squared gradients, where it is in use
    tail_square_ED: Tensor | None = None
    matrix_square_SDD: Tensor | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, as they are saved."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}

    @property
    def tails(self) -> Tensor:
        """Return the vectors of entities as tails."""
        return self.head_ED if self.tail_ED is None else self.tail_ED

    def believed(self) -> Parameters:
        """Return what is needed to score and to read codes, without what only further training needs."""
        return replace(self, head_square_ED=None, tail_square_ED=None, matrix_square_SDD=None)

    @property
    def dim(self) -> int:
        """Return d."""
        return self.head_ED.shape[1]


def initial_parameters(
    num_entities: int, num_directed: int, settings: Settings, generator: torch.Generator, device: torch.device | str = "cpu"
) -> Parameters:
    """Draw the first values: vectors N(0, 1/d) with u = v, matrices (I + G)/2 with G ~ N(0, 1/d), A ~ N(0, 1/d) and B = Aᵀ.

    Blocks have numbers of the same size, so that G makes images √(b/d) as long as a whole G does. Drawn on the CPU, so that a seed means the same on
    every device.
    """
    model = settings.model
    d, c = model.size, model.code_dim
    std = 1 / math.sqrt(d)

    def gaussian(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * std).to(device)

    vector_ED = gaussian(num_entities, d)
    matrix_SDD = gaussian(num_directed, d, model.width)
    if model.initial == "identity":
        matrix_SDD.add_(identity_like(matrix_SDD)).div_(2)
    elif model.initial != "gaussian":
        matrix_SDD.div_(8)
        if model.initial == "leaning":
            matrix_SDD.add_(identity_like(matrix_SDD), alpha=0.25)
    encoder_CQ = gaussian(c, d * model.width) if model.autoencoder else None

    def counter(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=device)

    return Parameters(
        head_ED=vector_ED,
        tail_ED=None if model.shared else vector_ED.clone(),
        matrix_SDD=matrix_SDD,
        head_count_E=counter(num_entities),
        tail_count_E=counter(num_entities),
        matrix_count_S=counter(num_directed),
        encoder_CQ=encoder_CQ,
        decoder_CQ=None if encoder_CQ is None else encoder_CQ.clone(),
        coder_count=None if encoder_CQ is None else counter(),
        head_square_ED=torch.zeros_like(vector_ED) if settings.adagrad else None,
        tail_square_ED=torch.zeros_like(vector_ED) if settings.adagrad and not model.shared else None,
        matrix_square_SDD=torch.zeros_like(matrix_SDD) if settings.adagrad else None,
    )


def enlarge(old: Parameters, added: Parameters) -> Parameters:
    """Return the old parameters with the rows of new entities and new relations behind their own; encoder and decoder stay the old ones.

    Inverses come after all relations: with R old relations and R′ new ones, the inverse of an old r moves from r + R to r + R + R′.
    """

    def joined(name: str, old_value: Tensor, added_value: Tensor) -> Tensor:
        rows = name.rpartition("_")[2][:1]
        if rows == "S":
            halves = [value.tensor_split(2) for value in (old_value, added_value)]
            return torch.cat([halves[0][0], halves[1][0], halves[0][1], halves[1][1]])
        return torch.cat([old_value, added_value]) if rows == "E" else old_value

    new = added.tensors()
    return Parameters(**{name: joined(name, value, new[name].to(value.device)) for name, value in old.tensors().items()})


def tensor_names(settings: Settings) -> tuple[frozenset[str], frozenset[str]]:
    """Return which tensors a model of these settings has, and which more its training has."""
    names = {item.name for item in fields(Parameters)}
    training = {name for name in names if "_square_" in name} if settings.adagrad else set()
    if settings.model.shared:
        names, training = names - {"tail_ED"}, training - {"tail_square_ED"}
    if not settings.model.autoencoder:
        names -= {"encoder_CQ", "decoder_CQ", "coder_count"}
    return frozenset(name for name in names if "_square_" not in name), frozenset(training)


def shrink(count: Tensor, rate: float, decay: float) -> Tensor:
    """Return 1/(1 + rate·decay·τ), by which raw vectors are multiplied to be in force."""
    return (1 / (1 + rate * decay * count)).float()


def matrix_scale(matrix_SDD: Tensor, normalise: bool) -> Tensor:
    """Return √d/‖M‖ for each matrix, by which it is multiplied to be in force (1 without normalisation)."""
    if not normalise:
        return matrix_SDD.new_ones(len(matrix_SDD))
    return math.sqrt(matrix_SDD.shape[1]) / matrix_SDD.flatten(1).norm(dim=1).clamp_min(1e-30)


def matrices_in_force(matrix_SDD: Tensor, normalise: bool) -> Tensor:
    """Return the matrices as they are used."""
    return matrix_SDD * matrix_scale(matrix_SDD, normalise)[:, None, None]


def vectors_in_force(raw_ED: Tensor, count_E: Tensor, settings: UpdateSettings) -> Tensor:
    """Return the entity vectors as they are used."""
    return raw_ED * shrink(count_E, settings.vector_rate, settings.vector_decay)[:, None]


def coder_in_force(parameters: Parameters, settings: CoderSettings) -> tuple[Tensor, Tensor]:
    """Return A and Bᵀ as they are used."""
    assert parameters.encoder_CQ is not None and parameters.decoder_CQ is not None and parameters.coder_count is not None
    factor = shrink(parameters.coder_count, settings.first_rate, settings.decay)
    return parameters.encoder_CQ * factor, parameters.decoder_CQ * factor


def scorer_of(parameters: Parameters, settings: Settings, seen_E: Tensor) -> Scorer:
    """Return what scores: vectors and matrices in force; entities that were never trained have the zero vector.

    The released program scales head vectors to unit length here. That changes no rank, since all answers to a question share its head, but it would
    take away what a score means: u_h M_r v_t is ln s, the log of how much more likely the tail is than a noise.
    """
    head_ED = vectors_in_force(parameters.head_ED, parameters.head_count_E, settings.updates)
    tail_ED = head_ED if parameters.tail_ED is None else vectors_in_force(parameters.tail_ED, parameters.tail_count_E, settings.updates)
    seen_E = seen_E.to(head_ED.device)
    scorer = Scorer(
        head_ED=head_ED,
        tail_ED=tail_ED,
        matrix_SDD=matrices_in_force(parameters.matrix_SDD, settings.model.normalise),
        seen_E=seen_E,
    )
    return scorer.with_unseen_zero()
