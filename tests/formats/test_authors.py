"""The authors' layout: by hand, against what their program computes from the files, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from relcode.errors import DataError, OutputError
from relcode.formats import authors
from relcode.formats.authors import AuthorsModel
from relcode.graph.vocab import Vocab


def small(**changes: object) -> AuthorsModel:
    """Return three entities, one relation, d = 2, c = 1, with numbers that tell rows and columns apart."""
    values: dict[str, object] = {
        "entities": Vocab(["a", "b c", "é"]),
        "relations": Vocab(["r"], "relation"),
        "head_ED": np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32),
        "tail_ED": np.array([[7, 8], [9, 10], [11, 12]], dtype=np.float32),
        "matrix_SDD": np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], dtype=np.float32),
        "head_count_E": np.array([10, 20, 30], dtype=np.uint64),
        "tail_count_E": np.array([40, 50, 60], dtype=np.uint64),
        "matrix_count_S": np.array([70, 80], dtype=np.uint64),
        "encoder_CQ": np.array([[1, 2, 3, 4]], dtype=np.float32),
        "decoder_CQ": np.array([[5, 6, 7, 8]], dtype=np.float32),
        "coder_count": 9,
    }
    return AuthorsModel(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authors.write(small(), tmp_path / "model")
    return tmp_path / "model"


def test_files_have_the_programs_names_types_and_order(folder: Path) -> None:
    found = {path.name: np.load(path, allow_pickle=False) for path in folder.glob("*.npy")}
    assert {name: (array.dtype.str, array.shape) for name, array in found.items()} == {
        "tvecs.npy": ("<f4", (3, 2)),
        "cvecs.npy": ("<f4", (3, 2)),
        "vsteps.npy": ("<u8", (6,)),
        "mats.npy": ("<f4", (2, 2, 2)),
        "msteps.npy": ("<u8", (2,)),
        "encoder.npy": ("<f4", (1, 2, 2)),
        "decoder.npy": ("<f4", (1, 2, 2)),
        "dstep.npy": ("<u8", ()),
    }
    assert found["tvecs.npy"][0].tolist() == [1, 2] and found["cvecs.npy"][0].tolist() == [7, 8]
    assert found["vsteps.npy"].tolist() == [40, 50, 60, 10, 20, 30], "tails first"
    assert found["mats.npy"][0].tolist() == [[1, 3], [2, 4]] and found["mats.npy"].flags.c_contiguous
    assert found["encoder.npy"][0].tolist() == [[1, 3], [2, 4]] and int(found["dstep.npy"]) == 9
    assert (folder / "vocab_entity.txt").read_text(encoding="utf-8") == "a\t1.0\nb c\t1.0\né\t1.0\n"
    told = json.loads((folder / "params.json").read_text())
    assert told["dim"] == 2 and told["codeLen"] == 1 and told["vEL"] == 2.0**-16 and told["disableAutoencoder"] == 0


def test_matrices_of_blocks_are_written_whole(tmp_path: Path) -> None:
    kept, rows = np.array([[[1], [-2]], [[3], [4]]], dtype=np.float32), np.array([[5, -6]], dtype=np.float32)
    authors.write(small(matrix_SDD=kept, encoder_CQ=rows, decoder_CQ=rows), tmp_path / "blocks")
    whole, whole_rows = np.array([[[1, 0], [0, -2]], [[3, 0], [0, 4]]], dtype=np.float32), np.array([[5, 0, 0, -6]], dtype=np.float32)
    authors.write(small(matrix_SDD=whole, encoder_CQ=whole_rows, decoder_CQ=whole_rows), tmp_path / "whole")
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "blocks" / path.name).read_bytes(), path.name
    np.save(tmp_path / "mats.npy", whole.transpose(0, 2, 1).copy(), allow_pickle=False)
    assert (tmp_path / "mats.npy").read_bytes() == (tmp_path / "blocks" / "mats.npy").read_bytes(), "as NumPy writes it"


def test_what_the_program_computes_from_the_files_is_u_m_v(folder: Path) -> None:
    """The released program: scores are cvecs/(1 + vEL·τ) · (mats[r] · t/‖t‖) with mats at norm √d; codes from encoder · mats[r], both flattened."""
    files = {path.stem: np.load(path, allow_pickle=False).astype(np.float64) for path in folder.glob("*.npy")}
    model, rate = small(), json.loads((folder / "params.json").read_text())["vEL"]
    for r in range(2):
        theirs_M = files["mats"][r] * np.sqrt(2 / (files["mats"][r] ** 2).sum())
        M = model.matrix_SDD[r] * np.sqrt(2 / (model.matrix_SDD[r] ** 2).sum())
        for h in range(3):
            for t in range(3):
                unit = files["tvecs"][h] / np.linalg.norm(files["tvecs"][h])
                theirs = (files["cvecs"][t] / (1 + rate * files["vsteps"][t])) @ (theirs_M @ unit)
                u = model.head_ED[h] / authors.decay(int(model.head_count_E[h]), model.vector_decay_rate)
                v = model.tail_ED[t] / authors.decay(int(model.tail_count_E[t]), model.vector_decay_rate)
                assert theirs * np.linalg.norm(u) == pytest.approx(u @ M @ v)
        assert files["encoder"].reshape(1, -1) @ theirs_M.reshape(-1) == pytest.approx(model.encoder_CQ @ M.reshape(-1))


def test_a_model_comes_back(folder: Path) -> None:
    back, model = authors.read(folder), small()
    for name in ("head_ED", "tail_ED", "matrix_SDD", "head_count_E", "tail_count_E", "matrix_count_S", "encoder_CQ", "decoder_CQ"):
        assert np.array_equal(getattr(back, name), getattr(model, name)), name
    assert back.entities == model.entities and back.relations == model.relations and back.coder_count == 9
    assert (back.vector_decay_rate, back.coder_decay_rate) == (model.vector_decay_rate, model.coder_decay_rate)


def test_a_model_without_an_autoencoder_and_without_parameters(folder: Path, tmp_path: Path) -> None:
    (folder / "dstep.npy").unlink()
    (folder / "params.json").unlink()
    back = authors.read(folder)
    assert back.encoder_CQ is None and back.vector_decay_rate == 2.0**-16
    authors.write(small(encoder_CQ=None, decoder_CQ=None), tmp_path / "base")
    assert not (tmp_path / "base" / "encoder.npy").exists() and authors.read(tmp_path / "base").encoder_CQ is None


def test_the_vocabulary_may_lie_elsewhere(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for path in list(folder.glob("vocab*")):
        shutil.move(path, tmp_path / "data")
    assert authors.read(folder, tmp_path / "data").entities == small().entities
    with pytest.raises(DataError, match=r"vocab_entity\.txt: cannot be read .*lies with the vocabulary of its data"):
        authors.read(folder)


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff{",
        header(f"({2**62}, 2)"),
        header("(3, 2)"),
        header("(3, 2)") + b"\0" * 23,
        header("(3, 2)") + b"\0" * 25,
        header("(-3, -2)") + b"\0" * 24,
        header("(3, 2)", "<f8") + b"\0" * 48,
        header("(3, 2)", "|O") + b"\0" * 48,
        header("(3, 2)", ">f4") + b"\0" * 24,
        header("__import__('os').mkdir('boom')") + b"\0" * 24,
        header("(3, 2)") + np.array([np.nan] * 6, dtype=np.float32).tobytes(),
        b"PK\x03\x04",
        b"\x80\x04\x95",
    ],
)
def test_arrays_that_are_not_what_they_should_be_are_refused(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "tvecs.npy").write_bytes(content)
    with pytest.raises(DataError) as caught:
        authors.read(folder)
    assert "tvecs.npy" in str(caught.value) and "\n" not in str(caught.value) and not (tmp_path / "boom").exists()


@pytest.mark.parametrize("name", ["cvecs", "mats", "msteps", "vsteps", "encoder", "decoder", "dstep"])
def test_arrays_of_another_model_are_refused(folder: Path, name: str) -> None:
    array = np.load(folder / f"{name}.npy")
    np.save(folder / f"{name}.npy", np.concatenate([array, array]) if array.ndim else np.array([1, 2], dtype=np.uint64))
    if name in ("encoder", "decoder"):  # any number of codes is good; their own size is not
        np.save(folder / f"{name}.npy", array[:, :1])
    with pytest.raises(DataError, match=rf"{name}\.npy: holds"):
        authors.read(folder)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"dim": 3}', '{"vEL": "x"}', '{"vEL": -1}', '{"vEta": 0}', '{"vEL": 1e999}', '{"vEL": NaN}', "[" * 100_000, '{"vEta": null}'],
)
def test_nonsense_for_parameters_is_refused(folder: Path, text: str) -> None:
    (folder / "params.json").write_text(text)
    with pytest.raises(DataError, match=r"params\.json: not the program's parameters"):
        authors.read(folder)


@pytest.mark.parametrize("text", ["", "a\tmany\n", "a\t1.0\na\t2.0\n", "a\t-1\n", "a\t1e999\n", "a\tnan\n"])
def test_nonsense_for_a_vocabulary_is_refused(folder: Path, text: str) -> None:
    (folder / "vocab_entity.txt").write_text(text)
    with pytest.raises(DataError):
        authors.read(folder)


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\rb", ""])
def test_names_the_layout_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be written in the authors' layout"):
        authors.write(small(entities=Vocab([name, "b", "c"])), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_written_over(folder: Path) -> None:
    with pytest.raises(OutputError, match="exists already"):
        authors.write(small(), folder)
