"""Which precision products are made with: what is exact is chosen, what is not is left alone, and what was before comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from relcode.ops import precision
from relcode.ops.precision import full_precision, is_exact, onednn_is_exact, rough_type, training_precision

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(params=["highest", "high", "medium"])
def before(request: pytest.FixtureRequest) -> Iterator[str]:
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(usual)


def pretend(monkeypatch: pytest.MonkeyPatch, exact: bool, cuda: bool = False) -> None:
    monkeypatch.setattr(precision, "onednn_is_exact", lambda: exact)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)


@pytest.mark.parametrize(("exact", "cuda", "expected"), [(True, False, "medium"), (False, False, "highest"), (True, True, "highest")])
def test_full_precision_holds_inside_and_is_undone_outside(
    before: str, monkeypatch: pytest.MonkeyPatch, exact: bool, cuda: bool, expected: str
) -> None:
    pretend(monkeypatch, exact, cuda)
    with pytest.raises(KeyError), full_precision():
        assert torch.get_float32_matmul_precision() == expected
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("device", "large", "exact", "expected"),
    [
        (CPU, True, True, "medium"),
        (CPU, True, False, "highest"),
        (CPU, False, True, "highest"),
        (CUDA, True, True, "high"),
        (CUDA, False, False, "high"),
    ],
)
def test_training_takes_the_fastest_that_loses_nothing_there(
    before: str, monkeypatch: pytest.MonkeyPatch, device: torch.device, large: bool, exact: bool, expected: str
) -> None:
    pretend(monkeypatch, exact)
    with training_precision(device, large):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == before


def test_float32_is_exact_and_rounding_to_bfloat16_is_seen(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_exact("highest") and torch.get_float32_matmul_precision() == before
    product = torch.bmm
    monkeypatch.setattr(
        torch, "bmm", lambda x, w: product(x.bfloat16().to(x.dtype), w.bfloat16().to(w.dtype)) if x.dtype == torch.float32 else product(x, w)
    )
    assert not is_exact("highest")


@pytest.mark.parametrize(("capability", "amd", "exact", "expected"), [("AVX512", True, True, True), ("AVX512", True, False, False)])
def test_what_is_not_exact_is_not_taken(monkeypatch: pytest.MonkeyPatch, capability: str, amd: bool, exact: bool, expected: bool) -> None:
    monkeypatch.setattr(precision, "is_exact", lambda name: exact and name == "medium")
    monkeypatch.setattr(precision, "_is_amd", lambda: amd)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert onednn_is_exact.__wrapped__() is expected


@pytest.mark.parametrize(("capability", "amd"), [("AVX2", True), ("AVX512", False), ("DEFAULT", False)])
def test_other_processors_are_not_even_asked(monkeypatch: pytest.MonkeyPatch, capability: str, amd: bool) -> None:
    monkeypatch.setattr(precision, "is_exact", lambda name: pytest.fail("asked"))
    monkeypatch.setattr(precision, "_is_amd", lambda: amd)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert onednn_is_exact.__wrapped__() is False


def test_this_processor_loses_nothing_where_it_is_chosen() -> None:
    assert not onednn_is_exact() or is_exact("medium")


def test_the_last_of_several_threads_puts_back_what_the_first_found(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, exact=True)
    first, second = full_precision(), full_precision()
    first.__enter__()
    inside = torch.get_float32_matmul_precision()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == inside, "the second still needs it"
    second.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("told", "device", "expected"),
    [
        ({"avx512_bf16": True}, "cpu", torch.bfloat16),
        ({"amx_bf16": True}, "cpu", torch.bfloat16),
        ({"avx512_f": True, "avx512_bf16": False}, "cpu", None),
        ({}, "cpu", None),
        ({"avx512_bf16": True}, "cuda", None),
    ],
)
def test_few_digits_are_for_cpus_that_multiply_bfloat16(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, bool], device: str, expected: torch.dtype | None
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: told, raising=False)
    assert rough_type.__wrapped__(device) == expected
