"""Bad input gets one clear line and exit code 2, and nothing half-written is left."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
import torch
from family import family_facts

GOOD = "a\tr\tb\n"
SPLITS = ("train", "valid", "test")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a sound dataset, to be spoilt."""
    folder = tmp_path / "data"
    folder.mkdir()
    for split, facts in family_facts().items():
        (folder / f"{split}.txt").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    return folder


@pytest.fixture
def refused(relcode, tmp_path: Path):
    """Return a function that runs a command which must be refused with a line that holds every text given, and write nothing."""

    def check(arguments: tuple[object, ...], *texts: str) -> None:
        before = sorted(tmp_path.rglob("*"))
        result = relcode(*arguments)
        assert result.code == 2, result.err
        assert result.out == ""
        assert result.err.startswith("relcode: ") and result.err.count("\n") == 1 and "Traceback" not in result.err
        assert [text for text in texts if text not in result.err] == [], result.err
        assert sorted(tmp_path.rglob("*")) == before

    return check


def train(data: Path, *options: object) -> tuple[object, ...]:
    return ("train", data, "--out", data.parent / "run", "--epochs", 1, "--device", "cpu", *options)


def test_a_missing_folder(refused, tmp_path: Path) -> None:
    refused(train(tmp_path / "nothing"), "nothing", "no such folder or file")


def test_an_unknown_dataset(refused, tmp_path: Path) -> None:
    refused(("train", "wrold", "--out", tmp_path / "run"), "unknown dataset 'wrold': did you mean 'world'")


def test_a_missing_split(refused, data: Path) -> None:
    (data / "valid.txt").unlink()
    refused(train(data), "no file of facts for valid")


def test_an_empty_file(refused, data: Path) -> None:
    (data / "test.txt").write_text("")
    refused(train(data), "test.txt: empty")


@pytest.mark.parametrize(("line", "said"), [("a\tr", "2 fields"), ("a\tr\tb\tc\td", "5 fields"), ("a r b", "one field")])
def test_a_line_with_too_few_or_too_many_fields(refused, data: Path, line: str, said: str) -> None:
    (data / "train.txt").write_text(f"{GOOD}{line}\n{GOOD}")
    refused(train(data), "train.txt, line 2", said, "expected three")


def test_bytes_that_are_not_utf8(refused, data: Path) -> None:
    (data / "train.txt").write_bytes(GOOD.encode() * 3 + b"caf\xe9\tr\tb\n")
    refused(train(data), "train.txt, line 4", "not UTF-8")


def test_a_gzip_that_ends_early(refused, data: Path) -> None:
    text = (data / "train.txt").read_bytes()
    (data / "train.txt").unlink()
    (data / "train.txt.gz").write_bytes(gzip.compress(text)[:-20])
    refused(train(data), "train.txt.gz", "the gzip ends early")


def test_an_unknown_recipe(refused, data: Path) -> None:
    refused(train(data, "--recipe", "jointcomp"), "unknown recipe 'jointcomp'", "joint+comp")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (("--set", "model.dimension=3"), ("unknown setting 'model.dimension'", "'model.dim'")),
        (("--set", "colour=red"), ("unknown setting 'colour'",)),
        (("--set", "model.dim"), ("--set takes KEY=VALUE",)),
        (("--set", "model.normalise=maybe"), ("model.normalise cannot be 'maybe'", "true or false")),
        (("--set", "sampling.noise=loud"), ("sampling.noise cannot be 'loud'", "uniform, unigram")),
        (("--dim", 0), ("model.dim cannot be 0", "at least 1")),
        (("--dim", -5), ("model.dim cannot be -5", "at least 1")),
        (("--code-dim", 0), ("model.code_dim cannot be 0",)),
        (("--epochs", 0), ("training.epochs cannot be 0",)),
        (("--minutes", -1), ("training.minutes cannot be -1",)),
        (("--minutes", "nan"), ("training.minutes cannot be nan",)),
        (("--seed", -1), ("training.seed cannot be -1",)),
        (("--device", "gpu"), ("training.device cannot be 'gpu'", "auto, cpu, cuda")),
        (("--dim", 10**11), ("not enough memory for model.dim=100000000000",)),
    ],
)
def test_settings_that_cannot_be(refused, data: Path, options: tuple[object, ...], texts: tuple[str, ...]) -> None:
    refused(train(data, *options), *texts)


