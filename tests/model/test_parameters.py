from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from relcode.config import CoderSettings, ModelSettings, Settings, UpdateSettings
from relcode.model.parameters import (
    Parameters,
    coder_in_force,
    enlarge,
    initial_parameters,
    matrices_in_force,
    matrix_scale,
    scorer_of,
    shrink,
    vectors_in_force,
)
from relcode.ops.diagonal import identity_like, trace
from relcode.recipes import recipe

E, S = 300, 6


def first(seed: int = 0, **model: object) -> Parameters:
    settings = Settings(model=replace(ModelSettings(dim=32, code_dim=4), **model))  # type: ignore[arg-type]
    return initial_parameters(E, S, settings, torch.Generator().manual_seed(seed))


def test_vectors_start_gaussian_of_variance_one_over_d_and_heads_as_tails() -> None:
    parameters = first()
    assert parameters.head_ED.shape == (E, 32) and parameters.dim == 32
    assert parameters.head_ED.var().item() == pytest.approx(1 / 32, rel=0.05)
    assert abs(parameters.head_ED.mean().item()) < 0.01
    assert torch.equal(parameters.head_ED, parameters.tail_ED)
    assert parameters.head_ED.data_ptr() != parameters.tail_ED.data_ptr()  # equal, but not the same


@pytest.mark.parametrize("initial", ["identity", "gaussian"])
def test_matrices_start_as_their_setting_says(initial: str) -> None:
    matrix_SDD = first(initial=initial).matrix_SDD
    gaussian_SDD = matrix_SDD if initial == "gaussian" else 2 * matrix_SDD - torch.eye(32)
    assert matrix_SDD.shape == (S, 32, 32)
    assert gaussian_SDD.var().item() == pytest.approx(1 / 32, rel=0.1)
    assert abs(gaussian_SDD.mean().item()) < 0.01
    on_diagonal = matrix_SDD.diagonal(dim1=1, dim2=2).mean().item()
    assert on_diagonal == pytest.approx(0.5 if initial == "identity" else 0.0, abs=0.05)
    assert not torch.equal(matrix_SDD[0], matrix_SDD[1])


@pytest.mark.parametrize(("initial", "deviation", "on_diagonal"), [("gaussian", 1.0, 0.0), ("identity", 0.5, 0.5), ("small", 1 / 8, 0.0)])
def test_blocks_start_with_numbers_of_the_same_size(initial: str, deviation: float, on_diagonal: float) -> None:
    matrix_SDD = first(initial=initial, block=8).matrix_SDD
    assert matrix_SDD.shape == (S, 32, 8)
    own_SDD = matrix_SDD - on_diagonal * identity_like(matrix_SDD)
    assert own_SDD.std().item() == pytest.approx(deviation / math.sqrt(32), rel=0.1)
    assert trace(matrix_SDD).mean().item() / 32 == pytest.approx(on_diagonal, abs=0.05)


def test_the_coder_starts_with_b_as_a_transposed() -> None:
    parameters = first()
    assert parameters.encoder_CQ is not None and parameters.decoder_CQ is not None and parameters.coder_count is not None
    assert parameters.encoder_CQ.shape == (4, 1024)
    assert parameters.encoder_CQ.var().item() == pytest.approx(1 / 32, rel=0.1)
    assert torch.equal(parameters.encoder_CQ, parameters.decoder_CQ)
    assert parameters.encoder_CQ.data_ptr() != parameters.decoder_CQ.data_ptr()
    assert parameters.coder_count.item() == 0


def test_base_has_no_coder() -> None:
    parameters = first(autoencoder=False)
    assert parameters.encoder_CQ is None and parameters.decoder_CQ is None and parameters.coder_count is None
    assert set(parameters.tensors()) == {"head_ED", "tail_ED", "matrix_SDD", "head_count_E", "tail_count_E", "matrix_count_S"}
    assert set(first().tensors()) == set(parameters.tensors()) | {"encoder_CQ", "decoder_CQ", "coder_count"}


