"""Splitting facts anew: at random or by a column of times, whatever they come in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relcode.errors import DataError
from relcode.formats.gather import Gatherer
from relcode.formats.importing import Imported, finish, free_folder, gather, name_after, read_options, summary_of
from relcode.graph.dataset import save_dataset, split_lone_train
from relcode.graph.split import HELD_OUT_SHARE, SPLIT_SEED, Times, split_by_time

ISO_DATE = r"^\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?)?)?$"


def split_sources(
    *sources: Any,
    out: str | Path | None = None,
    valid: float = HELD_OUT_SHARE,
    test: float = HELD_OUT_SHARE,
    seed: int | None = None,
    name: str | None = None,
    **options: Any,
) -> Imported:
    """Read facts (see ``import_facts``), put all splits together, and split them into train, valid and test of the shares given.

    Every entity and relation is in train. At random, facts are set aside only where train can spare them. By time (``time`` names a column) the
    earliest facts are train and the latest test; later facts about what train does not know are left out, and counted.
    """
    given, folder = read_options(options), free_folder(out)
    gatherer, tallies = gather(sources, given, keep_splits=False)
    called = name or (Path(out).resolve().name if out else "") or name_after(sources)
    if given.time is None:
        dataset = split_lone_train(finish(gatherer, tallies, called), valid, test, SPLIT_SEED if seed is None else seed, why="")
    else:
        notes = _by_time(gatherer, valid, test, given.time)
        dataset = finish(gatherer, tallies, called)
        dataset = replace(dataset, notes=(*dataset.notes, *notes))
    if folder is not None:
        dataset = save_dataset(dataset, folder)
    return Imported(dataset, summary_of(dataset, tallies))


def _by_time(gatherer: Gatherer, valid: float, test: float, column: str) -> list[str]:
    """Split what was gathered by time; return what is worth saying about it."""
    facts_N3, times = gatherer.facts("train"), gatherer.times("train")
    if times is None or len(times) != len(facts_N3):
        raise DataError(f"no column {column!r} in these sources: a split by time needs tables with a column of times")
    known_N = pc.is_valid(times).to_numpy()
    if times.type in (pa.utf8(), pa.large_utf8()):
        known_N &= pc.not_equal(pc.utf8_trim_whitespace(times), "").fill_null(False).to_numpy()
    time_N = sortable(times.filter(pa.array(known_N)), column)
    dated_N3 = facts_N3[known_N]
    if not len(dated_N3):
        raise DataError(f"no fact has a time in the column {column!r}")
    positions = split_by_time(dated_N3, time_N, valid, test)
    splits = {split: dated_N3[position] for split, position in positions.items()}
    distinct = len(np.unique(dated_N3, axis=0))
    gatherer.keep(splits)
    edges = [f"{split} from {_written(time_N[position].min(), times.type)}" for split, position in positions.items() if len(position)]
    notes = [f"split by {column}: {', '.join(edges)}"]
    left_out = distinct - sum(map(len, splits.values()))
    if left_out:
        notes.append(f"left out {left_out:,} later facts with an entity or relation that train does not have")
    if not known_N.all():
        notes.append(f"left out {int((~known_N).sum()):,} facts without a time")
    if len(dated_N3) > distinct:
        notes.append(f"{len(dated_N3) - distinct:,} repeated facts counted once, when they came first")
    return notes


def sortable(times: pa.ChunkedArray, column: str) -> Times:
    """Return times as numbers (or texts) that sort in their order: dates, numbers, or texts that are all numbers or all ISO 8601 dates."""
    kind = times.type
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return times.cast(pa.timestamp("us") if not pa.types.is_time(kind) else kind).cast(pa.int64()).to_numpy()
    if pa.types.is_integer(kind):
        return times.to_numpy()
    if pa.types.is_floating(kind):
        numbers = times.to_numpy()
        if not np.isfinite(numbers).all():
            raise DataError(f"the column {column!r} holds numbers that are not finite, which are no times")
        return numbers
    if kind not in (pa.utf8(), pa.large_utf8()):
        raise DataError(f"the column {column!r} holds {kind}, which are no times")
    return _sortable_texts(pc.utf8_trim_whitespace(times), column)


def _sortable_texts(times: pa.ChunkedArray, column: str) -> Times:
    """Return texts as numbers where all are numbers, and as they are where all are ISO dates, which sort as they stand."""
    if pc.all(pc.match_substring_regex(times, r"^[+-]?\d{1,18}$"), min_count=0).as_py():
        return times.cast(pa.int64()).to_numpy()
    if pc.all(pc.match_substring_regex(times, r"^[+-]?\d+(\.\d+)?([eE][+-]?\d{1,2})?$"), min_count=0).as_py():
        return times.cast(pa.float64()).to_numpy()
    is_date = pc.match_substring_regex(times, ISO_DATE)
    if pc.all(is_date, min_count=0).as_py():
        return np.array(pc.replace_substring(times, " ", "T").to_pylist(), dtype=np.str_)
    odd = times.filter(pc.invert(is_date))[0].as_py()
    raise DataError(f"the column {column!r} holds {odd!r}: times must be numbers, or dates such as 2014-03-01 or 2014-03-01T12:00:00 (one zone)")


def _written(value: Any, kind: pa.DataType) -> str:
    """Write a time for people."""
    if pa.types.is_temporal(kind) and not pa.types.is_time(kind):
        return str(np.datetime64(int(value), "us")).removesuffix("T00:00:00.000000")
    return str(value)
