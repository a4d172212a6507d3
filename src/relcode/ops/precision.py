"""How torch makes float32 products: its one switch for it, ``torch.set_float32_matmul_precision``, is set here and nowhere else.

On CUDA "high" allows TF32, of whose digits training needs no more. On the CPU "medium" allows bfloat16. Then oneDNN is asked instead of MKL, and
where the processor has no unit for such products (AMX) it multiplies in float32 after all:

    max |y − xW| / max |xW| ≈ 3e-7 by either, against float64; bfloat16 would have 1e-3

On AMD's processors that is twice as fast, since MKL leaves their AVX-512 unused there. So it is tried once for each process, in
:func:`onednn_is_exact`. What decides is exactness and the maker, never the clock, so that machines of one kind give the same bits.
"""

from __future__ import annotations

import functools
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

MOST_ERROR = 2e-6  # of the largest number of a product: ten times what float32 makes of it
LARGE_DIM = 128  # size of vectors or matrices from which products of many rows are worth sharing among threads, and asking oneDNN for


def is_exact(precision: str) -> bool:
    """Say whether products on the CPU have all of float32's digits when torch's switch stands so."""
    generator = torch.Generator().manual_seed(0)
    x_BND, w_BDD = (torch.randn(2, rows, 256, generator=generator) for rows in (32, 256))
    exact_BND = torch.bmm(x_BND.double(), w_BDD.double())
    with _switched(precision):
        found = [torch.bmm(x_BND, w_BDD), torch.stack([x_ND @ w_DD for x_ND, w_DD in zip(x_BND, w_BDD, strict=True)])]
    return max(float((y_BND - exact_BND).abs().max()) for y_BND in found) < MOST_ERROR * float(exact_BND.abs().max())


@functools.cache
def rough_type(device: str) -> torch.dtype | None:
    """Return the type with which products that need few digits are fastest, None for their own: bfloat16 where a CPU multiplies it."""
    told: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)() if device == "cpu" else {}  # earlier versions of torch do not tell
    return torch.bfloat16 if any(told.get(name) for name in ("avx512_bf16", "amx_bf16")) else None


@functools.cache
def onednn_is_exact() -> bool:
    """Say whether "medium" is worth asking for on this processor, and loses nothing."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _is_amd() and is_exact("medium")


def _is_amd() -> bool:
    """Say whether AMD made this processor, as far as the system tells: where MKL takes slower products than the processor has."""
    info = Path("/proc/cpuinfo")
    return "AuthenticAMD" in (info.read_text(encoding="utf-8", errors="replace") if info.exists() else platform.processor())


@contextmanager
def training_precision(device: torch.device, large: bool) -> Iterator[None]:
    """Make products as fast as training allows; what was before comes back after it.

    ``large`` says that they are worth asking oneDNN for, which takes 0.01 ms each time.
    """
    with _switched("high" if device.type == "cuda" else "medium" if large and onednn_is_exact() else "highest"):
        yield


_asking, _asked, _before = threading.Lock(), 0, "highest"  # threads inside full_precision, and how the switch stood before the first of them


@contextmanager
def full_precision() -> Iterator[None]:
    """Make float32 products with all of float32's digits inside: training may allow fewer, but ranks are decided by the last ones.

    Where there is CUDA it must not take "medium" for TF32: the switch is one for both. It is one for all threads too, and a service asks on several:
    the first that comes switches, and the last that leaves puts back.
    """
    global _asked, _before
    with _asking:
        _asked += 1
        if _asked == 1:
            _before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("medium" if not torch.cuda.is_available() and onednn_is_exact() else "highest")
    try:
        yield
    finally:
        with _asking:
            _asked -= 1
            if not _asked:
                torch.set_float32_matmul_precision(_before)


@contextmanager
def _switched(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
