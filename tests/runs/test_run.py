from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from runs.short import CPU, ended, logged, short

import relcode.runs.run
from relcode.config import options, settings_from_json
from relcode.errors import OutputError, RelcodeError, RunError
from relcode.experiment import train
from relcode.graph.dataset import Dataset
from relcode.graph.vocab import Vocab
from relcode.runs.files import file_digest, write_tensors
from relcode.runs.run import Run, create_run, default_folder, open_run
from relcode.training.advance import initial_state
from relcode.training.state import TrainState

ODD_NAMES = (
    "",
    " ",
    "a\tb",
    "a\nb",
    "a\r\nb",
    "\x00",
    "👩‍🚀🇫🇷",
    "שלום",
    "مرحبا بالعالم",
    "‮right-to-left",
    "é",
    "e\u0301",
    "ÿ" * 5000,
    "a/b",
    "^r",
    "<x>",
    '"',
    "\u2028",
)


@pytest.fixture(scope="module")
def finished(family: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    ended(train(family, short(), folder))
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of a finished run, to be damaged."""
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def fresh(family: Dataset, tmp_path: Path) -> tuple[Run, TrainState]:
    """Return a run that was just made, with its state."""
    state = initial_state(family, short(), CPU)
    return create_run(tmp_path / "fresh", family, short(), CPU, state), state


def change_json(path: Path, *keys: str, to: object) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    inner = tree
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to
    path.write_text(json.dumps(tree), encoding="utf-8")


def read_all(folder: Path) -> None:
    run = open_run(folder)
    run.load_dataset()
    run.load_parameters()
    run.load_state(CPU)


# -- what is in a run folder


def test_a_run_folder_holds_what_the_documents_say(finished: Path) -> None:
    names = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file() and path.parent == finished}
    assert names == {"run.json", "settings.json", "entities.parquet", "relations.parquet", "facts.parquet", "best.safetensors", "log.jsonl"}
    assert 1 <= len(list((finished / "checkpoints").iterdir())) <= 2


def test_settings_are_complete_and_can_be_read_again(finished: Path) -> None:
    text = (finished / "settings.json").read_text(encoding="utf-8")
    tree = json.loads(text)
    for key in options():
        section, _, name = key.partition(".")
        assert (name in tree[section]) if name else (section in tree)
    assert tree["sampling"]["edges"] is not None and tree["coder"]["every"] is not None, "what is chosen from the data must be saved"
    assert settings_from_json(text) == open_run(finished).settings and settings_from_json(text).to_json() == text


def test_run_json_names_version_data_environment_and_checkpoint(finished: Path, family: Dataset) -> None:
    tree = json.loads((finished / "run.json").read_text(encoding="utf-8"))
    assert tree["format"] == 1 and tree["status"]["state"] == "complete" and tree["status"]["reason"] == "all 6 epochs done"
    counts = {"entities": family.num_entities, "relations": family.num_relations, "train": len(family.train), "valid": 12, "test": 12}
    assert tree["data"] == {"name": "family", "source": "memory", "fingerprint": family.fingerprint, **counts}
    assert tree["environment"]["torch"] == torch.__version__ and "command" in tree["environment"]
    assert tree["status"]["checkpoint_sha256"] == file_digest(finished / "checkpoints" / tree["status"]["checkpoint"])
    assert tree["status"]["best_sha256"] == file_digest(finished / "best.safetensors")


def test_the_data_come_back(finished: Path, family: Dataset) -> None:
    data = open_run(finished).load_dataset()
    assert data.entities == family.entities and data.relations == family.relations and data.relations.kind == "relation"
    assert all(torch.equal(data.split(split), family.split(split)) and data.split(split).dtype == torch.int64 for split in ("train", "valid", "test"))
    assert (data.name, data.source, data.fingerprint) == (family.name, family.source, family.fingerprint)


def test_odd_names_and_labels_come_back(tmp_path: Path) -> None:
    facts_N3 = torch.tensor([[i, i % 2, (i + 1) % len(ODD_NAMES)] for i in range(len(ODD_NAMES))])
    labels = {name: ODD_NAMES[-1 - number] for number, name in enumerate(ODD_NAMES) if number % 3}
    empty = torch.empty((0, 3), dtype=torch.int64)
    relations = Vocab(["a\tb\nc", "‮קשר👩‍🚀"], "relation")
    data = Dataset("odd\n\tשם", Vocab(ODD_NAMES), relations, facts_N3, empty, facts_N3[:0], labels=labels, source="a\\b\n")
    create_run(tmp_path / "run", data, short(), CPU, initial_state(data, short(), CPU))
    back = open_run(tmp_path / "run").load_dataset()
    assert back.entities.names == ODD_NAMES and back.relations == relations and dict(back.labels) == labels
    assert (back.name, back.source) == (data.name, data.source) and torch.equal(back.train, facts_N3) and back.valid.shape == (0, 3)


def test_a_moved_run_needs_nothing_else(folder: Path, family: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELCODE_DATA", raising=False)
    shutil.move(folder, folder.parent / "elsewhere")
    read_all(folder.parent / "elsewhere")


def test_every_file_is_json_parquet_or_safetensors_and_nothing_is_pickled(finished: Path) -> None:
    for path in (path for path in finished.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".safetensors":  # the length of a JSON header, the header, numbers
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            assert all(set(entry) == {"dtype", "shape", "data_offsets"} for name, entry in header.items() if name != "__metadata__")
        elif path.suffix == ".parquet":
            assert content[:4] == content[-4:] == b"PAR1"
        else:
            assert path.suffix in (".json", ".jsonl")
            [json.loads(text) for text in ([content] if path.suffix == ".json" else content.splitlines())]


def test_a_pickle_is_never_opened(folder: Path) -> None:
    """A file that would run a command when unpickled, with the right checksum, is refused."""

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(folder / "boom"),)

    torch.save({"head_ED": Bomb()}, folder / "best.safetensors")
    change_json(folder / "run.json", "status", "best_sha256", to=file_digest(folder / "best.safetensors"))
    with pytest.raises(RunError, match=r"best\.safetensors is damaged"):
        open_run(folder).load_parameters()
    assert not (folder / "boom").exists()


# -- states, checkpoints, logs


def test_a_new_run_is_running_and_can_be_read_at_once(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    opened = open_run(run.folder)
    assert opened.status == run.status and opened.status.state == "running" and opened.settings == run.settings
    back = opened.load_state(CPU)
    assert back.step == 0 and torch.equal(back.generator.get_state(), state.generator.get_state())
    assert all(torch.equal(value, back.parameters.tensors()[name]) for name, value in state.parameters.tensors().items())
    assert all(torch.equal(value, opened.load_parameters().tensors()[name]) for name, value in state.parameters.tensors().items())


def test_the_random_stream_comes_back_where_it_was(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    torch.rand(7, generator=state.generator)
    run = run.save(replace(state, step=3))
    ahead = torch.rand(9, generator=state.generator)
    assert torch.equal(torch.rand(9, generator=run.load_state(CPU).generator), ahead)


def test_the_status_is_on_disk_when_it_is_said(fresh: tuple[Run, TrainState]) -> None:
    run = fresh[0].with_status(state="stopped", reason="שלום\n")
    assert open_run(run.folder).status == run.status and run.status.reason == "שלום\n"


def test_two_checkpoints_are_kept_the_one_in_force_and_the_one_before(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    names = []
    for step in (1, 2, 10, 100, 1000):
        run = run.save(replace(state, step=step))
        names.append(run.status.checkpoint)
        assert sorted(path.name for path in (run.folder / "checkpoints").iterdir()) == sorted(
            [names[-2] if len(names) > 1 else "000000000000.safetensors", names[-1]]
        )


def test_checkpoints_of_later_steps_that_a_killed_process_left_do_not_push_out_the_one_in_force(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    for later in (8, 9):
        shutil.copy(run.folder / "checkpoints" / run.status.checkpoint, run.folder / "checkpoints" / f"{later:012d}.safetensors")
    run = run.save(replace(state, step=5))
    assert sorted(path.name for path in (run.folder / "checkpoints").iterdir()) == ["000000000000.safetensors", "000000000005.safetensors"]
    assert open_run(run.folder).load_state(CPU).step == 5


def test_a_full_disk_keeps_the_checkpoint_in_force(fresh: tuple[Run, TrainState], monkeypatch: pytest.MonkeyPatch) -> None:
    run, state = fresh

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("relcode.runs.files.save_file", full)
        with pytest.raises(OutputError, match=r"cannot write .*000000000007\.safetensors"):
            run.save(replace(state, step=7))
    assert open_run(run.folder).load_state(CPU).step == 0 and not list(run.folder.rglob("*.part"))


def test_the_log_is_a_json_object_a_line(fresh: tuple[Run, TrainState]) -> None:
    run = fresh[0]
    run.log({"event": "x", "step": 1, "text": "שלום\n\u2028"})
    run.log({"event": "y", "step": 2})
    assert logged(run.folder) == [{"event": "x", "step": 1, "text": "שלום\n\u2028"}, {"event": "y", "step": 2}]


def test_what_a_killed_process_left_after_its_checkpoint_is_forgotten(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    run = run.save(replace(state, step=4))
    for step in (2, 4, 6):
        run.log({"event": "x", "step": step})
    with (run.folder / "log.jsonl").open("a") as handle:
        handle.write('{"event": "x", "st')
    (run.folder / ".run.json.123.part").write_text("half")
    (run.folder / "checkpoints" / ".000000000009.safetensors.123.part").write_text("half")
    run.with_best(state.parameters, {"step": 6, "mrr": 0.5})  # never saved
    run.forget_later()
    assert [line["step"] for line in logged(run.folder)] == [2, 4]
    assert not list(run.folder.rglob("*.part")) and not list(run.folder.glob("best*"))


def test_new_best_parameters_count_from_the_next_save_on(fresh: tuple[Run, TrainState]) -> None:
    run, state = fresh
    run = run.with_best(state.parameters, {"step": 3, "mrr": 0.25}).save(replace(state, step=3))
    first = {name: value.clone() for name, value in run.load_parameters().tensors().items()}
    state.parameters.head_ED.add_(1)
    ahead = run.with_best(state.parameters, {"step": 6, "mrr": 0.5})
    before = open_run(run.folder)
    assert before.status.best == {"step": 3, "mrr": 0.25} and torch.equal(before.load_parameters().head_ED, first["head_ED"])
    ahead.save(replace(state, step=6))
    after = open_run(run.folder)
    assert after.status.best == {"step": 6, "mrr": 0.5} and torch.equal(after.load_parameters().head_ED, first["head_ED"] + 1)
    assert [path.name for path in run.folder.glob("best*")] == ["best.safetensors"]


def test_best_parameters_that_still_wait_for_their_place_are_found(fresh: tuple[Run, TrainState], monkeypatch: pytest.MonkeyPatch) -> None:
    run, state = fresh
    with monkeypatch.context() as patched:
        patched.setattr(Run, "settle_best", lambda self: None)  # killed right after run.json was written
        run = run.with_best(state.parameters, {"step": 3, "mrr": 0.25}).save(replace(state, step=3))
    assert [path.name for path in run.folder.glob("best*")] == ["best.next.safetensors"]
    assert torch.equal(open_run(run.folder).load_parameters().head_ED, state.parameters.head_ED)
    run.forget_later()
    assert [path.name for path in run.folder.glob("best*")] == ["best.safetensors"]
    assert torch.equal(open_run(run.folder).load_parameters().head_ED, state.parameters.head_ED)


# -- damage


@pytest.mark.parametrize("kind", ["checkpoint", "best"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "longer", "empty", "missing"])
def test_damaged_weights_are_refused_with_the_files_name(folder: Path, kind: str, damage: str) -> None:
    path = folder / "best.safetensors" if kind == "best" else folder / "checkpoints" / open_run(folder).status.checkpoint
    content = path.read_bytes()
    flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]  # one bit of one weight: only the checksum can tell
    path.write_bytes({"flipped": flipped, "truncated": content[:-1], "longer": content + b"\0", "empty": b"", "missing": b""}[damage])
    if damage == "missing":
        path.unlink()
    run = open_run(folder)
    with pytest.raises(RunError, match=re.escape(f"{path} is {'missing' if damage == 'missing' else 'damaged'}")):
        run.load_parameters() if kind == "best" else run.load_state(CPU)
    (run.load_state(CPU) if kind == "best" else run.load_parameters())  # the other one is whole


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_format_is_refused(folder: Path, version: object) -> None:
    change_json(folder / "run.json", "format", to=version)
    with pytest.raises(RunError, match=r"has run format .*, this relcode reads 1: use the relcode version that made it"):
        open_run(folder)


@pytest.mark.parametrize(
    "name", ["../best.safetensors", "/etc/passwd", "..", ".", "a/b.safetensors", "a\\b", "run.json", "x.safetensors", 5, None, ["1"]]
)
def test_a_checkpoints_name_leads_nowhere_else(folder: Path, name: object) -> None:
    change_json(folder / "run.json", "status", "checkpoint", to=name)
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        open_run(folder)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("status",), None),
        (("status", "state"), "asleep"),
        (("status", "state"), None),
        (("status", "step"), "many"),
        (("status", "seconds"), None),
        (("status", "unknown"), 1),
        (("status", "best"), "good"),
        (("status", "best"), {"mrr": "high"}),
        (("status", "best_mr"), "low"),
        (("data",), None),
        (("data",), 5),
        (("data",), {}),
        (("data", "entities"), -1),
        (("data", "train"), True),
        (("data", "test"), 1e3),
        (("status", "step"), -1),
        (("status", "step"), 10**400),
        (("status", "step"), 1.5),
        (("status", "stale_validations"), True),
        (("status", "best_mr"), 10**400),
        (("status", "reason"), 5),
        (("status", "previous"), "../1.safetensors"),
        (("status", "best"), {}),
        (("status", "best_sha256"), None),
        (("environment",), "here"),
    ],
)
def test_nonsense_in_run_json_is_refused(folder: Path, keys: tuple[str, ...], value: object) -> None:
    change_json(folder / "run.json", *keys, to=value)
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        open_run(folder)


@pytest.mark.parametrize(
    ("section", "name", "value", "said"),
    [
        ("model", "dimm", 3, "unknown setting 'model.dimm': did you mean 'model.dim'"),
        ("model", "dim", "large", "model.dim cannot be 'large': it must be a whole number"),
        ("model", "dim", -1, "dim cannot be -1"),
        ("model", "dim", True, "dim cannot be True"),
        ("model", "normalise", 1.5, "normalise cannot be 1.5"),
        ("updates", "vector_rate", None, "vector_rate cannot be None"),
        ("training", "device", "tpu", "device cannot be 'tpu': it must be one of auto, cpu, cuda"),
        ("training", "seed", [1], r"seed cannot be \[1\]"),
    ],
)
def test_settings_that_are_no_settings_are_refused(folder: Path, section: str, name: str, value: object, said: str) -> None:
    change_json(folder / "settings.json", section, name, to=value)
    with pytest.raises(RunError, match=rf"settings\.json is damaged: .*{said}"):
        open_run(folder)


@pytest.mark.parametrize(
    ("name", "value", "tensor"),
    [("dim", 9, "head_ED"), ("code_dim", 3, "encoder_CQ"), ("autoencoder", False, "encoder_CQ")],
)
def test_weights_of_another_shape_are_refused(folder: Path, name: str, value: object, tensor: str) -> None:
    change_json(folder / "settings.json", "model", name, to=value)
    for load in (open_run(folder).load_parameters, lambda: open_run(folder).load_state(CPU)):
        with pytest.raises(
            RunError, match=r"\.safetensors (does not hold the weights|is not a checkpoint) of this run \(.* has shape .*, the run says"
        ):
            load()


@pytest.mark.parametrize("change", ["entities", "relations", "a tensor too many", "a tensor too few"])
def test_weights_of_another_run_are_refused(folder: Path, change: str) -> None:
    tensors = open_run(folder).load_parameters().tensors()
    if change in ("entities", "relations"):
        change_json(folder / "run.json", "data", change, to=3)
    else:
        tensors = {**tensors, "more": torch.zeros(1)} if change == "a tensor too many" else {name: tensors[name] for name in list(tensors)[:-1]}
        change_json(folder / "run.json", "status", "best_sha256", to=write_tensors(folder / "best.safetensors", tensors, {}))
    with pytest.raises(RunError, match="does not hold the weights of this run"):
        open_run(folder).load_parameters()


def test_best_weights_are_no_checkpoint(folder: Path) -> None:
    checkpoint = folder / "checkpoints" / open_run(folder).status.checkpoint
    shutil.copy(folder / "best.safetensors", checkpoint)
    change_json(folder / "run.json", "status", "checkpoint_sha256", to=file_digest(checkpoint))
    with pytest.raises(RunError, match=f"{checkpoint.name} is not a checkpoint of this run"):
        open_run(folder).load_state(CPU)


def test_a_run_without_a_checkpoint_says_so(folder: Path) -> None:
    change_json(folder / "run.json", "status", "checkpoint", to="")
    with pytest.raises(RunError, match="has no checkpoint yet"):
        open_run(folder).load_state(CPU)


def rows_of(folder: Path, name: str) -> int:
    return pq.ParquetFile(folder / f"{name}.parquet").metadata.num_rows


def facts_table(split: object = 0, head: object = 0, relation: object = 0, tail: object = 0) -> pa.Table:
    """Return a table of one fact, of the right types where the values have them."""
    kinds = {"split": pa.int8(), "head": pa.int32(), "relation": pa.int32(), "tail": pa.int32()}
    values = {"split": split, "head": head, "relation": relation, "tail": tail}
    return pa.table({name: pa.array([value], None if isinstance(value, str) else kinds[name]) for name, value in values.items()})


def names_table(*names: object) -> pa.Table:
    return pa.table({"name": pa.array(names), "label": pa.array([None] * len(names), pa.string())})


@pytest.mark.parametrize(
    ("name", "table", "said"),
    [
        ("facts", facts_table(head=66), "names entities or relations that are not in the run"),
        ("facts", facts_table(relation=-1), "names entities or relations that are not in the run"),
        ("facts", facts_table(), "fingerprint"),
        ("facts", facts_table(split=3), "fingerprint"),
        ("facts", facts_table(head="a"), "its columns must be"),
        ("facts", facts_table(split=None), "its columns must be"),
        ("facts", facts_table(tail=None), "its columns must be"),
        ("facts", facts_table().slice(1), "it has 0 rows, run.json says"),
        ("facts", facts_table().drop_columns("tail"), "is damaged"),
        ("entities", names_table("a"), "'a' is listed 66 times"),
        ("entities", names_table("a", "b"), "it has 132 rows, run.json says 66"),
        ("entities", names_table(None), "its columns must be"),
        ("entities", names_table(1), "its columns must be"),
        ("relations", names_table("a", "b", "c", "d", "e", "f"), "fingerprint"),
    ],
)
def test_tables_that_no_run_writes_are_refused(folder: Path, name: str, table: pa.Table, said: str) -> None:
    rows = 1 if len(table) != 1 and name == "relations" else rows_of(folder, name)
    pq.write_table(pa.concat_tables([table] * rows), folder / f"{name}.parquet")
    with pytest.raises(RunError, match=said):
        open_run(folder).load_dataset()


def test_names_that_are_not_utf8_are_refused(folder: Path) -> None:
    names = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pq.write_table(pa.concat_tables([pa.table({"name": names, "label": pa.array([None], pa.string())})] * 66), folder / "entities.parquet")
    with pytest.raises(RunError, match=r"entities\.parquet is damaged"):
        open_run(folder).load_dataset()


def test_any_damage_is_refused_in_one_line_or_harmless(folder: Path, family: Dataset) -> None:
    """Flip a bit, cut off the end or take out some bytes, anywhere: a run error, or all that is read is what was written."""
    rng = random.Random(0)
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in (".parquet", ".safetensors", ".json")]
    expected = open_run(folder).load_parameters().tensors()
    for path in paths * 12:
        content = path.read_bytes()
        place = rng.randrange(len(content))
        cut = {
            "flip": bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :],
            "cut": b"",
            "drop": content[place + rng.randrange(1, 9) :],
        }
        path.write_bytes(content[:place] + cut[rng.choice(sorted(cut))])
        try:
            run = open_run(folder)
            data, weights, _ = run.load_dataset(), run.load_parameters().tensors(), run.load_state(CPU)
        except RelcodeError as error:
            assert isinstance(error, RunError) and "\n" not in str(error) and str(folder) in str(error)
        else:
            assert data.fingerprint == family.fingerprint and all(torch.equal(value, weights[name]) for name, value in expected.items())
        path.write_bytes(content)
    read_all(folder)


# -- making and opening


@pytest.mark.parametrize("content", [None, "run.json", "notes.txt"])
def test_an_existing_folder_is_never_written_over(family: Dataset, tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    if content:
        (folder / content).write_text("mine")
    with pytest.raises(OutputError, match=r"exists already: .*another folder with --out") as caught:
        create_run(folder, family, short(), CPU, initial_state(family, short(), CPU))
    assert ("it holds a damaged run" in str(caught.value)) == (content == "run.json")
    assert [path.read_text() for path in folder.iterdir()] == ["mine"] * bool(content)


def test_a_file_in_the_way_is_not_touched(family: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(OutputError):
            create_run(place, family, short(), CPU, initial_state(family, short(), CPU))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("writer", ["write_text", "write_tensors", "write_vocab", "write_facts"])
@pytest.mark.parametrize("error", [OutputError("full"), KeyboardInterrupt()])
def test_a_folder_that_cannot_be_filled_does_not_stay(
    family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(relcode.runs.run, writer, fail)
    with pytest.raises(type(error)):
        create_run(tmp_path / "run", family, short(), CPU, initial_state(family, short(), CPU))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no run folder .*nowhere: relcode train makes one"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"run\.json is missing: .* is not a run folder"):
        open_run(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="there is no run folder"):
        open_run(str(tmp_path / "file"))


def test_the_default_folder_is_a_new_one(family: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for expected in ("family-joint-comp", "family-joint-comp-2", "family-joint-comp-3"):
        folder = default_folder(family, short("joint+comp"))
        assert folder == Path("runs") / expected
        folder.mkdir(parents=True)


def test_a_random_stream_of_another_kind_of_device_is_begun_anew() -> None:
    """A CUDA generator's state is 16 bytes: a run trained there must open here, and go on with a stream that seed and step decide."""
    from relcode.runs.run import generator_of

    cpu = torch.device("cpu")
    made = torch.Generator().manual_seed(5)
    made.manual_seed(7)
    assert torch.equal(generator_of(made.get_state(), cpu, 0, 3).get_state(), made.get_state())
    foreign = torch.zeros(16, dtype=torch.uint8)
    first, again, later = (generator_of(foreign, cpu, 0, step).get_state() for step in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, later)
