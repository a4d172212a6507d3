from __future__ import annotations

import pytest
import torch
from small_model import small_dataset

from relcode.errors import RelcodeError, SettingError
from relcode.explore.memory import check_memory, is_memory_error, parse_memory, training_bytes
from relcode.recipes import recipe


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


def test_what_training_holds_is_counted() -> None:
    settings = recipe("joint").with_values({"model.dim": 3, "model.code_dim": 5})
    learnt, coder = 2 * 4 * 3 + 4 * 9, 2 * 5 * 9  # vectors and matrices; encoder and decoder
    assert training_bytes(small_dataset(), settings, cuda=False) == 4 * (4 * learnt + 3 * coder)
    assert training_bytes(small_dataset(), settings, cuda=True) == 4 * (3 * learnt + 2 * coder)  # checkpoints are written from another memory
    counted = settings.with_values({"updates.rule": "counted"})
    assert training_bytes(small_dataset(), counted, cuda=False) == 4 * (3 * learnt + 3 * coder)  # no sums of squares
    assert training_bytes(small_dataset(), recipe("base").with_values({"model.dim": 3}), cuda=False) == 4 * 4 * learnt
    blocks = recipe("default").with_values({"model.dim": 6, "model.block": 2, "model.code_dim": 5})
    assert training_bytes(small_dataset(), blocks, cuda=False) == 4 * (4 * (4 * 6 + 4 * 6 * 2) + 3 * 2 * 5 * 6 * 2)  # one vector an entity


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
