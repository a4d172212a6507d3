"""Run folders made to harm: each is refused in one line, nothing outside the folder is read, written or run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from runs.short import CPU, ended, short
from safetensors.torch import load_file, save

from relcode.cli import main
from relcode.errors import OutputError, RunError
from relcode.experiment import resume, train
from relcode.explore.model import Model
from relcode.graph.dataset import Dataset
from relcode.runs import tables
from relcode.runs.run import default_folder, open_run

OLD = Path(__file__).parents[1] / "data" / "runs" / "v0.1.0" / "stopped"
CHECKPOINT = "checkpoints/000000000010.safetensors"
FILES = ["run.json", "settings.json", "entities.parquet", "relations.parquet", "facts.parquet", "best.safetensors", CHECKPOINT]
CODE = ["__import__('os').mkdir('boom')", "!!python/object/apply:os.mkdir [boom]", "$(mkdir boom)", "`mkdir boom`", "%s%n{0.__class__}"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "runs" / "run"))


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """A run that makes relcode wait for ever fails instead."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def too_long(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def read_all(folder: Path) -> None:
    run = open_run(folder)
    run.load_dataset()
    run.load_parameters()
    run.load_state(CPU)


def refused(folder: Path) -> str:
    """Return the one line that a run is refused with."""
    with pytest.raises(RunError) as caught:
        read_all(folder)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 1000 and str(folder) in message
    return message


def put_weights(folder: Path, content: bytes, name: str = "best.safetensors") -> None:
    """Put other weights into a run, with the checksum put right too: whoever writes one can write the other."""
    (folder / name).write_bytes(content)
    tree = json.loads((folder / "run.json").read_text())
    key = "best_sha256" if name.startswith("best") else "checkpoint_sha256"
    tree["status"][key] = hashlib.sha256(content).hexdigest()
    (folder / "run.json").write_text(json.dumps(tree))


def changed(folder: Path, name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / name)
    change(tensors)
    put_weights(folder, save(tensors, {"step": "10"}), name)


# -- weights


@pytest.mark.parametrize("claimed", [2**63, 2**64 - 1, 2**40, 10**8, 1_000_001])
def test_a_header_that_claims_more_than_there_is(folder: Path, claimed: int) -> None:
    content = (folder / "best.safetensors").read_bytes()
    put_weights(folder, claimed.to_bytes(8, "little") + content[8:])
    assert f"its header claims {claimed:,} bytes of a file of" in refused(folder)


def test_a_header_that_is_as_long_as_it_says_and_too_long(folder: Path) -> None:
    text = b"{" + b" " * 2_000_000 + b"}"
    put_weights(folder, len(text).to_bytes(8, "little") + text)
    assert "its header claims 2,000,002 bytes" in refused(folder)


@pytest.mark.parametrize(
    "entry",
    [
        '{"dtype":"F32","shape":[66,4],"data_offsets":[0,9223372036854775807]}',
        '{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4]}',
        '{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}',
        '{"dtype":"F32","shape":[],"data_offsets":[-1,3]}',
        '{"dtype":"OBJECT","shape":[],"data_offsets":[0,4]}',
    ],
)
def test_a_header_that_points_elsewhere(folder: Path, entry: str) -> None:
    text = f'{{"head_ED":{entry}}}'.encode()
    put_weights(folder, len(text).to_bytes(8, "little") + text + b"\0" * 4)
    assert "best.safetensors is damaged" in refused(folder)


@pytest.mark.parametrize("name", ["best.safetensors", CHECKPOINT])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("tensor", ["head_ED", "matrix_SDD", "encoder_CQ", "tail_count_E"])
def test_numbers_that_are_none(folder: Path, name: str, value: float, tensor: str) -> None:
    changed(folder, name, lambda tensors: tensors[tensor].view(-1)[-1:].fill_(value))
    assert f"{tensor} holds numbers that are not finite" in refused(folder)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
