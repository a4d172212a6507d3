from __future__ import annotations

import pytest
import torch
from family import family_facts

from relcode.analysis.discovery import FoundCompositions, best_new_pairs, count_pairs, found_compositions
from relcode.errors import SettingError
from relcode.graph.compositions import PairIndex, path_keys
from relcode.graph.dataset import Dataset, dataset_from_facts
from relcode.model.score import Scorer

D = 16


def rotations(count: int, seed: int) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(count, D, D, generator=torch.Generator().manual_seed(seed)))[0]


def knowing_scorer(dataset: Dataset, rename: dict[str, str] | None = None) -> Scorer:
    """Return a scorer whose matrices compose as the family does: grandparent = parent·parent, aunt_or_uncle = parent·sibling."""
    parent, sibling, spouse, gender = rotations(4, seed=5)
    known = {"parent": parent, "sibling": sibling, "spouse": spouse, "gender": gender}
    known |= {"grandparent": parent @ parent, "aunt_or_uncle": parent @ sibling}
    back = {new: old for old, new in (rename or {}).items()}
    named = torch.stack([known[back.get(name, name)] for name in dataset.relations.names])
    vectors = torch.randn(dataset.num_entities, D, generator=torch.Generator().manual_seed(6))
    return Scorer(vectors, vectors, torch.cat([named, named.transpose(1, 2)]), dataset.seen_E)


def family_without_most_aunts() -> Dataset:
    """Return the family with three facts of aunt_or_uncle left: too few for the graph, not for the matrices."""
    train = family_facts()["train"]
    aunts = [fact for fact in train if fact[1] == "aunt_or_uncle"]
    return dataset_from_facts({"train": [fact for fact in train if fact[1] != "aunt_or_uncle"] + aunts[:3]}, name="family")


def rules_of(found: FoundCompositions, part: str) -> set[tuple[str, str]]:
    return {(one.path, one.target) for one in getattr(found, part)}


def test_what_the_graph_supports_is_ranked_by_the_model(family: Dataset) -> None:
    found = found_compositions(knowing_scorer(family), family, filter="not-same", min_pairs=20, min_jaccard=0.4)
    assert {("parent/parent", "grandparent"), ("parent/sibling", "aunt_or_uncle")} <= rules_of(found, "supported")
    by_path = {one.path: one for one in found.supported}
    both = by_path["parent/sibling"]
    assert both.supported and both.rank == both.rank_left_out == 1 and both.cosine == pytest.approx(1, abs=1e-5)
    assert both.counts.jaccard == 1 and both.new == ()  # the family holds every aunt and uncle
    assert len(by_path["parent/parent"].new) == 3  # but 24 grandparents are held out
    assert ("sibling/parent", "aunt_or_uncle") not in rules_of(found, "supported")


def test_the_model_proposes_what_the_graph_does_not_support_yet() -> None:
    dataset = family_without_most_aunts()
    found = found_compositions(knowing_scorer(dataset), dataset, filter="not-inverse", min_pairs=20, top=30, shown=4)
    assert "parent/sibling" not in {one.path for one in found.supported}
    first = found.proposed[0]
    assert (first.path, first.target) == ("parent/sibling", "aunt_or_uncle")
    assert not first.supported and first.rank_left_out == 1 and first.gain > 0.5
    assert first.counts.shared == 3 and len(first.known) == 3 and len(first.new) == 4
    facts = set(family_facts()["train"])
    for pair in (*first.known, *first.new):
        assert {(pair.head, "parent", pair.middle), (pair.middle, "sibling", pair.tail)} <= facts
        assert (pair.head, "aunt_or_uncle", pair.tail) in facts  # true in the whole family
    # In the other order nothing of the kind: a sibling's parent is no aunt.
    assert all(one.gain < 0.3 for one in found.proposed if one.path == "sibling/parent")


def test_nothing_is_both_supported_and_proposed() -> None:
    dataset = family_without_most_aunts()
    found = found_compositions(knowing_scorer(dataset), dataset, filter="all", min_pairs=10, top=100)
    assert rules_of(found, "supported").isdisjoint(rules_of(found, "proposed"))
    assert all(one.counts.r3 < dataset.num_relations for one in (*found.supported, *found.proposed))
    assert [one.gain for one in found.proposed] != []


def test_the_order_of_relations_does_not_matter() -> None:
    rename = {"parent": "zz_parent", "sibling": "aa_sibling", "grandparent": "bb_grandparent"}
    dataset = family_without_most_aunts()
    facts = [(dataset.entities[h], dataset.relations[r], dataset.entities[t]) for h, r, t in dataset.train.tolist()]
    renamed = dataset_from_facts([(h, rename.get(r, r), t) for h, r, t in facts])
    before = found_compositions(knowing_scorer(dataset), dataset, min_pairs=10, top=100)
    after = found_compositions(knowing_scorer(renamed, rename), renamed, min_pairs=10, top=100)

    def told(path: str) -> str:
        return "/".join("^" * step.startswith("^") + rename.get(step.lstrip("^"), step.lstrip("^")) for step in path.split("/"))

    for part in ("supported", "proposed"):
        assert {(told(path), told(target)) for path, target in rules_of(before, part)} == rules_of(after, part)


def test_counts_of_any_triple(family: Dataset) -> None:
    index = PairIndex.build(family.train, family.num_entities, family.num_relations)
    for first, second, third in [(0, 1, 2), (4, 4, 2), (9, 3, 7)]:
        counts = count_pairs(index, first, second, third)
        path, direct = set(path_keys(index, first, second).tolist()), set(index.keys(third).tolist())
        assert (counts.shared, counts.path_pairs, counts.direct_pairs) == (len(path & direct), len(path), len(direct))


def test_new_pairs_are_those_with_the_highest_scores() -> None:
    dataset = family_without_most_aunts()
    scorer = knowing_scorer(dataset)
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    parent, sibling, aunt = (dataset.relations.index(name) for name in ("parent", "sibling", "aunt_or_uncle"))
    counts = count_pairs(index, parent, sibling, aunt)
    best = best_new_pairs(scorer, index, counts, 5)
    keys = set(path_keys(index, parent, sibling).tolist()) - set(index.keys(aunt).tolist())
    score = {key: float(scorer.score_facts(torch.tensor([[key // dataset.num_entities, aunt, key % dataset.num_entities]]))) for key in keys}
    expected = sorted(keys, key=lambda key: -score[key])[:5]
    assert [one.head * dataset.num_entities + one.tail for one in best] == expected
    assert best_new_pairs(scorer, index, counts, 0) == []


def test_table_and_bad_filter(family: Dataset) -> None:
    scorer = knowing_scorer(family)
    found = found_compositions(scorer, family, min_pairs=20, top=5)
    table = found.table()
    assert table.num_rows == len(found.supported) + len(found.proposed)
    first = (*found.supported, *found.proposed)[0]
    assert table["new"].to_pylist()[0] == [{"head": pair.head, "middle": pair.middle, "tail": pair.tail} for pair in first.new]
    with pytest.raises(SettingError, match="paper"):
        found_compositions(scorer, family, filter="papers")


def test_a_knowledge_base_without_compositions() -> None:
    dataset = dataset_from_facts([("a", "likes", "b")])
    vectors = torch.zeros(2, D)
    found = found_compositions(Scorer(vectors, vectors, rotations(2, 1), dataset.seen_E), dataset)
    assert found.supported == found.proposed == () and found.table().num_rows == 0
