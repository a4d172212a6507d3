"""Golden losses: what a fixed seed gave when this was written. A change that should not alter results must give the same numbers.

A rounding error of 1e-6 in the first vectors moves these losses by 1e-7, so the tolerance leaves room for other processors and libraries
and for nothing else. After a change that *should* alter results, put in the numbers that the failing test prints, and say why in the commit.
"""

from __future__ import annotations

import pytest
from training.small import CPU, small

from relcode.graph.dataset import Dataset
from relcode.training.advance import advance, initial_state, make_trainer

STEPS = 20  # three times so many
# recipe: (loss of each third, autoencoder loss of each third, norm of all matrices at the end)
GOLDEN: dict[str, tuple[list[float], list[float | None], float]] = {
    "base": ([2.2558210, 2.0321503, 1.8808274], [None, None, None], 6.3016915),
    "joint": ([2.2401604, 2.0205935, 1.9109444], [2.1569758, 2.0820809, 1.9851249], 6.3505063),
    "base+comp": ([2.2524476, 2.1770548, 2.1289815], [None, None, None], 5.9542327),
    "joint+comp": ([2.2468979, 2.1767806, 2.1224711], [2.1799520, 2.0200656, 2.0255200], 5.9709725),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_of_a_fixed_seed(name: str, family: Dataset) -> None:
    settings = small(name)
    state, trainer = initial_state(family, settings, CPU), make_trainer(family, settings, CPU)
    told = []
    for _ in range(3):
        state, stats = advance(state, STEPS, trainer, 3 * STEPS)
        told.append(stats)
    losses, coder_losses, norm = GOLDEN[name]
    found = ([stats.loss for stats in told], [stats.coder_loss for stats in told], state.parameters.matrix_SDD.norm().item())
    print(f'"{name}": {found},')
    assert found[0] == pytest.approx(losses, rel=1e-5)
    assert found[1] == (coder_losses if coder_losses[0] is None else pytest.approx(coder_losses, rel=1e-5))
    assert found[2] == pytest.approx(norm, rel=1e-5)
    assert found[0][2] < found[0][0]  # it learns
