"""Settings: frozen records, each option explained where it is defined, checked when it is made, saved with every run.

Nothing in the mathematics reads a setting by name: a stage takes the record it needs and passes plain numbers on.
Three things are called λ in the literature: here ``*_decay`` (fall of a rate), ``path_mean`` (Poisson mean of extra steps) and a penalty's weight.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from relcode.checked import BLOCK, COUNT, LIMIT, POSITIVE, POSITIVE_INT, SEED, SHARE, WEIGHT, Checked, describe_type, option
from relcode.errors import SettingError, suggestion


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Checked):
    """What is believed: sizes and form of the parameters (the paper's sections 2 to 4)."""

    objective: Literal["nce", "softmax"] = option("nce", "weigh a fact against noise (nce, the paper's) or against all entities (softmax)")
    dim: int | None = option(
        256,
        "d, the size of entity vectors; a relation is a d×d matrix (none: chosen by the numbers of facts, entities and relations, and the device)",
        POSITIVE_INT,
    )
    block: int | None = option(
        0,
        "b, a power of two that divides d: matrices have numbers only in blocks of b×b along their diagonal (softmax only; 0: they are whole; none: "
        "chosen by facts per relation and d)",
        BLOCK,
    )
    shared: bool = option(False, "an entity has one vector, as head and as tail; else two (softmax only: the paper has two)")
    autoencoder: bool = option(True, "train the relation autoencoder jointly (joint) or leave it out (base)")
    code_dim: int = option(16, "c, the number of entries of a relation's code", POSITIVE_INT)
    normalise: bool = option(True, "use every matrix at Frobenius norm √d")
    initial: Literal["identity", "gaussian", "small", "leaning"] | None = option(
        "identity",
        "matrices start at (I+G)/2 (identity), G (gaussian), G/8 (small) or I/4 + G/8 (leaning), G ~ N(0, 1/d) (none: small, or identity where few "
        "relations have many facts each)",
    )

    @property
    def size(self) -> int:
        """Return d, once it is known."""
        if self.dim is None:
            raise SettingError("model.dim is still open: it is chosen from the data when training begins")
        return self.dim

    @property
    def width(self) -> int:
        """Return how many numbers a row of a matrix has: b, or d where matrices are whole."""
        return self.block or self.size


@dataclass(frozen=True, kw_only=True)
class SamplingSettings(Checked):
    """What is looked at next: facts or walks, in tiles of one relation, and noise."""

    edges: int | None = option(None, "path steps in one training step (none: chosen from the number of facts)", POSITIVE_INT)
    tile: int | None = option(32, "single facts of one relation that are multiplied together (none: chosen by the device)", POSITIVE_INT)
    path_mean: float = option(0.0, "mean of the Poisson number of steps a walk takes after its first (0: single facts)", WEIGHT)
    max_path: int = option(6, "no walk is longer than this", POSITIVE_INT)
    head_power: float = option(0.75, "a walk starts at an entity with probability ∝ degree^this (1: every edge alike)", WEIGHT)
    head_walks: int = option(1, "walks of a step that start at one entity (walks only; the program: as many as take 31 path steps)", POSITIVE_INT)
    relation_noise: bool = option(
        False, "noises of a path are reached through random relations behind the matrix that it updates (walks only; the program: true)"
    )
    noises: int | None = option(3, "k, the noises a path is weighed against (none: chosen by the device)", POSITIVE_INT)
    noise_draws: int | None = option(
        64,
        "noise entities drawn for rows that share them, together weighing as much as k (none: by the device, and noise_rows with it)",
        POSITIVE_INT,
    )
    noise_sharing: Literal["tile", "batch"] = option("tile", "which rows share their noises: those of a tile, or those of a batch")
    noise_rows: int | None = option(None, "rows of a batch that share their noises, where not those of a tile do (none: all)", POSITIVE_INT)
    noise: Literal["uniform", "unigram"] = option("uniform", "noise entities are drawn uniformly, or by how often they are a tail (unigram)")


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(Checked):
    """How belief changes: by Adagrad, or by the counted-step SGD, rate(τ) = rate/(1 + rate·decay·τ), τ a counter per row.

    The released program counts, with 2⁻⁶ for both first rates and no damping, and takes thousands of epochs.
    """

    rule: Literal["counted", "adagrad"] = option(
        "counted",
        "nce only, how rates fall: with the updates a row had (counted, the paper's), or with the gradients seen (adagrad)",
    )
    vector_rate: float = option(2.0**-2, "counted: first rate of entity vectors", POSITIVE)
    vector_decay: float = option(2.0**-10, "counted: fall of that rate, which is also the vectors' weight decay", WEIGHT)
    adagrad_rate: float | None = option(None, "adagrad: rate of entity vectors (none: chosen by facts per entity)", POSITIVE)
    adagrad_matrix_rate: float | None = option(None, "adagrad: rate of matrices (none: chosen by facts per relation)", POSITIVE)
    penalty: float | None = option(None, "adagrad: weight of ½(‖u_h‖² + ‖v_t‖²) for each path (none: chosen from the data's density)", WEIGHT)
    matrix_rate: float = option(2.0**-1, "counted: η1, first rate of matrices for the KB objective", POSITIVE)
    matrix_decay: float = option(2.0**-14, "counted: fall of the matrices' rate", WEIGHT)
    vector_damping: float = option(0.5, "counted: how much a vector's summed updates are damped by the objective's curvature along them", WEIGHT)
    matrix_damping: float = option(0.02, "counted: the same for matrices", WEIGHT)
    factor_limit: float = option(8.0, "a vector factor of an update is scaled down to this norm", LIMIT)
    saturation: float = option(6.0, "the objective's sigmoid is exactly 0 or 1 beyond this distance", LIMIT)
    orthogonal_rate: float = option(2.0**-4, "strength of one pull of a matrix towards an orthogonal one (0: no regulariser)", WEIGHT)
    orthogonal_every: float = option(256.0, "matrix updates for each such pull", POSITIVE)
    path_matrices: Literal["one", "all"] = option(
        "one", "a path updates one of its matrices, drawn at random (the program), or all of them (the paper)"
    )
    anneal: bool = option(True, "let all rates fall linearly to zero over the run's epochs")


@dataclass(frozen=True, kw_only=True)
class SoftmaxSettings(Checked):
    """The softmax objective: questions (h, r, ?) against all entities, a penalty on lengths, Adagrad. Read only where the objective is softmax."""

    questions: int | None = option(None, "questions in one step (none: chosen from the number of facts)", POSITIVE_INT)
    question_tile: int | None = option(
        None, "questions of one relation that are multiplied together (none: 16, or 4 where matrices have blocks)", POSITIVE_INT
    )
    answers: int | None = option(
        None, "a question with more known answers than this is asked several times an epoch (none: 1 or 4, by how many they have)", POSITIVE_INT
    )
    candidates: int | None = option(None, "entities drawn to stand for all of them (none: all where they fit)", POSITIVE_INT)
    rate: float | None = option(None, "Adagrad's rate for entity vectors (none: 0.2 in a small KB, else 0.1)", POSITIVE)
    matrix_rate: float | None = option(None, "Adagrad's rate for matrices; larger ones compose worse (none: chosen by facts per relation)", POSITIVE)
    penalty: float | None = option(None, "weight of ‖h‖² + ‖t‖² for each fact (none: chosen from the data's density)", WEIGHT)
    image_share: float | None = option(
        None, "weight of ‖hM‖² + ‖Mt‖² as a share of the penalty (1: DURA as published; none: 0.5, or 0.75 by the data's density)", WEIGHT
    )
    implied: float | None = option(
        0.7,
        "learn facts, at the weight of their confidence, that another relation of the pair implies at least so surely (none: only the KB's)",
        SHARE,
    )
    path_weight: float = option(0.2, "weight of a two-step path beside a fact (0: no paths)", WEIGHT)
    path_tiles: int | None = option(
        None, "tiles of paths in one step; the walks of a tile take the same two relations (none: a walk for every four questions)", POSITIVE_INT
    )
    path_tile: int = option(8, "walks in one such tile", POSITIVE_INT)


@dataclass(frozen=True, kw_only=True)
class CoderSettings(Checked):
    """The joint autoencoder's own training (the paper's section 4 and the released program)."""

    start: float = option(0.0, "share of the run after which the autoencoder begins to learn and to pull", SHARE)
    begin: Literal["random", "factors"] = option("random", "encoder and decoder begin at random, or from a factorisation of the matrices' cosines")
    traceless: bool | None = option(False, "look at matrices without their part of the identity (none: where they begin near it)")
    rate: float | None = option(0.25, "first rate of encoder and decoder (none: 0.25, less where d > 256)", POSITIVE)
    decay: float = option(2.0**-14, "fall of that rate, also their weight decay", WEIGHT)
    matrix_rate: float = option(2.0**-6, "η2, first rate at which the reconstruction pulls on a matrix, each time it does", WEIGHT)
    matrix_decay: float = option(2.0**-26, "fall of that rate", WEIGHT)
    every: float | None = option(None, "matrix updates for each autoencoder update (none: chosen from the number of facts)", POSITIVE)
    draw: Literal["updated", "uniform"] = option("updated", "relations are drawn as often as they are updated, or uniformly")
    batch: int = option(4, "relations of one autoencoder step; where more are due, several such steps follow each other", POSITIVE_INT)
    noises: int = option(3, "noise relations for each relation", POSITIVE_INT)
    smooth_relu: bool = option(True, "train with the program's smoothed ReLU (codes are always read with the plain one)")
    scale: float | None = option(1.0, "factor on the similarity's 1/√(d·c) (none: 1, less where d > 256)", POSITIVE)
    sparsity: float = option(0.0, "weight of ‖c‖₁/‖c‖₂, which a code must pay for (0: nothing, as in the paper)", WEIGHT)

    @property
    def first_rate(self) -> float:
        """Return the first rate, once it is known."""
        assert self.rate is not None, "fit_settings fills this in"
        return self.rate


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Checked):
    """When to look, when to stop, and where to work."""

    epochs: int | None = option(100, "passes over the directed facts (as many path steps; none: 36 in a small KB, else 60; nce 100)", POSITIVE_INT)
    minutes: float | None = option(None, "stop after this many minutes of training (none: no limit)", POSITIVE)
    validations: int = option(10, "how often to measure on valid over the whole run (0: never)", COUNT)
    validation_facts: int = option(2000, "at most this many facts of valid are ranked during training", POSITIVE_INT)
    patience: int = option(3, "stop after this many validations in which neither MR nor MRR improved (0: never)", COUNT)
    seed: int = option(0, "seed of every random choice", SEED)
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to train; auto takes CUDA where there is one")
    deterministic: bool = option(False, "use deterministic algorithms on CUDA too (the CPU always does)")

    @property
    def length(self) -> int:
        """Return the number of epochs, once it is known."""
        assert self.epochs is not None, "fit_settings fills this in"
        return self.epochs


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    """All that is needed to run a training again, beside the data."""

    recipe: str = option("joint", "the recipe these settings began with")
    model: ModelSettings = field(default_factory=ModelSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    updates: UpdateSettings = field(default_factory=UpdateSettings)
    softmax: SoftmaxSettings = field(default_factory=SoftmaxSettings)
    coder: CoderSettings = field(default_factory=CoderSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    @property
    def adagrad(self) -> bool:
        """Say whether training keeps Adagrad's sums of squares: the softmax objective always does."""
        return self.model.objective == "softmax" or self.updates.rule == "adagrad"

    def to_json(self) -> str:
        """Return the settings as readable, complete JSON."""
        return json.dumps(_plain(dataclasses.asdict(self)), indent=2) + "\n"

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        """Return a copy in which each dotted key (``model.dim``) has the value given; text is read as the option's type."""
        settings = self
        for key, value in values.items():
            settings = _with_value(settings, key, value)
        return settings


def _plain(value: Any) -> Any:
    """Write infinity as a word, which JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def settings_from_json(text: str) -> Settings:
    """Read what :meth:`Settings.to_json` wrote; an unknown or ill-typed option is a :class:`SettingError`."""
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingError(f"the settings are not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise SettingError(f"the settings must be a JSON object, not {type(tree).__name__}")
    values: dict[str, Any] = {}
    for section, content in tree.items():
        if isinstance(content, dict):
            values |= {f"{section}.{key}": value for key, value in content.items()}
        else:
            values[section] = content
    return Settings().with_values(values)


@functools.cache
def options() -> Mapping[str, tuple[Any, str]]:
    """Return every dotted option with its type and its explanation."""
    found: dict[str, tuple[Any, str]] = {}
    for section, kind in typing.get_type_hints(Settings).items():
        if dataclasses.is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            found |= {f"{section}.{item.name}": (hints[item.name], item.metadata["help"]) for item in dataclasses.fields(kind)}
        else:
            found[section] = (kind, "the recipe these settings began with")
    return found


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Read ``KEY=VALUE`` texts, as the command line's ``--set`` takes them."""
    values: dict[str, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set takes KEY=VALUE, for example model.dim=64; given was {text!r}")
        values[key.strip()] = value.strip()
    return values


def _with_value(settings: Settings, key: str, value: Any) -> Settings:
    """Return ``settings`` with one dotted option changed."""
    known = options()
    if key not in known:
        raise SettingError(f"unknown setting {key!r}{suggestion(key, known) or ': see relcode settings'}")
    kind, _ = known[key]
    parsed = _parse(key, value, kind)
    section, _, name = key.partition(".")
    if not name:
        return dataclasses.replace(settings, **{section: parsed})
    try:
        return dataclasses.replace(settings, **{section: dataclasses.replace(getattr(settings, section), **{name: parsed})})
    except SettingError as error:
        raise SettingError(f"{section}.{error}") from None


def _parse(key: str, value: Any, kind: Any) -> Any:
    """Read text as the annotated type; values that are no text are only checked."""
    if not isinstance(value, str):
        return value
    kinds = typing.get_args(kind) if typing.get_origin(kind) is not Literal else ()
    plain = next((part for part in kinds if part is not type(None)), kind)
    lowered = value.lower()
    if type(None) in kinds and lowered in ("none", "null", ""):
        return None
    try:
        if plain is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[lowered]
        return plain(value) if plain in (int, float) else value
    except (KeyError, ValueError):
        raise SettingError(f"{key} cannot be {value!r}: it must be {describe_type(kind)}") from None