def test_base_and_joint_start_alike() -> None:
    base, joint = first(autoencoder=False), first()
    assert torch.equal(base.head_ED, joint.head_ED)
    assert torch.equal(base.matrix_SDD, joint.matrix_SDD)


def test_counters_start_at_zero_in_double_precision() -> None:
    parameters = first()
    for name, size in (("head_count_E", E), ("tail_count_E", E), ("matrix_count_S", S)):
        count = parameters.tensors()[name]
        assert count.tolist() == [0.0] * size
        assert count.dtype == torch.float64  # a float32 stops counting at 16,777,216


def test_the_same_seed_draws_the_same_parameters() -> None:
    one, same, other = first(1), first(1), first(2)
    assert all(torch.equal(value, same.tensors()[name]) for name, value in one.tensors().items())
    assert not torch.equal(one.head_ED, other.head_ED)
    assert not torch.equal(one.matrix_SDD, other.matrix_SDD)


def test_shrinking_by_hand() -> None:
    # rate ¼ and decay ⅛: at τ = 32 the factor is 1/(1 + 32/32) = ½.
    count = torch.tensor([0.0, 32.0, 96.0], dtype=torch.float64)
    assert shrink(count, 0.25, 0.125).tolist() == [1.0, 0.5, 0.25]
    assert shrink(count, 0.25, 0.0).tolist() == [1.0, 1.0, 1.0]
    settings = UpdateSettings(vector_rate=0.25, vector_decay=0.125)
    assert vectors_in_force(torch.tensor([[8.0], [8.0], [8.0]]), count, settings).tolist() == [[8.0], [4.0], [2.0]]


def test_one_division_is_both_the_falling_rate_and_the_decay() -> None:
    """Gathering rate·g and dividing by 1 + rate·decay·τ is the same as steps v ← v − α·decay·v + α·g with α = rate/(1 + rate·decay·τ)."""
    rate, decay = 0.25, 0.125
    raw, value = torch.tensor([[2.0]], dtype=torch.float64), 2.0
    for step in range(1, 50):
        gradient = math.sin(step)
        raw += rate * gradient
        falling = rate / (1 + rate * decay * step)
        value += falling * (gradient - decay * value)
        in_force = vectors_in_force(raw, torch.tensor([float(step)], dtype=torch.float64), UpdateSettings(vector_rate=rate, vector_decay=decay))
        assert in_force.item() == pytest.approx(value, rel=1e-6)


def test_matrices_are_in_force_at_norm_root_d() -> None:
    matrix_SDD = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.01, 1.0, 1e9])[:, None, None]
    in_force = matrices_in_force(matrix_SDD, True)
    assert in_force.flatten(1).norm(dim=1).tolist() == pytest.approx([math.sqrt(5)] * 3, rel=1e-5)
    for stored, used in zip(matrix_SDD, in_force, strict=True):
        assert torch.allclose(stored / stored.norm(), used / used.norm())
    assert matrix_scale(torch.eye(5)[None] * 4, True).tolist() == pytest.approx([0.25])


def test_without_normalisation_matrices_are_used_as_they_are_stored() -> None:
    matrix_SDD = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(matrices_in_force(matrix_SDD, False), matrix_SDD)
    assert matrix_scale(matrix_SDD, False).tolist() == [1, 1, 1]


def test_a_zero_matrix_stays_zero_and_nan_shows() -> None:
    in_force = matrices_in_force(torch.stack([torch.zeros(2, 2), torch.full((2, 2), math.nan)]), True)
    assert in_force[0].abs().max() == 0
    assert in_force[1].isnan().all()


