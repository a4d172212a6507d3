from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from training.small import CPU, same, small, snapshot

import relcode.training.advance as advance_module
from relcode.config import Settings
from relcode.errors import NotFinite, SettingError
from relcode.graph.dataset import Dataset
from relcode.model.autoencoder import codes
from relcode.model.parameters import Parameters, initial_parameters
from relcode.recipes import RECIPES, recipe
from relcode.sampling.facts import FactStream
from relcode.sampling.questions import QuestionStream
from relcode.sampling.walks import WalkStream
from relcode.training.advance import advance, anneal_factor, begin_coder_, check_finite, initial_state, make_trainer, parameters_finite
from relcode.training.coder import CoderTurn
from relcode.training.fit import fit_settings
from relcode.training.state import StepStats, TrainState
from relcode.training.step import StepResult, take_step

TOTAL = 40


def trained(dataset: Dataset, settings: Settings, chunks: list[int]) -> tuple[TrainState, list[StepStats]]:
    state, trainer, told = initial_state(dataset, settings, CPU), make_trainer(dataset, settings, CPU), []
    for steps in chunks:
        state, stats = advance(state, steps, trainer, TOTAL)
        told.append(stats)
    return state, told


def without_entity_0(dataset: Dataset) -> Dataset:
    return replace(dataset, train=dataset.train[(dataset.train[:, 0] != 0) & (dataset.train[:, 2] != 0)])


@pytest.mark.parametrize("name", RECIPES)
def test_same_seed_same_result(name: str, family: Dataset) -> None:
    settings = small(name)
    first, again = trained(family, settings, [12])[0], trained(family, settings, [12])[0]
    assert same(first.parameters.tensors(), again.parameters.tensors())
    assert torch.equal(first.generator.get_state(), again.generator.get_state())
    other = trained(family, small(name, training__seed=1), [12])[0]
    assert not torch.equal(first.parameters.head_ED, other.parameters.head_ED)
    assert not torch.equal(first.generator.get_state(), other.generator.get_state())


@pytest.mark.parametrize("name", RECIPES)
def test_ten_steps_are_three_and_seven_bit_for_bit(name: str, family: Dataset) -> None:
    settings = small(name)
    whole, (all_ten,) = trained(family, settings, [10])
    parts, (three, seven) = trained(family, settings, [3, 7])
    assert whole.step == parts.step == 10
    assert same(whole.parameters.tensors(), parts.parameters.tensors())
    assert torch.equal(whole.generator.get_state(), parts.generator.get_state())
    assert all_ten.edges == three.edges + seven.edges
    assert all_ten.loss * all_ten.edges == pytest.approx(three.loss * three.edges + seven.loss * seven.edges, rel=1e-9)
    assert [told.steps for told in (all_ten, three, seven)] == [10, 3, 7]


@pytest.mark.parametrize("name", RECIPES)
def test_a_state_put_down_and_taken_up_again_goes_on_as_if_nothing_had_been(name: str, family: Dataset) -> None:
    """What a checkpoint holds is enough: tensors, step and the state of the generator; trainer and streams are made anew."""
    settings = small(name)
    state, _ = trained(family, settings, [4])
    generator = torch.Generator()
    generator.set_state(state.generator.get_state())
    taken_up = TrainState(Parameters(**snapshot(state.parameters)), state.step, generator)
    taken_up, _ = advance(taken_up, 8, make_trainer(family, settings, CPU), TOTAL)
    assert same(taken_up.parameters.tensors(), trained(family, settings, [12])[0].parameters.tensors())


PAPER = [name for name in RECIPES if name != "default"]


