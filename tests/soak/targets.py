"""What is fuzzed: a target is a maker of cases and a function that must come back, or raise one of our errors in one line, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from soak.mutations import Choices, spoilt_bytes, spoilt_json, spoilt_safetensors

from relcode.config import settings_from_json
from relcode.errors import RelcodeError, SettingError
from relcode.explore.model import Model
from relcode.formats import authors
from relcode.formats.authors import AuthorsModel
from relcode.graph.download import _member, _Refused
from relcode.graph.known_datasets import KnownDataset, Split
from relcode.graph.vocab import Vocab
from relcode.runs.files import parse_json, read_tensors
from relcode.runs.run import open_run

OLD_RUN = Path(__file__).parents[1] / "data" / "runs" / "v0.1.0" / "stopped"
FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None  # thousands of small files a second


@dataclass(frozen=True)
class Target:
    """A name, how a case is made, and what to do with one; True where it was accepted."""

    name: str
    make: Callable[[Choices], Any]
    run: Callable[[Any], bool]


def accepted(work: Callable[[], object], *also: type[Exception]) -> bool:
    """Do the work; True where it came back, False where it was refused by an error of ours that is one line of bearable length."""
    try:
        work()
    except (RelcodeError, *also) as error:
        assert "\n" not in str(error) and len(str(error)) < 2000, f"not one line: {str(error)[:300]!r}"
        return False
    return True


@cache
def scratch() -> Path:
    """Return a folder of this process's own with a copy of a real run and a model of the authors' program."""
    folder = Path(tempfile.mkdtemp(prefix="relcode-soak-", dir=FAST))
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    torch.set_num_threads(1)
    shutil.copytree(OLD_RUN, folder / "run")
    rng = np.random.default_rng(0)
    rows: dict[str, Any] = {name: rng.normal(size=(3, 2)).astype(np.float32) for name in ("head_ED", "tail_ED")}
    rows |= {name: np.arange(3, dtype=np.uint64) for name in ("head_count_E", "tail_count_E")}
    rows |= {"matrix_SDD": rng.normal(size=(2, 2, 2)).astype(np.float32), "matrix_count_S": np.arange(2, dtype=np.uint64)}
    rows |= {name: rng.normal(size=(1, 4)).astype(np.float32) for name in ("encoder_CQ", "decoder_CQ")}
    authors.write(AuthorsModel(entities=Vocab(["a", "b", "c"]), relations=Vocab(["r"], "relation"), **rows), folder / "authors")
    return folder


@cache
def original(name: str) -> bytes:
    return (OLD_RUN / name).read_bytes()


CHECKPOINT = next((OLD_RUN / "checkpoints").iterdir()).name
WEIGHTS = {"best.safetensors": "best_sha256", f"checkpoints/{CHECKPOINT}": "checkpoint_sha256"}
TABLES = ("entities.parquet", "relations.parquet", "facts.parquet")
JSONS = ("run.json", "settings.json")


def spoilt_table(choose: Choices, name: str) -> bytes:
    """Return a Parquet file that is whole and says something else: other types, rows, nulls, names."""
    table = pq.read_table(OLD_RUN / name)
    column = choose.pick(table.column_names)
    kind = choose.pick(("drop", "rename", "type", "null", "value", "rows", "repeat", "empty"))
    values = table[column].to_pylist()
    place = choose.integer(0, len(values) - 1)
    if kind == "drop":
        table = table.drop_columns(column)
    elif kind == "rename":
        table = table.rename_columns({column: choose.pick(("x", "", "name", "split"))})
    elif kind == "rows":
        table = table.slice(choose.integer(0, len(table)))
    elif kind == "repeat":
        table = pa.concat_tables([table] * choose.integer(2, 50))
    elif kind == "empty":
        table = table.slice(0, 0)
    else:
        types = (pa.int64(), pa.int8(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.null(), pa.list_(pa.int32()))
        new = choose.pick(types) if kind == "type" else table.schema.field(column).type
        odd = {"null": [None], "value": [2**31 - 1, -1, 10**6, 2, "x\0", "../../x", "", "a" * 100_000, "^r", "\u202e", "Abe_1"], "type": [0, "0"]}
        values[place] = choose.pick(odd[kind])
        try:
            table = table.set_column(table.column_names.index(column), column, pa.array(values, new))
        except (pa.ArrowException, TypeError, OverflowError):
            table = table.drop_columns(column)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=choose.pick(("zstd", "snappy", "none", "gzip")))
    return sink.getvalue().to_pybytes()


def run_cases(choose: Choices) -> dict[str, bytes | str]:
    """Return what to put in place of which files of a run: bytes, or a word for something that is no file."""
    name = choose.pick((*JSONS, *JSONS, *TABLES, *WEIGHTS, *WEIGHTS))
    kind = choose.pick(("bytes", "structure", "structure", "file"))
    if kind == "file":
        return {name: choose.pick(("missing", "link", "folder", "pipe", "loop", "empty"))}
    if kind == "bytes":
        return {name: spoilt_bytes(choose, partial(original, name))}
    if name in JSONS:
        return {name: spoilt_json(choose, partial(original, name))}
    return {name: spoilt_table(choose, name) if name in TABLES else spoilt_safetensors(choose, partial(original, name))}


def run_folder(case: dict[str, bytes | str], question: bool = True) -> bool:
    """Open a spoilt run and read all of it; checksums are put right, so that what lies behind them is met too."""
    folder = scratch() / "run"
    for name, content in case.items():
        _put(folder / name, content)
        if name in WEIGHTS and isinstance(content, bytes):
            tree = json.loads(original("run.json"))
            tree["status"][WEIGHTS[name]] = hashlib.sha256(content).hexdigest()
            (folder / "run.json").write_text(json.dumps(tree))
    try:
        return accepted(lambda: _read_all(folder, question))
    finally:
        for name in {*case, "run.json"}:
            _remove(folder / name)
            (folder / name).write_bytes(original(name))


def _read_all(folder: Path, question: bool) -> None:
    run = open_run(folder)
    run.load_dataset()
    run.load_state(torch.device("cpu"))
    model = Model.open(folder, "cpu")
    if question:
        model.predict_tails(model.dataset.entities[0], model.dataset.relations[0], top=3)


def _put(path: Path, content: bytes | str) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
        return
    _remove(path)
    if content == "link":
        path.symlink_to("/etc/passwd")
    elif content == "loop":
        path.symlink_to(path.name)
    elif content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content == "empty":
        path.write_bytes(b"")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def tensors(content: bytes) -> bool:
    path = scratch() / "x.safetensors"
    path.write_bytes(content)
    return accepted(lambda: read_tensors(path))


def strict_json(content: bytes) -> bool:
    return accepted(lambda: parse_json(content.decode("utf-8", "replace")), ValueError)


def settings_text(content: bytes) -> bool:
    """What open_run does with settings.json: strict JSON first, then settings; both refuse in their own words."""

    def read() -> None:
        text = content.decode("utf-8", "replace")
        parse_json(text)
        try:
            settings_from_json(text)
        except (SettingError, TypeError, OverflowError, RecursionError) as error:
            raise SettingError(" ".join(str(error).split())[:300]) from None

    return accepted(read, ValueError)


AUTHORS_FILES = ("tvecs.npy", "cvecs.npy", "vsteps.npy", "mats.npy", "msteps.npy", "encoder.npy", "dstep.npy", "params.json", "vocab_entity.txt")


def authors_cases(choose: Choices) -> tuple[str, bytes]:
    name = choose.pick(AUTHORS_FILES)
    content = partial(_authors_original, name)
    return name, (spoilt_json if name.endswith(".json") and choose.integer(0, 1) else spoilt_bytes)(choose, content)


@cache
def _authors_original(name: str) -> bytes:
    return (scratch() / "authors" / name).read_bytes()


def authors_folder(case: tuple[str, bytes]) -> bool:
    name, content = case
    path = scratch() / "authors" / name
    path.write_bytes(content)
    try:
        return accepted(lambda: authors.read(path.parent))
    finally:
        path.write_bytes(_authors_original(name))


@cache
def _archive() -> bytes:
    import io
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("a/train.txt", "a/valid.txt"):
            info = tarfile.TarInfo(name)
            info.size = 600
            tar.addfile(info, io.BytesIO(b"x\ty\tz\n" * 100))
    return packed.getvalue()


def archive(content: bytes) -> bool:
    split = Split(100, 600, "")
    path = scratch() / "x.tar.gz"
    path.write_bytes(content)
    return accepted(lambda: _member(path, "train", KnownDataset("x", "", "", 1, 1, split, split, split, ())), _Refused)


def targets() -> list[Target]:
    """Return the targets of this part; those that read data are added by whoever runs them."""
    weights, run, chosen = (partial(original, name) for name in ("best.safetensors", "run.json", "settings.json"))

    def either(choose: Choices, structured: Callable[[Choices, Any], bytes], of: Callable[[], bytes]) -> bytes:
        return (structured if choose.integer(0, 2) else spoilt_bytes)(choose, of)

    return [
        Target("run folders", run_cases, run_folder),
        Target("weight files", lambda choose: either(choose, spoilt_safetensors, weights), tensors),
        Target("strict JSON", lambda choose: either(choose, spoilt_json, run), strict_json),
        Target("settings", lambda choose: spoilt_json(choose, chosen), settings_text),
        Target("authors' models", authors_cases, authors_folder),
        Target("archives", lambda choose: spoilt_bytes(choose, _archive), archive),
    ]
