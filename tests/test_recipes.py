from __future__ import annotations

import pytest

from relcode.config import Settings
from relcode.errors import UnknownName
from relcode.recipes import RECIPES, fit_to_data, recipe

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


# ---- what is left open is chosen from the number of facts


@pytest.mark.parametrize("facts", [1, 5, 11, 12, 100, 5216, 272_115, 10**9])
def test_open_settings_are_filled_in_whatever_the_number_of_facts(facts: int) -> None:
    settings = fit_to_data(recipe("joint"), facts)
    assert settings.sampling.edges is not None and settings.coder.every is not None
    assert 512 <= settings.sampling.edges <= 4096
    assert 16 <= settings.coder.every <= 1024
    assert fit_to_data(settings, 3) == settings  # filled in once, they stay
    assert settings.recipe == "joint" and settings.model == recipe("joint").model and settings.updates == recipe("joint").updates


def test_a_larger_kb_takes_larger_steps() -> None:
    edges = [fit_to_data(recipe("base"), facts).sampling.edges for facts in (100, 10_000, 40_000, 272_115)]
    assert edges == sorted(edges, key=lambda size: size or 0)
    assert (edges[0], edges[-1]) == (512, 4096)


def test_settings_that_are_given_stay() -> None:
    given = recipe("joint").with_values({"sampling.edges": 7, "coder.every": 3.5})
    assert fit_to_data(given, 272_115) == given