@pytest.mark.parametrize("name", PAPER)
def test_statistics_are_those_of_the_steps(name: str, family: Dataset) -> None:
    settings = small(name)
    trainer, state = make_trainer(family, settings, CPU), initial_state(family, settings, CPU)
    loss = edges = coder_loss = 0.0
    for step in range(5):
        batch = trainer.stream.batch(step, state.generator)
        result = take_step(state.parameters, batch, trainer.noise, settings, torch.tensor(1 - step / TOTAL), state.generator)
        loss, edges, coder_loss = loss + result.loss.item(), edges + result.edges.item(), coder_loss + result.coder_loss.item()
    found, (stats,) = trained(family, settings, [5])
    assert same(found.parameters.tensors(), state.parameters.tensors())
    assert stats.steps == 5 and stats.edges == edges and stats.finite
    assert stats.loss == pytest.approx(loss / edges)  # a mean over training paths
    if settings.model.autoencoder:
        assert stats.coder_loss == pytest.approx(coder_loss / 5)
    else:
        assert stats.coder_loss is None


def test_an_epoch_of_facts_is_every_directed_fact(family: Dataset) -> None:
    settings = small("base")
    trainer = make_trainer(family, settings, CPU)
    _, stats = advance(initial_state(family, settings, CPU), trainer.stream.steps_per_epoch, trainer, TOTAL)
    assert stats.edges == 2 * len(family.train)


def test_no_steps_change_nothing(family: Dataset) -> None:
    for name in ("base", "joint"):
        settings = small(name)
        state = initial_state(family, settings, CPU)
        before = snapshot(state.parameters)
        after, stats = advance(state, 0, make_trainer(family, settings, CPU), TOTAL)
        assert after.step == 0 and same(before, after.parameters.tensors())
        assert stats.steps == 0 and stats.edges == 0 and stats.finite


def test_annealing_by_hand() -> None:
    assert [anneal_factor(progress, True) for progress in (0.0, 0.25, 1.0, 1.5)] == [1.0, 0.75, 0.0, 0.0]
    assert [anneal_factor(progress, False) for progress in (0.0, 0.25, 1.0, 1.5)] == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["joint", "joint+comp"])
def test_at_the_end_of_annealing_nothing_moves_and_nothing_is_counted(name: str, family: Dataset) -> None:
    settings = small(name)
    for step, least_progress in ((TOTAL, 0.0), (0, 1.0)):  # by steps, and by time
        state = replace(initial_state(family, settings, CPU), step=step)
        before = snapshot(state.parameters)
        state, _ = advance(state, 2, make_trainer(family, settings, CPU), TOTAL, least_progress)
        assert same(before, state.parameters.tensors())
    free = small(name, updates__anneal=False)
    state = replace(initial_state(family, free, CPU), step=TOTAL)
    before = snapshot(state.parameters)
    state, _ = advance(state, 2, make_trainer(family, free, CPU), TOTAL, 1.0)
    assert all(not torch.equal(value, before[key]) for key, value in state.parameters.tensors().items())


def test_progress_in_time_anneals_where_it_is_ahead_of_progress_in_steps(family: Dataset) -> None:
    settings = small("base")
    counts = []
    for least_progress in (0.0, 0.5):
        state, _ = advance(initial_state(family, settings, CPU), 1, make_trainer(family, settings, CPU), TOTAL, least_progress)
        counts.append(state.parameters.head_count_E.sum().item())
    assert counts[1] == pytest.approx(counts[0] / 2)


@pytest.mark.parametrize("name", PAPER)
def test_counters_add_up(name: str, family: Dataset) -> None:
    """Without damping and annealing: 1 + k for each training path on either side, and one matrix update for each path of a single fact."""
    settings = small(name, updates__vector_damping=0.0, updates__matrix_damping=0.0, updates__anneal=False)
    state, (stats,) = trained(family, settings, [6])
    parameters = state.parameters
    assert parameters.head_count_E.sum().item() == pytest.approx(4 * stats.edges)
    assert parameters.tail_count_E.sum().item() == pytest.approx(4 * stats.edges, rel=1e-6)
    updates = parameters.matrix_count_S.sum().item()
    assert updates < stats.edges if settings.sampling.path_mean else updates == stats.edges
    if parameters.coder_count is not None:
        assert parameters.coder_count.item() == 6 * 2  # two relations a step: 48 edges, one for each 24


