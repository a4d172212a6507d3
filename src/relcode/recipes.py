"""One function per published setting; a recipe is a name for settings, and nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from relcode.config import ModelSettings, SamplingSettings, Settings
from relcode.errors import UnknownName


def base() -> Settings:
    """Return the paper's base model: single facts, no autoencoder."""
    return Settings(recipe="base", model=ModelSettings(autoencoder=False))


def joint() -> Settings:
    """Return base with the jointly trained relation autoencoder."""
    return Settings(recipe="joint", model=ModelSettings(autoencoder=True))


def with_paths(settings: Settings) -> Settings:
    """Add compositional training: walks of length 1 + Poisson(1), as in the paper's main table.

    Walks that were together at one relation part at the next, so tiles are smaller.
    """
    return replace(settings, recipe=f"{settings.recipe}+comp", sampling=SamplingSettings(path_mean=1.0, tile=8, noise_draws=16))


def fit_to_data(settings: Settings, num_facts: int) -> Settings:
    """Fill in what is left open from the number of training facts, so that settings saved with a run are complete.

    A step takes about a thirtieth of an epoch, between 512 and 4,096 edges: larger steps are faster, but a small KB would see too few of them.
    There are about 512 autoencoder updates an epoch (the released program has 531 on FB15k-237), as codes need many to become sparse.
    """
    directed = 2 * num_facts
    edges = settings.sampling.edges or min(4096, max(512, 1 << round(math.log2(max(32, directed) / 32))))
    every = settings.coder.every or float(min(1024, max(16, round(directed / 512))))
    return replace(settings, sampling=replace(settings.sampling, edges=edges), coder=replace(settings.coder, every=every))


def world_demo() -> Settings:
    """Return what the demo trains with: joint+comp, small enough for two cores and three minutes."""
    return with_paths(joint()).with_values({"model.dim": 64, "model.code_dim": 8, "training.epochs": 80})


RECIPES: dict[str, Callable[[], Settings]] = {
    "base": base,
    "joint": joint,
    "base+comp": lambda: with_paths(base()),
    "joint+comp": lambda: with_paths(joint()),
}


def recipe(name: str) -> Settings:
    """Return the settings of the recipe called ``name``."""
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return RECIPES[name]()
