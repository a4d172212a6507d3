"""Held-out discovery: does the model still find r1/r2 ≈ r3 where the facts that would let one count it are gone?

For some compositions with different r3, a part of the pairs that r1/r2 and r3 share is taken out of r3's training facts, for all of them at once, and
a model is trained on what is left. With the whole part taken out, r3 keeps only facts that r1/r2 does not explain, and counting finds no support at
all. Then, for each composition, the rank of r3 among all directed relations

    by the model           cos(M_1 M_2, M_3)
    by a random second     cos(M_1 M, M_3), M drawn at random: is r3 near for being like r1?
    by counting            confidence |C(r1/r2) ∩ C(r)| / |C(r1/r2)| in the same reduced facts, ties counting half
    by chance              (S + 1)/2

once among all of them, as the paper ranks, and once (``allowed``) without r1, r2, their inverses and what joins entities with themselves alone.
Nothing is chosen on held-out facts: training runs to its end without validation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from relcode.analysis.composition import composition_ranks, leave_out_of, target_ranks, triples_of
from relcode.analysis.discovery import ranks_left_out
from relcode.config import Settings
from relcode.errors import DataError, RunError, SettingError
from relcode.experiment import Event, resume, train
from relcode.explore.records import record_table
from relcode.graph.compositions import Composition, Filter, PairIndex, find_filter, keep, mine_index, path_keys, rules, self_relations
from relcode.graph.compositions.pairs import contained
from relcode.graph.dataset import Dataset
from relcode.graph.paths import format_path
from relcode.model.parameters import scorer_of
from relcode.runs.environment import environment
from relcode.runs.files import read_json, write_text
from relcode.runs.run import open_run

PARTS = (0.0, 0.3, 0.6, 1.0)
MOST = 20  # compositions held out in one training
LEAST_LEFT = 20  # facts that r3 keeps with all shared pairs gone: without any its matrix would learn nothing
FILTER = "paper"
RANDOM_DRAWS = 20


@dataclass(frozen=True, slots=True)
class Discovery:
    """One composition in one training. Ranks count from 1; ``*_allowed`` are among the relations that the filter allows for r1 and r2."""

    path: str
    relation: str
    part: float  # of the shared pairs that was taken out
    seed: int
    shared: int  # pairs of r3 that r1/r2 joins too, in all training facts
    removed: int
    left: int  # facts that r3 keeps
    cosine: float
    rank: float
    rank_allowed: float
    random_rank: float  # mean over the draws
    random_reciprocal: float
    random_reciprocal_allowed: float
    confidence: float  # counted in the reduced facts
    counted_rank: float
    counted_rank_allowed: float
    relations: int  # directed ones
    allowed: int


@dataclass(frozen=True, slots=True)
class DiscoveryLine:
    """The averages of one part: mean rank and mean of 1/rank, among all relations and (MRR) among those allowed, by one way of ranking."""

    part: float
    by: str  # model, random second, counting or chance
    compositions: int
    seeds: int
    mr: float
    mrr: float
    mrr_allowed: float
    first_allowed: float | None  # how often r3 is first among those allowed; not counted for a random second


@dataclass(frozen=True)
class DiscoveryReport:
    """All that was measured."""

    rows: tuple[Discovery, ...]

    def lines(self) -> list[DiscoveryLine]:
        """Return the averages for each part, over compositions and seeds."""
        return [line for part in sorted({row.part for row in self.rows}) for line in _lines(part, [row for row in self.rows if row.part == part])]

    def table(self) -> pa.Table:
        """Return one row for each composition and training."""
        return record_table(self.rows, Discovery)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"lines": [asdict(line) for line in self.lines()], "rows": [asdict(row) for row in self.rows]}


def _lines(part: float, rows: Sequence[Discovery]) -> Iterator[DiscoveryLine]:
    """Average the rows of one part."""

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    def harmonic(number: int) -> float:
        return sum(1 / rank for rank in range(1, number + 1)) / number

    about = (part, len({(row.path, row.relation) for row in rows}), len({row.seed for row in rows}))
    ways = {
        "model": [(row.rank, 1 / row.rank, 1 / row.rank_allowed, float(row.rank_allowed == 1)) for row in rows],
        "random second": [(row.random_rank, row.random_reciprocal, row.random_reciprocal_allowed, math.nan) for row in rows],
        "counting": [(row.counted_rank, 1 / row.counted_rank, 1 / row.counted_rank_allowed, float(row.counted_rank_allowed == 1)) for row in rows],
        "chance": [((row.relations + 1) / 2, harmonic(row.relations), harmonic(row.allowed), 1 / row.allowed) for row in rows],
    }
    for by, figures in ways.items():
        mr, mrr, allowed, first = (mean(column) for column in zip(*figures, strict=True))
        yield DiscoveryLine(part, by, *about[1:], mr, mrr, allowed, None if math.isnan(first) else first)


def choose(index: PairIndex, most: int = MOST, least_left: int = LEAST_LEFT, *, min_pairs: int, min_jaccard: float) -> list[Composition]:
    """Return compositions to hold out, the most alike first: no two of one r3, no r3 a step of another, and enough facts of r3 left."""
    chosen: list[Composition] = []
    heads: set[int] = set()
    bodies: set[int] = set()
    for one in rules(keep(mine_index(index, min_pairs=min_pairs, min_jaccard=min_jaccard), FILTER, index), index.num_relations):
        body = {one.r1 % index.num_relations, one.r2 % index.num_relations}
        if one.direct_pairs - one.shared < least_left or one.r3 in heads | bodies or body & heads:
            continue
        chosen.append(one)
        heads.add(one.r3)
        bodies |= body
        if len(chosen) == most:
            break
    return chosen


def removed_facts(index: PairIndex, chosen: Sequence[Composition], part: float, seed: int) -> Tensor:
    """Return the facts of each r3 that are taken out: that part of the pairs it shares with r1/r2, drawn at random; int64 [X, 3].

    One seed takes out more and more of the same pairs as the part grows.
    """
    taken = []
    for number, one in enumerate(chosen):
        key_X = path_keys(index, one.r1, one.r2)
        key_X = key_X[contained(key_X, index.keys(one.r3))]
        order_X = np.random.default_rng([seed, number]).permutation(len(key_X))
        head_X, tail_X = index.unpack(key_X[order_X[: round(part * len(key_X))]])
        taken.append(np.stack([head_X, np.full_like(head_X, one.r3), tail_X], axis=1))
    return torch.from_numpy(np.concatenate([np.empty((0, 3), dtype=np.int64), *taken]))


def without(dataset: Dataset, fact_X3: Tensor) -> Dataset:
    """Return a dataset whose training facts lack those given; names and the other splits stay."""

    def keys(facts_N3: Tensor) -> Tensor:
        return (facts_N3[:, 0] * dataset.num_relations + facts_N3[:, 1]) * dataset.num_entities + facts_N3[:, 2]

    kept_N = ~torch.isin(keys(dataset.train), keys(fact_X3))
    return replace(dataset, train=dataset.train[kept_N], notes=(*dataset.notes, f"{int((~kept_N).sum())} training facts held out"))


def counted_ranks(index: PairIndex, chosen: Sequence[Composition], leave_out: Filter, alone: frozenset[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each (r1, r2, r3) the confidence of r1/r2 ⇒ r3 in the facts indexed, and the rank of r3 by it, among all and among those allowed."""
    triple_N3 = triples_of(chosen)
    confidence_NS = torch.zeros((len(chosen), index.num_directed), dtype=torch.float64)
    for row, one in enumerate(chosen):
        key_X = path_keys(index, one.r1, one.r2)
        for relation in range(index.num_directed):
            confidence_NS[row, relation] = contained(index.keys(relation), key_X).sum() / max(1, len(key_X))
    gold_N1 = confidence_NS.gather(1, triple_N3[:, 2:])
    rank_N = target_ranks(confidence_NS, triple_N3[:, 2])
    allowed_NS = leave_out_of(confidence_NS.clone(), triple_N3[:, :2], leave_out, alone).scatter_(1, triple_N3[:, 2:], gold_N1)
    return gold_N1[:, 0], rank_N, target_ranks(allowed_NS, triple_N3[:, 2])


