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
DAMPED = {"updates__vector_damping": 0.25, "updates__matrix_damping": 0.03}
# recipe, or a recipe with damped updates: (loss of each third, autoencoder loss of each third, norm of all matrices at the end)
GOLDEN: dict[str, tuple[list[float], list[float | None], float]] = {
    "base": ([2.2831950, 2.2133383, 2.1670079], [None, None, None], 5.7636709),
    "joint": ([2.2784549, 2.2030687, 2.1668958], [2.0078700, 1.9986739, 1.8564952], 5.8049250),
    "base+comp": ([2.2715714, 2.2346927, 2.2303763], [None, None, None], 5.7161651),
    "joint+comp": ([2.2528231, 2.2509486, 2.2230711], [2.0333848, 2.0155590, 1.7579293], 5.7830377),
    "joint+comp damped": ([2.2535951, 2.2523989, 2.2254673], [2.0328705, 2.0152214, 1.7570175], 5.7810106),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_of_a_fixed_seed(name: str, family: Dataset) -> None:
    recipe, _, damped = name.partition(" ")
    settings = small(recipe, **(DAMPED if damped else {}))
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
