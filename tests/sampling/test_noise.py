from __future__ import annotations

import pytest
import torch

from relcode.graph.facts import directed
from relcode.sampling.noise import NoiseSource

CPU = torch.device("cpu")
# Entity 3 of 6 is in no fact. As tails of directed facts: 0 four times, 1 twice, 2 once, 4 twice, 5 once.
FACTS = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 1, 4], [0, 1, 1], [5, 0, 4]])
TIMES = {0: 4, 1: 2, 2: 1, 4: 2, 5: 1}
LIMIT = 18.5  # 99.9 % of chi-square with 4 degrees of freedom


def chi_square(drawn: torch.Tensor, shares: dict[int, float]) -> float:
    count, total = torch.bincount(drawn.flatten(), minlength=6).tolist(), sum(shares.values())
    assert sum(count[entity] for entity in shares) == drawn.numel(), "an entity that no fact names was drawn"
    expected = {entity: drawn.numel() * share / total for entity, share in shares.items()}
    return sum((count[entity] - expected[entity]) ** 2 / expected[entity] for entity in shares)


@pytest.mark.parametrize(("distribution", "shares"), [("uniform", dict.fromkeys(TIMES, 1)), ("unigram", TIMES)])
def test_noise_follows_its_distribution_over_the_entities_of_the_facts(distribution: str, shares: dict[int, float]) -> None:
    drawn = NoiseSource(directed(FACTS, 2), distribution, CPU).draw(300, 50, torch.Generator().manual_seed(0))
    assert drawn.shape == (300, 50)
    assert chi_square(drawn, shares) < LIMIT
    other = TIMES if distribution == "uniform" else dict.fromkeys(TIMES, 1)
    assert chi_square(drawn, other) > 10 * LIMIT


@pytest.mark.parametrize("distribution", ["uniform", "unigram"])
def test_the_same_generator_state_draws_the_same_noise(distribution: str) -> None:
    source = NoiseSource(directed(FACTS, 2), distribution, CPU)
    first, second, third = (source.draw(10, 10, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_a_single_entity_is_its_own_noise() -> None:
    source = NoiseSource(torch.tensor([[4, 0, 4]]), "unigram", CPU)
    assert source.draw(2, 3, torch.Generator()).tolist() == [[4, 4, 4], [4, 4, 4]]
