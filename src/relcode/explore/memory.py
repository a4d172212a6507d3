"""Memory: amounts as people write them, and whether a model fits."""

from __future__ import annotations

import os
import re

import torch

from relcode.config import Settings
from relcode.errors import RelcodeError, SettingError
from relcode.experiment import choose_device
from relcode.graph.dataset import Dataset

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", re.IGNORECASE)


def parse_memory(text: str | int | None) -> int | None:
    """Return bytes from ``2GB``, ``500 MB``, ``1.5g`` or a plain number; units are powers of 1024. None, no bound given, stays None."""
    if text is None or isinstance(text, int):
        return text
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise SettingError(f"memory cannot be {text!r}: write an amount such as 2GB, 500MB or a number of bytes")
    return int(float(match.group(1)) * UNITS[match.group(2).upper()])


def training_bytes(dataset: Dataset, settings: Settings, cuda: bool) -> int:
    """Return about what training takes, in float32: vectors, matrices, encoder and decoder, each as often as it is there at once.

    All are there twice, since a step or a validation works with as much again; Adagrad's sums of squares, one for each number of a vector or matrix,
    once; and on the CPU all that a checkpoint holds, sums of squares too, once more, for the copy that it is written from, which CUDA does not hold.
    """
    d, b = settings.model.size, settings.model.width
    c = settings.model.code_dim if settings.model.autoencoder else 0
    learnt = (1 if settings.model.shared else 2) * dataset.num_entities * d + dataset.num_directed * d * b
    believed = learnt + 2 * c * d * b
    state = believed + settings.adagrad * learnt
    return 4 * (state + believed + (0 if cuda else state))


def check_memory(dataset: Dataset, settings: Settings) -> None:
    """Refuse a model that exceeds the memory there is, before the machine starts to swap."""
    cuda = choose_device(settings.training.device).type == "cuda"
    if cuda:
        present = torch.cuda.get_device_properties(0).total_memory
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        return
    if training_bytes(dataset, settings, cuda) > present > 0:
        raise not_enough_memory(settings)


def not_enough_memory(settings: Settings) -> RelcodeError:
    """Return the error that says what to make smaller."""
    size, steps = f"model.dim={settings.model.dim}", "sampling.edges"
    if settings.model.objective == "softmax":
        size, steps = f"{size}, model.block={settings.model.block}", "softmax.questions"
    return RelcodeError(f"not enough memory for {size} and this dataset: make model.dim smaller, or {steps} if memory runs out in a step")


def is_memory_error(error: BaseException) -> bool:
    """Tell whether there was not enough memory; on the CPU torch says so in a plain RuntimeError."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error))
