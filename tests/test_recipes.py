from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from relcode.config import Settings
from relcode.errors import SettingError, UnknownName
from relcode.graph.dataset import Dataset
from relcode.recipes import RECIPES, DataShape, fit_nce, fit_softmax, fit_to_data, fit_to_device, fitting_penalty, fitting_sizes, recipe
from relcode.training.fit import fit_settings

NAMES = ["base", "joint", "base+comp", "joint+comp"]


def test_there_are_the_papers_four_and_the_default() -> None:
    assert list(RECIPES) == ["default", *NAMES]


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
    assert settings.model.objective == "nce" and settings.sampling.noise == "uniform" and not settings.model.shared
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
    assert 128 <= settings.sampling.edges <= 16384
    assert 16 <= settings.coder.every <= 1024
    assert fit_to_data(settings, 3) == settings  # filled in once, they stay
    assert settings.recipe == "joint" and settings.model == recipe("joint").model and settings.updates == recipe("joint").updates


def test_a_larger_kb_takes_larger_steps() -> None:
    edges = [fit_to_data(recipe("base"), facts).sampling.edges for facts in (100, 10_000, 40_000, 272_115)]
    assert edges == sorted(edges, key=lambda size: size or 0)
    assert (edges[0], edges[-1]) == (128, 16384)
    counted = recipe("base").with_values({"updates.rule": "counted"})
    assert [fit_to_data(counted, facts).sampling.edges for facts in (100, 272_115)] == [512, 4096]


def test_settings_that_are_given_stay() -> None:
    given = recipe("joint").with_values({"sampling.edges": 7, "coder.every": 3.5})
    assert fit_to_data(given, 272_115) == given


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_recipes_take_penalty_and_rates_from_the_datas_density(name: str) -> None:
    found = {data: fit_nce(recipe(name), shape).updates for data, shape in SHAPES.items()}
    penalty = {data: updates.penalty or 0 for data, updates in found.items()}
    assert penalty["wn18rr"] > penalty["fb15k-237"] > penalty["kinship"] > 0
    assert found["fb15k-237"].adagrad_rate == 0.1 and found["wn18rr"].adagrad_rate == 0.2  # 19 and 2 facts an entity
    assert found["fb15k-237"].adagrad_matrix_rate == pytest.approx(0.0107, abs=1e-4)  # 1,148 facts a relation
    assert found["kinship"].adagrad_matrix_rate == pytest.approx(0.0058, abs=1e-4) and found["nothing"].adagrad_matrix_rate == 0.005
    small = fit_nce(recipe(name).with_values({"model.dim": 64}), SHAPES["nothing"]).updates
    assert small.adagrad_matrix_rate == 0.01  # numbers of a smaller matrix are larger
    given = recipe(name).with_values({"updates.penalty": 0.5, "updates.adagrad_rate": 0.3, "updates.adagrad_matrix_rate": 0.4})
    assert fit_nce(given, SHAPES["kinship"]) == given
    counted = recipe(name).with_values({"updates.rule": "counted"})
    assert fit_nce(counted, SHAPES["kinship"]) == counted  # which has none of these


# ---- the default recipe: what it leaves open is chosen from the data's shape

