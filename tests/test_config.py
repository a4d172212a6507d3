from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from relcode.config import (
    CoderSettings,
    ModelSettings,
    SamplingSettings,
    Settings,
    SoftmaxSettings,
    TrainingSettings,
    UpdateSettings,
    options,
    parse_assignments,
    settings_from_json,
)
from relcode.errors import SettingError
from relcode.recipes import RECIPES, recipe

SECTIONS = [ModelSettings, SamplingSettings, UpdateSettings, SoftmaxSettings, CoderSettings, TrainingSettings]


def refusal(key: str, value: Any) -> str:
    with pytest.raises(SettingError) as caught:
        Settings().with_values({key: value})
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_settings_are_frozen_and_taken_by_name_alone() -> None:
    settings = Settings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.recipe = "base"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.model.dim = 3  # type: ignore[misc]
    for section in SECTIONS:
        with pytest.raises(TypeError):
            section(1)  # type: ignore[arg-type]


def test_every_option_is_explained() -> None:
    found = options()
    expected = {
        f"{name}.{item.name}"
        for name in ("model", "sampling", "updates", "softmax", "coder", "training")
        for item in dataclasses.fields(getattr(Settings(), name))
    }
    assert set(found) == expected | {"recipe"}
    assert all(len(text) > 8 for _, text in found.values())


# ---- changing settings


def test_text_is_read_as_the_options_type() -> None:
    settings = Settings().with_values(
        {
            "model.dim": "64",
            "model.normalise": "false",
            "model.initial": "gaussian",
            "updates.vector_rate": "0.5",
            "updates.factor_limit": "inf",
            "training.minutes": "2.5",
            "sampling.noise": "unigram",
        }
    )
    assert settings.model == ModelSettings(dim=64, normalise=False, initial="gaussian")
    assert settings.updates == UpdateSettings(vector_rate=0.5, factor_limit=math.inf)
    assert settings.training.minutes == 2.5
    assert settings.sampling.noise == "unigram"
    assert settings.coder == CoderSettings()
    assert Settings().with_values({}) == Settings()


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("yes", True), ("1", True), ("false", False), ("NO", False), ("0", False)]
)
def test_words_for_yes_and_no(text: str, value: bool) -> None:
    assert Settings().with_values({"model.autoencoder": text}).model.autoencoder is value


@pytest.mark.parametrize("text", ["none", "None", "null", ""])
def test_words_for_nothing(text: str) -> None:
    assert Settings(training=TrainingSettings(minutes=3.0)).with_values({"training.minutes": text}).training.minutes is None


def test_a_change_leaves_the_original_and_all_else_alone() -> None:
    before = recipe("joint+comp")
    after = before.with_values({"model.dim": 8})
    assert before.model.dim == 256 and after.model.dim == 8
    assert dataclasses.replace(after, model=before.model) == before


# ---- refusals: what was given, what is allowed


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("model.dim", 0, "a whole number of at least 1"),
        ("model.dim", -3, "a whole number of at least 1"),
        ("model.dim", "many", "a whole number"),
        ("model.dim", "2.5", "a whole number"),
        ("model.dim", 2.0, "a whole number"),
        ("model.dim", True, "a whole number"),
        ("model.code_dim", None, "a whole number"),
        ("model.normalise", "maybe", "true or false"),
        ("model.normalise", 1, "true or false"),
        ("model.initial", "zeros", "one of identity, gaussian"),
        ("sampling.noise", "", "one of uniform, unigram"),
        ("sampling.path_mean", -0.5, "at least 0"),
        ("sampling.path_mean", "nan", "finite"),
        ("sampling.path_mean", "inf", "finite"),
        ("updates.vector_rate", 0, "above 0"),
        ("updates.vector_rate", "inf", "finite"),
        ("updates.factor_limit", 0, "above 0"),
        ("updates.factor_limit", "nan", "above 0"),
        ("coder.matrix_rate", -1, "at least 0"),
        ("training.epochs", "0", "at least 1"),
        ("training.minutes", 0, "above 0"),
        ("training.minutes", "soon", "a number or none"),
        ("training.device", "tpu", "one of auto, cpu, cuda"),
        ("training.seed", -1, "from 0 to"),
    ],
)
def test_values_that_cannot_be(key: str, value: Any, allowed: str) -> None:
    text = refusal(key, value)
    assert text.startswith(f"{key} cannot be ")
    assert str(value) in text.split(": it must be ")[0]
    assert allowed in text.split(": it must be ")[1]


