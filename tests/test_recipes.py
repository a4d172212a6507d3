from __future__ import annotations

import pytest

from relcode.config import Settings
from relcode.errors import UnknownName
from relcode.recipes import RECIPES, recipe

NAMES = ["base", "joint", "base+comp", "joint+comp"]


def test_there_are_the_papers_four() -> None:
    assert list(RECIPES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_settings_that_know_their_name(name: str) -> None:
    settings = recipe(name)
    assert isinstance(settings, Settings)
    assert settings.recipe == name
    assert recipe(name) == settings


@pytest.mark.parametrize("name", NAMES)
def test_joint_has_the_autoencoder_and_comp_has_paths(name: str) -> None:
    settings = recipe(name)
    assert settings.model.autoencoder is name.startswith("joint")
    assert settings.sampling.path_mean == (1.0 if name.endswith("+comp") else 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_is_the_published_one_in_all(name: str) -> None:
    settings = recipe(name)
    assert settings.sampling.noises == 3 and settings.sampling.noise == "uniform"
    assert settings.model.normalise and settings.model.initial == "identity"
    assert settings.model.dim == 256 and settings.model.code_dim == 16
    assert settings.updates.path_matrices == "one" and settings.updates.orthogonal_rate > 0


@pytest.mark.parametrize(("given", "meant"), [("jiont", "joint"), ("Base", "base"), ("joint-comp", "joint+comp")])
def test_an_unknown_recipe_is_told_what_was_meant(given: str, meant: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown recipe '{given}'") as caught:
        recipe(given)
    assert repr(meant) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_nothing_like_any_gets_all_their_names() -> None:
    with pytest.raises(UnknownName) as caught:
        recipe("zzzzz")
    assert all(name in str(caught.value) for name in NAMES)
