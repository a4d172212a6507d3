"""Looking a dataset over before ranks from it are trusted: leaks between splits, repeated facts, facts that contradict one another.

The usual leak: valid or test asks (h, r, t) while train says (h, s, t) for a relation s that is nearly the same, or (t, s, h) for one that is nearly
its inverse. FB15k and WN18 are full of it (Toutanova and Chen 2015; Akrami et al. 2020); FB15k-237 and WN18RR were made to be without. With P_r the
pairs (h, t) of relation r in all splits together:

    s is nearly r          |P_r ∩ P_s| ≥ 0.8 |P_r|   and  ≥ 0.8 |P_s|
    s is nearly r's inverse   the same with the pairs of s turned round
    r is symmetric         most of P_r is in P_r turned round

Symmetric relations are counted by themselves: their reverse facts tell the answer too, but they are knowledge about the relation, not a second copy.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from relcode.graph.dataset import Dataset
from relcode.graph.facts import contains
from relcode.graph.rules import Contradiction, all_facts, contradictions
from relcode.graph.split_names import SPLITS
from relcode.graph.vocab import SortedVocab

HELD_OUT = ("valid", "test")
NEARLY = 0.8  # of the pairs of both relations
FEWEST_SHARED = 5  # pairs: fewer can be chance
SYMMETRIC = 0.5  # of a relation's pairs with two different ends
LEAK_SHARE = 0.02  # of the facts of a split, from which on a leak is warned of
MOST_NAMES = 3_000_000  # names compared for look-alikes


@dataclass(frozen=True, slots=True)
class RelationPair:
    """Two relations with nearly the same pairs, or nearly the same once one is turned round."""

    first: str
    second: str
    inverse: bool
    shared: int
    share_first: float  # of the pairs of the first
    share_second: float
    leaks: Mapping[str, int]  # by split: facts of one of the two whose counterpart under the other is in train


@dataclass(frozen=True, slots=True)
class SymmetricRelation:
    """A relation most of whose facts hold the other way round too."""

    relation: str
    share: float  # of its facts with two different ends: the reverse is in the data
    reversed_in_train: Mapping[str, int]  # by split: facts whose reverse is in train


@dataclass(frozen=True, slots=True)
class DatasetCheck:
    """What was found. ``warnings`` says in words what makes ranks on this dataset doubtful; empty is good."""

    name: str
    facts: Mapping[str, int]
    near_duplicates: tuple[RelationPair, ...]
    near_inverses: tuple[RelationPair, ...]
    leaked: Mapping[str, int]  # by split: facts told by train under a near-duplicate or near-inverse relation
    symmetric: tuple[SymmetricRelation, ...]
    reversed_in_train: Mapping[str, int]  # by split: facts whose reverse is in train under the same relation
    duplicates: Mapping[str, int]
    repeated_from_train: Mapping[str, int]
    valid_repeated_in_test: int
    contradictions: tuple[Contradiction, ...]
    lookalikes: tuple[tuple[str, ...], ...]  # entities, or relations, whose names differ, but not to the eye
    warnings: tuple[str, ...]


def check_dataset(dataset: Dataset) -> DatasetCheck:
    """Look a dataset over."""
    pairs = _pairs(dataset)
    leaked, leaks = _leaks(dataset, pairs)
    records = [_record(dataset, pair, found) for pair, found in zip(pairs, leaks, strict=True)]
    reverse = {split: _reversed_in_train(dataset, split) for split in HELD_OUT}
    repeated = {split: int(_in_train(dataset, dataset.split(split)).sum()) for split in HELD_OUT}
    found = DatasetCheck(
        name=dataset.name,
        facts={split: len(dataset.split(split)) for split in SPLITS},
        near_duplicates=tuple(one for one in records if not one.inverse),
        near_inverses=tuple(one for one in records if one.inverse),
        leaked={split: int(leaked[split].sum()) for split in HELD_OUT},
        symmetric=tuple(_symmetric(dataset, reverse)),
        reversed_in_train={split: int(reverse[split].sum()) for split in HELD_OUT},
        duplicates=dict(dataset.duplicates),
        repeated_from_train=repeated,
        valid_repeated_in_test=int(contains(dataset.valid, dataset.test, dataset.num_entities, dataset.num_relations).sum()),
        contradictions=tuple(contradictions(dataset)),
        lookalikes=tuple(lookalikes(dataset)),
        warnings=(),
    )
    return _with_warnings(found)


def _with_warnings(check: DatasetCheck) -> DatasetCheck:
    """Say in words what is wrong."""
    warnings = []
    for split in HELD_OUT:
        count, all_facts = check.leaked[split], check.facts[split]
        if all_facts and count / all_facts >= LEAK_SHARE:
            warnings.append(
                f"{_share(count, all_facts)} of the {split} facts are in train under a relation that nearly repeats or nearly inverts theirs"
            )
        if check.repeated_from_train[split]:
            warnings.append(f"{_share(check.repeated_from_train[split], all_facts)} of the {split} facts are in train as they are")
    if check.valid_repeated_in_test:
        warnings.append(f"{_share(check.valid_repeated_in_test, check.facts['test'])} of the test facts are in valid too")
    values = {name: getattr(check, name) for name in DatasetCheck.__dataclass_fields__}
    return DatasetCheck(**{**values, "warnings": tuple(warnings)})


def _share(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.1%})"


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two relations by number, r before s (or the same relation, turned round), and how many pairs they share."""

    first: int
    second: int
    inverse: bool
    shared: int
    share_first: float
    share_second: float


