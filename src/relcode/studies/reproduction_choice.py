"""Which records stand in a row, and their figures: the settings that were best on valid, all their seeds.

The test split has no part in the choice. Where several settings of a row were run, the row shows those with the highest MRR on valid (protocol
realistic, mean over seeds). Two tables choose otherwise: ``constraints`` wants the most seeds first, and ``ablation`` rows that differ in nothing but
what is ablated.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relcode.studies.reproduction_plan import ABLATIONS, Row, Split, Table
from relcode.studies.reproduction_record import Record, comparable

MRR_SLACK, HITS_SLACK, MR_SLACK = 0.005, 1.0, 1.05  # what counts as reaching the paper


@dataclass(frozen=True, slots=True)
class Choice:
    """The records of a row: all seeds of one settings; those that diverged stand apart, and are never ranked."""

    finished: tuple[Record, ...] = ()
    diverged: tuple[Record, ...] = ()
    others: int = 0  # how many other settings of this row were run and not chosen

    @property
    def valid_mrr(self) -> float:
        """Return the mean MRR on valid, by which settings are chosen."""
        return statistics.fmean(record["valid"]["realistic"]["mrr"] for record in self.finished) if self.finished else -1.0


def settings_key(record: Record, without: Iterable[str] = ()) -> str:
    """Return a text that is equal for records of the same settings, whatever the seed, and the options named in ``without``."""
    tree = comparable(record["settings"])
    for key in ("training.seed", *without):
        section, _, name = key.partition(".")
        tree.get(section, {}).pop(name, None)
    return json.dumps(tree, sort_keys=True)


def groups(records: Iterable[Record], without: Iterable[str] = ()) -> dict[str, Choice]:
    """Return records of the same settings together, by their settings."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record["seed"]):
        found[settings_key(record, without)].append(record)
    return {
        key: Choice(
            tuple(record for record in of_key if record["status"] == "finished"), tuple(record for record in of_key if record["status"] != "finished")
        )
        for key, of_key in found.items()
    }


def choose(records: Iterable[Record], *, most_seeds: bool = False) -> Choice:
    """Return the settings that are best on valid; with ``most_seeds``, of those with the most seeds."""
    found = groups(records)
    if not found:
        return Choice()

    def rank(key: str) -> tuple[float, float, str]:
        return (len(found[key].finished) if most_seeds else bool(found[key].finished), found[key].valid_mrr, key)

    best = found[max(found, key=rank)]
    return Choice(best.finished, best.diverged, len(found) - 1)


def choose_ablation(records: Sequence[Record], dataset: str) -> dict[str, Choice]:
    """Return for each variant of the ablation its records, all alike but for what is ablated: of the most complete set, then of the best base."""
    keys = {key for variant in ABLATIONS for key in variant.changes}
    of_variant = {
        name: groups((record for record in records if record["dataset"] == dataset and record["variant"] == name), keys)
        for name in ("base", *(variant.name for variant in ABLATIONS))
    }
    frames = {key for found in of_variant.values() for key in found}
    if not frames:
        return {}

    def rank(frame: str) -> tuple[int, float, str]:
        base = of_variant["base"].get(frame, Choice())
        return (sum(frame in found for found in of_variant.values()), base.valid_mrr, frame)

    best = max(frames, key=rank)
    return {name: found.get(best, Choice()) for name, found in of_variant.items()}


def chosen_rows(table: Table, records: Sequence[Record], dataset: str | None = None) -> list[tuple[Row, Choice]]:
    """Return the rows of a table (of one dataset, where named) with the records that stand in them."""
    rows = [row for row in table.rows if dataset in (None, row.dataset)]
    if table.name == "ablation":
        ablated = {name: choose_ablation(records, name) for name in table.datasets}
        return [(row, ablated[row.dataset].get(row.variant, Choice())) for row in rows]
    return [
        (row, choose((each for each in records if (each["dataset"], each["variant"]) == (row.dataset, row.variant)), most_seeds=table.seeds > 1))
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of ours: mean over seeds, and standard deviation where there are several."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """Return the mean and the sample deviation."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True, slots=True)
class Ours:
    """Our figures for a row; Hits@10 in per cent."""

    mr: Figure
    mrr: Figure
    hits10: Figure | None = None


def ours(choice: Choice, split: Split, protocol: str, adjusted: bool = False) -> Ours | None:
    """Return our figures on a split under a protocol, or None where no training of the row is finished."""
    if not choice.finished:
        return None
    reports = [record[split][protocol] for record in choice.finished]
    metrics = [report["seen_only"] if adjusted else report for report in reports]
    mr, mrr, hits = ([each[name] for each in metrics] for name in ("mr", "mrr", "hits@10"))
    return Ours(Figure.of(mr), Figure.of(mrr), Figure.of([100 * share for share in hits]))


def our_constraints(choice: Choice, list_name: str = "paper", random: bool = False) -> Ours | None:
    """Return the ranks of the constraints (with random M_2, where asked), or None where there are none."""
    found = [record["constraints"][list_name] for record in choice.finished if list_name in record["constraints"]]
    prefix = "random_" if random else ""
    return Ours(Figure.of([each[f"{prefix}mr"] for each in found]), Figure.of([each[f"{prefix}mrr"] for each in found])) if found else None


def criteria(row: Row, found: Ours) -> dict[str, bool]:
    """Return which of the three criteria hold: MR ≤ paper × 1.05, MRR ≥ paper − .005, H@10 ≥ paper − 1.0, of those the paper has figures for."""
    held: dict[str, bool] = {}
    if row.paper.mr is not None:
        held["MR"] = found.mr.mean <= row.paper.mr * MR_SLACK
    if row.paper.mrr is not None:
        held["MRR"] = found.mrr.mean >= row.paper.mrr - MRR_SLACK
    if row.paper.hits10 is not None and found.hits10 is not None:
        held["H@10"] = found.hits10.mean >= row.paper.hits10 - HITS_SLACK
    return held
