"""Time suggestions over a whole knowledge base: the best 100 of each relation, one JSON line.

    python benchmarks/bench_suggest.py [DATASET | --run RUN] [--device cpu] [--threads 2] [--dim 256] [--any-type] [--uncalibrated] [--top 100]
                                        [--relations N]

DATASET lies under $RELCODE_DATA; without one, facts are drawn in the numbers of FB15k-237, with types. The model is random (scores of size 3), or a
trained RUN with its calibration; ``--uncalibrated`` leaves out what a calibration says of entities of another type, so that no relation can do
without a look at all pairs. First the pairs found are compared with those of the definition, worked out for every pair in double precision, on a
small knowledge base on the same device; then all relations are searched, a first few to warm up. ``--relations`` takes the first N only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from relcode.analysis.best_pairs import PairFinder
from relcode.analysis.candidates import Candidates
from relcode.analysis.found_pairs import Search, Shifts
from relcode.evaluation.ranking import known_answers
from relcode.graph.dataset import Dataset, load_dataset
from relcode.graph.vocab import Vocab
from relcode.model.score import Scorer
from relcode.runs.environment import environment

FB15K_237 = (14_541, 237, {"train": 272_115, "valid": 17_535, "test": 20_466})
SHIFTS = Shifts(head=-1.5, tail=-0.5, other=-4.0)  # about what calibrations give
TYPES = 12
SLACK = 1e-3  # evidence nearer than this may change places by rounding


def typed_facts(E: int, R: int, sizes: dict[str, int], name: str = "typed") -> Dataset:
    """Return distinct random facts whose relations join entities of two of some types; some entities and relations are more frequent than others."""
    generator = torch.Generator().manual_seed(0)
    total = sum(sizes.values())
    type_E = torch.randint(TYPES, (E,), generator=generator)
    pair_R2 = torch.randint(TYPES, (R, 2), generator=generator)
    relation_N = torch.multinomial(1 / (10 + torch.arange(R)), 2 * total, replacement=True, generator=generator)
    sides = []
    for side in (0, 1):
        entity_N = torch.empty(2 * total, dtype=torch.int64)
        for kind in range(TYPES):
            which_N = pair_R2[relation_N, side] == kind
            if not bool(which_N.any()):
                continue
            member_X = (type_E == kind).nonzero().squeeze(1)
            weight_X = 1 / (10 + torch.arange(len(member_X)))
            entity_N[which_N] = member_X[torch.multinomial(weight_X, int(which_N.sum()), replacement=True, generator=generator)]
        sides.append(entity_N)
    facts_N3 = torch.stack([sides[0], relation_N, sides[1]], dim=1).unique(dim=0)
    splits = facts_N3[torch.randperm(len(facts_N3), generator=generator)[:total]].split(list(sizes.values()))
    entities, relations = Vocab([f"e{i:08}" for i in range(E)], "entity"), Vocab([f"r{i:05}" for i in range(R)], "relation")
    return Dataset(name, entities, relations, *splits)


def random_scorer(dataset: Dataset, D: int, device: torch.device) -> Scorer:
    """Return a random model with scores of size 3."""
    generator = torch.Generator().manual_seed(0)
    head_ED, tail_ED = (torch.randn(dataset.num_entities, D, generator=generator) / D**0.5 for _ in range(2))
    matrix_SDD = 3 * torch.randn(dataset.num_directed, D, D, generator=generator)
    return Scorer(head_ED, tail_ED, matrix_SDD, dataset.seen_E).to(device).with_unseen_zero()


def plain_worths(finder: PairFinder, search: Search) -> Tensor:
    """Return the worth of every pair as the definition reads, in double precision; minus infinity for what is left out."""
    scorer, candidates, r = finder.scorer.to("cpu"), finder.candidates, search.relation
    inverse, E = candidates.inverse(r), candidates.num_entities
    head_ED, tail_ED, matrix_SDD = scorer.head_ED.double(), scorer.tail_ED.double(), scorer.matrix_SDD.double()
    log_EE = torch.zeros(E, E, dtype=torch.float64)
    for directed, turn in ((r, False), (inverse, True)):
        score_EE = head_ED @ matrix_SDD[directed] @ tail_ED.T
        typed_E = torch.zeros(E, dtype=torch.bool)
        typed_E[candidates.tails(directed)] = True
        total_E1 = score_EE[:, typed_E].logsumexp(dim=1, keepdim=True)
        with_it_EE = torch.logaddexp(total_E1, score_EE)
        share_EE = score_EE - torch.where(typed_E, total_E1, with_it_EE)
        log_EE += (share_EE.T if turn else share_EE) / 2
    is_head_E, is_tail_E = (torch.zeros(E, dtype=torch.bool) for _ in range(2))
    is_head_E[candidates.heads(r)], is_tail_E[candidates.tails(r)] = True, True
    every = torch.arange(E)
    asked_head_E, asked_tail_E = finder.asked(every, r).cpu(), finder.asked(every, inverse).cpu()
    typed_EE = is_head_E[:, None] & is_tail_E
    worth_EE = log_EE + asked_head_E[:, None] * search.shifts.head + asked_tail_E * search.shifts.tail + ~typed_EE * search.shifts.other
    known = finder.known.to("cpu")
    for head in range(E):
        worth_EE[head, known.of(head, r)] = -torch.inf
    if not bool(candidates.loops_R[r % candidates.num_relations]):
        worth_EE.fill_diagonal_(-torch.inf)
    seen_E = scorer.seen_E
    worth_EE[~(seen_E[:, None] & seen_E)] = -torch.inf
    return worth_EE if search.any_type else worth_EE.masked_fill(~typed_EE, -torch.inf)


def check_agreement(device: torch.device) -> int:
    """Compare the pairs found in blocks of several sizes with the definition; return how many were compared."""
    dataset = typed_facts(250, 6, {"train": 1_000, "valid": 100, "test": 100})
    candidates = Candidates.of(dataset.train, dataset.num_entities, dataset.num_relations)
    compared = 0
    for numbers in (10**9, 3_000, 100):
        finder = PairFinder(random_scorer(dataset, 16, device), candidates, known_answers(dataset), numbers)
        for relation in range(dataset.num_directed):
            for any_type in (False, True):
                search = Search(relation=relation, top=50, any_type=any_type, shifts=SHIFTS)
                pairs, worth_EE = finder.best(search), plain_worths(finder, search)
                expected_X = worth_EE.flatten().sort(descending=True).values[: len(pairs)]
                if not torch.allclose(worth_EE[pairs.head_X, pairs.tail_X], expected_X, atol=SLACK):
                    raise SystemExit(f"relation {relation}, any_type={any_type}, blocks of {numbers}: the pairs found are not the best")
                compared += len(pairs)
    return compared


def measure(finder: PairFinder, searches: list[Search], device: torch.device) -> dict[str, object]:
    """Search all relations and return what it took."""
    for search in searches[:3]:
        finder.best(search)
    _wait(device)
    before = _memory(device)
    start, cpu = time.perf_counter(), time.process_time()
    found = sum(len(finder.best(search)) for search in searches)
    _wait(device)
    return {
        "relations": len(searches),
        "pairs": sum(finder.pairs_in(search) for search in searches),
        "found": found,
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "extra_memory_mb": round((_memory(device) - before) / 2**20),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _memory(device: torch.device) -> int:
    """Return the most memory used so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    record = Path("/proc/self/status")
    lines = record.read_text().splitlines() if record.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def main() -> None:
    """Check, then measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--run")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--top", type=int, default=100)
    parser.add_argument("--any-type", action="store_true")
    parser.add_argument("--uncalibrated", action="store_true")
    parser.add_argument("--relations", type=int)
    parser.add_argument("--block", type=int, default=None, help="scores held at a time")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    print(f"{check_agreement(device)} pairs agree with the definition", file=sys.stderr)
    calibrators = None
    if arguments.run:
        from relcode.explore.model import Model

        model = Model.open(arguments.run, arguments.device)
        dataset, scorer, calibration = model.dataset, model.scorer, model.calibration
        calibrators = None if calibration is None else calibration.calibrators
    else:
        dataset = load_dataset(arguments.dataset) if arguments.dataset else typed_facts(*FB15K_237)
        scorer = random_scorer(dataset, arguments.dim, device)
    start = time.perf_counter()
    candidates = Candidates.of(dataset.train, dataset.num_entities, dataset.num_relations)
    finder = PairFinder(scorer, candidates, known_answers(dataset), **({"block_numbers": arguments.block} if arguments.block else {}))
    preparing = time.perf_counter() - start
    searches = []
    for relation in dataset.train[:, 1].unique().tolist()[: arguments.relations]:
        shifts = SHIFTS if calibrators is None else calibrators.shifts(relation)
        shifts = Shifts() if arguments.uncalibrated else shifts
        searches.append(Search(relation=relation, top=arguments.top, any_type=arguments.any_type, shifts=shifts))
    record = {
        "benchmark": "suggest",
        "dataset": dataset.name,
        "model": arguments.run or "random",
        "dim": scorer.head_ED.shape[1],
        "any_type": arguments.any_type,
        "uncalibrated": arguments.uncalibrated,
        "top": arguments.top,
        "preparing_seconds": round(preparing, 3),
        **measure(finder, searches, device),
        "environment": environment(device),
    }
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
