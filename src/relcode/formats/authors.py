"""The layout in which the paper's released program (glimvec) keeps a model, read and written.

    tvecs.npy, cvecs.npy     float32 [E, D]     raw head vectors u and raw tail vectors v
    vsteps.npy               uint64 [2E]        their counters τ: first those of the tails, then those of the heads
    mats.npy, msteps.npy     float32 [2R, D, D] and uint64 [2R]: raw matrices, each transposed; all relations, then all inverses
    encoder.npy, decoder.npy float32 [C, D, D]  rows of A and of Bᵀ, each as a transposed matrix (dstep.npy: their counter, a single uint64)
    params.json              dim, codeLen, and vEL = rate·decay of vectors (mEL: of matrices, autoEL: of the autoencoder); "normalise" is ours
    vocab_entity.txt, vocab_relation.txt        name, tab, how often it occurs in train; these lie with the data, and their order is the vectors'

What is in force is raw/(1 + vEL·τ) for vectors and raw/(1 + autoEL·τ) for A and B; matrices are used at norm √d and not decayed. The program
writes column-major matrices under a row-major header, hence the transposition: mats[r] is M_rᵀ where s = u M_r v.

Read from the public program's own reading and writing of these files; np.load is told to refuse pickles, and sizes are checked before it is called.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relcode.errors import DataError
from relcode.formats.place import new_place
from relcode.graph.vocab import Vocab
from relcode.ops.diagonal import whole_array

Floats = np.ndarray[Any, np.dtype[np.float32]]
Counts = np.ndarray[Any, np.dtype[np.uint64]]
MOST_TEXT = 2**28  # bytes of a vocabulary or of params.json
RATES = {"vEta": 2.0**-6, "mEta": 2.0**-6, "vEL": 2.0**-16, "mEL": 2.0**-20, "autoEL": 2.0**-16}  # the program's own


@dataclass(frozen=True, eq=False, kw_only=True)
class AuthorsModel:
    """A model of the released program, with matrices turned to s = u M v and raw values as stored.

    Matrices, encoder and decoder may be those of blocks, [S, D, b] and [C, D·b] (``relcode.ops.diagonal``); the files hold whole ones.
    """

    entities: Vocab
    relations: Vocab
    head_ED: Floats  # raw
    tail_ED: Floats
    matrix_SDD: Floats
    head_count_E: Counts
    tail_count_E: Counts
    matrix_count_S: Counts
    encoder_CQ: Floats | None = None  # raw
    decoder_CQ: Floats | None = None
    coder_count: int = 0
    vector_rate: float = RATES["vEta"]
    matrix_rate: float = RATES["mEta"]
    vector_decay_rate: float = RATES["vEL"]  # rate · decay
    matrix_decay_rate: float = RATES["mEL"]
    coder_decay_rate: float = RATES["autoEL"]
    normalise: bool = True  # matrices are used at norm √d, as the program always does; a run of ours may differ
    entity_facts_E: Counts | None = None  # how often each occurs in train
    relation_facts_R: Counts | None = None

    @property
    def dim(self) -> int:
        """Return d."""
        return self.head_ED.shape[1]


def decay(count: Counts | int, decay_rate: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return 1 + rate·decay·τ, by which raw values are divided to be in force."""
    return 1.0 + decay_rate * np.asarray(count, dtype=np.float64)