def allowed_numbers(chosen: Sequence[Composition], num_directed: int, leave_out: Filter, alone: frozenset[int]) -> list[int]:
    """Return among how many relations r3 is ranked where the filter leaves some out."""
    triple_N3 = triples_of(chosen)
    left_NS = leave_out_of(torch.zeros((len(chosen), num_directed)), triple_N3[:, :2], leave_out, alone).scatter_(1, triple_N3[:, 2:], 0.0)
    numbers: list[int] = left_NS.isfinite().sum(dim=1).tolist()
    return numbers


def judge(
    matrix_SDD: Tensor, dataset: Dataset, reduced: Dataset, chosen: Sequence[Composition], removed_X3: Tensor, part: float, seed: int
) -> list[Discovery]:
    """Rank r3 of each composition by a model trained on the reduced dataset, and by counting there."""
    leave_out = find_filter(FILTER)
    index = PairIndex.build(reduced.train, reduced.num_entities, reduced.num_relations)
    # Which relations join entities with themselves alone is a matter of all facts, not of what is left.
    alone = self_relations(PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations))
    triple_N3 = triples_of(chosen)
    rank_N, cosine_N = composition_ranks(matrix_SDD, triple_N3)
    allowed_N = ranks_left_out(matrix_SDD, triple_N3, leave_out, alone)
    generator = torch.Generator().manual_seed(seed)
    random = []
    for _ in range(RANDOM_DRAWS):
        drawn_N3 = triple_N3.clone()
        drawn_N3[:, 1] = torch.randint(len(matrix_SDD), (len(triple_N3),), generator=generator)
        random.append(torch.stack([composition_ranks(matrix_SDD, drawn_N3)[0], ranks_left_out(matrix_SDD, drawn_N3, leave_out, alone)]))
    random_W2N = torch.stack(random)
    confidence_N, counted_N, counted_allowed_N = counted_ranks(index, chosen, leave_out, alone)
    numbers = allowed_numbers(chosen, len(matrix_SDD), leave_out, alone)
    return [
        Discovery(
            path=format_path((one.r1, one.r2), dataset.relations),
            relation=format_path((one.r3,), dataset.relations),
            part=part,
            seed=seed,
            shared=one.shared,
            removed=int((removed_X3[:, 1] == one.r3).sum()),
            left=int(index.size_S[one.r3]),
            cosine=float(cosine_N[row]),
            rank=float(rank_N[row]),
            rank_allowed=float(allowed_N[row]),
            random_rank=float(random_W2N[:, 0, row].mean()),
            random_reciprocal=float((1 / random_W2N[:, 0, row]).mean()),
            random_reciprocal_allowed=float((1 / random_W2N[:, 1, row]).mean()),
            confidence=float(confidence_N[row]),
            counted_rank=float(counted_N[row]),
            counted_rank_allowed=float(counted_allowed_N[row]),
            relations=len(matrix_SDD),
            allowed=numbers[row],
        )
        for row, one in enumerate(chosen)
    ]


