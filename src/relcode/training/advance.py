"""Going n steps further: the only training loop. It decides nothing; who calls it decides when to look, save and stop."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from relcode.config import CoderSettings, SamplingSettings, Settings
from relcode.errors import NotFinite
from relcode.graph.adjacency import Adjacency
from relcode.graph.dataset import Dataset
from relcode.graph.facts import directed
from relcode.graph.implied import implied_facts
from relcode.model.autoencoder import without_identity
from relcode.model.factors import factor_coder
from relcode.model.parameters import Parameters, initial_parameters
from relcode.ops.room import Room
from relcode.ops.workers import torch_alone
from relcode.sampling.batches import PathBatch, copy_batch_
from relcode.sampling.facts import FactStream
from relcode.sampling.noise import NoiseSource
from relcode.sampling.questions import PathStream, QuestionBatch, QuestionStream
from relcode.sampling.walks import WalkStream
from relcode.training.capture import capture
from relcode.training.fit import fit_settings
from relcode.training.softmax_step import take_softmax_step
from relcode.training.state import StepStats, TrainState
from relcode.training.step import Stream, take_step


class Stepper:
    """Takes steps on one state's parameters, in place; on CUDA the step is recorded once and replayed."""

    def __init__(self, state: TrainState, stream: Stream, noise: NoiseSource, settings: Settings, device: torch.device) -> None:
        """Make ready; nothing moves yet."""
        self.parameters, self.generator = state.parameters, state.generator
        self.stream, self.noise, self.settings = stream, noise, settings
        count = self.parameters.coder_count
        self.must_begin = count is not None and not float(count)  # it has not spoken yet
        self.totals = torch.zeros(3, dtype=torch.float64, device=device)  # loss, edges, autoencoder loss
        self.anneal = torch.ones((), device=device)
        self.room = Room()
        self.spoken = 0  # steps with the autoencoder since the totals were last read
        self.quiet = replace(settings, model=replace(settings.model, autoencoder=False))  # before the autoencoder begins
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}  # with the autoencoder and without
        self.batch: PathBatch | QuestionBatch | None = None
        if device.type == "cuda":
            before = self.generator.get_state()
            # For its shapes alone: what it drew is drawn again. A copy, since a batch may be part of the epoch's plan, and this one is written to.
            self.batch = copy.deepcopy(self.stream.batch(state.step, self.generator))
            self.generator.set_state(before)

    def take(self, step: int, anneal: float, progress: float) -> None:
        """Take one step with every rate scaled by ``anneal``, after a share ``progress`` of the run."""
        self.anneal.fill_(anneal)
        speaks = self.settings.model.autoencoder and progress >= self.settings.coder.start
        self.spoken += speaks
        if speaks and self.must_begin:
            begin_coder_(self.parameters, self.settings.coder)
            self.must_begin = False
        if not self.parameters.head_ED.is_cuda:
            shares = self.settings.model.objective == "nce" and self.settings.updates.rule == "adagrad"  # pieces among threads of its own
            with torch_alone() if shares else nullcontext():
                self.batch = self.stream.batch(step, self.generator)
                self._move(speaks)
            return
        copy_batch_(self.batch, self.stream.batch(step, self.generator))
        if speaks not in self.graphs:
            self.graphs[speaks] = capture(lambda: self._move(speaks), [*self.parameters.tensors().values(), self.totals], self.generator)
        self.graphs[speaks].replay()

    def read_totals(self) -> tuple[float, float, float]:
        """Return the sums of loss, edges and autoencoder loss since they were last read."""
        loss, edges, coder_loss = self.totals.tolist()
        self.totals.zero_()
        return loss, edges, coder_loss

    def _move(self, speaks: bool) -> None:
        settings = self.settings if speaks else self.quiet
        assert self.batch is not None, "there is a batch before the first step"
        if isinstance(self.batch, QuestionBatch):
            result = take_softmax_step(self.parameters, self.batch, settings, self.anneal, self.generator, self.room)
        else:
            result = take_step(self.parameters, self.batch, self.noise, settings, self.anneal, self.generator, self.room)
        self.totals += torch.stack([result.loss, result.edges, result.coder_loss])


@dataclass
class Trainer:
    """What training needs beside its state: where batches and noise come from, and the settings."""

    stream: Stream
    noise: NoiseSource
    settings: Settings
    device: torch.device
    _stepper: Stepper | None = None

    def stepper(self, state: TrainState) -> Stepper:
        """Return the stepper of this state, made on first use."""
        if self._stepper is None or self._stepper.parameters is not state.parameters:
            self._stepper = Stepper(state, self.stream, self.noise, self.settings, self.device)
        return self._stepper


def make_trainer(dataset: Dataset, settings: Settings, device: torch.device) -> Trainer:
    """Prepare the stream of facts (or of walks, where paths are asked for) and the noise."""
    settings = fit_settings(settings, dataset)
    directed_N3 = directed(dataset.train, dataset.num_relations)
    noise = NoiseSource(directed_N3, settings.sampling.noise, device)
    if settings.model.objective == "softmax":
        return Trainer(_make_questions(dataset, directed_N3, settings, device), noise, settings, device)
    return Trainer(_make_stream(dataset, directed_N3, settings.sampling, settings.training.seed, device), noise, settings, device)


