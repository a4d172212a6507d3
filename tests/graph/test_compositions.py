"""Mining compositions: against counting everything by loops, on knowledge bases made by rule, and on FB15k-237."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relcode.errors import SettingError
from relcode.graph.compositions import (
    FILTERS,
    Composition,
    Grounding,
    PairIndex,
    amie_lines,
    anyburl_lines,
    counter_examples,
    examples,
    find_filter,
    keep,
    mine,
    mine_index,
    mining,
    path_keys,
    rules,
    self_relations,
    table,
)
from relcode.graph.compositions.pairs import grounded_blocks, path_blocks, steps
from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset
from relcode.graph.paths import format_path
from relcode.graph.vocab import Vocab

Fact = tuple[int, int, int]
Pair = tuple[int, int]


# ---------------------------------------------------------------------------------------------------------------------- the slow oracle


def pairs_by_loop(facts: list[Fact], num_relations: int) -> list[set[Pair]]:
    """Return C(r) for every directed relation."""
    pairs: list[set[Pair]] = [set() for _ in range(2 * num_relations)]
    for head, relation, tail in facts:
        pairs[relation].add((head, tail))
        pairs[relation + num_relations].add((tail, head))
    return pairs


def compose_by_loop(left: set[Pair], right: set[Pair]) -> set[Pair]:
    return {(head, tail) for head, middle in left for start, tail in right if start == middle}


def mine_by_loop(facts: list[Fact], num_relations: int, min_pairs: int, min_jaccard: float) -> set[Composition]:
    pairs = pairs_by_loop(facts, num_relations)
    found = set()
    for r1, r2, r3 in product(range(2 * num_relations), repeat=3):
        if r2 == (r1 + num_relations) % (2 * num_relations):
            continue
        path = compose_by_loop(pairs[r1], pairs[r2])
        shared = len(path & pairs[r3])
        if shared >= min_pairs and shared / len(path | pairs[r3]) >= min_jaccard:
            found.add(Composition(r1, r2, r3, shared, len(path), len(pairs[r3])))
    return found


def tensor(facts: list[Fact]) -> Tensor:
    return torch.tensor(facts, dtype=torch.int64).reshape(-1, 3)


@st.composite
def knowledge_bases(draw: st.DrawFn) -> tuple[list[Fact], int, int]:
    entities, relations = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    fact = st.tuples(st.integers(0, entities - 1), st.integers(0, relations - 1), st.integers(0, entities - 1))
    return draw(st.lists(fact, max_size=40)), entities, relations


@settings(max_examples=150, deadline=None)
@given(knowledge_bases(), st.integers(1, 4), st.sampled_from([0.0, 0.2, 1 / 3, 0.4, 0.5, 0.9, 1.0]))
def test_mining_finds_what_loops_find(base: tuple[list[Fact], int, int], min_pairs: int, min_jaccard: float) -> None:
    facts, entities, relations = base
    found = mine(tensor(facts), entities, relations, min_pairs=min_pairs, min_jaccard=min_jaccard)
    assert len(found) == len(set(found))
    assert set(found) == mine_by_loop(facts, relations, min_pairs, min_jaccard)


@settings(max_examples=60, deadline=None)
@given(knowledge_bases(), st.integers(1, 7))
def test_paths_in_blocks_are_the_paths_of_loops(base: tuple[list[Fact], int, int], rows: int) -> None:
    facts, entities, relations = base
    index, pairs = PairIndex.build(tensor(facts), entities, relations), pairs_by_loop(facts, relations)
    for r1, r2 in product(range(2 * relations), repeat=2):
        expected = sorted(head * entities + tail for head, tail in compose_by_loop(pairs[r1], pairs[r2]))
        way = steps(index, r1, r2)
        blocks = list(path_blocks(index, way, rows))
        assert [key for block in blocks for key in block.tolist()] == expected == path_keys(index, r1, r2).tolist()
        assert way.at_least <= len(expected) <= way.rows
        for key_X, middle_X in grounded_blocks(index, r1, r2, rows):
            head_X, tail_X = index.unpack(key_X)
            for head, middle, tail in zip(head_X.tolist(), middle_X.tolist(), tail_X.tolist(), strict=True):
                assert middle == min(e for e in range(entities) if (head, e) in pairs[r1] and (e, tail) in pairs[r2])


def test_blocks_do_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    facts = [(chance.randrange(12), chance.randrange(4), chance.randrange(12)) for _ in range(150)]
    whole = mine(tensor(facts), 12, 4, min_pairs=3, min_jaccard=0.2)
    monkeypatch.setattr(mining, "path_blocks", partial(path_blocks, rows=1))
    monkeypatch.setattr(mining, "BLOCK_ROWS", 64)
    assert whole
    assert mine(tensor(facts), 12, 4, min_pairs=3, min_jaccard=0.2) == whole


# ------------------------------------------------------------------------------------------------------------------ worked by hand, edges


def test_a_case_worked_by_hand() -> None:
    # r0: 0→1 0→2 3→2; r1: 1→4 2→4 2→5. Path: (0,4) twice, (0,5), (3,4), (3,5). r2: (0,4) (3,5) (6,6).
    facts = [(0, 0, 1), (0, 0, 2), (3, 0, 2), (1, 1, 4), (2, 1, 4), (2, 1, 5), (0, 2, 4), (3, 2, 5), (6, 2, 6)]
    *exact, one, mirror = mine(tensor(facts), 7, 3, min_pairs=2, min_jaccard=0.4)
    # r1/^r2 goes 1→4→0, 2→4→0, 2→5→3, which is ^r0; ^r0/r2 goes 1→0→4, 2→0→4, 2→3→5, which is r1; and their mirrors.
    assert exact == [Composition(r1, r2, r3, 3, 3, 3) for r1, r2, r3 in [(1, 5, 3), (2, 4, 0), (3, 2, 1), (5, 0, 4)]]
    assert (one, mirror) == (Composition(0, 1, 2, 2, 4, 3), Composition(4, 3, 5, 2, 4, 3))
    assert (one.jaccard, one.confidence, one.head_coverage) == (2 / 5, 2 / 4, 2 / 3)
    assert mine(tensor(facts), 7, 3, min_pairs=3, min_jaccard=0.4) == exact
    assert mine(tensor(facts), 7, 3, min_pairs=2, min_jaccard=0.41) == exact
    index = PairIndex.build(tensor(facts), 7, 3)
    assert counter_examples(index, one) == [Grounding(0, 2, 5), Grounding(3, 2, 4)]
    assert examples(index, one) == [Grounding(0, 1, 4), Grounding(3, 2, 5)]
    assert counter_examples(index, one, limit=1) == [Grounding(0, 2, 5)]
    assert counter_examples(index, one, limit=0) == []
    assert counter_examples(index, mirror) == [Grounding(4, 2, 3), Grounding(5, 2, 0)]


def test_a_path_back_to_where_it_came_from_is_never_a_composition() -> None:
    facts = [(e, 0, e + 10) for e in range(5)] + [(e, 1, e) for e in range(5)]
    found = mine(tensor(facts), 20, 2, min_pairs=1, min_jaccard=0.0)
    assert found
    assert all(one.r2 != (one.r1 + 2) % 4 for one in found)


@pytest.mark.parametrize("facts", [[], [(0, 0, 0)], [(0, 2, 1)]])
def test_small_knowledge_bases(facts: list[Fact]) -> None:
    assert set(mine(tensor(facts), 2, 3, min_pairs=1, min_jaccard=0.0)) == mine_by_loop(facts, 3, 1, 0.0)


def test_repeated_facts_count_once() -> None:
    facts = [(0, 0, 1), (1, 1, 2), (0, 2, 2)]
    assert mine(tensor(facts * 3), 3, 3, min_pairs=2) == []
    assert mine(tensor(facts * 3), 3, 3, min_pairs=1) == mine(tensor(facts), 3, 3, min_pairs=1) != []


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"min_pairs": 0}, {"min_jaccard": -0.1}, {"min_jaccard": 1.5}, {"min_jaccard": float("nan")}):
        with pytest.raises(SettingError):
            mine(tensor([(0, 0, 1)]), 2, 1, **wrong)


# ---------------------------------------------------------------------------------------- knowledge bases whose compositions are known


def city_facts() -> list[tuple[str, str, str]]:
    """Return 60 cities, 12 regions, 4 countries: located_in/part_of is in_country, and governs/in_country is has_mayor backwards."""
    facts = []
    for city in range(60):
        region, country = city % 12, city % 12 % 4
        facts += [(f"city{city}", "located_in", f"region{region}"), (f"city{city}", "in_country", f"country{country}")]
        facts += [(f"mayor{city}", "governs", f"city{city}")]
        facts += [(f"country{country}", "has_mayor", f"mayor{city}")]
    return facts + [(f"region{region}", "part_of", f"country{region % 4}") for region in range(12)]


def named(found: list[Composition], relations: Vocab) -> set[tuple[str, str, str, int, int, int]]:
    """Return compositions by name, so that the numbering of relations does not show."""
    return {(*(format_path((r,), relations) for r in (one.r1, one.r2, one.r3)), one.shared, one.path_pairs, one.direct_pairs) for one in found}


def mined(dataset: Dataset, **thresholds: float) -> list[Composition]:
    return mine(dataset.train, dataset.num_entities, dataset.num_relations, **thresholds)  # type: ignore[arg-type]


def test_compositions_by_construction_in_the_right_order_and_with_inverses() -> None:
    dataset = dataset_from_facts(city_facts())
    by_name = {one[:3]: one[3:] for one in named(mined(dataset), dataset.relations)}
    assert by_name["located_in", "part_of", "in_country"] == (60, 60, 60)
    assert by_name["^part_of", "^located_in", "^in_country"] == (60, 60, 60)
    assert by_name["governs", "in_country", "^has_mayor"] == (60, 60, 60)
    assert by_name["^in_country", "^governs", "has_mayor"] == (60, 60, 60)
    for r1, r2, _ in by_name:
        assert (r1, r2) not in {("part_of", "located_in"), ("in_country", "governs"), ("^located_in", "^part_of")}


def test_the_family_has_its_compositions(family: Dataset) -> None:
    found = {one[:3]: one[3:] for one in named(mined(family, min_pairs=20), family.relations)}
    shared, path_pairs, direct_pairs = found["parent", "parent", "grandparent"]
    # Some grandparent facts are held out of train, so the path has pairs that the relation lacks, never the reverse.
    assert shared == direct_pairs < path_pairs
    assert found["parent", "sibling", "aunt_or_uncle"][0] == found["parent", "sibling", "aunt_or_uncle"][1]
    assert ("sibling", "parent", "aunt_or_uncle") not in found


def test_numbering_and_order_of_facts_do_not_matter() -> None:
    facts, chance = city_facts(), random.Random(1)
    entities = sorted({name for head, _, tail in facts for name in (head, tail)})
    relations = sorted({relation for _, relation, _ in facts})
    expected = named(mined(dataset_from_facts(facts)), Vocab(relations, "relation"))
    assert expected
    for _ in range(5):
        chance.shuffle(facts), chance.shuffle(entities), chance.shuffle(relations)
        numbers = [(entities.index(head), relations.index(relation), entities.index(tail)) for head, relation, tail in facts]
        found = mine(tensor(numbers), len(entities), len(relations))
        assert named(found, Vocab(relations, "relation")) == expected


def test_every_composition_comes_with_its_mirror_and_the_strongest_come_first() -> None:
    chance = random.Random(5)
    facts = [(chance.randrange(10), chance.randrange(3), chance.randrange(10)) for _ in range(90)]
    found = mine(tensor(facts), 10, 3, min_pairs=2, min_jaccard=0.1)
    assert len(found) > 10
    assert {one.mirrored(3) for one in found} == set(found)
    assert all(one.mirrored(3).mirrored(3) == one != one.mirrored(3) for one in found)
    assert [one.jaccard for one in found] == sorted((one.jaccard for one in found), reverse=True)


# ----------------------------------------------------------------------------------------------------------------------------- filters


def composition(r1: int, r2: int, r3: int) -> Composition:
    return Composition(r1, r2, r3, 5, 6, 7)


def filter_index() -> PairIndex:
    """Return relations 0 and 1 between entities, 2 of loops only, 3 of a loop and another pair, 4 without facts."""
    return PairIndex.build(tensor([(0, 0, 1), (1, 1, 2), (0, 2, 0), (1, 2, 1), (0, 3, 0), (0, 3, 1)]), 3, 5)


def test_relations_that_only_join_entities_with_themselves() -> None:
    assert self_relations(filter_index()) == {2, 2 + 5}


@pytest.mark.parametrize(
    ("one", "kept_by"),
    [
        (composition(0, 1, 3), {"all", "not-same", "not-inverse", "paper"}),
        (composition(0, 1, 0), {"all"}),
        (composition(0, 1, 1), {"all"}),
        (composition(0, 1, 5), {"all", "not-same"}),
        (composition(0, 6, 1), {"all", "not-same"}),
        (composition(2, 1, 3), {"all", "not-same", "not-inverse"}),
        (composition(0, 7, 3), {"all", "not-same", "not-inverse"}),
        (composition(0, 1, 7), {"all", "not-same", "not-inverse"}),
    ],
)
def test_each_filter_drops_what_it_says(one: Composition, kept_by: set[str]) -> None:
    assert {name for name in FILTERS if keep([one], name, filter_index())} == kept_by


def test_an_unknown_filter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match="paper"):
        find_filter("papr")
    assert all(one.drops for one in FILTERS.values())


# ------------------------------------------------------------------------------------------------------------------- rules and tables


def rule_base() -> tuple[PairIndex, Vocab, list[Composition]]:
    """Return born/part → lives with one wrong pair (a3, c0), where lives knows another answer, and one (a4, c1), where it knows none."""
    facts = [(f"a{i}", "born", f"b{i}") for i in range(5)] + [(f"b{i}", "part", f"c{i % 3}") for i in range(5)]
    facts += [("a0", "lives", "c0"), ("a1", "lives", "c1"), ("a2", "lives", "c2"), ("a3", "lives", "c1")]
    dataset = dataset_from_facts(facts)
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    return index, dataset.relations, keep(mine_index(index, min_pairs=3), "paper", index)


def test_rules_in_the_form_of_anyburl() -> None:
    _, relations, found = rule_base()
    lines = list(anyburl_lines(found, relations))
    assert "5\t3\t0.600000\tlives(X,Y) <= born(X,A), part(A,Y)" in lines
    assert len(lines) == len(rules(found, len(relations))) == len(found) / 2


def test_rules_in_the_form_of_amie() -> None:
    index, relations, found = rule_base()
    header, *lines = amie_lines(found, relations, index)
    assert header.split("\t")[:4] == ["Rule", "Head Coverage", "Std Confidence", "PCA Confidence"]
    # lives has four heads and three tails in four pairs: ?a is the more functional side; a4 has no home, so four pairs of five count.
    assert "?a  born  ?f  ?f  part  ?b   => ?a  lives  ?b\t0.750000\t0.600000\t0.750000\t3\t5\t4\t?a" in lines
    assert all(len(line.split("\t")) == len(header.split("\t")) for line in lines)


def test_amie_takes_the_other_side_where_it_is_the_more_functional() -> None:
    # The same, backwards: home_of goes from place to person, so its tails are the more functional side.
    facts = [(0, 0, 1), (2, 0, 3), (4, 0, 5), (6, 0, 1), (6, 0, 3)]
    base = tensor([(t, 1, h) for h, _, t in facts] + [(e, 2, e) for e in range(7)] + [(1, 0, 0), (3, 0, 2), (5, 0, 4), (5, 0, 7)])
    index, relations = PairIndex.build(base, 8, 3), Vocab(["home_of", "place", "same"], "relation")
    one = Composition(1, 2, 0, 3, 5, 4)
    assert one in mine_index(index, min_pairs=3)
    (_, line) = amie_lines([one], relations, index)
    assert line == "?a  place  ?f  ?f  same  ?b   => ?a  home_of  ?b\t0.750000\t0.600000\t1.000000\t3\t5\t3\t?b"


def test_inverse_steps_are_written_with_their_arguments_swapped() -> None:
    relations = Vocab(["p", "q", "r"], "relation")
    assert next(anyburl_lines([composition(3, 1, 2)], relations)).endswith("\tr(X,Y) <= p(A,X), q(A,Y)")
    assert next(anyburl_lines([composition(0, 4, 2)], relations)).endswith("\tr(X,Y) <= p(X,A), q(Y,A)")
    # An inverse third relation: the mirror, ^q/^p = r, is the same rule, and both are written once.
    assert next(anyburl_lines([composition(0, 1, 5)], relations)).endswith("\tr(X,Y) <= q(A,X), p(Y,A)")
    assert len(list(anyburl_lines([composition(0, 1, 5), composition(4, 3, 2)], relations))) == 1


def rule_holds_by_loop(line: str, facts: set[tuple[str, str, str]], entities: list[str]) -> tuple[int, int]:
    """Read an AnyBURL line back and count by loops the pairs it predicts and those that are right."""
    head, body = line.split("\t")[3].split(" <= ")
    atoms = [(name, *arguments.rstrip(")").split(",")) for name, arguments in (atom.split("(") for atom in [head, *body.split(", ")])]
    predicted, right = set(), set()
    for x, a, y in product(entities, repeat=3):
        stands_for = {"X": x, "A": a, "Y": y}
        holds = [(stands_for[left], name, stands_for[other]) in facts for name, left, other in atoms]
        if all(holds[1:]):
            predicted.add((x, y))
            if holds[0]:
                right.add((x, y))
    return len(predicted), len(right)


def test_rules_read_back_predict_the_pairs_they_claim() -> None:
    chance = random.Random(8)
    facts = {(f"e{chance.randrange(8)}", f"r{chance.randrange(3)}", f"e{chance.randrange(8)}") for _ in range(60)}
    dataset = dataset_from_facts(sorted(facts))
    lines = list(anyburl_lines(mined(dataset, min_pairs=2, min_jaccard=0.1), dataset.relations))
    assert len(lines) > 10
    for line in lines:
        assert rule_holds_by_loop(line, facts, list(dataset.entities)) == tuple(map(int, line.split("\t")[:2])), line


def test_the_table_says_what_the_records_say() -> None:
    _, relations, found = rule_base()
    rows = table(found, relations).to_pylist()
    row = next(row for row in rows if row["path"] == "born/part" and row["target"] == "lives")
    assert (row["shared"], row["path_pairs"], row["direct_pairs"]) == (3, 5, 4)
    assert (row["jaccard"], row["confidence"], row["head_coverage"]) == (3 / 6, 3 / 5, 3 / 4)
    assert len(rows) == len(found)
    empty = table([], relations)
    assert empty.num_rows == 0
    assert empty.schema == table(found, relations).schema


# --------------------------------------------------------------------------------------------------------------------------- FB15k-237


@pytest.fixture(scope="module")
def freebase(benchmark: Callable[[str], Path]) -> Iterator[tuple[Dataset, PairIndex, list[Composition]]]:
    dataset = load_dataset(benchmark("fb15k-237"))
    index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
    yield dataset, index, mine_index(index)


def test_the_counts_of_fb15k_237(freebase: tuple[Dataset, PairIndex, list[Composition]]) -> None:
    _, index, found = freebase
    assert {name: len(keep(found, name, index)) for name in FILTERS} == {"all": 520, "not-same": 226, "not-inverse": 194, "paper": 154}


def test_the_self_relations_of_fb15k_237(freebase: tuple[Dataset, PairIndex, list[Composition]]) -> None:
    dataset, index, _ = freebase
    assert {dataset.relations[r] for r in self_relations(index) if r < dataset.num_relations} == {
        "/location/hud_county_place/place",
        "/education/educational_institution_campus/educational_institution",
        "/education/educational_institution/campuses",
    }


def test_each_composition_of_fb15k_237_counted_again(freebase: tuple[Dataset, PairIndex, list[Composition]]) -> None:
    dataset, index, found = freebase
    pairs = pairs_by_loop(dataset.train.tolist(), dataset.num_relations)
    starts: dict[int, dict[int, set[int]]] = {}
    for one in keep(found, "paper", index)[::7]:
        going_on = starts.setdefault(one.r2, {})
        if not going_on:
            for head, tail in pairs[one.r2]:
                going_on.setdefault(head, set()).add(tail)
        path = {(head, tail) for head, middle in pairs[one.r1] for tail in going_on.get(middle, ())}
        assert (one.path_pairs, one.direct_pairs, one.shared) == (len(path), len(pairs[one.r3]), len(path & pairs[one.r3]))
        wrong = {(grounding.head, grounding.tail) for grounding in counter_examples(index, one)}
        assert wrong == path - pairs[one.r3]
