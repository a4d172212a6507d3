"""The slow truth for ranking: Python loops in double precision over every triple, both directions. Shares no code with relcode."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.model.score import Scorer


@dataclass
class SlowRank:
    """One query: what its gold answer scores, and the scores of the rivals left."""

    gold: float
    rivals: list[float]

    def optimistic(self, slack: float = 0.0) -> int:
        return 1 + sum(score > self.gold + slack for score in self.rivals)

    def pessimistic(self, slack: float = 0.0) -> int:
        return 1 + sum(score >= self.gold - slack for score in self.rivals)


def slow_ranks(scorer: Scorer, dataset: Dataset, split: str = "test", paper: bool = False) -> list[SlowRank]:
    """Rank each fact's tail, then each fact's head, by the definition."""
    E, R = dataset.num_entities, dataset.num_relations
    facts = {name: [tuple(fact) for fact in dataset.split(name).tolist()] for name in ("train", "valid", "test")}
    seen = {entity for head, _, tail in facts["train"] for entity in (head, tail)}
    both = {name: [*rows, *((t, r + R, h) for h, r, t in rows)] for name, rows in facts.items()}
    known = {fact for rows in both.values() for fact in rows}
    u, v, m = (tensor.double().tolist() for tensor in (scorer.head_ED, scorer.tail_ED, scorer.matrix_SDD))

    def score(head: int, relation: int, tail: int) -> float:
        if head not in seen or tail not in seen:
            return 0.0
        D = len(u[head])
        return sum(u[head][i] * m[relation][i][j] * v[tail][j] for i in range(D) for j in range(D))

    answers = []
    for head, relation, gold in both[split]:
        asker = head
        if paper and head not in seen:
            times = [sum(h == entity and r == relation for h, r, _ in both["train"]) for entity in range(E)]
            asker = times.index(max(times)) if max(times) else head
        rivals = [c for c in range(E) if c != gold and (head, relation, c) not in known and (c in seen or not paper)]
        answers.append(SlowRank(score(asker, relation, gold), [score(asker, relation, c) for c in rivals]))
    return answers


def random_kb(E: int = 13, R: int = 3, facts: int = 60, unseen: int = 2, seed: int = 0) -> Dataset:
    """Return random facts in three splits; the last entities occur only outside train."""
    generator = torch.Generator().manual_seed(seed)

    def draw(count: int, entities: int) -> list[tuple[str, str, str]]:
        columns = (torch.randint(0, most, (count,), generator=generator).tolist() for most in (entities, R, entities))
        return [(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in zip(*columns, strict=True)]

    cover = [(f"e{e:02}", f"r{e % R}", "e00") for e in range(E - unseen)]
    strange = [(f"e{e:02}", "r0", "e01") for e in range(E - unseen, E)] + [("e02", "r1", f"e{e:02}") for e in range(E - unseen, E)]
    return dataset_from_facts({"train": cover + draw(facts, E - unseen), "valid": draw(15, E), "test": draw(25, E) + strange}, name="random")


def random_scorer(dataset: Dataset, D: int = 4, seed: int = 0, whole: bool = False, dtype: torch.dtype = torch.float32) -> Scorer:
    """Return a scorer with non-symmetric matrices; ``whole`` numbers are small integers, whose sums are exact and often tie."""
    generator = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> torch.Tensor:
        return torch.randint(-2, 3, shape, generator=generator).to(dtype) if whole else torch.randn(*shape, generator=generator).to(dtype)

    return Scorer(values(dataset.num_entities, D), values(dataset.num_entities, D), values(dataset.num_directed, D, D), dataset.seen_E)