def read(folder: Path, vocabulary: Path | None = None) -> AuthorsModel:
    """Read a model folder; ``vocabulary`` is the folder with vocab_entity.txt and vocab_relation.txt where they do not lie beside the model."""
    names = vocabulary or folder
    entities, entity_facts_E = _read_vocab(names / "vocab_entity.txt", "entity")
    relations, relation_facts_R = _read_vocab(names / "vocab_relation.txt", "relation")
    E, S = len(entities), 2 * len(relations)
    head_ED = _load(folder / "tvecs.npy", "<f4", (E, None))
    D = head_ED.shape[1]
    steps = _load(folder / "vsteps.npy", "<u8", (2 * E,))
    matrix_SDD = _load(folder / "mats.npy", "<f4", (S, D, D))
    has_coder = (folder / "encoder.npy").exists() and (folder / "decoder.npy").exists() and (folder / "dstep.npy").exists()
    parameters = _read_parameters(folder / "params.json", D)
    return AuthorsModel(
        entities=entities,
        relations=relations,
        head_ED=head_ED,
        tail_ED=_load(folder / "cvecs.npy", "<f4", (E, D)),
        matrix_SDD=np.ascontiguousarray(matrix_SDD.transpose(0, 2, 1)),
        head_count_E=steps[E:],
        tail_count_E=steps[:E],
        matrix_count_S=_load(folder / "msteps.npy", "<u8", (S,)) if (folder / "msteps.npy").exists() else np.zeros(S, dtype=np.uint64),
        encoder_CQ=_turned(_load(folder / "encoder.npy", "<f4", (None, D, D))) if has_coder else None,
        decoder_CQ=_turned(_load(folder / "decoder.npy", "<f4", (None, D, D))) if has_coder else None,
        coder_count=int(_load(folder / "dstep.npy", "<u8", ())) if has_coder else 0,
        vector_rate=parameters["vEta"],
        matrix_rate=parameters["mEta"],
        vector_decay_rate=parameters["vEL"],
        matrix_decay_rate=parameters["mEL"],
        coder_decay_rate=parameters["autoEL"],
        normalise=parameters["normalise"] != 0,
        entity_facts_E=entity_facts_E,
        relation_facts_R=relation_facts_R,
    )


def write(model: AuthorsModel, out: Path) -> None:
    """Write a model as a new folder that :func:`read` and the released program read."""
    C = 0 if model.encoder_CQ is None else len(model.encoder_CQ)
    with new_place(out) as draft:
        draft.mkdir()
        _write_vocab(draft / "vocab_entity.txt", model.entities, model.entity_facts_E)
        _write_vocab(draft / "vocab_relation.txt", model.relations, model.relation_facts_R)
        np.save(draft / "tvecs.npy", model.head_ED.astype("<f4"), allow_pickle=False)
        np.save(draft / "cvecs.npy", model.tail_ED.astype("<f4"), allow_pickle=False)
        np.save(draft / "vsteps.npy", np.concatenate([model.tail_count_E, model.head_count_E]).astype("<u8"), allow_pickle=False)
        _save_turned(draft / "mats.npy", model.matrix_SDD)
        np.save(draft / "msteps.npy", model.matrix_count_S.astype("<u8"), allow_pickle=False)
        if model.encoder_CQ is not None and model.decoder_CQ is not None:
            for name, rows_CQ in (("encoder", model.encoder_CQ), ("decoder", model.decoder_CQ)):
                _save_turned(draft / f"{name}.npy", rows_CQ.reshape(C, model.dim, -1))
            np.save(draft / "dstep.npy", np.array(model.coder_count, dtype="<u8"), allow_pickle=False)
        parameters = {"trainer": "TrainerKB", "dim": model.dim, "codeLen": C, "vEta": model.vector_rate, "mEta": model.matrix_rate}
        parameters |= {"vEL": model.vector_decay_rate, "mEL": model.matrix_decay_rate, "autoEL": model.coder_decay_rate}
        parameters |= {"disableAutoencoder": int(C == 0), "normalise": int(model.normalise)}
        (draft / "params.json").write_text(json.dumps(parameters, indent=2) + "\n", encoding="utf-8")


def _save_turned(path: Path, matrix_XDD: Floats) -> None:
    """Write matrices as one array [X, D, D], whole and each transposed; one after the other: whole, they may be far more than is kept."""
    X, D = matrix_XDD.shape[:2]
    with path.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": (X, D, D)})
        for matrix_DD in matrix_XDD:
            handle.write(np.ascontiguousarray(whole_array(matrix_DD).T, dtype="<f4").tobytes())