def _pairs(dataset: Dataset) -> list[_Pair]:
    """Find the relations that nearly repeat or invert one another, those that leak most pairs first."""
    facts_N3 = all_facts(dataset).numpy()
    size_R = np.bincount(facts_N3[:, 1], minlength=dataset.num_relations)
    # Each fact twice, as (h, t) and turned round as (t, h) with the relation r + R: pairs of relations of one key are what is counted.
    directed = np.concatenate([facts_N3, facts_N3[:, ::-1] + [0, dataset.num_relations, 0]])
    key_N = directed[:, 0] * dataset.num_entities + directed[:, 2]
    shared = _shared_counts(key_N, directed[:, 1], 2 * dataset.num_relations)
    found = []
    for (left, right), count in shared.items():
        inverse = right >= dataset.num_relations
        first, second = left, right - dataset.num_relations * inverse
        if left >= dataset.num_relations or first >= second or count < FEWEST_SHARED:
            continue  # each pair of relations is met twice, once with both turned round
        shares = count / size_R[first], count / size_R[second]
        if min(shares) >= NEARLY:
            found.append(_Pair(first, second, inverse, count, float(shares[0]), float(shares[1])))
    return sorted(found, key=lambda pair: (-pair.shared, pair.first, pair.second, pair.inverse))


def _shared_counts(key_N: np.ndarray, relation_N: np.ndarray, num_directed: int) -> dict[tuple[int, int], int]:
    """Count for each two relations the keys that both have: rows sorted by key are compared with the next, the one after it, and so on."""
    order = np.lexsort((relation_N, key_N))
    key_N, relation_N = key_N[order], relation_N[order]
    total: dict[int, int] = {}
    place = np.arange(len(key_N))
    for distance in range(1, len(key_N)):
        place = place[: np.searchsorted(place, len(key_N) - distance)]
        place = place[key_N[place] == key_N[place + distance]]
        if not len(place):
            break
        both, count = np.unique(relation_N[place] * num_directed + relation_N[place + distance], return_counts=True)
        for one, times in zip(both.tolist(), count.tolist(), strict=True):
            total[one] = total.get(one, 0) + times
    return {divmod(one, num_directed): times for one, times in total.items()}


def _leaks(dataset: Dataset, pairs: list[_Pair]) -> tuple[dict[str, Tensor], list[dict[str, int]]]:
    """Tell for each fact of valid and test whether train has it under a paired relation, bool [N]; and count that for each pair."""
    leaked: dict[str, Tensor] = {}
    counts: list[dict[str, int]] = [{} for _ in pairs]
    for split in HELD_OUT:
        facts_N3 = dataset.split(split)
        rows = [torch.nonzero((facts_N3[:, 1] == pair.first) | (facts_N3[:, 1] == pair.second)).flatten() for pair in pairs]
        others = [_counterparts(facts_N3[row_B], pair) for row_B, pair in zip(rows, pairs, strict=True)]
        told = _in_train(dataset, torch.cat([*others, facts_N3[:0]])).split([len(row_B) for row_B in rows] + [0])
        leaked[split] = torch.zeros(len(facts_N3), dtype=torch.bool)
        for count, row_B, told_B in zip(counts, rows, told, strict=False):
            leaked[split][row_B[told_B]] = True
            count[split] = int(told_B.sum())
    return leaked, counts