def test_which_stream_the_settings_ask_for(family: Dataset) -> None:
    assert isinstance(make_trainer(family, small("joint"), CPU).stream, FactStream)
    assert isinstance(make_trainer(family, small("joint+comp"), CPU).stream, WalkStream)
    assert isinstance(make_trainer(family, small("default"), CPU).stream, QuestionStream)
    assert len(make_trainer(family, small("base+comp"), CPU).stream.batch(0, torch.Generator()).levels) > 1


def test_switching_on_the_walks_of_the_program(family: Dataset) -> None:
    """Settings of walks reach them, and are refused where there are none; noise on relations needs the one matrix it lies behind."""
    walks = {"sampling__head_walks": 5, "sampling__relation_noise": True}
    stream = make_trainer(family, small("base+comp", **walks), CPU).stream
    assert isinstance(stream, WalkStream) and stream.head_walks == 5 and stream.relation_noise
    for key, value in walks.items():
        with pytest.raises(SettingError, match=rf"{key.replace('__', '.')}={str(value).lower()} is for walks, and there are none: take a recipe"):
            make_trainer(family, small("base", **{key: value}), CPU)
    assert fit_settings(recipe("default").with_values({"sampling.relation_noise": True}), family)  # never read: listed by no card
    with pytest.raises(SettingError, match=r"relation_noise=true needs updates\.path_matrices=one"):
        make_trainer(family, small("base+comp", **walks, updates__path_matrices="all"), CPU)


@pytest.mark.parametrize("name", ["base", "base+comp"])
def test_switching_the_power_of_the_degree(name: str, family: Dataset) -> None:
    """'female' and 'male' have many edges; at a lower power walks and facts start there less often."""
    hubs = torch.tensor([family.entities.index("female"), family.entities.index("male")])
    degree_E = torch.bincount(family.train[:, [0, 2]].flatten(), minlength=family.num_entities).double()
    for power in (1.0, 0.5):
        stream, generator = make_trainer(family, small(name, sampling__head_power=power), CPU).stream, torch.Generator().manual_seed(0)
        starts = Counter[int]()
        for step in range(20 * stream.steps_per_epoch):
            first = stream.batch(step, generator).levels[0]
            starts.update(first.source_TW[first.weight_TW > 0].tolist())
        expected = degree_E[hubs].pow(power).sum() / degree_E[degree_E > 0].pow(power).sum()
        assert sum(starts[hub] for hub in hubs.tolist()) / starts.total() == pytest.approx(expected.item(), rel=0.08)


def test_switching_the_first_matrices(family: Dataset) -> None:
    means = [initial_state(family, small("base", model__initial=initial), CPU).parameters.matrix_SDD for initial in ("identity", "gaussian")]
    on_diagonal = [matrix_SDD.diagonal(dim1=1, dim2=2).mean().item() for matrix_SDD in means]
    assert on_diagonal == pytest.approx([0.5, 0.0], abs=0.1)


def test_switching_the_noise(family: Dataset) -> None:
    """'female' is the tail of every woman's fact: unigram noise draws it as often as facts do, uniform noise as often as anyone."""
    female = family.entities.index("female")
    share = (family.train[:, 2] == female).sum().item() / (2 * len(family.train))
    drawn = {}
    for distribution in ("uniform", "unigram"):
        noise = make_trainer(family, small("base", sampling__noise=distribution), CPU).noise
        drawn[distribution] = (noise.draw(200, 100, torch.Generator().manual_seed(0)) == female).float().mean().item()
    assert drawn["unigram"] == pytest.approx(share, rel=0.15)
    assert drawn["uniform"] == pytest.approx(1 / int(family.seen_E.sum()), rel=0.3)
    assert drawn["unigram"] > 2 * drawn["uniform"]