def test_cuda_where_there_is_none(refused, data: Path, family_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(train(data, "--device", "cuda"), "device cuda was asked for", "--device cpu or auto")
    refused(("evaluate", family_run, "--device", "cuda"), "device cuda was asked for")


def test_an_output_folder_that_exists(refused, data: Path) -> None:
    (data.parent / "run").mkdir()
    refused(train(data), "run exists already", "--out")


def test_an_output_folder_under_a_file(refused, data: Path) -> None:
    refused(("train", data, "--out", data / "train.txt" / "run", "--epochs", 1), "cannot make the folder", "--out")


def test_a_read_only_disk(refused, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:  # not even the folder can be made
        patch.setattr(Path, "mkdir", read_only)
        refused(train(data), "cannot make the folder", "Read-only file system", "--out")
    monkeypatch.setattr("os.replace", read_only)  # the folder can, files cannot
    refused(train(data), "cannot write", "Read-only file system")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (("--head", "Ada_9", "--relation", "parent"), ("unknown entity 'Ada_9'", "did you mean 'Ada_")),
        (("--head", "Ada_4", "--relation", "parents"), ("unknown relation 'parents': did you mean 'parent'",)),
        (("--head", "Ada_4", "--relation", "^parents"), ("unknown relation 'parents'",)),
        (("--head", "Ada_4", "--path", "parent//parent"), ("path 'parent//parent', column 8",)),
        (("--head", "Ada_4", "--path", "parent/<parent"), ("< without its >",)),
        (("--head", "Ada_4", "--path", ""), ("path ''",)),
        (("--head", "Ada_4", "--path", "parent*"), ("* is not understood",)),
        (("--head", "Ada_4"), ("given is only a head",)),
        ((), ("given is nothing",)),
        (("--head", "Ada_4", "--relation", "parent", "--top", 0), ("top cannot be 0",)),
        (("--queries", "nowhere.tsv"), ("nowhere.tsv: no such file",)),
    ],
)
def test_questions_that_cannot_be_answered(refused, family_run: Path, options: tuple[object, ...], texts: tuple[str, ...]) -> None:
    refused(("predict", family_run, *options), *texts)


def test_a_run_that_is_not_there(refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for command in ("evaluate", "resume", "codes"):
        refused((command, tmp_path / "nothing"), "there is no run folder")
        refused((command, tmp_path / "empty"), "is not a run folder")


@pytest.fixture
def copied(family_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(family_run, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_run_of_another_version(refused, copied: Path) -> None:
    tree = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(tree | {"format": 99}))
    refused(("evaluate", copied), "has run format 99", "use the relcode version that made it")


@pytest.mark.parametrize("name", ["best.safetensors", "entities.parquet", "facts.parquet", "run.json", "settings.json"])
def test_a_damaged_file_of_a_run(refused, copied: Path, name: str) -> None:
    content = bytearray((copied / name).read_bytes())
    (copied / name).write_bytes(content[: len(content) // 2])
    refused(("evaluate", copied), "damaged")
    content[len(content) // 2] ^= 0xFF
    if name == "best.safetensors":  # one byte among the weights: only the checksum can tell
        (copied / name).write_bytes(content)
        refused(("predict", copied, "--head", "Ada_4", "--relation", "parent"), "checksum")
    (copied / name).unlink()
    refused(("evaluate", copied), name)


def test_facts_to_score_that_cannot_be_read(refused, family_run: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("Ada_4\tparent\n")
    refused(("score", family_run, tmp_path / "facts.tsv"), "facts.tsv, line 1: 2 fields")
    refused(("score", family_run, tmp_path / "missing.tsv"), "missing.tsv: no such file")


@pytest.mark.parametrize("name", ["facts.json", "facts.jsonl", "facts.json.gz", "facts.csv", "facts.tsv", "facts.txt", "facts.foo"])
@pytest.mark.parametrize("text", ['{"head": "a", "relation": "r", "tail": "b"}\n', '[\n\t{"head": "a"}]\n', '["a", "r", "b"]\n'])
def test_json_is_not_taken_for_a_table(refused, family_run: Path, tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    refused(("import", path, "--out", tmp_path / "d", "--no-split"), f"{name}: JSON is not read", "CSV", "RDF")
    if name != "facts.csv" and name != "facts.foo":
        refused(("train", path, "--out", tmp_path / "d"), f"{name}: JSON is not read")
        refused(("score", family_run, path), f"{name}: JSON is not read")
