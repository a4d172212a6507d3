from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluation.slow import random_kb, random_scorer, slow_ranks

from relcode.errors import DataError, NotFinite, SettingError
from relcode.evaluation import ranking
from relcode.evaluation.protocol import PAPER, REALISTIC
from relcode.evaluation.ranking import Ranks, block_shape, known_answers, rank_facts
from relcode.graph.dataset import Dataset, dataset_from_facts, load_dataset
from relcode.graph.known import KnownAnswers
from relcode.model.score import Scorer

CPU = torch.device("cpu")


def ranks_of(scorer: Any, dataset: Dataset, **options: Any) -> Ranks:
    return rank_facts(scorer.with_unseen_zero(), dataset, dataset.test, **options)


def equal(first: Ranks, second: Ranks) -> bool:
    return all(torch.equal(getattr(first, name), getattr(second, name)) for name in Ranks.__slots__)


def hand_kb() -> tuple[Dataset, Scorer]:
    """Four entities a b c d, one relation; d is never trained. tail scores for head a are those of ``tail``, since u_a M = 1 with D = 1."""
    facts = {"train": [("a", "r", "b"), ("b", "r", "c"), ("b", "r", "a")], "test": [("a", "r", "c"), ("d", "r", "a"), ("a", "r", "d")]}
    dataset = dataset_from_facts(facts, name="hand")
    head, tail = torch.tensor([[1.0], [2.0], [0.0], [9.0]]), torch.tensor([[-1.0], [5.0], [3.0], [9.0]])
    return dataset, Scorer(head, tail, torch.tensor([[[1.0]], [[-1.0]]]), dataset.seen_E)


def test_realistic_ranks_worked_by_hand() -> None:
    # Facts sorted: (a r c), (a r d), (d r a). Tail vectors a -1, b 5, c 3, d 0 (never trained).
    # a r ?: b, c, d known. Gold c = 3 against a = -1: rank 1 of 2. Gold d = 0 against a: rank 1 of 2.
    # d r ?: query 0, all scores 0. Known only a. Gold a ties with b, c, d: ranks 1 to 4, realistic 2.5, of 4.
    # c r⁻¹ ?: u_c = 0, all 0; known b (train) and a (gold): rivals c, d tie: 1 to 3, of 3.
    # d r⁻¹ ?: query 0; gold a, rivals b, c, d tie: 1 to 4, of 4.
    # a r⁻¹ ?: query -1: a 1, b -5, c -3, d 0. Known b, d. Gold d = 0 against a 1, c -3: rank 2 of 3.
    dataset, scorer = hand_kb()
    ranks = ranks_of(scorer, dataset)
    assert ranks.gold_N.tolist() == [2, 3, 0, 0, 0, 3]
    assert ranks.inverse_N.tolist() == [False] * 3 + [True] * 3
    assert ranks.optimistic_N.tolist() == [1, 1, 1, 1, 1, 2]
    assert ranks.pessimistic_N.tolist() == [1, 1, 4, 3, 4, 2]
    assert ranks.realistic_N.tolist() == [1, 1, 2.5, 2, 2.5, 2]
    assert ranks.candidate_N.tolist() == [2, 2, 4, 3, 4, 3]
    assert ranks.unseen_N.tolist() == [False, True, True, False, True, True]
    assert ranks.relation_N.tolist() == [0] * 6
    assert ranks.score_N.tolist() == [3, 0, 0, 0, 0, 0]
    assert torch.equal(ranks.rank_N(REALISTIC), ranks.realistic_N)
    assert torch.equal(ranks.rank_N(PAPER), ranks.optimistic_N.double())