def test_the_coder_in_force_is_shrunk_by_its_own_counter() -> None:
    parameters = first()
    assert parameters.encoder_CQ is not None and parameters.decoder_CQ is not None and parameters.coder_count is not None
    parameters.coder_count.fill_(32)
    parameters.decoder_CQ.mul_(3)
    encoder_CQ, decoder_CQ = coder_in_force(parameters, CoderSettings(rate=0.25, decay=0.125))
    assert torch.allclose(encoder_CQ, parameters.encoder_CQ / 2)
    assert torch.allclose(decoder_CQ, parameters.decoder_CQ / 2)


@pytest.mark.parametrize("normalise", [True, False])
def test_what_scores(normalise: bool) -> None:
    """Decayed vectors and matrices in force; zero for entities never trained: every triple by a loop."""
    settings = Settings(model=ModelSettings(dim=3, normalise=normalise), updates=UpdateSettings(vector_rate=0.25, vector_decay=0.125))
    parameters = initial_parameters(4, 4, settings, torch.Generator().manual_seed(5))
    parameters.tail_ED.mul_(torch.tensor([1.0, -2.0, 3.0, 4.0])[:, None])
    parameters.tail_count_E.copy_(torch.tensor([0.0, 32.0, 5.0, 96.0]))
    parameters.head_count_E.copy_(torch.tensor([7.0, 1.0, 2.0, 3.0]))
    seen_E = torch.tensor([True, True, False, True])
    scorer = scorer_of(parameters, settings, seen_E)
    assert torch.equal(scorer.seen_E, seen_E)
    found = scorer.scores(scorer.queries(torch.arange(4).repeat_interleave(4), torch.arange(4).repeat(4)))
    for head in range(4):
        for relation in range(4):
            matrix = parameters.matrix_SDD[relation].double()
            if normalise:
                matrix = matrix * math.sqrt(3) / matrix.norm()
            for tail in range(4):
                u, v = parameters.head_ED[head].double(), parameters.tail_ED[tail].double()
                u, v = u / (1 + 0.25 * 0.125 * parameters.head_count_E[head]), v / (1 + 0.25 * 0.125 * parameters.tail_count_E[tail])
                expected = float(u @ matrix @ v)
                expected *= float(seen_E[head] and seen_E[tail])
                assert found[head * 4 + relation, tail].item() == pytest.approx(expected, abs=1e-6)


def test_scoring_leaves_the_parameters_alone() -> None:
    parameters = first()
    before = {name: value.clone() for name, value in parameters.tensors().items()}
    scorer = scorer_of(parameters, Settings(), torch.zeros(E, dtype=torch.bool))
    assert scorer.head_ED.abs().max() == scorer.tail_ED.abs().max() == 0
    assert all(torch.equal(value, before[name]) for name, value in parameters.tensors().items())


@pytest.mark.parametrize("name", ["default", "joint"])
def test_enlarged_parameters_keep_old_rows_and_put_inverses_behind_all_relations(name: str) -> None:
    settings = recipe(name).with_values({"model.dim": 3, "model.code_dim": 2})
    old = initial_parameters(4, 2 * 2, settings, torch.Generator().manual_seed(1))
    for number, value in enumerate(old.tensors().values()):
        value.add_(number + 1)  # squares and counters are not all alike
    kept = {key: value.clone() for key, value in old.tensors().items()}
    added = initial_parameters(2, 2 * 1, settings, torch.Generator().manual_seed(2))
    both = enlarge(old, added)
    assert both.head_ED.shape == (6, 3) and both.matrix_SDD.shape == (6, 3, 3) and (both.tail_ED is None) == (name == "default")
    for key, value in both.tensors().items():
        letter = key.rpartition("_")[2][:1]
        new = added.tensors()[key]
        if letter == "S":  # relations a, b, new; then their inverses
            assert torch.equal(value, torch.stack([kept[key][0], kept[key][1], new[0], kept[key][2], kept[key][3], new[1]]))
        elif letter == "E":
            assert torch.equal(value[:4], kept[key]) and torch.equal(value[4:], new)
        else:
            assert torch.equal(value, kept[key])
    assert {key: value.dtype for key, value in both.tensors().items()} == {key: value.dtype for key, value in kept.items()}
