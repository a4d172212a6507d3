"""New facts join a dataset: what was there keeps its numbers, what is new gets the next ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from relcode.errors import DataError
from relcode.graph.dataset import Dataset
from relcode.graph.facts import contains
from relcode.graph.split_names import SPLITS
from relcode.graph.vocab import Vocab


@dataclass(frozen=True, eq=False)
class Joined:
    """A dataset after new facts joined it, and what of it is new.

    Entities 0 … old_entities − 1 and relations 0 … old_relations − 1 are those of before; the facts of before come first in every split.
    """

    dataset: Dataset
    old_entities: int
    old_relations: int
    new_train: Tensor  # int64 [N, 3], the last rows of train
    known: int  # facts that were in train already
    held_out: int  # facts that are in valid or test, and stay there: what measures a model must not teach it

    @property
    def fresh_E(self) -> Tensor:
        """Tell for each entity whether training has to do with it for the first time: new, or until now in no training fact."""
        before = replace(self.dataset, train=self.dataset.train[: len(self.dataset.train) - len(self.new_train)])
        return self.dataset.seen_E & ~before.seen_E

    @property
    def fresh_R(self) -> Tensor:
        """Tell the same of each relation."""
        fresh_R = torch.zeros(self.dataset.num_relations, dtype=torch.bool)
        fresh_R[self.new_train[:, 1]] = True
        fresh_R[self.dataset.train[: len(self.dataset.train) - len(self.new_train), 1]] = False
        return fresh_R


def join_facts(old: Dataset, new: Dataset) -> Joined:
    """Let the facts of ``new`` join ``old``, train to train, valid to valid, test to test; a fact that ``old`` has in any split stays where it is."""
    entities = grown(old.entities, new.entities)
    relations = grown(old.relations, new.relations)
    entity_X, relation_X = entities.indices(new.entities), relations.indices(new.relations)
    sizes = len(entities), len(relations)
    held_N3, taken_N3 = torch.cat([old.valid, old.test]), torch.cat([old.split(split) for split in SPLITS])
    added, known, held_out = {}, 0, 0
    for split in SPLITS:
        head_N, relation_N, tail_N = new.split(split).unbind(1)
        facts_N3 = torch.stack([entity_X[head_N], relation_X[relation_N], entity_X[tail_N]], dim=1)
        if split == "train":
            known = int(contains(old.train, facts_N3, *sizes).sum())
            held_out = int(contains(held_N3, facts_N3, *sizes).sum())
        added[split] = facts_N3[~contains(taken_N3, facts_N3, *sizes)]
        taken_N3 = torch.cat([taken_N3, added[split]])  # a fact of several splits of the new ones is trained on, and does not measure
    if not len(added["train"]):
        raise DataError(_nothing_new(len(new.train), known, held_out))
    train, valid, test = (torch.cat([old.split(split), added[split]]) for split in SPLITS)
    dataset = replace(
        old,
        entities=entities,
        relations=relations,
        labels={**new.labels, **old.labels},
        notes=(),
        train=train,
        valid=valid,
        test=test,
    )
    return Joined(dataset, old.num_entities, old.num_relations, added["train"], known, held_out)


def grown(old: Vocab, names: Iterable[str]) -> Vocab:
    """Return a vocabulary in which the old names keep their numbers and new ones follow, sorted."""
    return Vocab([*old.names, *sorted(name for name in set(names) if name not in old)], old.kind)


def _nothing_new(facts: int, known: int, held_out: int) -> str:
    if not facts:
        return "there are no training facts among those given: nothing joins the run"
    held = f", {held_out:,} of them held out in valid or test" if held_out else ""
    return f"the run knows all {facts:,} facts given already{held}: nothing joins it"