@dataclass(frozen=True)
class Plan:
    """What a study does: the compositions it holds out, the parts and seeds, and the settings that every training has but for its seed."""

    dataset: Dataset
    settings: Settings
    chosen: tuple[Composition, ...]
    parts: tuple[float, ...]
    seeds: tuple[int, ...]

    @classmethod
    def make(
        cls,
        dataset: Dataset,
        settings: Settings,
        parts: Sequence[float] = PARTS,
        seeds: Sequence[int] = (0,),
        most: int = MOST,
        *,
        min_pairs: int = 50,
        min_jaccard: float = 0.4,
    ) -> Plan:
        """Choose what to hold out; parts lie between 0 and 1."""
        wrong = [part for part in parts if not 0 <= part <= 1]
        if wrong or not parts or not seeds:
            given = ", ".join(map(str, wrong)) or "none"
            raise SettingError(f"the parts to take out cannot be {given}: each lies between 0 and 1, for example 0,0.3,0.6,1")
        index = PairIndex.build(dataset.train, dataset.num_entities, dataset.num_relations)
        chosen = choose(index, most, min_pairs=min_pairs, min_jaccard=min_jaccard)
        if not chosen:
            raise DataError(
                f"{dataset.name} has no composition to hold out with {min_pairs} shared pairs and a Jaccard similarity of {min_jaccard:g}"
            )
        quiet = settings.with_values({"training.validations": 0})
        return cls(dataset, quiet, tuple(chosen), tuple(dict.fromkeys(parts)), tuple(dict.fromkeys(seeds)))

    def to_json(self) -> dict[str, Any]:
        """Return what two sittings of one study must have in common."""
        settings = json.loads(self.settings.with_values({"training.seed": 0}).to_json())
        return {"data": self.dataset.fingerprint, "settings": settings, "chosen": [[one.r1, one.r2, one.r3] for one in self.chosen]}