def _counterparts(facts_B3: Tensor, pair: _Pair) -> Tensor:
    """Return what facts of one of two relations say under the other; [B, 3]."""
    other_B3 = facts_B3.clone()
    other_B3[:, 1] = pair.first + pair.second - other_B3[:, 1]
    return other_B3.flip(1) if pair.inverse else other_B3


def _in_train(dataset: Dataset, facts_B3: Tensor) -> Tensor:
    """Tell for each fact whether train has it; bool [B]."""
    return contains(dataset.train, facts_B3, dataset.num_entities, dataset.num_relations)


def _record(dataset: Dataset, pair: _Pair, leaks: Mapping[str, int]) -> RelationPair:
    """Write a pair by name."""
    first, second = dataset.relations[pair.first], dataset.relations[pair.second]
    return RelationPair(first, second, pair.inverse, pair.shared, pair.share_first, pair.share_second, leaks)


def _reversed_in_train(dataset: Dataset, split: str) -> Tensor:
    """Tell for each fact (h, r, t), h ≠ t, whether train has (t, r, h); bool [N]."""
    facts_N3 = dataset.split(split)
    return _in_train(dataset, facts_N3.flip(1)) & (facts_N3[:, 0] != facts_N3[:, 2])


def _symmetric(dataset: Dataset, reverse: Mapping[str, Tensor]) -> list[SymmetricRelation]:
    """Find the relations most of whose facts hold the other way round too, those with most facts first."""
    facts_N3 = all_facts(dataset)
    facts_N3 = facts_N3[facts_N3[:, 0] != facts_N3[:, 2]]
    both_N = contains(facts_N3, facts_N3.flip(1), dataset.num_entities, dataset.num_relations)
    all_R = torch.bincount(facts_N3[:, 1], minlength=dataset.num_relations)
    both_R = torch.bincount(facts_N3[both_N, 1], minlength=dataset.num_relations)
    found = []
    for relation in torch.argsort(-all_R, stable=True).tolist():
        if both_R[relation] >= max(FEWEST_SHARED, SYMMETRIC * float(all_R[relation])):
            of_split = {split: int((reverse[split] & (dataset.split(split)[:, 1] == relation)).sum()) for split in HELD_OUT}
            found.append(SymmetricRelation(dataset.relations[relation], float(both_R[relation] / all_R[relation]), of_split))
    return found


def lookalikes(dataset: Dataset) -> list[tuple[str, ...]]:
    """Find names that look the same: equal once normalised (Unicode NFKC), case and spaces aside, invisible characters dropped."""
    found: list[tuple[str, ...]] = []
    for vocab in (dataset.entities, dataset.relations):
        groups: dict[str, list[str]] = {}
        for name in vocab if len(vocab) <= MOST_NAMES else ():
            groups.setdefault(_look(name), []).append(name)
        found += [tuple(names) for names in groups.values() if len(names) > 1]
    return found


def twins(dataset: Dataset) -> list[tuple[str, str]]:
    """Find the names that differ from another, which comes first, only by spaces around them or Unicode's normalisation (NFC); for millions too."""
    found = []
    for vocab in (dataset.entities, dataset.relations):
        names = vocab.array if isinstance(vocab, SortedVocab) else pa.array(vocab.names, pa.large_utf8())
        plain = pc.utf8_normalize(pc.utf8_trim_whitespace(names), form="NFC")
        changed = pc.not_equal(names, plain)
        first: dict[str, str] = {}
        for name, key in zip(names.filter(changed).to_pylist(), plain.filter(changed).to_pylist(), strict=True):
            other = first.setdefault(key, key if key in vocab else name)
            if other != name:
                found.append((other, name))
    return found


def _look(name: str) -> str:
    """Return what a name looks like."""
    if name.isascii():
        return " ".join(name.lower().split())
    shown = "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) not in ("Cf", "Cc"))
    return " ".join(unicodedata.normalize("NFKC", shown.casefold()).split())