def test_noise_and_walks_know_the_training_facts_alone(family: Dataset) -> None:
    """An entity that only valid or test name is never drawn, whatever the stream."""
    unseen, settings = without_entity_0(family), small("joint+comp", updates__anneal=False)
    state = initial_state(unseen, settings, CPU)
    before = snapshot(state.parameters)
    state, _ = advance(state, 20, make_trainer(unseen, settings, CPU), TOTAL)
    assert torch.equal(state.parameters.head_ED[0], before["head_ED"][0])
    assert torch.equal(state.parameters.tail_ED[0], before["tail_ED"][0])
    assert state.parameters.tail_count_E[0] == 0
    assert Counter((state.parameters.tail_count_E > 0).tolist())[True] == int(unseen.seen_E.sum())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["head_ED", "matrix_SDD", "encoder_CQ", "coder_count"])
def test_a_parameter_that_is_not_finite_is_found(name: str, bad: float, family: Dataset) -> None:
    state = initial_state(family, small("joint"), CPU)
    assert parameters_finite(state.parameters)
    state.parameters.tensors()[name].view(-1)[0] = bad
    assert not parameters_finite(state.parameters)


def test_infinities_that_would_cancel_are_found(family: Dataset) -> None:
    state = initial_state(family, small("base"), CPU)
    state.parameters.tail_ED[0, 0], state.parameters.tail_ED[1, 0] = math.inf, -math.inf
    assert not parameters_finite(state.parameters)


@pytest.mark.parametrize("name", RECIPES)
def test_divergence_is_an_error_that_says_what_to_do(name: str, family: Dataset) -> None:
    settings = small(name)
    state, trainer = initial_state(family, settings, CPU), make_trainer(family, settings, CPU)
    state, stats = advance(state, 1, trainer, TOTAL)
    check_finite(stats, state.step)
    state.parameters.matrix_SDD.fill_(math.nan)
    state, stats = advance(state, 1, trainer, TOTAL)
    assert not stats.finite
    with pytest.raises(NotFinite, match="step 2") as caught:
        check_finite(stats, state.step)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


def test_an_autoencoder_does_not_begin_on_matrices_that_are_not_finite(family: Dataset) -> None:
    settings = small("default", coder__start=0.5, coder__begin="factors")
    state, trainer = initial_state(family, settings, CPU), make_trainer(family, settings, CPU)
    state, _ = advance(state, 1, trainer, 4)
    state.parameters.matrix_SDD.fill_(math.nan)
    _, stats = advance(state, 2, trainer, 4)  # past the half, where it looks for factors
    assert not stats.finite


def test_rates_without_measure_diverge_and_are_found_out(family: Dataset) -> None:
    settings = small("base", updates__vector_rate=1e38, updates__vector_damping=0.0, updates__anneal=False)
    _, told = trained(family, settings, [10])
    assert not told[0].finite


@pytest.mark.parametrize("bad", ["loss", "coder_loss"])
def test_a_loss_that_is_not_finite_is_found_even_where_the_parameters_still_are(bad: str, family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"loss": torch.ones(()), "edges": torch.ones(()), "coder_loss": torch.ones(()), bad: torch.tensor(math.inf)}
    monkeypatch.setattr(advance_module, "take_step", lambda *_: StepResult(**told))
    _, (stats,) = trained(family, small("joint"), [2])
    assert not stats.finite


def test_a_parameter_that_is_not_finite_is_found_even_where_the_losses_are(family: Dataset) -> None:
    """No fact of train names entity 0 here, so no loss ever sees its vector."""
    unseen, settings = without_entity_0(family), small("joint")
    state = initial_state(unseen, settings, CPU)
    state.parameters.head_ED[0, 0] = math.nan
    _, stats = advance(state, 1, make_trainer(unseen, settings, CPU), TOTAL)
    assert math.isfinite(stats.loss)
    assert not stats.finite


def test_a_trainer_serves_two_states_in_turn(family: Dataset) -> None:
    """Each state moves its own parameters with its own random stream, whoever was served before."""
    settings = small("joint+comp")
    trainer = make_trainer(family, settings, CPU)
    one, two = (initial_state(family, settings, CPU) for _ in range(2))
    for _ in range(2):
        one, _ = advance(one, 3, trainer, TOTAL)
        two, _ = advance(two, 3, trainer, TOTAL)
    alone = trained(family, settings, [6])[0].parameters.tensors()
    assert same(one.parameters.tensors(), alone)
    assert same(two.parameters.tensors(), alone)


