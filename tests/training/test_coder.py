"""The autoencoder's turn where matrices have blocks: what the same turn does to whole matrices with zeros outside the blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from training.small import CPU, small

from relcode.config import Settings
from relcode.graph.dataset import Dataset
from relcode.model.autoencoder import codes
from relcode.model.parameters import Parameters
from relcode.ops.diagonal import whole
from relcode.training.advance import initial_state
from relcode.training.coder import CoderTurn
from relcode.training.fit import fit_settings

BLOCK = 2


def settings_of(family: Dataset, block: int, traceless: bool) -> Settings:
    changes = {"model__normalise": False, "model__autoencoder": True, "model__initial": "gaussian", "coder__every": 2.0, "coder__matrix_rate": 0.5}
    return fit_settings(small("default", **{**changes, "model__block": block, "coder__traceless": traceless, "coder__sparsity": 0.15}), family)


def widened(flat_CQ: Tensor, d: int) -> Tensor:
    """Return rows of d·b numbers as rows of d·d, with the zeros outside the blocks."""
    return whole(flat_CQ.unflatten(1, (d, -1))).flatten(1)


def take_turn_(parameters: Parameters, settings: Settings) -> None:
    generator = torch.Generator().manual_seed(5)
    turn = CoderTurn(parameters, torch.ones(len(parameters.matrix_SDD)), settings, 12.0, torch.ones(()), generator)
    turn.pull_(turn.learn_())


@pytest.mark.parametrize("traceless", [False, True])
def test_blocks_are_whole_matrices_with_zeros(family: Dataset, traceless: bool) -> None:
    settings = settings_of(family, BLOCK, traceless)
    blocks = initial_state(family, settings, CPU).parameters
    d = settings.model.size
    assert blocks.matrix_SDD.shape[1:] == (d, BLOCK) and blocks.encoder_CQ is not None and blocks.decoder_CQ is not None
    plain = replace(
        blocks, matrix_SDD=whole(blocks.matrix_SDD), encoder_CQ=widened(blocks.encoder_CQ, d), decoder_CQ=widened(blocks.decoder_CQ, d),
        coder_count=torch.zeros((), dtype=torch.float64),
    )  # fmt: skip
    before = plain.matrix_SDD.clone()
    take_turn_(blocks, settings)
    take_turn_(plain, settings_of(family, 0, traceless))
    assert plain.encoder_CQ is not None and plain.decoder_CQ is not None
    assert float((plain.matrix_SDD - before).norm()) > 1e-3
    torch.testing.assert_close(whole(blocks.matrix_SDD), plain.matrix_SDD)
    torch.testing.assert_close(widened(blocks.encoder_CQ, d), plain.encoder_CQ)
    torch.testing.assert_close(widened(blocks.decoder_CQ, d), plain.decoder_CQ)
    torch.testing.assert_close(codes(blocks.matrix_SDD, blocks.encoder_CQ), codes(plain.matrix_SDD, plain.encoder_CQ))
