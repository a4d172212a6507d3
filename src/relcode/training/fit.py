"""Settings left open are filled in from the dataset, so that what is saved with a run is complete."""

from __future__ import annotations

import torch

from relcode.config import Settings
from relcode.errors import SettingError
from relcode.graph.dataset import Dataset
from relcode.ops.precision import LARGE_DIM
from relcode.recipes import DataShape, fit_nce, fit_softmax, fit_to_data, fit_to_device


def fit_settings(settings: Settings, dataset: Dataset) -> Settings:
    """Return the settings with everything filled in that depends on the data, or on where training runs."""
    if settings.model.shared and settings.model.objective != "softmax":
        raise SettingError("model.shared=true needs model.objective=softmax: the paper's objective has two vectors for every entity")
    if settings.sampling.relation_noise and settings.updates.path_matrices != "one":
        raise SettingError("sampling.relation_noise=true needs updates.path_matrices=one: a path's noises leave it behind the one matrix it updates")
    if settings.model.block and settings.model.objective != "softmax":
        raise SettingError("model.block needs model.objective=softmax: the paper's objective has whole matrices")
    shape, cuda = shape_of(dataset), on_cuda(settings.training.device)
    if settings.model.objective == "softmax":  # its own rules first
        return whole_blocks(fit_to_device(fit_to_data(fit_softmax(settings, shape, cuda), shape.facts), cuda))
    return fit_to_device(fit_nce(fit_to_data(settings, shape.facts), shape), cuda)


def whole_blocks(settings: Settings) -> Settings:
    """Return the settings, unless blocks do not fill the diagonal."""
    if settings.model.size % settings.model.width:
        raise SettingError(f"model.block={settings.model.block} does not divide model.dim={settings.model.size}: choose one that does, or 0")
    return settings


def on_cuda(name: str) -> bool:
    """Say whether the device a setting names is CUDA; auto takes it where there is one."""
    return name == "cuda" or (name == "auto" and torch.cuda.is_available())


def shape_of(dataset: Dataset) -> DataShape:
    """Count what the rules look at, over the training facts."""
    head_N, relation_N, tail_N = dataset.train.unbind(1)
    asked = [len(torch.unique(entity_N * dataset.num_relations + relation_N)) for entity_N in (head_N, tail_N)]
    pair_N = torch.minimum(head_N, tail_N) * dataset.num_entities + torch.maximum(head_N, tail_N)
    return DataShape(
        facts=len(dataset.train),
        entities=dataset.num_entities,
        relations=dataset.num_relations,
        pairs=len(torch.unique(pair_N)),
        questions=sum(asked),
    )


def products_are_large(settings: Settings) -> bool:
    """Say whether a step's products on the CPU are large: many rows with all entities (softmax) are, runs of few rows with a matrix (NCE) are not."""
    return settings.model.objective == "softmax" and settings.model.size >= LARGE_DIM
