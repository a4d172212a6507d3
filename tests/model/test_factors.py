"""The autoencoder's start: factors of the matrices' cosines, and the encoder and decoder that give them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from relcode.model.autoencoder import codes, flatten_matrices
from relcode.model.factors import factor_coder, factors

GROUPS, EACH, D = 3, 5, 8


def grouped_matrices() -> Tensor:
    """Matrices of three groups: each a shared part and a smaller one of its own."""
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(GROUPS, 1, D, D, generator=generator).expand(GROUPS, EACH, D, D)
    own = torch.randn(GROUPS, EACH, D, D, generator=generator)
    return (shared + 0.6 * own).flatten(0, 1) * torch.linspace(0.5, 3, GROUPS * EACH)[:, None, None]  # of any length


def test_factors_of_blocks_are_the_blocks() -> None:
    blocks = torch.block_diag(torch.ones(3, 3), torch.ones(2, 2)).double()
    weight = factors(blocks, 2)
    share = weight / weight.sum(1, keepdim=True)
    assert float(share.max(1).values.min()) > 0.95
    assert len(set(share.argmax(1)[:3].tolist())) == len(set(share.argmax(1)[3:].tolist())) == 1
    assert share.argmax(1)[0] != share.argmax(1)[3]


def test_factors_are_not_negative_and_rebuild_what_has_that_form() -> None:
    left = torch.rand(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = left @ left.T
    weight = factors(whole, 3)
    assert float(weight.min()) >= 0
    best = weight @ torch.linalg.lstsq(weight, whole).solution
    assert float((best - whole).norm() / whole.norm()) < 0.02


def test_codes_begin_at_the_groups_and_the_decoder_rebuilds_the_matrices() -> None:
    matrices = grouped_matrices()
    encoder, decoder = factor_coder(matrices, GROUPS)
    code = codes(matrices, encoder)
    largest = code.argmax(1).view(GROUPS, EACH)
    assert all(len(set(row.tolist())) == 1 for row in largest) and len(set(largest[:, 0].tolist())) == GROUPS
    assert float((code.topk(1).values.sum(1) / code.sum(1)).mean()) > 0.8
    assert 4 < float(code.max(1).values.median()) < 16
    flat = flatten_matrices(matrices)
    similar = torch.cosine_similarity(code @ decoder, flat, dim=1)
    assert float(similar.min()) > 0.6  # the shared part is 1/√(1 + 0.36) = 0.86 of each
    other = torch.cosine_similarity((code @ decoder).roll(EACH, 0), flat, dim=1)
    assert float(other.max()) < 0.5


@pytest.mark.parametrize("size", [1, 4, 40])
def test_any_number_of_entries_and_hardly_any_relations(size: int) -> None:
    for matrices in (torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(2)), torch.ones(2, 4, 4)):
        encoder, decoder = factor_coder(matrices, size)
        assert encoder.shape == decoder.shape == (size, 16)
        assert bool(encoder.isfinite().all()) and bool(decoder.isfinite().all())


def test_the_same_matrices_give_the_same_start() -> None:
    first, again = factor_coder(grouped_matrices(), 4), factor_coder(grouped_matrices(), 4)
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
