"""Settings left open are filled in from the dataset, so that what is saved with a run is complete."""

from __future__ import annotations

from dataclasses import replace

import torch

from relcode.config import Settings
from relcode.errors import SettingError
from relcode.graph.dataset import Dataset
from relcode.ops.precision import LARGE_DIM
from relcode.recipes import DataShape, fit_nce, fit_softmax, fit_to_data, fit_to_device


def fit_settings(settings: Settings, dataset: Dataset) -> Settings:
    """Return the settings with everything filled in that depends on the data, or on where training runs."""
    if settings.model.objective == "nce":
        check_nce(settings)
    shape, cuda = shape_of(dataset), on_cuda(settings.training.device)
    if settings.model.objective == "softmax":  # its own rules first
        fitted = fit_softmax(settings, shape, cuda)
        check_blocks(fitted, chosen=settings.model.dim is None)
        return fit_to_device(fit_to_data(fitted, shape.facts), cuda)
    whole = replace(settings, model=replace(settings.model, block=0))
    return fit_to_device(fit_nce(fit_to_data(whole, shape.facts), shape), cuda)


def check_nce(settings: Settings) -> None:
    """Refuse what the paper's objective does not have."""
    sampling = settings.sampling
    if settings.model.shared:
        raise SettingError("model.shared=true needs model.objective=softmax: the paper's objective has two vectors for every entity")
    if settings.model.block:
        raise SettingError("model.block needs model.objective=softmax: the paper's objective has whole matrices")
    if sampling.path_mean == 0 and (sampling.relation_noise or sampling.head_walks > 1):
        asked = "sampling.relation_noise=true" if sampling.relation_noise else f"sampling.head_walks={sampling.head_walks}"
        raise SettingError(f"{asked} is for walks, and there are none: take a recipe with paths (base+comp, joint+comp), or sampling.path_mean=1")
    if sampling.relation_noise and settings.updates.path_matrices != "one":
        raise SettingError("sampling.relation_noise=true needs updates.path_matrices=one: a path's noises leave it behind the one matrix it updates")


def check_blocks(settings: Settings, chosen: bool) -> None:
    """Refuse blocks that do not fill the diagonal; ``chosen`` where the size of vectors was not given."""
    if settings.model.size % settings.model.width:
        size = f"model.dim={settings.model.size}{', chosen from the data' if chosen else ''}"
        raise SettingError(f"model.block={settings.model.block} does not divide {size}: choose one that does, or 0, or another model.dim")


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
