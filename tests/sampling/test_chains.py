from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch
from sampling.test_walks import CHI_999, chi_square, stream_of
from walked import Prefix, prefixes_of

from relcode.sampling.batches import PathBatch, batch_tensors
from relcode.sampling.chains import Rows, with_chains


def same(left: PathBatch, right: PathBatch) -> bool:
    return all(torch.equal(one, other) for one, other in zip(batch_tensors(left), batch_tensors(right), strict=True))


def test_chains_of_two_walks_by_hand() -> None:
    # Walk a takes three steps, b two. a's paths update matrices 1, 1, 1 (counted from 1), b's 1 and 2.
    def rows(relation: list[int], chosen: list[float]) -> Rows:
        one = torch.ones(1, len(relation))
        return Rows(torch.tensor([relation]), torch.arange(len(relation))[None], torch.tensor([relation]) + 7, one, torch.tensor([chosen]), one)

    drawn = [rows([0, 1], [1.0, 1.0]), rows([2, 3], [0.0, 1.0]), rows([1], [0.0])]
    first, second, third = with_chains(drawn, 4, 2, torch.Generator().manual_seed(0))
    assert first is drawn[0]
    # Level 2: walks a and b; places for the chains of a and b of two steps, of a of three; one to make the number even.
    assert second.relation_TP[0, :2].tolist() == [2, 3] and second.relation_TP.shape == (1, 6)
    assert second.place_TP.tolist() == [[0, 1, 0, 1, 0, 0]]  # all leave level 1 itself
    assert second.weight_TP.tolist() == [[1, 1, 0, 0, 0, 0]] and second.chosen_TP.tolist() == [[0, 1, 0, 0, 0, 0]]
    assert second.noise_TP.tolist() == [[0, 1, 1, 0, 0, 0]]  # a's noises end its chain; b's are where it is; the longer path's are not due
    # Level 3: walk a, and its chain, which goes on from place 4 of level 2.
    assert third.relation_TP[0, 0] == 1 and third.place_TP.tolist() == [[0, 4]]
    assert third.weight_TP.tolist() == [[1, 0]] and third.noise_TP.tolist() == [[0, 1]]
    assert third.tail_TP[0].tolist() == [8, 8]


def without_chain(path: Prefix) -> Prefix:
    return replace(path, chain=None, rows=())


@pytest.mark.parametrize("longest", [2, 3, 4, 6])
def test_every_path_has_its_noises_behind_the_matrix_it_updates(longest: int) -> None:
    options = {"edges": 500, "mean": 2.0, "longest": longest}
    for step in range(3):
        plain, found = (prefixes_of(stream_of(**options, relation_noise=noise).batch(step, torch.Generator())) for noise in (False, True))
        assert Counter(map(without_chain, found)) == Counter(map(without_chain, plain))  # the walks themselves are the same
        for path in found:
            left = path.chosen + 1
            assert (path.chain is None) == (left == len(path.relations))
            assert path.weighed.head == path.head and len(path.weighed.relations) == len(path.relations)
            assert path.weighed.relations[:left] == path.relations[:left] and path.weighed.rows[:left] == path.rows[:left]
            if path.chain:
                assert all(one != other for one, other in zip(path.chain.rows[left:], path.rows[left:], strict=True))
                assert not any(path.chain.marks[left:])


def test_random_relations_are_uniform_and_do_not_know_of_each_other() -> None:
    found = prefixes_of(stream_of(edges=20_000, mean=3.0, relation_noise=True).batch(0, torch.Generator()))
    chains = [path.chain.relations[path.chosen + 1 :] for path in found if path.chain]
    pairs = Counter(drawn[at : at + 2] for drawn in chains for at in range(0, len(drawn) - 1, 2))
    assert chi_square([pairs[each] for each in itertools.product(range(4), repeat=2)], [pairs.total() / 16] * 16) < 37.7  # 15 degrees of freedom
    for place in range(3):
        drawn = Counter(relations[place] for relations in chains if len(relations) > place)
        assert chi_square([drawn[relation] for relation in range(4)], [drawn.total() / 4] * 4) < CHI_999[3]


@pytest.mark.parametrize("together", [1, 8, 64])
def test_shapes_are_the_same_in_every_step(together: int) -> None:
    stream = stream_of(edges=300, mean=2.0, relation_noise=True, together=together)
    shapes = [[part.shape for part in batch_tensors(stream.batch(step, torch.Generator()))] for step in range(6)]
    assert all(each == shapes[0] for each in shapes)
    first, *later = stream.batch(0, torch.Generator()).levels
    assert len(first.relation_T) == stream.at_least[0]
    for level, rows in enumerate(later, start=1):
        least = stream.at_least[level] + sum(stream.at_least[level:])
        assert least <= len(rows.relation_T) < least + together and len(rows.relation_T) % together == 0
        assert rows.relation_T.tolist() == sorted(rows.relation_T.tolist())
        assert rows.weight_TW.sum() == stream.at_least[level]


def test_what_is_off_or_has_nothing_to_do_changes_no_bit() -> None:
    batch = stream_of(edges=300).batch(1, torch.Generator())
    assert same(batch, stream_of(edges=300, head_walks=1, relation_noise=False).batch(1, torch.Generator()))
    single = [stream_of(edges=300, longest=1, relation_noise=noise).batch(1, torch.Generator()) for noise in (False, True)]
    assert same(*single)  # a single fact has no relation behind its own
