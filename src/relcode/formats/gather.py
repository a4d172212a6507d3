"""Giving numbers to names as facts stream by, and making a dataset of the numbers at the end.

Memory holds each distinct name once and twelve bytes for each distinct fact, whatever the size of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from relcode.errors import DataError
from relcode.formats.prefixes import Prefixes
from relcode.formats.reading import LONGEST_NAME, Batch, shown
from relcode.graph.dataset import Dataset
from relcode.graph.facts import LARGEST_KEY
from relcode.graph.split_names import SPLITS
from relcode.graph.vocab import SortedVocab

MOST_PENDING = 1 << 25  # facts that wait before repeated ones are dropped, so that a file of one line over and over needs no memory
NUMBERED_TOGETHER = 1 << 20  # facts; the more, the fewer times a name is looked up
MOST_NAMES = 2**31 - 1

Numbers = np.ndarray[Any, np.dtype[np.int32]]
Encoded = tuple[Sequence[pa.DictionaryArray], Sequence[pa.DictionaryArray]]


class Numbering(dict[str, int]):
    """Names and their numbers: a name that is asked for and not there gets the next number."""

    def __missing__(self, name: str) -> int:
        """Number a new name; one that is too long to be one is refused."""
        if len(name) > LONGEST_NAME:
            raise DataError(f"a name of {len(name):,} characters, {shown(name[:80])}…: names of more than {LONGEST_NAME:,} are not read")
        number = self[name] = len(self)
        return number

    def of(self, names: Sequence[str]) -> Numbers:
        """Return the numbers of names, int32 [N]."""
        return np.fromiter(map(self.__getitem__, names), np.int32, len(names))

    def of_chunks(self, chunks: Sequence[pa.DictionaryArray]) -> Numbers:
        """Return the numbers of the names in arrays that share one dictionary, one after the other; each distinct name is looked up once."""
        number_U = self.of(chunks[0].dictionary.to_pylist())
        return np.concatenate([number_U[chunk.indices.to_numpy()] for chunk in chunks])


def encode(batches: Sequence[Batch]) -> Encoded:
    """Find the distinct names of some batches: heads and then tails as arrays that share one dictionary, relations likewise. No lock is held."""
    entity: list[Any] = [batch.head for batch in batches] + [batch.tail for batch in batches]
    relation: list[Any] = [batch.relation for batch in batches]
    texts = [pa.chunked_array([array.cast(pa.large_utf8()) for array in arrays]) for arrays in (entity, relation)]
    return texts[0].dictionary_encode().chunks, texts[1].dictionary_encode().chunks


class Gatherer:
    """The facts read so far, by split, as numbers."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.entities, self.relations = Numbering(), Numbering()
        self._parts: dict[str, list[Numbers]] = {split: [] for split in SPLITS}
        self._times: dict[str, list[pa.Array]] = {split: [] for split in SPLITS}
        self._pending = {split: 0 for split in SPLITS}
        self._unnumbered: dict[str, list[Batch]] = {split: [] for split in SPLITS}
        self._encoding: tuple[str, Future[Encoded]] | None = None  # names whose distinct ones are being found by another thread
        self._pool = ThreadPoolExecutor(max_workers=1)
        self.read = {split: 0 for split in SPLITS}

    def add(self, split: str, batch: Batch) -> None:
        """Keep the facts of a batch; batches of Arrow arrays are numbered many at a time."""
        if not len(batch):
            return
        self.read[split] += len(batch)
        if batch.time is not None:
            self._times[split].append(batch.time)
        if isinstance(batch.head, pa.Array):
            self._unnumbered[split].append(batch)
            if sum(map(len, self._unnumbered[split])) >= NUMBERED_TOGETHER:
                self._encode(split)
        else:
            self._keep(split, [self.entities.of(batch.head), self.relations.of(batch.relation), self.entities.of(batch.tail)])

    def _encode(self, split: str) -> None:
        """Let the other thread begin with the batches that wait, and number those it is done with."""
        waiting, self._unnumbered[split] = self._unnumbered[split], []
        future = self._pool.submit(encode, waiting) if waiting else None
        self._take_encoded()
        self._encoding = (split, future) if future is not None else None

    def _take_encoded(self) -> None:
        """Number the names that the other thread has gone through."""
        if self._encoding is not None:
            (split, future), self._encoding = self._encoding, None
            entity_chunks, relation_chunks = future.result()
            head_tail = self.entities.of_chunks(entity_chunks)
            count = len(head_tail) // 2
            self._keep(split, [head_tail[:count], self.relations.of_chunks(relation_chunks), head_tail[count:]])

    def _number(self, split: str) -> None:
        """Number all batches of a split that wait for it."""
        self._encode(split)
        self._take_encoded()

    def _keep(self, split: str, columns: Sequence[Numbers]) -> None:
        """Keep numbered facts; where very many have come together, repeated ones are dropped (unless each has its time)."""
        self._parts[split].append(np.stack(columns, axis=1))
        self._pending[split] += len(columns[0])
        if self._pending[split] > MOST_PENDING and not self._times[split]:
            self._parts[split] = [unique_rows(np.concatenate(self._parts[split]), len(self.entities), len(self.relations))]
            self._pending[split] = 0

    def names(self) -> Iterator[str]:
        """Go through all names met so far."""
        for split in SPLITS:
            self._number(split)
        yield from self.entities
        yield from self.relations

    def facts(self, split: str) -> Numbers:
        """Return the facts of a split, in the order read where they have times, as numbers in the order names were met; [N, 3]."""
        self._number(split)
        return np.concatenate(self._parts[split]) if self._parts[split] else np.empty((0, 3), np.int32)

    def times(self, split: str) -> pa.ChunkedArray | None:
        """Return the times of the facts of a split, None where the sources had none."""
        return pa.chunked_array(self._times[split]) if self._times[split] else None

    def keep(self, splits: Mapping[str, Numbers]) -> None:
        """Put facts (numbers, as ``facts`` gives them) in the place of those gathered, and forget the names they do not use."""
        for split in SPLITS:
            self._number(split)
        all_N3 = np.concatenate(list(splits.values()))
        new_entity_E, self.entities = _only(self.entities, all_N3[:, [0, 2]])
        new_relation_R, self.relations = _only(self.relations, all_N3[:, 1])
        for split in SPLITS:
            facts_N3 = splits[split]
            columns = [new[facts_N3[:, place]] for place, new in enumerate((new_entity_E, new_relation_R, new_entity_E))]
            self._parts[split], self._times[split], self.read[split] = [np.stack(columns, axis=1)], [], len(facts_N3)

    def finish(self, name: str, prefixes: Prefixes | None = None, labels: Mapping[str, str] | None = None, **fields: Any) -> Dataset:
        """Make the dataset: names shortened and sorted, facts renumbered, sorted and each kept once. This empties the gatherer."""
        for split in SPLITS:
            self._number(split)
        self._pool.shutdown()
        entity_vocab, new_entity_E = _sorted_vocab(self.entities, "entity", prefixes)
        relation_vocab, new_relation_R = _sorted_vocab(self.relations, "relation", prefixes)
        self.entities, self.relations = Numbering(), Numbering()
        splits: dict[str, Tensor] = {}
        for split in SPLITS:
            facts_N3 = self.facts(split)
            self._parts[split] = []
            for column, new_number in enumerate((new_entity_E, new_relation_R, new_entity_E)):
                facts_N3[:, column] = new_number[facts_N3[:, column]]
            unique_N3 = unique_rows(facts_N3, len(entity_vocab), len(relation_vocab))
            splits[split] = torch.from_numpy(unique_N3.astype(np.int64))
        shorten = prefixes.shorten if prefixes else str
        short = {shorten(entity): label for entity, label in (labels or {}).items()}
        kept = {entity: label for entity, label in sorted(short.items()) if entity in entity_vocab} if short else {}
        return Dataset(
            name=name,
            entities=entity_vocab,
            relations=relation_vocab,
            train=splits["train"],
            valid=splits["valid"],
            test=splits["test"],
            labels=kept,
            duplicates={split: self.read[split] - len(splits[split]) for split in SPLITS},
            prefixes=dict(prefixes.namespaces) if prefixes else {},
            **fields,
        )


