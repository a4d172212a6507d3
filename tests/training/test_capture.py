from __future__ import annotations

from typing import Any

import pytest
import torch
from training.small import small, snapshot

from relcode.graph.dataset import Dataset
from relcode.recipes import RECIPES
from relcode.sampling.questions import QuestionBatch
from relcode.training.advance import advance, begin_coder_, initial_state, make_trainer
from relcode.training.capture import capture
from relcode.training.softmax_step import take_softmax_step
from relcode.training.step import take_step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs CUDA")


def test_recording_leaves_tensors_and_generator_as_they_were() -> None:
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(5)
    total, drawn = torch.zeros((), device=device), torch.zeros(4, device=device)
    expected = torch.rand(4, generator=torch.Generator(device).manual_seed(5), device=device)

    def body() -> None:
        total.add_(1)
        drawn.copy_(torch.rand(4, generator=generator, device=device))

    graph = capture(body, [total], generator)
    assert total.item() == 0
    graph.replay()
    assert total.item() == 1
    assert torch.equal(drawn, expected)
    graph.replay()
    assert total.item() == 2
    assert not torch.equal(drawn, expected)  # a fresh draw at each replay


ADAGRAD = {"updates__rule": "adagrad", "updates__adagrad_rate": 0.1, "updates__adagrad_matrix_rate": 0.01, "updates__penalty": 0.01}
AS_THE_PROGRAM = {**ADAGRAD, "sampling__head_walks": 5, "sampling__relation_noise": True}


@pytest.mark.parametrize("changes", [{}, ADAGRAD, AS_THE_PROGRAM], ids=["counted", "adagrad", "walks of the program"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_recorded_step_is_the_step(name: str, changes: dict[str, Any], family: Dataset) -> None:
    device, settings = torch.device("cuda"), small(name, coder__start=0.0, coder__begin="random", **changes)
    trainer, state = make_trainer(family, settings, device), initial_state(family, settings, device)
    if settings.model.autoencoder:
        begin_coder_(state.parameters, trainer.settings.coder)
    for step in range(6):
        batch, anneal = trainer.stream.batch(step, state.generator), torch.tensor(1 - step / 40, device=device)
        if isinstance(batch, QuestionBatch):
            take_softmax_step(state.parameters, batch, trainer.settings, anneal, state.generator)
        else:
            take_step(state.parameters, batch, trainer.noise, trainer.settings, anneal, state.generator)
    plain = snapshot(state.parameters)
    replayed, stats = advance(initial_state(family, settings, device), 6, make_trainer(family, settings, device), 40)
    assert stats.finite
    for key, value in replayed.parameters.tensors().items():
        assert torch.allclose(value, plain[key], rtol=1e-3, atol=1e-4), key


@pytest.mark.parametrize("name", ["base", "joint"])
def test_facts_on_cuda_train_like_facts_on_the_cpu(name: str, family: Dataset) -> None:
    """The random streams of the two devices differ, so the losses can only be close."""
    losses = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        settings = small(name)
        trainer, state = make_trainer(family, settings, device), initial_state(family, settings, device)
        _, stats = advance(state, 20 * trainer.stream.steps_per_epoch, trainer, 40 * trainer.stream.steps_per_epoch)
        losses.append(stats.loss)
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_the_autoencoder_joins_a_recorded_run_at_its_time(family: Dataset) -> None:
    """Two graphs, with the autoencoder and without: before its start nothing of it moves, afterwards all does."""
    device, settings = torch.device("cuda"), small("default", coder__start=0.5)
    trainer, state = make_trainer(family, settings, device), initial_state(family, settings, device)
    first = snapshot(state.parameters)
    state, _ = advance(state, 20, trainer, 40)
    assert torch.equal(state.parameters.tensors()["encoder_CQ"], first["encoder_CQ"])
    state, stats = advance(state, 5, trainer, 40)
    assert stats.finite and stats.coder_loss is not None
    assert float(state.parameters.tensors()["coder_count"]) > 0