def study(plan: Plan, folder: Path) -> Iterator[Event | Discovery]:
    """Go through the trainings of a plan, passing on their events, then what each found; those whose record is in the folder are not done again.

    A training that was interrupted ends the study; called again, it goes on there. ``folder`` holds plan.json, a record for each training, and the
    runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settled = folder / "plan.json"
    if settled.exists() and {key: value for key, value in read_json(settled).items() if key != "environment"} != plan.to_json():
        raise RunError(f"{folder} holds a study of other data, settings or compositions: choose another --out")
    if not settled.exists():
        write_text(settled, json.dumps({**plan.to_json(), "environment": environment()}, indent=1) + "\n")
    for seed in plan.seeds:
        for part in plan.parts:
            name = f"part-{round(100 * part):03d}-seed-{seed}"
            record = folder / f"{name}.json"
            if record.exists():
                yield from (Discovery(**row) for row in read_json(record)["rows"])
                continue
            yield from _one(plan, folder / name, record, part, seed)
            if not record.exists():  # interrupted: what is done is kept, and the next call goes on
                return


def _one(plan: Plan, run_folder: Path, record: Path, part: float, seed: int) -> Iterator[Event | Discovery]:
    """Train once (or go on), judge, and write the record."""
    index = PairIndex.build(plan.dataset.train, plan.dataset.num_entities, plan.dataset.num_relations)
    removed_X3 = removed_facts(index, plan.chosen, part, seed)
    reduced = without(plan.dataset, removed_X3)
    if not (run_folder / "run.json").is_file():
        yield from train(reduced, plan.settings.with_values({"training.seed": seed}), run_folder)
    elif open_run(run_folder).status.state != "complete":
        yield from resume(run_folder)
    run = open_run(run_folder)
    if run.status.state != "complete":
        return
    parameters = run.load_parameters(torch.device("cuda" if torch.cuda.is_available() and plan.settings.training.device != "cpu" else "cpu"))
    matrix_SDD = scorer_of(parameters, run.settings, reduced.seen_E).matrix_SDD
    rows = judge(matrix_SDD, plan.dataset, reduced, plan.chosen, removed_X3, part, seed)
    about: dict[str, Any] = {"part": part, "seed": seed, "removed": len(removed_X3), "training_seconds": run.status.seconds}
    about["environment"] = environment(matrix_SDD.device)
    write_text(record, json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    yield from rows
