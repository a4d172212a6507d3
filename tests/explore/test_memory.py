from __future__ import annotations

import pytest
import torch
from small_model import small_dataset

from relcode.config import Settings
from relcode.errors import RelcodeError, SettingError
from relcode.explore.memory import check_memory, is_memory_error, parse_memory, training_bytes
from relcode.recipes import recipe
from relcode.runs.saving import state_bytes
from relcode.training.advance import initial_state
from relcode.training.fit import fit_settings
from relcode.training.state import TrainState


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GB", 2 * 2**30), ("2 GiB", 2 * 2**30), ("500mb", 500 * 2**20), ("1.5K", 1536), ("12345", 12345), ("7B", 7), (99, 99), (None, None)],
)
def test_amounts_are_read(text: str | int | None, expected: int | None) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "-2GB", "2XB", "2 G B", "inf", "1e9"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="write an amount such as 2GB"):
        parse_memory(text)


def real_bytes(settings: Settings) -> tuple[int, int]:
    """Return the bytes of a state that training really begins with, and of its parameters alone; counters, a number a row, are left out."""
    state = initial_state(small_dataset(), settings, torch.device("cpu"))
    counters = sum(value.nbytes for name, value in state.parameters.tensors().items() if "_count" in name)
    return state_bytes(state) - counters, state_bytes(TrainState(state.parameters.believed(), 0, state.generator)) - counters


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("base", {}),
        ("joint", {}),
        ("joint", {"updates.rule": "counted"}),
        ("base", {"updates.rule": "counted"}),
        ("default", {"model.block": 0}),
        ("default", {"model.block": 2}),
        ("default", {"model.block": 2, "model.shared": False}),
        ("default", {"model.block": 2, "model.autoencoder": False}),
    ],
)
def test_all_that_training_holds_is_counted(name: str, changes: dict[str, object]) -> None:
    settings = fit_settings(recipe(name).with_values({"model.dim": 6, "model.code_dim": 5, **changes}), small_dataset())
    state, believed = real_bytes(settings)
    assert training_bytes(small_dataset(), settings, cuda=True) == state + believed  # a step or a validation works with as much again
    assert training_bytes(small_dataset(), settings, cuda=False) == 2 * state + believed  # a checkpoint is written from a copy of all of it


def test_an_example_by_hand() -> None:
    # Four entities with two vectors of 3 numbers, four matrices of 9, encoder and decoder of 5 × 9: 60 + 90 numbers, and 60 sums of squares.
    settings = recipe("joint").with_values({"model.dim": 3, "model.code_dim": 5})
    assert training_bytes(small_dataset(), settings, cuda=True) == 4 * (150 + 60 + 150)


def test_a_model_larger_than_the_machine_is_refused() -> None:
    check_memory(small_dataset(), recipe("joint"))
    with pytest.raises(RelcodeError, match=r"not enough memory for model.dim=100000000"):
        check_memory(small_dataset(), recipe("joint").with_values({"model.dim": 100_000_000}))
    with pytest.raises(RelcodeError, match=r"model.dim=100000000, model.block=8192 and this dataset: make model.dim smaller, or softmax.q"):
        check_memory(small_dataset(), recipe("default").with_values({"model.dim": 100_000_000, "model.block": 8192}))


def test_errors_about_memory_are_told_from_others() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_memory_error(caught.value)
    assert is_memory_error(MemoryError())
    assert not is_memory_error(RuntimeError("shapes differ"))