SHAPES = {
    "fb15k-237": DataShape(facts=272_115, entities=14_541, relations=237, pairs=212_600, questions=149_689),
    "wn18rr": DataShape(facts=86_835, entities=40_943, relations=11, pairs=71_800, questions=103_300),
    "kinship": DataShape(facts=8_544, entities=104, relations=25, pairs=5_150, questions=3_130),
    "one fact": DataShape(facts=1, entities=2, relations=1, pairs=1, questions=2),
    "nothing": DataShape(facts=0, entities=0, relations=0, pairs=0, questions=0),
}
MORE_SHAPES = {
    "fb15k": DataShape(facts=483_142, entities=14_951, relations=1_345, pairs=246_546, questions=273_710),
    "world": DataShape(facts=16_196, entities=5_142, relations=35, pairs=14_747, questions=20_688),
    "medium": DataShape(facts=32_888, entities=2_034, relations=42, pairs=30_076, questions=11_867),
    "many relations, many facts": DataShape(facts=5_000_000, entities=100_000, relations=500, pairs=4_000_000, questions=5_000_000),
    "many entities": DataShape(facts=100_000, entities=2_000_000, relations=1_000, pairs=100_000, questions=100_000),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_default_recipe_is_filled_in_for_any_data(name: str) -> None:
    settings = fit_softmax(fit_to_data(recipe("default"), SHAPES[name].facts), SHAPES[name])
    softmax = settings.softmax
    assert softmax.question_tile == (16 if settings.model.block == 0 else 4)
    assert settings.model.dim is not None and softmax.questions is not None and softmax.matrix_rate is not None and softmax.penalty is not None
    assert 0.002 <= softmax.penalty < 0.3 and 0.01 <= softmax.matrix_rate <= softmax.rate and 128 <= softmax.questions <= 1024
    assert softmax.answers == (1 if name in ("wn18rr", "one fact") else 4)
    assert softmax.candidates is None  # all entities fit
    assert fit_softmax(settings, SHAPES["wn18rr"]) == settings  # filled in once, they stay


def test_the_penalty_follows_the_density() -> None:
    penalty = {name: fit_softmax(recipe("default"), shape).softmax.penalty or 0 for name, shape in SHAPES.items()}
    assert penalty["wn18rr"] > penalty["fb15k-237"] > penalty["kinship"]  # as the best ones on valid do
    assert penalty["fb15k-237"] == pytest.approx(0.065, abs=0.005)
    whole = fit_softmax(recipe("default").with_values({"model.block": 0}), SHAPES["kinship"])
    assert whole.softmax.penalty == fit_nce(recipe("joint"), SHAPES["kinship"]).updates.penalty == pytest.approx(0.03, abs=0.002)
    assert penalty["kinship"] == pytest.approx(0.0129, abs=0.0005)  # blocks hold a small KB back themselves
    assert fit_softmax(recipe("default"), MORE_SHAPES["world"]).softmax.penalty == pytest.approx(0.052, abs=0.002)


def test_the_penalty_of_blocks_has_no_step_between_small_and_large_knowledge_bases() -> None:
    medium = MORE_SHAPES["medium"]

    def penalty(facts: int, blocks: bool = True) -> float:
        factor = facts / medium.facts
        return fitting_penalty(replace(medium, facts=facts, pairs=round(medium.pairs * factor), questions=round(medium.questions * factor)), blocks)

    assert penalty(50_001) == pytest.approx(penalty(49_999), rel=0.01) == pytest.approx(0.0237, abs=2e-4)
    assert penalty(250_000) == pytest.approx(penalty(250_000, blocks=False), abs=1e-4)
    between = penalty(111_803)  # √(50,000 · 250,000): half of the way
    small, large = 0.0038 * math.sqrt(111_803 / 42) * 11_867 / (2 * 32_888), penalty(111_803, blocks=False)
    assert between == pytest.approx(math.sqrt(small * large), abs=1e-4) and small < between < large


def test_small_knowledge_bases_have_fewer_epochs_unless_an_epoch_is_quick() -> None:
    epochs = {name: fit_softmax(recipe("default"), shape).training.epochs for name, shape in {**SHAPES, **MORE_SHAPES}.items()}
    assert epochs == {name: 36 if name == "world" else 60 for name in epochs}
    rates = {name: fit_softmax(recipe("default"), shape).softmax.rate for name, shape in {**SHAPES, **MORE_SHAPES}.items()}
    assert rates == {name: 0.2 if name == "world" else 0.1 for name in epochs}  # and a higher rate for them
    assert (
        fit_softmax(recipe("default").with_values({"model.block": 0}), SHAPES["kinship"]).training.epochs == 36
    )  # whole matrices gain nothing by more
    assert fit_softmax(recipe("default").with_values({"training.epochs": 7}), SHAPES["kinship"]).training.epochs == 7


def test_matrices_begin_near_the_identity_where_few_relations_have_many_facts() -> None:
    initial = {name: fit_softmax(recipe("default"), shape).model.initial for name, shape in SHAPES.items()}
    assert initial == {name: "identity" if name == "wn18rr" else "small" for name in SHAPES}
    traceless = {name: fit_to_data(fit_softmax(recipe("default"), shape), shape.facts).coder.traceless for name, shape in SHAPES.items()}
    assert traceless == {name: name == "wn18rr" for name in SHAPES}  # whose part of the identity all share


@pytest.mark.parametrize("cuda", [False, True])
def test_sizes_of_vectors_and_blocks_follow_the_data(cuda: bool) -> None:
    found = {name: fitting_sizes(shape, cuda) for name, shape in {**SHAPES, **MORE_SHAPES}.items()}
    assert found == {
        "fb15k-237": (1024, 32) if cuda else (256, 0),  # 1,148 facts a relation
        "fb15k": (1024, 8) if cuda else (256, 32),  # 359
        "wn18rr": (512, 0) if cuda else (256, 0),  # 7,894: whole matrices
        "many relations, many facts": (256, 0),  # whole, and too many of them for longer vectors
        "many entities": (256, 8),
        "medium": (256, 4),
        "kinship": (512, 4),
        "world": (128, 4),
        "one fact": (512, 4),
        "nothing": (512, 4),
    }


def test_sizes_that_are_given_stay() -> None:
    for shape in SHAPES.values():
        for cuda in (False, True):
            settings = fit_softmax(recipe("default"), shape, cuda)
            assert fit_softmax(settings, shape, not cuda) == settings  # a run goes on elsewhere as it began
            assert fitting_sizes(shape, cuda, dim=64, block=2) == (64, 2)
    assert fitting_sizes(SHAPES["kinship"], False, block=0) == (64, 0)  # whole matrices, and as small as they should be
    assert fitting_sizes(SHAPES["kinship"], False, dim=31) == (31, 0)  # 4 does not divide 31
    assert fitting_sizes(SHAPES["kinship"], False, dim=16) == (16, 0)  # too few blocks
    assert fitting_sizes(SHAPES["fb15k-237"], True, block=0) == (256, 0)  # longer ones would be too many numbers
    assert fitting_sizes(SHAPES["wn18rr"], True, block=64) == (1024, 64)


def test_a_single_block_is_a_whole_matrix_in_every_rule() -> None:
    few = replace(SHAPES["kinship"], entities=300)
    assert fitting_sizes(few, False, block=512) == fitting_sizes(few, False, dim=512, block=0) == (512, 0)
    settings = [fit_softmax(recipe("default").with_values({"model.dim": 512, "model.block": block}), few) for block in (512, 0)]
    assert settings[0] == settings[1] == fit_softmax(recipe("default").with_values({"model.block": 512}), few)


def test_long_vectors_are_for_knowledge_bases_that_fit_a_small_card() -> None:
    shape = DataShape(facts=1_000_000, entities=260_000, relations=1_000, pairs=900_000, questions=1_500_000)
    assert fitting_sizes(shape, True) == (1024, 32)
    assert fitting_sizes(replace(shape, entities=270_000), True)[0] == 256  # too many vectors for 1,024, too many matrices for whole ones of 512
    assert fitting_sizes(replace(shape, entities=500_000, relations=20), True) == (512, 0)
    assert fitting_sizes(replace(shape, entities=600_000, relations=20), True) == (256, 0)
    assert fitting_sizes(DataShape(facts=20_000_000, entities=100_000, relations=60_000, pairs=1, questions=1), True)[0] == 256  # too many blocks


def test_matrices_learn_more_slowly_the_more_numbers_they_have() -> None:
    def rate(name: str, **sizes: int) -> float:
        given = recipe("default").with_values({f"model.{key}": value for key, value in sizes.items()})
        return fit_softmax(given, SHAPES[name]).softmax.matrix_rate or 0.0

    assert rate("fb15k-237") == pytest.approx(0.0429, abs=1e-4) and rate("fb15k-237", dim=512, block=0) == pytest.approx(0.0303, abs=1e-4)
    assert rate("fb15k-237", dim=1024, block=32) == pytest.approx(0.2 / math.sqrt(32), abs=1e-4)
    assert rate("kinship") == 0.1  # with blocks of 4
    assert rate("kinship", block=0) == pytest.approx(0.0234, abs=1e-4)


def test_codes_learn_more_gently_beyond_256() -> None:
    def rates(**changes: Any) -> tuple[float | None, float | None]:
        settings = recipe("default").with_values({key.replace("__", "."): value for key, value in changes.items()})
        coder = fit_to_data(fit_softmax(settings, SHAPES["wn18rr"]), SHAPES["wn18rr"].facts).coder
        return coder.rate, coder.scale

    assert rates(model__dim=64) == rates(model__dim=256) == (0.25, 1.0)
    assert rates(model__dim=512) == (0.125, pytest.approx(math.sqrt(0.5), abs=1e-4))
    assert rates(model__dim=512, coder__rate=0.25, coder__scale=1.0) == (0.25, 1.0)
    paper = recipe("joint").with_values({"model.dim": 512})
    assert (paper.coder.rate, paper.coder.scale, paper.coder.traceless) == (0.25, 1.0, False)


def test_images_are_held_shorter_where_pairs_are_joined_once_and_relations_are_many() -> None:
    several = replace(SHAPES["fb15k-237"], pairs=150_000)
    shares = {name: fit_softmax(recipe("default"), shape).softmax.image_share for name, shape in {**SHAPES, "several": several}.items()}
    assert shares == {name: 0.75 if name == "fb15k-237" else 0.5 for name in shares}
    assert fit_softmax(recipe("default"), SHAPES["fb15k-237"], cuda=True).softmax.image_share == 0.5  # with blocks
    given = recipe("default").with_values({"softmax.image_share": 0.0})
    assert fit_softmax(given, SHAPES["fb15k-237"]).softmax.image_share == 0.0


def test_more_entities_than_fit_are_drawn_from() -> None:
    settings = fit_softmax(recipe("default"), DataShape(facts=10**8, entities=10**7, relations=100, pairs=10**8, questions=10**8))
    assert settings.softmax.candidates is not None and settings.softmax.questions is not None
    assert settings.softmax.candidates * settings.softmax.questions <= 1 << 28
    assert settings.softmax.candidates < 10**7


# ---- noises, where they are left open, are chosen by the device


@pytest.mark.parametrize("name", NAMES)
def test_noises_are_chosen_by_the_device_and_stay(name: str) -> None:
    fitted = fit_to_data(recipe(name), 272_115)
    on_gpu, on_cpu = fit_to_device(fitted, cuda=True), fit_to_device(fitted, cuda=False)
    assert [getattr(on_gpu.sampling, key) for key in ("tile", "noises", "noise_draws", "noise_rows", "noise_sharing")] == [
        1,
        256,
        1024,
        None,
        "batch",
    ]
    assert [getattr(on_cpu.sampling, key) for key in ("tile", "noises", "noise_draws", "noise_rows", "noise_sharing")] == [8, 64, 64, 64, "batch"]
    for settings in (on_gpu, on_cpu):  # a run goes on elsewhere as it began
        assert fit_to_device(settings, cuda=True) == fit_to_device(settings, cuda=False) == settings


def test_noises_that_are_given_stay() -> None:
    given = fit_to_device(recipe("base").with_values({"sampling.noise_draws": 5, "sampling.noises": 3, "sampling.tile": 2}), cuda=False).sampling
    assert (given.noise_draws, given.noises, given.tile, given.noise_rows) == (5, 3, 2, None)


def test_blocks_that_cannot_be(family: Dataset) -> None:
    with pytest.raises(SettingError, match=r"model\.block=1024 does not divide model\.dim=512, chosen from the data: choose one"):
        fit_settings(recipe("default").with_values({"model.block": 1024}), family)
    with pytest.raises(SettingError, match=r"model\.block=32 does not divide model\.dim=48: choose one that does"):
        fit_settings(recipe("default").with_values({"model.dim": 48, "model.block": 32}), family)
    one = fit_settings(recipe("default").with_values({"model.dim": 64, "model.block": 64}), family)
    assert one == fit_settings(recipe("default").with_values({"model.dim": 64, "model.block": 0}), family)  # a single block is a whole matrix
    assert fit_settings(recipe("base").with_values({"model.block": None}), family).model.block == 0
