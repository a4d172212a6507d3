"""Is a dimension of the codes one topic? Whether its strongest relations share a domain more often than chance, by permutation.

The domain of a relation is the first part of its name: ``film`` of /film/film/country, ``city`` of city_country. For each dimension, of the relations
that live on it (at least a tenth of their code lies there; a relation and its inverse count as one, by the larger share), the ten with the largest,

    agreement = share of the pairs among them that have the same domain

and chance is the same figure with the domains dealt out anew among all relations. p = (1 + deals that agree as well)/(1 + deals), for each dimension
by itself and for the mean over dimensions (Fisher's permutation test). Which relations are frequent plays no part, nor how many live on a dimension:
names are dealt, codes stay. A dimension with fewer than two relations has no pairs, and is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.codes import LARGE, RelationCodes
from relcode.analysis.words import ADDRESS
from relcode.graph.vocab import Vocab

STRONGEST = 10
DEALS = 2000
SIGNIFICANT = 0.05
PART = re.compile(r"[^\W_]+")


def domain(name: str) -> str:
    """Return the first part of a relation's name, in lower case: after a leading slash up to the next, else the first word.

    Of an address (http://…/ontology/birthPlace) or a prefixed name (dbo:birthPlace) it is the first word of the last part, since all share the first.
    """
    if ADDRESS.match(name):
        name = re.split(r"[/#:]", name.rstrip("/#"))[-1]
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    found = PART.search(name) if not name.startswith("/") else re.search(r"[^/]+", name)
    return found.group().casefold() if found else name


@dataclass(frozen=True, slots=True)
class Topic:
    """One dimension: the domain most of its strongest relations have, how many have it, and how often pairs of them agree."""

    number: int  # from 1
    domain: str
    holders: int
    relations: int  # that were looked at
    agreement: float
    chance: float
    p_value: float


@dataclass(frozen=True, eq=False)
class TopicTest:
    """All dimensions that at least two relations live on; ``agreement`` and ``chance`` are means over them."""

    topics: tuple[Topic, ...]
    agreement: float
    chance: float
    p_value: float
    deals: int
    domains: int  # that there are
    relations: int  # named ones, that have them

    @property
    def tells(self) -> bool:
        """Return whether there is anything to test: dealt as they may be, domains all different never agree, and those all alike always do."""
        return bool(self.topics) and 1 < self.domains < self.relations

    @property
    def significant(self) -> int:
        """Return how many dimensions agree more than chance by Holm's rule at 5 %: the chance of naming even one wrongly stays below that."""
        count = 0
        for place, p_value in enumerate(sorted(topic.p_value for topic in self.topics)):
            if p_value > SIGNIFICANT / (len(self.topics) - place):
                break
            count += 1
        return count

    def table(self) -> pa.Table:
        """Return one row a dimension."""
        kinds = {int: pa.int64(), float: pa.float64(), str: pa.utf8()}
        names = {"number": int, "domain": str, "holders": int, "relations": int, "agreement": float, "chance": float, "p_value": float}
        return pa.table({name: pa.array([getattr(topic, name) for topic in self.topics], kinds[kind]) for name, kind in names.items()})

    def __str__(self) -> str:
        """Say it in one line."""
        if not self.topics:
            return "no dimension has two relations, so none can be a topic"
        if not self.tells:
            which = (
                "no two relations share the first part of their names" if self.domains > 1 else "all relations share the first part of their names"
            )
            return f"{which}, so there are no topics to tell"
        return (
            f"of two among a dimension's relations (a tenth of a code or more, the {STRONGEST} strongest), {self.agreement:.0%} share their domain;"
            f" {self.chance:.0%} by chance (p = {self.p_value:.2g}); {self.significant} of {len(self.topics)} dimensions do by themselves"
        )


def topic_test(codes: RelationCodes, relations: Vocab, generator: torch.Generator, deals: int = DEALS, strongest: int = STRONGEST) -> TopicTest:
    """Test whether the strongest relations of each dimension share a domain more often than chance."""
    domains = [domain(name) for name in relations.names]
    number = {name: place for place, name in enumerate(dict.fromkeys(sorted(domains)))}
    domain_R = torch.tensor([number[name] for name in domains], dtype=torch.int64)
    rows = strongest_relations(codes, strongest)
    dealt_WR = torch.stack([domain_R[torch.randperm(len(domain_R), generator=generator)] for _ in range(deals)])
    topics, observed, by_chance = [], [], []
    for dimension, row_X in rows.items():
        agreement, chance_W = float(pairs_agreeing(domain_R[row_X][None])), pairs_agreeing(dealt_WR[:, row_X])
        most, holders = _most(domains, row_X.tolist())
        p_value = (1 + int((chance_W >= agreement - 1e-12).sum())) / (1 + deals)
        topics.append(Topic(dimension + 1, most, holders, len(row_X), agreement, float(chance_W.mean()), p_value))
        observed.append(agreement)
        by_chance.append(chance_W)
    if not topics:
        return TopicTest((), float("nan"), float("nan"), 1.0, deals, len(number), len(domains))
    mean, mean_W = sum(observed) / len(observed), torch.stack(by_chance).mean(dim=0)
    p_value = (1 + int((mean_W >= mean - 1e-12).sum())) / (1 + deals)
    return TopicTest(tuple(topics), mean, float(mean_W.mean()), p_value, deals, len(number), len(domains))


def strongest_relations(codes: RelationCodes, most: int) -> dict[int, Tensor]:
    """Return for each dimension (from 0) the named relations with a tenth of their code or more there, largest share first, ``most`` at most.

    A relation with a crumb of its code on a dimension does not live there, and says nothing of what it stands for. Dimensions with fewer than two
    relations are left out.
    """
    share_RC = codes.share_SC.reshape(2, codes.num_relations, -1).amax(dim=0)
    found = {}
    for dimension in range(codes.num_dimensions):
        share_R = share_RC[:, dimension].tolist()
        # Ties go by name, so that the order of relations in a file does not matter.
        order = sorted((row for row in range(len(share_R)) if share_R[row] >= LARGE), key=lambda row: (-share_R[row], codes.names[row]))
        if len(order) > 1:
            found[dimension] = torch.tensor(order[:most])
    return found


def pairs_agreeing(domain_WX: Tensor) -> Tensor:
    """Return for each row the share of pairs of its entries that are equal; float64 [W]."""
    X = domain_WX.shape[1]
    same_W = (domain_WX[:, :, None] == domain_WX[:, None, :]).sum(dim=(1, 2)) - X
    return same_W.double() / (X * (X - 1))


def _most(domains: Sequence[str], rows: Sequence[int]) -> tuple[str, int]:
    """Return the most frequent domain, the first by name of equals, and how often it occurs."""
    counts = Counter(domains[row] for row in rows)
    most = min(counts, key=lambda name: (-counts[name], name))
    return most, counts[most]