def _only(numbering: Numbering, used: Numbers) -> tuple[Numbers, Numbering]:
    """Return new numbers for the names that are used (-1 for others), and the names with them."""
    is_used = np.zeros(len(numbering), dtype=bool)
    is_used[used.ravel()] = True
    new_number = np.where(is_used, np.cumsum(is_used) - 1, -1).astype(np.int32)
    return new_number, Numbering({name: int(number) for name, number in zip(numbering, new_number, strict=True) if number >= 0})


def _sorted_vocab(numbering: Numbering, kind: str, prefixes: Prefixes | None) -> tuple[SortedVocab, Numbers]:
    """Return the names sorted, and for each number given on the way the number in that order."""
    if len(numbering) > MOST_NAMES:
        raise DataError(f"{len(numbering):,} names of kind {kind}; no more than {MOST_NAMES:,} can be numbered")
    texts: Iterable[str] = map(prefixes.shorten, numbering) if prefixes else numbering
    try:
        names = pa.array(texts, pa.large_utf8(), size=len(numbering))
    except UnicodeEncodeError:
        raise DataError(f"a name of kind {kind} holds half a surrogate pair, which is not text") from None
    order = pc.sort_indices(names)
    new_number = np.empty(len(names), np.int32)
    new_number[order.to_numpy()] = np.arange(len(names), dtype=np.int32)
    return SortedVocab(names.take(order), kind), new_number


def unique_rows(facts_N3: Numbers, num_entities: int, num_relations: int) -> Numbers:
    """Return each distinct fact once, sorted by head, relation, tail; as ``graph.facts.unique_facts``, for int32 and in place where it can."""
    if not len(facts_N3):
        return facts_N3
    if num_entities * num_entities * num_relations > LARGEST_KEY:
        rows_N3: Numbers = np.unique(facts_N3, axis=0)
        return rows_N3
    key_N = facts_N3[:, 0].astype(np.int64)
    key_N *= num_relations
    key_N += facts_N3[:, 1]
    key_N *= num_entities
    key_N += facts_N3[:, 2]
    key_N.sort()
    if len(key_N) > 1:
        key_N = key_N[np.concatenate([[True], key_N[1:] != key_N[:-1]])]
    result = np.empty((len(key_N), 3), np.int32)
    key_N, result[:, 2] = np.divmod(key_N, num_entities)
    result[:, 0], result[:, 1] = np.divmod(key_N, num_relations)
    return result