def test_paper_ranks_worked_by_hand() -> None:
    # Candidates a, b, c, and a gold d.
    # a r ?: as before: gold c rank 1 of {c, a}; gold d = 0 against a = -1: rank 1 of 2.
    # d r ?: d is replaced by the most frequent head of r, b (twice): query 2, scores a -2, b 10, c 6. Known of (d, r): a. Gold a: rank 3 of 3.
    # c r⁻¹ ?: c was trained, u_c = 0: gold a ties with c alone: 1 to 2, of 2.
    # d r⁻¹ ?: heads of r⁻¹ in train: b, c, a once each: the lowest, a: query -1, a 1, b -5, c -3. Gold a: rank 1 of 3.
    # a r⁻¹ ?: gold d = 0 against a 1, c -3: rank 2 of 3.
    dataset, scorer = hand_kb()
    ranks = ranks_of(scorer, dataset, protocol=PAPER)
    assert ranks.optimistic_N.tolist() == [1, 1, 3, 1, 1, 2]
    assert ranks.pessimistic_N.tolist() == [1, 1, 3, 2, 1, 2]
    assert ranks.candidate_N.tolist() == [2, 2, 3, 2, 3, 3]
    assert ranks.score_N.tolist() == [3, 0, -2, 0, 1, 0]


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_rank_agrees_with_the_loop_in_double_precision(seed: int, whole: bool, paper: bool) -> None:
    dataset = random_kb(seed=seed)
    scorer = random_scorer(dataset, seed=seed, whole=whole)
    ranks = ranks_of(scorer, dataset, protocol=PAPER if paper else REALISTIC)
    slow = slow_ranks(scorer, dataset, paper=paper)
    assert len(ranks) == len(slow) == 2 * len(dataset.test)
    slack = 0.0 if whole else 1e-5  # sums of whole numbers are exact; others may be rounded past a neighbour
    for rank, optimistic, pessimistic, candidates in zip(slow, ranks.optimistic_N, ranks.pessimistic_N, ranks.candidate_N, strict=True):
        assert rank.optimistic(slack) <= optimistic <= pessimistic <= rank.pessimistic(slack)
        if whole or rank.optimistic(slack) == rank.pessimistic(slack):
            assert (optimistic, pessimistic) == (rank.optimistic(), rank.pessimistic())
        assert candidates == 1 + len(rank.rivals)
    assert torch.allclose(ranks.score_N.double(), torch.tensor([rank.gold for rank in slow], dtype=torch.float64), atol=1e-5)


def test_transposed_matrices_and_swapped_directions_give_other_ranks() -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset)
    right = ranks_of(scorer, dataset)
    transposed = replace(scorer, matrix_SDD=scorer.matrix_SDD.mT.contiguous())
    swapped = replace(scorer, matrix_SDD=scorer.matrix_SDD.roll(dataset.num_relations, dims=0))
    exchanged = replace(scorer, head_ED=scorer.tail_ED, tail_ED=scorer.head_ED)
    for wrong in (transposed, swapped, exchanged):
        for inverse in (False, True):  # each direction by itself must notice
            which = right.inverse_N == inverse
            assert not torch.equal(ranks_of(wrong, dataset).select(which).optimistic_N, right.select(which).optimistic_N)


def test_the_filter_leaves_out_the_known_answers_of_all_splits_and_nothing_else() -> None:
    dataset = random_kb(unseen=0)
    E, R = dataset.num_entities, dataset.num_relations
    facts = {tuple(fact) for name in ("train", "valid", "test") for fact in dataset.split(name).tolist()}
    ranks = ranks_of(random_scorer(dataset), dataset)
    expected = [1 + sum((h, r, c) not in facts for c in range(E)) for h, r, _ in dataset.test.tolist()]
    expected += [1 + sum((c, r, t) not in facts for c in range(E)) for _, r, t in dataset.test.tolist()]
    assert ranks.candidate_N.tolist() == expected
    bare = ranks_of(random_scorer(dataset), dataset, known=KnownAnswers(dataset.train[:0], E, R))
    asked = {tuple(fact) for fact in dataset.test.tolist()}  # the facts ranked count as known themselves
    assert bare.candidate_N[: len(asked)].tolist() == [1 + sum((h, r, c) not in asked for c in range(E)) for h, r, _ in dataset.test.tolist()]


def test_constant_scores_rank_in_the_middle_and_first() -> None:
    dataset = random_kb(unseen=0)
    scorer = random_scorer(dataset)
    flat = replace(scorer, tail_ED=torch.ones_like(scorer.tail_ED))
    ranks = ranks_of(flat, dataset)
    assert torch.equal(ranks.optimistic_N, torch.ones_like(ranks.optimistic_N))
    assert torch.equal(ranks.pessimistic_N, ranks.candidate_N)
    assert torch.equal(ranks.realistic_N, (ranks.candidate_N.double() + 1) / 2)