def test_numbers_of_another_type(folder: Path, kind: torch.dtype) -> None:
    changed(folder, "best.safetensors", lambda tensors: tensors.update(head_ED=tensors["head_ED"].to(kind)))
    assert "head_ED has type" in refused(folder)


@pytest.mark.parametrize("shape", [(66,), (66, 5), (65, 4), (4, 66), (66, 4, 1), (0, 4), ()])
def test_tensors_of_another_shape(folder: Path, shape: tuple[int, ...]) -> None:
    changed(folder, "best.safetensors", lambda tensors: tensors.update(head_ED=torch.zeros(shape)))
    assert "head_ED has shape" in refused(folder)


@pytest.mark.parametrize("state", [torch.zeros(5056, dtype=torch.uint8), torch.full((5056,), 255, dtype=torch.uint8), torch.zeros(3), torch.zeros(0)])
def test_a_random_stream_that_is_none(folder: Path, state: torch.Tensor) -> None:
    changed(folder, CHECKPOINT, lambda tensors: tensors.update(generator=state))
    assert "is not a checkpoint of this run" in refused(folder)


def test_a_checkpoint_of_another_step(folder: Path) -> None:
    tensors = load_file(folder / "checkpoints" / "000000000010.safetensors")
    put_weights(folder, save(tensors, {"step": "11"}), CHECKPOINT)
    assert "it is of step 11, run.json says 10" in refused(folder)


# -- JSON


