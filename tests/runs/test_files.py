from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from pathlib import Path

import pytest
import torch

from relcode.errors import OutputError, RunError
from relcode.runs import files
from relcode.runs.files import file_digest, finish_flushing, read_json, read_tensors, write_atomically, write_tensors, write_text

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3.5, dtype=torch.float64), "c": torch.tensor([1, 2], dtype=torch.uint8)}


@pytest.mark.parametrize("text", ["", "one\ntwo\n", "carriage\r\nreturn", "👩‍🚀 שלום مرحبا", "\x00"])
def test_text_comes_back_byte_for_byte(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "file", text)
    assert (tmp_path / "file").read_bytes() == text.encode()


def test_tensors_come_back_with_types_shapes_and_metadata(tmp_path: Path) -> None:
    not_contiguous = torch.arange(6.0).view(2, 3).T
    digest = write_tensors(tmp_path / "x.safetensors", {**TENSORS, "t": not_contiguous, "none": torch.zeros(0, 4)}, {"step": "12"})
    found, metadata = read_tensors(tmp_path / "x.safetensors")
    assert metadata == {"step": "12"} and set(found) == {"a", "b", "c", "t", "none"}
    for name, value in {**TENSORS, "t": not_contiguous, "none": torch.zeros(0, 4)}.items():
        assert found[name].dtype == value.dtype and torch.equal(found[name], value)
    assert digest == hashlib.sha256((tmp_path / "x.safetensors").read_bytes()).hexdigest() == file_digest(tmp_path / "x.safetensors")


def test_equal_tensors_make_equal_files(tmp_path: Path) -> None:
    reordered = dict(reversed(list(TENSORS.items())))
    assert write_tensors(tmp_path / "x", TENSORS, {}) == write_tensors(tmp_path / "y", reordered, {})
    assert write_tensors(tmp_path / "z", {**TENSORS, "b": TENSORS["b"] + 1}, {}) != file_digest(tmp_path / "x")


def test_tensors_lie_in_memory_as_new_ones_do(tmp_path: Path) -> None:
    """Sums over numbers aligned otherwise are rounded otherwise, and a resumed training would differ from one never stopped."""
    odd = {f"{number}": torch.rand(number, dtype=torch.float64) for number in range(1, 12)} | {"bytes": torch.zeros(3, dtype=torch.uint8)}
    write_tensors(tmp_path / "x", odd, {})
    found, _ = read_tensors(tmp_path / "x")
    assert all(value.data_ptr() % 64 == 0 for value in found.values())
    (tmp_path / "x").write_bytes(b"")
    assert all(torch.equal(found[name], value) for name, value in odd.items())


def full_disk(draft: Path) -> None:
    draft.write_text("ha")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted(draft: Path) -> None:
    draft.write_text("ha")
    raise KeyboardInterrupt


@pytest.mark.parametrize(("write", "error"), [(full_disk, OutputError), (interrupted, KeyboardInterrupt)])
def test_a_writer_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, write, error: type[BaseException]) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(error):
        write_atomically(tmp_path / "file", write)
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "old"


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        write_atomically(tmp_path / "file", full_disk)
    assert "\n" not in str(caught.value) and str(tmp_path / "file") in str(caught.value) and os.strerror(errno.ENOSPC) in str(caught.value)
    assert caught.value.exit_code == 2 and "free space there, or choose another place" in str(caught.value)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_disk_that_fails_late_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write_text(tmp_path / "file", "old")
    monkeypatch.setattr(files.os, function, fail)
    with pytest.raises(OutputError, match=os.strerror(errno.EIO)):
        write_text(tmp_path / "file", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "old"


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    def write(draft: Path) -> None:
        draft.write_text("new, half")
        assert (tmp_path / "file").read_text() == "old" and draft.parent == tmp_path
        draft.write_text("new, whole")

    write_text(tmp_path / "file", "old")
    write_atomically(tmp_path / "file", write)
    assert (tmp_path / "file").read_text() == "new, whole" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("metadata", [{}, {"status": '{"step": 1, "é": "\u2028\\""}'}], ids=["plain", "told"])
def test_the_bytes_are_those_of_safetensors_own_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str]) -> None:
    from safetensors.torch import save

    monkeypatch.setattr(files, "PIECE", 7)
    generator = torch.Generator().manual_seed(0)
    tensors = {f"{dtype}".rpartition(".")[2]: (10 * torch.rand(3, 5, generator=generator)).to(dtype) for dtype in files.TYPES}
    tensors |= {"b": torch.tensor(1.5), "a": torch.zeros(0, 4), "é": torch.arange(6.0).reshape(2, 3).T.contiguous()}
    digest = write_tensors(tmp_path / "x", tensors, metadata)
    assert (tmp_path / "x").read_bytes() == save(tensors, metadata or None)
    assert digest == file_digest(tmp_path / "x")


def test_a_file_may_be_flushed_meanwhile_and_is_in_place_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def listen(handle: int) -> None:
        flushed.append(threading.current_thread().name)
        fsync(handle)

    monkeypatch.setattr(files.os, "fsync", listen)
    for number in range(3):
        write_tensors(tmp_path / f"{number}", TENSORS, {}, wait=False)
        assert (tmp_path / f"{number}").exists()
    finish_flushing()
    finish_flushing()
    assert len(flushed) >= 3 and set(flushed) == {"relcode-flush"}
    write_tensors(tmp_path / "x", TENSORS, {}, wait=False)
    (tmp_path / "x").unlink()  # gone before it is flushed, or after
    finish_flushing()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_text(tmp_path / "missing" / "file", "text")
    with pytest.raises(OutputError, match="cannot write"):
        write_tensors(tmp_path / "missing" / "file", TENSORS, {})


def damaged(content: bytes) -> list[bytes]:
    return [
        b"",
        content[:4],
        content[: len(content) // 2],
        content[:-1],
        b"\xff" * len(content),
        b"\xff" * 7 + b"\x7f" + content[8:],
        b"PK\x03\x04" + content,
    ]


def test_damaged_tensors_are_refused_with_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {})
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(RunError) as caught:
            read_tensors(path)
        assert f"{path} is damaged" in str(caught.value) and "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(RunError, match=r"x\.safetensors is missing"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'"text"', b"null"])
def test_damaged_json_is_refused_with_the_files_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(RunError, match=r"x\.json is damaged"):
        read_json(tmp_path / "x.json")


def test_json_is_read_and_a_missing_one_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"a": "é"}), encoding="utf-8")
    assert read_json(tmp_path / "x.json") == {"a": "é"}
    with pytest.raises(RunError, match=r"y\.json is missing"):
        read_json(tmp_path / "y.json")


def test_a_disk_that_refuses_the_cleaning_up_too_is_still_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OutputError, match=r"cannot write .*run\.json: Read-only file system"):
        write_atomically(tmp_path / "run.json", refuse)