def test_zero_is_allowed_where_it_means_off() -> None:
    settings = Settings().with_values({"updates.orthogonal_rate": 0, "coder.matrix_rate": 0, "training.patience": 0, "training.validations": 0})
    assert settings.updates.orthogonal_rate == settings.coder.matrix_rate == settings.training.patience == settings.training.validations == 0


def test_an_unknown_option_is_told_which_was_meant() -> None:
    assert "did you mean 'model.dim'" in refusal("model.dimm", 3)
    assert "unknown setting 'dimension'" in refusal("dimension", 3)
    assert "unknown setting 'model'" in refusal("model", 3)
    assert "unknown setting 'model.dim.x'" in refusal("model.dim.x", 3)


def test_records_refuse_bad_values_when_they_are_made() -> None:
    with pytest.raises(SettingError, match="dim cannot be 0: it must be a whole number of at least 1"):
        ModelSettings(dim=0)
    with pytest.raises(SettingError, match="noise cannot be 'loud'"):
        SamplingSettings(noise="loud")  # type: ignore[arg-type]


# ---- KEY=VALUE


def test_assignments() -> None:
    assert parse_assignments(["model.dim=64", " a = b=c ", "x="]) == {"model.dim": "64", "a": "b=c", "x": ""}
    assert parse_assignments([]) == {}
    assert parse_assignments(["model.dim=1", "model.dim=2"]) == {"model.dim": "2"}  # the last one counts


@pytest.mark.parametrize("text", ["model.dim", "=3", "  =3", ""])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(SettingError, match="KEY=VALUE") as caught:
        parse_assignments([text])
    assert repr(text) in str(caught.value)


# ---- JSON


@pytest.mark.parametrize("name", RECIPES)
def test_settings_survive_being_written_and_read(name: str) -> None:
    settings = recipe(name).with_values({"updates.factor_limit": "inf", "training.minutes": 1.5, "coder.rate": 1 / 3})
    text = settings.to_json()
    assert settings_from_json(text) == settings
    tree = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert set(tree) == {"recipe", "model", "sampling", "updates", "softmax", "coder", "training"}
    assert all(set(tree[part]) == {item.name for item in dataclasses.fields(getattr(settings, part))} for part in tree if part != "recipe")


@examples(max_examples=20)
@given(
    st.floats(min_value=1e-300, allow_infinity=False, allow_nan=False),
    st.one_of(st.none(), st.floats(min_value=1e-3, max_value=1e9)),
    st.integers(0, 2**62),
    st.booleans(),
)
def test_any_settings_survive_being_written_and_read(rate: float, minutes: float | None, seed: int, anneal: bool) -> None:
    settings = Settings(updates=UpdateSettings(vector_rate=rate, anneal=anneal), training=TrainingSettings(minutes=minutes, seed=seed))
    assert settings_from_json(settings.to_json()) == settings


def test_options_that_are_not_written_have_their_defaults() -> None:
    assert settings_from_json("{}") == Settings()
    assert settings_from_json('{"model": {"dim": 3}}').model == ModelSettings(dim=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "JSON object, not list"),
        ('{"model": {"size": 3}}', "unknown setting 'model.size'"),
        ('{"modell": {"dim": 3}}', "unknown setting 'modell.dim'"),
        ('{"model": 3}', "unknown setting 'model'"),
        ('{"model": {"dim": 0}}', "model.dim cannot be 0"),
        ('{"model": {"dim": [1]}}', "model.dim cannot be"),
        ('{"model": {"dim": {"a": 1}}}', "model.dim cannot be"),
        ('{"recipe": 4}', "recipe cannot be 4"),
    ],
)
def test_json_that_is_no_settings(text: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        settings_from_json(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