@pytest.mark.parametrize("name", ["run.json", "settings.json"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ('{"format": 1, "format": 1}', "'format' is given twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "Infinity is no JSON number"),
        ("[1]", "must hold a JSON object"),
        (" " * (16 * 2**20 + 1), "at most 16,777,216 are expected"),
        ('{"a": ' + "9" * 10_000 + "}", "is damaged"),
        ("!!python/object/apply:os.mkdir [boom]", "is damaged"),
        ("__import__('os').mkdir('boom')", "is damaged"),
        ("\ufeff{}", "is damaged"),
    ],
)
def test_json_that_is_none(folder: Path, name: str, content: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / name).write_text(content, encoding="utf-8")
    assert said in refused(folder) and not (tmp_path / "boom").exists()


@pytest.mark.parametrize("text", CODE)
def test_settings_run_nothing(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A text where a number belongs is refused; in the one setting that is any text, it stays a text."""
    monkeypatch.chdir(tmp_path)
    tree = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**tree, "model": {**tree["model"], "dim": text}}))
    assert "model.dim cannot be" in refused(folder)
    (folder / "settings.json").write_text(json.dumps({**tree, "recipe": text}))
    model = Model.open(folder, "cpu")
    assert model.settings.recipe == text and str(default_folder(model.dataset, model.settings)).startswith("runs/family-")
    assert main(["card", str(folder), "--device", "cpu"]) == 0
    assert not (tmp_path / "boom").exists()


def test_numbers_beyond_all_measure_in_settings(folder: Path) -> None:
    tree = json.loads((folder / "settings.json").read_text())
    tree["updates"]["vector_rate"] = 10**400
    (folder / "settings.json").write_text(json.dumps(tree))
    assert "settings.json is damaged" in refused(folder)


# -- names and facts


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "..\\..\\x", "a/../../b", "\0", "con", "x" * 10_000_000])
def test_a_name_that_looks_like_a_path_is_only_a_name(folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = open_run(folder)
    data = run.load_dataset()
    from dataclasses import replace

    from relcode.graph.vocab import Vocab

    entities = Vocab([name, *data.entities.names[1:]])
    relations = Vocab([name[:1000], *data.relations.names[1:]], "relation")
    odd = replace(data, entities=entities, relations=relations, name=name)
    made = ended(train(odd, short(training__epochs=1), default_folder(odd, short())))
    assert made.folder.resolve().parent == tmp_path / "runs" and len(made.folder.name) <= 110
    model = Model.open(made.folder, "cpu")
    assert model.dataset.entities[0] == name and model.dataset.name == name
    assert all(made.folder.resolve() in path.parents or folder in path.parents for path in tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("compression", ["gzip", "zstd", "snappy"])
def test_a_table_that_unpacks_to_more_than_it_should(folder: Path, monkeypatch: pytest.MonkeyPatch, compression: str) -> None:
    """Four kilobytes that stand for a hundred megabytes of one name."""
    monkeypatch.setattr(tables, "ALWAYS_FINE", 2**20)
    monkeypatch.setattr(tables, "MOST_GROWTH", 20)
    bomb = pa.table({"name": pa.array(["x" * 2_000_000 + str(number % 2) for number in range(66)]), "label": pa.array([None] * 66, pa.string())})
    pq.write_table(bomb, folder / "entities.parquet", compression=compression)
    assert (folder / "entities.parquet").stat().st_size < 2_000_000
    assert "grows beyond all measure" in refused(folder)


def test_rows_without_end(folder: Path) -> None:
    """Parquet writes a column of one value as its length: here ten million rows in some kilobytes."""
    rows = 10_000_000
    zeros = np.zeros(rows, dtype=np.int32)
    pq.write_table(pa.table({"split": zeros.astype(np.int8), "head": zeros, "relation": zeros, "tail": zeros}), folder / "facts.parquet")
    assert (folder / "facts.parquet").stat().st_size < 1_000_000
    assert "it has 10,000,000 rows, run.json says 448" in refused(folder)


# -- files that are no files, and places outside


@pytest.mark.parametrize("name", FILES)
def test_links_are_not_followed(folder: Path, name: str, tmp_path: Path) -> None:
    shutil.move(folder / name, tmp_path / "outside")
    (folder / name).symlink_to(tmp_path / "outside")
    assert "is a link: the files of a run must lie in its folder" in refused(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_plain_file_is_refused_at_once(folder: Path, name: str, kind: str) -> None:
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "folder":
        (folder / name).mkdir()
    else:
        (folder / name).symlink_to("/dev/zero")
    assert "is no plain file" in (message := refused(folder)) or "is a link" in message


def test_a_run_folder_may_itself_be_reached_by_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(folder)
    read_all(tmp_path / "latest")
    ended(resume(tmp_path / "latest"))


def test_checkpoints_elsewhere_are_not_removed(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "checkpoints", tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "000000000001.safetensors").write_text("somebody's")
    (folder / "checkpoints").symlink_to(tmp_path / "elsewhere")
    assert "the checkpoints of a run must lie in its folder" in refused(folder)
    assert (tmp_path / "elsewhere" / "000000000001.safetensors").read_text() == "somebody's"


def test_the_log_is_not_written_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("mine\n")
    (folder / "log.jsonl").unlink()
    (folder / "log.jsonl").symlink_to(tmp_path / "diary")
    with pytest.raises(RunError, match=r"log\.jsonl is a link"):
        list(resume(folder))
    with pytest.raises(OutputError, match=r"log\.jsonl: it is a link"):
        open_run(folder).log({"step": 1})
    assert (tmp_path / "diary").read_text() == "mine\n"


def test_drafts_that_are_links_are_replaced_and_not_written_through(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("mine\n")
    for place in (folder, folder / "checkpoints"):
        (place / ".x.1.part").symlink_to(tmp_path / "diary")
    ended(resume(folder))
    assert (tmp_path / "diary").read_text() == "mine\n" and not list(folder.rglob("*.part"))


def test_a_log_without_end_is_read_a_line_at_a_time(folder: Path) -> None:
    with (folder / "log.jsonl").open("ab") as handle:
        handle.write(b"x" * 5_000_000)
        handle.write(b'\n{"step": 1}\n' + b"[" * 100_000 + b"\n\xff\xfe\n")
    ended(resume(folder))
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert '{"step": 1}' in lines and all(isinstance(json.loads(line), dict) for line in lines)


def test_all_that_a_run_writes_lies_in_its_folder(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "home"))
    ended(train(family, short("joint+comp"), tmp_path / "run"))
    Model.open(tmp_path / "run", "cpu").evaluate("test")
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and tmp_path / "run" not in path.parents]
    assert outside == []
