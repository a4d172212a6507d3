"""What tests of suggestions share: a small random knowledge base and model, and the definitions as plain loops."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache

import torch

from relcode.analysis.best_pairs import PairFinder
from relcode.analysis.candidates import SHARE, Candidates
from relcode.analysis.found_pairs import Search
from relcode.evaluation.ranking import known_answers
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.graph.known import KnownAnswers
from relcode.model.score import Scorer


@dataclass(frozen=True, eq=False)
class Case:
    dataset: Dataset
    scorer: Scorer
    candidates: Candidates
    known: KnownAnswers

    def finder(self, block_numbers: int | None = None) -> PairFinder:
        return PairFinder(self.scorer, self.candidates, self.known, block_numbers)


def random_case(seed: int = 0, E: int = 14, R: int = 3, D: int = 4, facts: int = 30) -> Case:
    """Return a random case: matrices are not symmetric, two entities occur in test alone, the last relation also joins entities with themselves."""
    draw = random.Random(seed)

    def fact(last: int) -> tuple[str, str, str]:
        r = draw.randrange(R)
        head, tail = draw.randrange(last), draw.randrange(last)
        # Relation 0 goes from the lower half to the upper one, so that there are types.
        head, tail = (head % (last // 2), last // 2 + tail % (last // 2)) if r == 0 else (head, tail)
        tail = (tail + 1) % last if head == tail and r != R - 1 else tail
        return f"e{head:02}", f"r{r}", f"e{tail:02}"

    splits = {"train": [fact(E - 2) for _ in range(facts)], "valid": [fact(E - 2) for _ in range(6)], "test": [fact(E) for _ in range(6)]}
    splits["train"].append(("e01", f"r{R - 1}", "e01"))
    dataset = dataset_from_facts(splits, name="random")
    generator = torch.Generator().manual_seed(seed)
    sizes = dataset.num_entities, dataset.num_relations
    scorer = Scorer(
        torch.randn(sizes[0], D, generator=generator),
        torch.randn(sizes[0], D, generator=generator),
        torch.randn(2 * sizes[1], D, D, generator=generator),
        dataset.seen_E,
    )
    return Case(dataset, scorer, Candidates.of(dataset.train, *sizes), known_answers(dataset))


@cache
def slow_heads(dataset: Dataset, relation: int, share: float = SHARE) -> list[int]:
    """Return the candidates for the heads of a directed relation as the definition reads."""
    R = dataset.num_relations
    holders: dict[int, set[int]] = {s: set() for s in range(2 * R)}
    for h, r, t in dataset.train.tolist():
        holders[r].add(h)
        holders[r + R].add(t)
    found: set[int] = set()
    for others in holders.values():
        together = len(others & holders[relation])
        if together and together >= share * len(others):
            found |= others
    return sorted(found)


def slow_score(scorer: Scorer, h: int, s: int, t: int) -> float:
    u, m, v = scorer.head_ED[h].tolist(), scorer.matrix_SDD[s].tolist(), scorer.tail_ED[t].tolist()
    return sum(u[i] * m[i][j] * v[j] for i in range(len(u)) for j in range(len(v)))


@cache
def slow_scores(case: Case) -> list[list[list[float]]]:
    """Return the score of every (s, h, t)."""
    E, S = case.dataset.num_entities, case.dataset.num_directed
    return [[[slow_score(case.scorer, h, s, t) for t in range(E)] for h in range(E)] for s in range(S)]


def slow_log_share(case: Case, h: int, s: int, t: int) -> float:
    """Return ln share(t | h, s) by loops: a log-softmax over the candidates, and t itself."""
    R = case.dataset.num_relations
    among = set(slow_heads(case.dataset, (s + R) % (2 * R))) | {t}
    score = slow_scores(case)[s][h]
    return score[t] - math.log(sum(math.exp(score[e]) for e in among))


def slow_evidence(case: Case, h: int, s: int, t: int) -> float:
    R = case.dataset.num_relations
    return (slow_log_share(case, h, s, t) + slow_log_share(case, t, (s + R) % (2 * R), h)) / 2


def slow_best(case: Case, search: Search) -> list[tuple[float, int, int]]:
    """Return (worth, head, tail) of all pairs that a search may find, the best first, by loops over all pairs."""
    data, R, s = case.dataset, case.dataset.num_relations, search.relation
    heads, tails = slow_heads(data, s), slow_heads(data, (s + R) % (2 * R))
    if not heads:
        return []
    facts = {tuple(fact) for split in ("train", "valid", "test") for fact in data.split(split).tolist()}
    facts |= {(t, r + R, h) for h, r, t in facts}
    loops = any(h == t and r == s % R for h, r, t in data.train.tolist())
    found = []
    for h in range(data.num_entities):
        for t in range(data.num_entities):
            other = h not in heads or t not in tails
            if (h, s, t) in facts or (h == t and not loops) or (other and not search.any_type):
                continue
            if not (data.seen_E[h] and data.seen_E[t]):
                continue
            if (search.heads is not None and h not in search.heads.tolist()) or (search.tails is not None and t not in search.tails.tolist()):
                continue
            worth = slow_evidence(case, h, s, t) + other * search.shifts.other
            worth += any(a == h and r == s for a, r, _ in facts) * search.shifts.head
            worth += any(b == t and r == s for _, r, b in facts) * search.shifts.tail
            found.append((worth, h, t))
    return sorted(found, key=lambda one: (-one[0], one[1:]))