@pytest.mark.parametrize("scale", [2.0**30, -(2.0**30), 2.0**-40])
def test_scores_of_a_billion_or_next_to_nothing_rank_the_same(scale: float) -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset, whole=True)
    large = replace(scorer, head_ED=scorer.head_ED * abs(scale), tail_ED=scorer.tail_ED * scale / abs(scale))
    plain = replace(scorer, tail_ED=scorer.tail_ED * scale / abs(scale))
    assert torch.equal(ranks_of(large, dataset).pessimistic_N, ranks_of(plain, dataset).pessimistic_N)
    assert torch.equal(ranks_of(large, dataset).optimistic_N, ranks_of(plain, dataset).optimistic_N)


@pytest.mark.parametrize("memory", [512, 700, 1_000, 2_000, 8_000, 10**6, None])
@pytest.mark.parametrize("protocol", [REALISTIC, PAPER])
def test_blocks_of_any_size_give_the_same_ranks(memory: int | None, protocol: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset, whole=True)
    expected = ranks_of(scorer, dataset, protocol=protocol)
    assert equal(ranks_of(scorer, dataset, protocol=protocol, memory_bytes=memory), expected)
    monkeypatch.setattr(ranking, "FEWEST_ROWS", 3)
    assert equal(ranks_of(scorer, dataset, protocol=protocol, memory_bytes=memory), expected)
    monkeypatch.setattr(ranking, "MOST_ROWS", {"cpu": 2})
    assert equal(ranks_of(scorer, dataset, protocol=protocol, memory_bytes=memory), expected)


def test_blocks_stay_within_the_memory_whatever_the_number_of_entities() -> None:
    for E in (1, 13, 14_541, 10**6, 10**8, 10**10):
        for memory in (512, 10**4, 10**6, 2**30, 2**36):
            rows, columns = block_shape(E, CPU, torch.float32, memory)
            assert rows >= 1 and 1 <= columns <= E
            assert 2 * 4 * rows * columns <= memory // 2
    assert block_shape(14_541, CPU, torch.float32) == (256, 14_541)
    assert block_shape(14_541, torch.device("cuda"), torch.float32) == (4096, 14_541)
    with pytest.raises(SettingError, match="too few"):
        block_shape(10, CPU, torch.float32, 100)
    with pytest.raises(SettingError, match="too few"):
        block_shape(10, CPU, torch.float32, -1)


