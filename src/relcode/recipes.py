"""One function per published setting; a recipe is a name for settings, and nothing more."""

from __future__ import annotations

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
    """Add compositional training: walks of length 1 + Poisson(1), as in the paper's main table."""
    return replace(settings, recipe=f"{settings.recipe}+comp", sampling=SamplingSettings(path_mean=1.0))


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
