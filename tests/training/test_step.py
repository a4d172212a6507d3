from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from training.slow import StepOracle
from training.small import CPU, same, small, snapshot
from walked import Walk, batch_of, chained, prefixes_of, random_walks, tiled

import relcode.model.paths as paths_module
import relcode.ops.outer as outer_module
import relcode.training.step as step_module
from relcode.config import Settings
from relcode.graph.adjacency import Adjacency
from relcode.graph.dataset import Dataset
from relcode.graph.facts import directed
from relcode.model.autoencoder import coder_gradients, flatten_matrices
from relcode.model.orthogonality import orthogonal_pull
from relcode.model.parameters import Parameters, coder_in_force, initial_parameters
from relcode.ops.tiles import PlainTiles
from relcode.sampling.batches import Level, PathBatch
from relcode.sampling.facts import FactStream
from relcode.sampling.noise import NoiseSource
from relcode.sampling.walks import WalkStream
from relcode.training.coder import CoderTurn, draw_matrices
from relcode.training.step import noise_groups, prefixes_per_head, pull_towards_orthogonal_, take_step

ENTITIES, DIRECTED = 7, 4


class FixedNoise(NoiseSource):
    """Noise that is known beforehand: some for each tile, or for each level where all rows share it."""

    def __init__(self, batch: PathBatch, settings: Settings) -> None:
        generator, sampling = torch.Generator().manual_seed(9), settings.sampling
        rows = [len(level.relation_T) if sampling.noise_sharing == "tile" else 1 for level in batch.levels]
        self.noises = [torch.randint(ENTITIES, (count, sampling.noise_draws), generator=generator) for count in rows]
        self.next = 0

    def draw(self, rows: int, columns: int, generator: torch.Generator) -> Tensor:
        noise_TK = self.noises[self.next]
        assert noise_TK.shape == (rows, columns)
        self.next += 1
        return noise_TK