def test_the_autoencoder_begins_when_it_is_told_to(family: Dataset) -> None:
    """Before its time encoder, decoder and counter stay as they were drawn; then they begin at the factors, also in a run taken up right there."""
    settings = small("default", coder__start=0.5, coder__begin="factors")
    drawn = initial_state(family, settings, CPU).parameters
    before, (early,) = trained(family, settings, [TOTAL // 2])
    assert drawn.encoder_CQ is not None and before.parameters.encoder_CQ is not None and before.parameters.coder_count is not None
    assert torch.equal(before.parameters.encoder_CQ, drawn.encoder_CQ) and not before.parameters.coder_count.any()
    assert early.coder_loss is None
    after, _ = trained(family, settings, [TOTAL // 2, 3])
    whole, _ = trained(family, settings, [TOTAL // 2 + 3])
    assert same(after.parameters.tensors(), whole.parameters.tensors())
    assert after.parameters.coder_count is not None and float(after.parameters.coder_count) > 0
    assert after.parameters.encoder_CQ is not None and float(torch.cosine_similarity(after.parameters.encoder_CQ, drawn.encoder_CQ).abs().max()) < 0.9


def test_the_autoencoder_speaks_from_the_first_step_where_nothing_else_is_said(family: Dataset) -> None:
    state, _ = trained(family, small("joint"), [1])
    assert state.parameters.coder_count is not None and float(state.parameters.coder_count) > 0


@pytest.mark.parametrize("begin", ["random", "factors"])
def test_a_coder_without_the_identity_never_learns_of_it(begin: str, family: Dataset) -> None:
    settings = small("default", model__initial="identity", coder__start=0.0, coder__begin=begin, coder__traceless=True)
    parameters = trained(family, settings, [10])[0].parameters
    eye_Q = torch.eye(settings.model.size).flatten()
    for rows_CQ in (parameters.encoder_CQ, parameters.decoder_CQ):
        assert rows_CQ is not None and float((rows_CQ @ eye_Q).abs().max()) < 1e-4 * float(rows_CQ.norm())
    shared = parameters.matrix_SDD.diagonal(dim1=1, dim2=2).mean(1)
    assert float(shared.min()) > 0.3  # which all matrices still have


def test_codes_of_matrices_near_the_identity_live_on_where_it_is_left_out() -> None:
    """All matrices are 2 I and something of their own, four topics among them: looked at with the identity, all relations fall on one dimension."""
    generator, S, D = torch.Generator().manual_seed(0), 20, 32
    topic_KDD, own_SDD = (torch.randn(count, D, D, generator=generator) / math.sqrt(D) / 2 for count in (4, S))
    used = {}
    for traceless in (False, True):
        settings = small("default", model__dim=D, model__code_dim=8, coder__begin="factors", coder__matrix_rate=0.0, coder__traceless=traceless)
        parameters = initial_parameters(2, S, settings, torch.Generator().manual_seed(0), CPU)
        parameters.matrix_SDD.copy_(2 * torch.eye(D) + topic_KDD[torch.arange(S) % 4] + own_SDD)
        begin_coder_(parameters, settings.coder)
        for step in range(400):
            CoderTurn(parameters, torch.ones(S), settings, 4.0, torch.tensor(1 - step / 400), generator).learn_()
        assert parameters.encoder_CQ is not None
        code_SC = codes(parameters.matrix_SDD, parameters.encoder_CQ)
        used[traceless] = len(code_SC.argmax(1)[code_SC.amax(1) > 0].unique())
    assert used[False] <= 2 and used[True] >= 4


def test_the_autoencoder_learns_the_same_bits_on_any_number_of_threads(family: Dataset) -> None:
    settings, before = small("default", model__dim=128, coder__start=0.0, coder__begin="factors"), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(snapshot(trained(family, settings, [5])[0].parameters))
    finally:
        torch.set_num_threads(before)
    assert same(found[0], found[1]) and same(found[0], found[2])