class Recorder:
    """A scorer that rounds by the shape of the product: every block has its own error, as a real product might."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.products = scorer, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scorer, name)

    def scores(self, query_BD: torch.Tensor, candidates: slice, out: torch.Tensor) -> torch.Tensor:
        self.scorer.scores(query_BD, candidates, out=out)
        out += 1e-3 * out.shape[0] + 1e-4 * out.shape[1]
        self.products.append((candidates, out.clone()))
        return out


@pytest.mark.parametrize("memory", [1_200, None])
def test_a_gold_score_is_read_from_the_product_its_rivals_come_from(memory: int | None) -> None:
    dataset = random_kb(unseen=0)
    flat = replace(scorer := random_scorer(dataset), tail_ED=scorer.tail_ED[:1].expand_as(scorer.tail_ED).contiguous())
    recorder = Recorder(flat)
    ranks = rank_facts(recorder, dataset, dataset.test, memory_bytes=memory)
    golds = {value for _, block in recorder.products for value in block.flatten().tolist()}
    assert set(ranks.score_N.tolist()) <= golds
    separate = flat.score_facts(dataset.test)
    assert not set(separate.tolist()) & golds  # a separate dot product would have been another number
    if memory is None:
        assert torch.equal(ranks.pessimistic_N, ranks.candidate_N)  # and no tie would have been one
    else:
        assert len(recorder.products) % 2 == 0 and len({part.start for part, _ in recorder.products}) > 1
        by_part: dict[tuple[int, int], list[torch.Tensor]] = {}
        for part, block in recorder.products:
            by_part.setdefault((part.start, block.shape[0]), []).append(block)
        for blocks in by_part.values():  # each product was made twice, of the same shape, to the same bits
            assert len(blocks) % 2 == 0
            assert all(sum(torch.equal(block, other) for other in blocks) >= 2 for block in blocks)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["head_ED", "tail_ED", "matrix_SDD"])
@pytest.mark.parametrize("memory", [700, None])
def test_a_number_that_is_not_finite_is_an_error_never_a_rank(bad: float, where: str, memory: int | None) -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset)
    getattr(scorer, where)[0].fill_(bad)
    with pytest.raises(NotFinite, match=r"NaN or infinite in .* queries") as caught:
        ranks_of(scorer, dataset, memory_bytes=memory)
    assert caught.value.exit_code == 1


def test_a_known_answer_or_an_absent_candidate_that_is_not_finite_is_an_error_too() -> None:
    dataset = dataset_from_facts({"train": [("a", "r", "b"), ("a", "r", "c")], "test": [("a", "r", "c")]})
    scorer = random_scorer(dataset)
    scorer.tail_ED[1, 0] = float("nan")  # b, which the filter leaves out of (a, r, ?), still shows that the model is broken
    with pytest.raises(NotFinite):
        ranks_of(scorer, dataset)


@pytest.mark.parametrize("bad", [float("-inf"), float("inf")])
def test_an_infinite_score_of_one_sign_alone_is_an_error(bad: float) -> None:
    dataset = random_kb(unseen=0)
    ones = torch.ones(dataset.num_entities, 1)
    tail = torch.arange(dataset.num_entities, dtype=torch.float32)[:, None]
    tail[3] = bad
    with pytest.raises(NotFinite):
        ranks_of(Scorer(ones, tail, torch.ones(dataset.num_directed, 1, 1), dataset.seen_E), dataset)


def test_scores_that_overflow_are_an_error() -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset)
    with pytest.raises(NotFinite):
        ranks_of(replace(scorer, head_ED=scorer.head_ED * 1e20, tail_ED=scorer.tail_ED * 1e20), dataset)


def test_a_model_full_of_nan_has_no_rank() -> None:
    dataset = random_kb(unseen=0)
    scorer = random_scorer(dataset)
    empty = Scorer(*(torch.full_like(part, float("nan")) for part in (scorer.head_ED, scorer.tail_ED, scorer.matrix_SDD)), dataset.seen_E)
    with pytest.raises(NotFinite, match=f"{2 * len(dataset.test)} of {2 * len(dataset.test)} queries"):
        ranks_of(empty, dataset)


def test_facts_keep_their_order_and_may_be_repeated_or_none() -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset).with_unseen_zero()
    mixed = torch.tensor([4, 0, 4, 2])
    half = len(dataset.test)
    whole, some = rank_facts(scorer, dataset, dataset.test), rank_facts(scorer, dataset, dataset.test[mixed])
    assert torch.equal(some.optimistic_N, whole.optimistic_N[torch.cat([mixed, mixed + half])])
    assert len(rank_facts(scorer, dataset, dataset.test[:0])) == 0


def test_a_lower_precision_set_for_training_does_not_reach_the_ranks() -> None:
    dataset = random_kb()
    scorer = random_scorer(dataset, D=64)
    expected = ranks_of(scorer, dataset)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert equal(ranks_of(scorer, dataset), expected)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_model_of_other_data_is_refused() -> None:
    small, large = random_kb(E=8), random_kb(E=13)
    with pytest.raises(DataError, match="the model knows 8 entities and 3 relations, but random has 13 and 3"):
        rank_facts(random_scorer(small), large, large.test)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "unseen", "trained"), [("fb15k-237", 28, 14_505), ("wn18rr", 210, 40_559)])
def test_published_counts_of_unseen_facts_and_candidates(benchmark: Any, name: str, unseen: int, trained: int) -> None:
    folder: Path = benchmark(name)
    dataset = load_dataset(folder)
    known = known_answers(dataset)
    facts = torch.cat([dataset.test[:300], dataset.test[~(dataset.seen_E[dataset.test[:, 0]] & dataset.seen_E[dataset.test[:, 2]])]]).unique(dim=0)
    scorer = random_scorer(dataset, D=2).with_unseen_zero()
    for protocol, candidates in ((REALISTIC, dataset.num_entities), (PAPER, trained)):
        ranks = rank_facts(scorer, dataset, facts, known, protocol)
        assert int((ranks.unseen_N & ranks.inverse_N).sum()) == unseen
        head, relation, _ = facts[0].tolist()
        answers = known.of(head, relation)
        left = candidates - len(answers if protocol is REALISTIC else answers[dataset.seen_E[answers]])
        assert ranks.candidate_N[0] == left + 1