def _make_questions(dataset: Dataset, directed_N3: Tensor, settings: Settings, device: torch.device) -> QuestionStream:
    """Return the stream of questions, with paths beside them where they are asked for."""
    softmax, seed, paths = settings.softmax, settings.training.seed, None
    assert softmax.questions is not None and softmax.question_tile is not None and softmax.answers is not None, "fit_settings fills these in"
    assert softmax.path_tiles is not None, "fit_settings fills this in"
    if softmax.path_weight > 0:
        adjacency = Adjacency.build(dataset.train, dataset.num_entities, dataset.num_relations)
        paths = PathStream(adjacency, dataset.num_directed, tiles=softmax.path_tiles, tile=softmax.path_tile, seed=seed, device=device)
    weight_N = torch.ones(len(directed_N3))
    if softmax.implied is not None:
        implied = implied_facts(dataset.train, dataset.num_entities, dataset.num_relations, softmax.implied)
        directed_N3, weight_N = torch.cat([directed_N3, implied.facts_N3]), torch.cat([weight_N, implied.confidence_N.float()])
    return QuestionStream(
        directed_N3,
        dataset.num_directed,
        weight_N=weight_N,
        questions=softmax.questions,
        tile=softmax.question_tile,
        answers=softmax.answers,
        seed=seed,
        device=device,
        paths=paths,
    )


def _make_stream(dataset: Dataset, directed_N3: Tensor, sampling: SamplingSettings, seed: int, device: torch.device) -> Stream:
    """Return a stream of walks where paths are asked for, else of facts."""
    assert sampling.edges is not None and sampling.tile is not None, "fit_settings fills these in"
    if sampling.path_mean == 0:
        return FactStream(
            directed_N3, dataset.num_directed, edges=sampling.edges, tile=sampling.tile, seed=seed, device=device, power=sampling.head_power
        )
    return WalkStream(
        Adjacency.build(dataset.train, dataset.num_entities, dataset.num_relations),
        dataset.num_directed,
        edges=sampling.edges,
        mean=sampling.path_mean,
        longest=sampling.max_path,
        power=sampling.head_power,
        seed=seed,
        device=device,
        head_walks=sampling.head_walks,
        relation_noise=sampling.relation_noise,
        together=(sampling.tile if sampling.noise_sharing == "tile" else sampling.noise_rows) or 1,
    )


def initial_state(dataset: Dataset, settings: Settings, device: torch.device) -> TrainState:
    """Return the state before the first step: parameters drawn from the seed, and a random stream for the steps."""
    seed = settings.training.seed
    parameters = initial_parameters(dataset.num_entities, dataset.num_directed, settings, torch.Generator().manual_seed(seed), device)
    return TrainState(parameters, 0, torch.Generator(device).manual_seed(seed + 1))


def begin_coder_(parameters: Parameters, settings: CoderSettings) -> None:
    """Set encoder and decoder, in place, to where they begin: where they were drawn, or at the factors of the matrices' cosines.

    A coder that does not look at the identity begins without it, and never learns of it: when codes are read, A I = 0.
    """
    encoder_CQ, decoder_CQ, matrix_SDD = parameters.encoder_CQ, parameters.decoder_CQ, parameters.matrix_SDD
    assert encoder_CQ is not None and decoder_CQ is not None
    if not matrix_SDD.isfinite().all():
        return  # training has diverged, which is told when its steps are done
    if settings.begin == "factors":
        seen_SDD = without_identity(matrix_SDD) if settings.traceless else matrix_SDD
        with nullcontext() if matrix_SDD.is_cuda else torch_alone(1):  # the same bits on any number of threads
            found = factor_coder(seen_SDD, len(encoder_CQ))
        for begun_CQ, found_CQ in zip((encoder_CQ, decoder_CQ), found, strict=True):
            begun_CQ.copy_(found_CQ)
    elif settings.traceless:
        for begun_CQ in (encoder_CQ, decoder_CQ):
            begun_CQ.copy_(without_identity(begun_CQ.unflatten(1, matrix_SDD.shape[1:])).flatten(1))


def anneal_factor(progress: float, anneal: bool) -> float:
    """Return the factor on every rate after a share ``progress`` of the run: 1 − progress, or 1 where rates are not annealed."""
    return max(0.0, 1 - progress) if anneal else 1.0


def advance(state: TrainState, steps: int, trainer: Trainer, total_steps: int, least_progress: float = 0.0) -> tuple[TrainState, StepStats]:
    """Take ``state`` the given number of steps further; statistics are gathered on the device and read once, at the end.

    Rates are annealed over ``total_steps``; where time is the limit, ``least_progress`` says how much of it is gone.
    """
    settings = trainer.settings
    stepper = trainer.stepper(state)
    for step in range(state.step, state.step + steps):
        progress = max(step / total_steps, least_progress)
        stepper.take(step, anneal_factor(progress, settings.updates.anneal), progress)
    loss, edges, coder_loss = stepper.read_totals()
    coder = coder_loss / stepper.spoken if stepper.spoken else None
    stepper.spoken = 0
    finite = math.isfinite(loss + coder_loss) and parameters_finite(state.parameters)
    return replace(state, step=state.step + steps), StepStats(steps, edges, loss / max(edges, 1), coder, finite)


def parameters_finite(parameters: Parameters) -> bool:
    """Say whether every parameter is finite (a sum is finite only if all its terms are, barring overflow, which is as bad)."""
    return all(bool(torch.isfinite(value.sum())) for value in parameters.tensors().values())


def check_finite(stats: StepStats, step: int) -> None:
    """Raise :class:`NotFinite` where training has diverged."""
    if not stats.finite:
        raise NotFinite(
            f"training diverged before step {step}: a loss or parameter is not finite; try smaller rates (default recipe: softmax.rate, "
            "softmax.matrix_rate; the paper's: updates.adagrad_rate, updates.adagrad_matrix_rate)"
        )