def started(settings: Settings, entities: int = ENTITIES, num_directed: int = DIRECTED) -> Parameters:
    """Return parameters in mid-training: counters well above zero and all different."""
    parameters = initial_parameters(entities, num_directed, settings, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(4)  # its own: the coder's first values must not shift what comes after them
    for vectors in (parameters.head_ED, parameters.tail_ED):
        vectors.copy_(torch.randn(vectors.shape, generator=generator))
    for count in (parameters.head_count_E, parameters.tail_count_E, parameters.matrix_count_S):
        count.copy_(torch.rand(count.shape, generator=generator) * 3000)
    parameters.matrix_SDD.mul_(torch.rand(num_directed, 1, 1, generator=generator) + 0.5)
    return parameters


FREE = {
    "updates__saturation": math.inf,
    "updates__factor_limit": math.inf,
    "updates__orthogonal_rate": 0.0,
    "updates__vector_damping": 0.0,
    "updates__matrix_damping": 0.0,
}
SINGLE = [Walk(h, ((r, t, True),)) for h in range(ENTITIES) for r in range(DIRECTED) for t in range(ENTITIES)]
CASES: dict[str, tuple[list[Walk] | PathBatch, dict[str, Any], float]] = {
    "all triples in both directions": (SINGLE, {}, 1.0),
    "walks": (random_walks(25, ENTITIES, DIRECTED, 4, 0), {}, 1.0),
    "walks, all matrices": (random_walks(25, ENTITIES, DIRECTED, 4, 0), {"updates__path_matrices": "all"}, 1.0),
    "walks, not normalised": (random_walks(25, ENTITIES, DIRECTED, 3, 1), {"model__normalise": False}, 1.0),
    "walks, damped": (random_walks(25, ENTITIES, DIRECTED, 4, 2), {"updates__vector_damping": 0.5, "updates__matrix_damping": 0.1}, 1.0),
    "damped, all matrices": (random_walks(25, ENTITIES, DIRECTED, 4, 2), {"updates__matrix_damping": 0.5, "updates__path_matrices": "all"}, 1.0),
    "damped, not normalised": (random_walks(25, ENTITIES, DIRECTED, 2, 2), {"updates__matrix_damping": 0.5, "model__normalise": False}, 1.0),
    "walks, annealed": (random_walks(25, ENTITIES, DIRECTED, 4, 3), {"updates__vector_damping": 0.5}, 0.25),
    "walks, noises shared by all": (random_walks(25, ENTITIES, DIRECTED, 3, 5), {"sampling__noise_sharing": "batch"}, 1.0),
    "relation noise": (chained(ENTITIES, DIRECTED, 0), {}, 1.0),
    "relation noise, damped": (chained(ENTITIES, DIRECTED, 1), {"updates__vector_damping": 0.5, "updates__matrix_damping": 0.1}, 0.5),
    "relation noise, shared by all": (chained(ENTITIES, DIRECTED, 2), {"sampling__noise_sharing": "batch"}, 1.0),
    "one noise drawn": (random_walks(9, ENTITIES, DIRECTED, 2, 4), {"sampling__noise_draws": 1, "sampling__noises": 5}, 1.0),
}


def laid_out(walks: list[Walk] | PathBatch) -> PathBatch:
    """Return walks, or the rows of a batch, in tiles."""
    return tiled(walks, 3, empty_tiles=1) if isinstance(walks, PathBatch) else batch_of(walks, width=5, empty_tiles=1)


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_that_of_the_loop(name: str) -> None:
    walks, changes, anneal = CASES[name]
    settings = small("base", **{**FREE, **changes})
    parameters, batch = started(settings), laid_out(walks)
    noise = FixedNoise(batch, settings)
    oracle = StepOracle(parameters, batch, noise.noises, settings, anneal)
    result = take_step(parameters, batch, noise, settings, torch.tensor(anneal), torch.Generator())
    assert result.loss.item() == pytest.approx(oracle.loss.item(), rel=1e-4)
    assert result.edges.item() == len(oracle.paths)
    assert result.coder_loss.item() == 0
    for key, value in parameters.tensors().items():
        moved = (oracle.after[key] - oracle.before[key]).abs().max()
        assert moved > 0, key
        # Compare what was added, not the sum: a wrong update must not hide behind a large value.
        found = value.double() - oracle.before[key]
        assert torch.allclose(found, oracle.after[key] - oracle.before[key], rtol=1e-3, atol=float(moved) * 2e-4), key


def test_counters_of_one_walk() -> None:
    # The walk 0 -r1→ 2 -r3→ 5 is two training paths; k = 3, and two noises drawn a tile weigh 1.5 each.
    settings = small("base", **FREE, sampling__noise_draws=2)
    parameters, batch = started(settings), batch_of([Walk(0, ((1, 2, True), (3, 5, False)))], width=2)
    before, noise = snapshot(parameters), FixedNoise(batch, settings)
    noise.noises = [torch.tensor([[4, 4]]), torch.tensor([[4, 5]])]
    take_step(parameters, batch, noise, settings, torch.ones(()), torch.Generator())
    assert (parameters.head_count_E - before["head_count_E"]).tolist() == [8, 0, 0, 0, 0, 0, 0]
    assert (parameters.tail_count_E - before["tail_count_E"]).tolist() == pytest.approx([0, 0, 1, 0, 4.5, 2.5, 0])
    assert (parameters.matrix_count_S - before["matrix_count_S"]).tolist() == [0, 1, 0, 0]


def test_prefixes_are_counted_at_their_heads(family: Dataset) -> None:
    adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
    stream = WalkStream(adjacency, family.num_directed, edges=200, mean=1.5, longest=5, power=1.0, seed=0, device=CPU)
    for batch in (stream.batch(0, torch.Generator().manual_seed(0)), batch_of(random_walks(20, 9, 3, 4, 1), 4, empty_tiles=2)):
        expected = Counter(path.head for path in prefixes_of(batch))
        assert prefixes_per_head(batch, family.num_entities).tolist() == [expected[entity] for entity in range(family.num_entities)]


@pytest.mark.parametrize("name", ["joint", "joint+comp"])
def test_fast_and_plain_products_take_the_same_steps(name: str, family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(name)
    facts = directed(family.train, family.num_relations)
    stream: FactStream | WalkStream = FactStream(facts, family.num_directed, edges=48, tile=8, seed=0, device=CPU)
    if name == "joint+comp":
        adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
        stream = WalkStream(adjacency, family.num_directed, edges=48, mean=1.0, longest=4, power=1.0, seed=0, device=CPU)
    noise = NoiseSource(facts, "uniform", CPU)
    results = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(paths_module, "tiles_of", lambda matrix_SDD, relation_T, scale_S, width: PlainTiles(matrix_SDD, relation_T, scale_S))
        generator = torch.Generator().manual_seed(1)
        parameters = started(settings, family.num_entities, family.num_directed)
        for step in range(5):
            take_step(parameters, stream.batch(step, generator), noise, settings, torch.tensor(0.5), generator)
        results.append(snapshot(parameters))
    for key, value in results[0].items():
        assert torch.allclose(value, results[1][key], rtol=1e-4, atol=1e-5), key


def test_matrices_are_drawn_by_their_updates() -> None:
    count_S = torch.tensor([0.0, 3.0, 0.0, 1.0])
    relation_J, repeats_J = draw_matrices(count_S, 4000.4, torch.Generator().manual_seed(0))
    times = Counter(relation_J.tolist())
    assert sum(times.values()) == 4000 and set(times) == {1, 3}
    assert times[1] == pytest.approx(3000, abs=3.3 * math.sqrt(4000 * 3 / 16))
    assert repeats_J.tolist() == [times[relation] for relation in relation_J.tolist()]
    assert len(draw_matrices(count_S, 0.01, torch.Generator())[0]) == 1  # at least one; who calls weighs it down


@pytest.mark.parametrize(("expected", "rate", "share"), [(1.0, 0.01, 0.01), (3.0, 0.01, 0.03), (0.25, 0.01, 0.0025), (5.0, 1e6, math.inf)])
def test_a_matrix_drawn_m_times_is_pulled_m_times_as_far_within_what_is_safe(expected: float, rate: float, share: float) -> None:
    parameters = started(small("base"))
    before = parameters.matrix_SDD.clone()
    count_S = torch.tensor([0.0, 0.0, 7.0, 0.0])  # only relation 2 was updated, so only it can be drawn
    pull_towards_orthogonal_(parameters, count_S, torch.tensor(rate), expected, torch.Generator().manual_seed(0))
    pull_XDD, safe_X = orthogonal_pull(before[2:3])
    moved = before[2] + min(share, safe_X.item()) * pull_XDD[0]
    assert torch.allclose(parameters.matrix_SDD[2], moved, atol=1e-6)
    assert torch.equal(parameters.matrix_SDD[[0, 1, 3]], before[[0, 1, 3]])


@pytest.mark.parametrize(
    ("due", "batch", "anneal", "smooth", "scale", "saturation"),
    [
        (1, 4, 1.0, True, 1.0, 6.0),
        (1, 4, 1.0, True, 1.0, 0.01),
        (3, 4, 1.0, False, 1.0, 6.0),
        (2, 4, 0.5, True, 2.0, 6.0),
        (6, 2, 0.5, True, 1.0, 6.0),
        (0.125, 4, 1.0, True, 1.0, 6.0),
    ],
)
def test_the_coder_steps_as_its_gradients_say(due: float, batch: int, anneal: float, smooth: bool, scale: float, saturation: float) -> None:
    """``due`` relations, at most ``batch`` in a step, one step after the other; less than one relation is one of less weight."""
    # With one relation there is one noise relation too, so nothing is left to chance.
    options = {"coder__batch": batch, "coder__matrix_decay": 1.0, "coder__smooth_relu": smooth, "coder__scale": scale}
    settings = small("joint", **options, updates__saturation=saturation)
    parameters = started(settings, num_directed=1)
    assert parameters.coder_count is not None and parameters.encoder_CQ is not None and parameters.decoder_CQ is not None
    parameters.coder_count.fill_(700)
    parameters.decoder_CQ.mul_(-2)
    parameters.encoder_CQ[0] = flatten_matrices(parameters.matrix_SDD)[0] / 8  # one entry of the code is on, by the plain ReLU too
    parameters.matrix_count_S.fill_(64)
    expected = Parameters(**snapshot(parameters))
    assert expected.encoder_CQ is not None and expected.decoder_CQ is not None and expected.coder_count is not None
    steps = math.ceil(due / batch)
    draws, losses = max(1, round(due / steps)), []
    flat_JQ = flatten_matrices(expected.matrix_SDD).expand(draws, -1)  # as it is when the first step begins
    for _ in range(steps):
        encoder_CQ, decoder_CQ = coder_in_force(expected, settings.coder)
        noise_JKQ = flat_JQ[:, None].expand(-1, 3, -1)
        found = coder_gradients(flat_JQ, noise_JKQ, encoder_CQ, decoder_CQ, dim=8, smooth=smooth, saturation=saturation, scale=scale)
        factor = anneal * min(1.0, due)
        matrix_rate = 2.0**-6 / (1 + 2.0**-6 * 64)  # halved by its counter
        expected.matrix_SDD.add_((factor * matrix_rate * found.matrix_JQ.sum(0)).view(1, 8, 8))
        expected.encoder_CQ.add_(0.25 * factor * found.encoder_CQ)
        expected.decoder_CQ.add_(0.25 * factor * found.decoder_CQ)
        expected.coder_count.add_(draws * factor)
        losses.append(found.loss.item())
    before = snapshot(parameters)
    turn = CoderTurn(parameters, torch.ones(1), settings, due, torch.tensor(anneal), torch.Generator())
    loss = turn.pull_(turn.learn_())
    assert loss.item() == pytest.approx(losses[-1], rel=1e-5)  # of the last ones
    for name in ("matrix_SDD", "encoder_CQ", "decoder_CQ", "coder_count"):
        wanted, got = expected.tensors()[name] - before[name], parameters.tensors()[name] - before[name]
        assert wanted.abs().max() > 0
        assert torch.allclose(got, wanted, rtol=1e-3, atol=1e-6), name
    assert parameters.matrix_count_S.item() == 64  # autoencoder steps do not raise it


def test_a_batch_of_padding_moves_nothing() -> None:
    settings = small("joint")
    parameters, batch = started(settings), batch_of([Walk(0, ((0, 0, True),))], width=2)
    batch.levels[0].weight_TW.zero_()
    batch.levels[0].chosen_TW.zero_()
    before = snapshot(parameters)
    result = take_step(parameters, batch, FixedNoise(batch, settings), settings, torch.ones(()), torch.Generator())
    assert result.edges.item() == result.loss.item() == 0
    assert same(before, parameters.tensors())


def test_the_coder_touches_the_matrices_it_was_drawn_for_alone() -> None:
    settings = small("joint")
    parameters = started(settings)
    before = snapshot(parameters)
    turn = CoderTurn(parameters, torch.tensor([0.0, 5.0, 0.0, 0.0]), settings, 3.0, torch.ones(()), torch.Generator().manual_seed(0))
    turn.pull_(turn.learn_())
    assert torch.equal(parameters.matrix_SDD[[0, 2, 3]], before["matrix_SDD"][[0, 2, 3]])  # noise relations feel nothing
    assert not torch.equal(parameters.matrix_SDD[1], before["matrix_SDD"][1])
    for name in ("head_ED", "tail_ED", "head_count_E", "tail_count_E", "matrix_count_S"):
        assert torch.equal(parameters.tensors()[name], before[name])


def step_with(settings: Settings, size: float = 1.0) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Take one step on the same batch and noise whatever the settings; return the tensors before and after."""
    parameters, batch = started(settings), batch_of(random_walks(25, ENTITIES, DIRECTED, 3, 5), width=5)
    parameters.matrix_SDD.mul_(size)
    before = snapshot(parameters)
    take_step(parameters, batch, FixedNoise(batch, settings), settings, torch.ones(()), torch.Generator().manual_seed(0))
    return before, snapshot(parameters)


def test_switching_normalisation_off() -> None:
    """With it the size of what is stored means nothing to the vectors; without it, everything."""
    for normalise in (True, False):
        settings = small("base", model__normalise=normalise)
        plain, large = step_with(settings)[1], step_with(settings, size=3.0)[1]
        assert torch.allclose(plain["head_ED"], large["head_ED"], atol=1e-6) is normalise
        assert torch.allclose(plain["tail_ED"], large["tail_ED"], atol=1e-6) is normalise


def test_switching_the_regulariser_off() -> None:
    """Vectors and counters feel nothing of it in the step itself; the matrices do, and become more orthogonal."""
    without, with_it = step_with(small("base", updates__orthogonal_rate=0.0)), step_with(small("base", updates__orthogonal_rate=1.0))

    def defect(matrix_SDD: Tensor) -> float:
        unit_SDD = matrix_SDD / (matrix_SDD.flatten(1).norm(dim=1) / math.sqrt(8))[:, None, None]
        return float((unit_SDD @ unit_SDD.transpose(1, 2) - torch.eye(8)).norm())

    for name in set(without[1]) - {"matrix_SDD"}:
        assert torch.equal(without[1][name], with_it[1][name])
    assert defect(with_it[1]["matrix_SDD"]) < 0.95 * defect(without[1]["matrix_SDD"])


def test_switching_the_autoencoder_off() -> None:
    before, after = step_with(small("joint"))
    assert all(not torch.equal(before[name], after[name]) for name in ("encoder_CQ", "decoder_CQ", "coder_count"))
    assert "encoder_CQ" not in step_with(small("base"))[1]
    undrawn = {"updates__orthogonal_rate": 0.0}  # what is drawn for it comes after the autoencoder's draws
    silent = step_with(small("joint", coder__matrix_rate=0.0, **undrawn))[1]
    base = step_with(small("base", **undrawn))[1]
    assert torch.equal(silent["matrix_SDD"], base["matrix_SDD"])  # it learns, and the matrices do not hear of it
    assert not torch.equal(after["matrix_SDD"], base["matrix_SDD"])


def test_a_nan_shows_in_the_loss() -> None:
    settings = small("joint")
    parameters, batch = started(settings), batch_of(random_walks(5, ENTITIES, DIRECTED, 2, 6), width=5)
    parameters.head_ED.fill_(math.nan)
    result = take_step(parameters, batch, FixedNoise(batch, settings), settings, torch.ones(()), torch.Generator())
    assert not torch.isfinite(result.loss)


@pytest.mark.parametrize("name", ["base", "base+comp"])
def test_adagrad_on_the_cpu_takes_the_steps_of_the_plain_version_whatever_the_threads(
    name: str, family: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"sampling__noise_sharing": "batch", "sampling__noise_rows": 8, "updates__rule": "adagrad", "updates__penalty": 0.01}
    settings = small(name, **changes, updates__factor_limit=math.inf, updates__adagrad_rate=0.1, updates__adagrad_matrix_rate=0.01)
    facts, before = directed(family.train, family.num_relations), torch.get_num_threads()
    stream: FactStream | WalkStream = FactStream(facts, family.num_directed, edges=48, tile=8, seed=0, device=CPU)
    if name == "base+comp":
        adjacency = Adjacency.build(family.train, family.num_entities, family.num_relations)
        stream = WalkStream(adjacency, family.num_directed, edges=48, mean=1.0, longest=4, power=1.0, seed=0, device=CPU, together=8)
    noise = NoiseSource(facts, "uniform", CPU)

    def after(threads: int) -> dict[str, Tensor]:
        torch.set_num_threads(threads)
        generator = torch.Generator().manual_seed(1)
        parameters = started(settings, family.num_entities, family.num_directed)
        for step in range(5):
            take_step(parameters, stream.batch(step, generator), noise, settings, torch.tensor(0.5), generator)
        return snapshot(parameters)

    try:
        one, two = after(1), after(2)
        monkeypatch.setattr(step_module, "block_gradients", plain_gradients)
        monkeypatch.setattr(outer_module, "cpu_climb_outer_", outer_module.plain_climb_outer_)
        plain = after(1)
    finally:
        torch.set_num_threads(before)
    assert same(one, two)
    for key, value in one.items():
        assert torch.allclose(value, plain[key], rtol=1e-3, atol=1e-4), key


def plain_gradients(levels: Any, head_ED: Tensor, tail_ED: Tensor, noises: list[Tensor], matrix_SDD: Tensor, rule: Any, room: Any) -> Any:
    """Return the gradients of all rows at once, from the same tables."""
    tails, others = [tail_ED[level.tail_TW] for level in levels], [tail_ED[noise_GK] for noise_GK in noises]
    return paths_module.path_gradients(levels, head_ED[levels[0].source_TW], tails, others, matrix_SDD, rule)


@pytest.mark.parametrize(("rows", "asked", "groups"), [(64, 16, 4), (64, None, 1), (30, 64, 1), (1000, 64, 10), (67, 8, 1), (64, 64, 1)])
def test_rows_that_share_noises_are_as_many_as_asked_or_a_little_more(rows: int, asked: int | None, groups: int) -> None:
    sampling = small("base", sampling__noise_sharing="batch", sampling__noise_rows=asked).sampling
    row = torch.zeros(rows, 1, dtype=torch.long)
    level = Level(row[:, 0], row, row, row.float(), row.float(), row.float())
    assert noise_groups(level, sampling) == groups