def _turned(square_CDD: Floats) -> Floats:
    """Return rows of the autoencoder as flattened matrices of our orientation; [C, Q]."""
    return np.ascontiguousarray(square_CDD.transpose(0, 2, 1)).reshape(len(square_CDD), -1)


def _load(path: Path, kind: str, shape: tuple[int | None, ...]) -> Any:
    """Load a .npy file of the type and shape expected (None: any size); its header is compared with the file's size before anything is reserved."""
    try:
        with path.open("rb") as handle, warnings.catch_warnings():
            warnings.simplefilter("error")  # a header that Python 2 wrote, say: the program writes none
            version = np.lib.format.read_magic(handle)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            found, fortran, dtype = header(handle)
            size = path.stat().st_size - handle.tell()
    except Exception as error:  # a damaged header may raise anything that Python's tokenizer and parser can
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path}: cannot be read as a NumPy array ({' '.join(reason.split())[:200]})") from None
    wanted = len(found) == len(shape) and all(want is None or want == have for want, have in zip(shape, found, strict=True))
    if not wanted or dtype != np.dtype(kind) or fortran or math.prod(found) * dtype.itemsize != size:
        expected = " × ".join("any" if want is None else f"{want:,}" for want in shape) or "a single number"
        raise DataError(f"{path}: holds {str(dtype)[:80]} {str(found)[:80]} in {size:,} bytes; expected {np.dtype(kind)}, {expected}, row by row")
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise DataError(f"{path}: cannot be read as a NumPy array ({' '.join(str(error).split())[:200]})") from None
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{path}: holds numbers that are not finite")
    return array


def _read_parameters(path: Path, dim: int) -> dict[str, float]:
    """Read the rates of params.json; what is missing is the program's own."""
    try:
        tree = json.loads(_text(path)) if path.exists() else {}
        found = {name: float(tree.get(name, usual)) for name, usual in {**RATES, "normalise": 1.0}.items()}
        if int(tree.get("dim", dim)) != dim or not all(math.isfinite(value) and value >= 0 for value in found.values()):
            raise ValueError(f"dim must be {dim} as in tvecs.npy, rates must be finite")
        if found["vEta"] <= 0 or found["mEta"] <= 0:
            raise ValueError("rates must be above 0")
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataError(f"{path}: not the program's parameters ({' '.join(str(error).split())[:200]})") from None
    return found


def _read_vocab(path: Path, kind: str) -> tuple[Vocab, Counts]:
    """Read names and counts: name, tab, count, a line each."""
    names, counts = [], []
    for number, line in enumerate(_text(path).removesuffix("\n").split("\n"), start=1):
        name, tab, count = line.partition("\t")
        try:
            counts.append(int(float(count or 0)))
            if not 0 <= counts[-1] < 2**63:
                raise ValueError
        except (ValueError, OverflowError):
            raise DataError(f"{path}, line {number}: expected a name, a tab and a count") from None
        names.append(name)
    if names == [""]:
        raise DataError(f"{path}: has no names")
    return Vocab(names, kind), np.array(counts, dtype=np.uint64)


def _text(path: Path) -> str:
    """Return the text of a file of bounded size."""
    try:
        if path.stat().st_size > MOST_TEXT:
            raise DataError(f"{path}: has more than {MOST_TEXT:,} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); a model of the program lies with the vocabulary of its data") from None


def _write_vocab(path: Path, vocab: Vocab, facts: Counts | None) -> None:
    """Write names and counts; the layout has no way to write a tab or a line end in a name."""
    for name in vocab:
        if not name or {"\t", "\n", "\r"} & set(name):
            raise DataError(f"{vocab.kind} {name[:80]!r} cannot be written in the authors' layout: it has no tabs, line ends or empty names")
    counts = facts if facts is not None else np.ones(len(vocab), dtype=np.uint64)
    text = "".join(f"{name}\t{float(count):.1f}\n" for name, count in zip(vocab, counts.tolist(), strict=True))
    path.write_text(text, encoding="utf-8", newline="\n")
