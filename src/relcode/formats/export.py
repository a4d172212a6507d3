"""A trained model in other programs' files: safetensors, NumPy, Parquet, TensorBoard's projector, word2vec text, N-Triples.

All hold vectors and matrices in force, so that score(h, r, t) = u_h M_r v_t is head[h] @ matrix[r] @ tail[t] with nothing else to know. Relations are
the 2R directed ones: first those named, then their inverses, written ``^name``. Matrices of blocks are in safetensors and .npz as their blocks alone,
``block`` [S, D/b, b, b] in place of ``matrix``; Parquet has them whole, where zeros are packed away, and only some rows of them are there at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from relcode.errors import SettingError
from relcode.formats.place import new_place
from relcode.formats.prefixes import expand
from relcode.ops.diagonal import whole_array

Floats = np.ndarray[Any, np.dtype[np.float32]]
MOST_NAME_BYTES = 2**28  # names as a NumPy array all take the room of the longest
MOST_HEADER_BYTES = 80 * 2**20  # safetensors refuses headers beyond 100 MB
ROWS_AT_ONCE_BYTES = 64 * 2**20
IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]+")
BLANK = re.compile(r"_:[A-Za-z0-9]+")
LITERAL = re.compile(r'"(?:[^"\\\n\r]|\\[tbnrf"\'\\])*"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^<[^\x00-\x20<>"{}|^`\\]+>)?')
BASE = "urn:relcode:"
ORIENTATION = "score(h, r, t) = head[h] @ matrix[r] @ tail[t]; relations: those named, then their inverses (^name)"

BLOCKS = "matrix[r] has block[r, 0], block[r, 1], ... along its diagonal, and 0 elsewhere"


@dataclass(frozen=True, eq=False, kw_only=True)
class Vectors:
    """All that is exported of a model, as in force; float32 arrays on the CPU."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]  # directed names
    labels: Mapping[str, str] = field(default_factory=dict)
    head_ED: Floats
    tail_ED: Floats
    matrix_SDD: Floats  # or of blocks, [S, D, b], as ``relcode.ops.diagonal`` keeps them
    code_SC: Floats | None = None  # plain ReLU codes, where there is an autoencoder
    about: Mapping[str, Any] = field(default_factory=dict)  # what the model is, for whoever finds the file

    @property
    def block(self) -> int:
        """Return b, the size of the blocks along a matrix's diagonal; 0 where matrices are whole."""
        _, D, b = self.matrix_SDD.shape
        return b if b < D else 0

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by the names they have in files."""
        S, D, b = self.matrix_SDD.shape
        matrices = {"block": self.matrix_SDD.reshape(S, D // b, b, b)} if self.block else {"matrix": self.matrix_SDD}
        found = {"head": self.head_ED, "tail": self.tail_ED, **matrices}
        return found if self.code_SC is None else {**found, "code": self.code_SC}


def write_safetensors(vectors: Vectors, out: Path) -> None:
    """Write one safetensors file; names, orientation and settings are JSON in its header, under "relcode"."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    told = {"orientation": f"{ORIENTATION}; {BLOCKS}", "block": vectors.block} if vectors.block else {"orientation": ORIENTATION}
    about = {**told, "entities": vectors.entities, "relations": vectors.relations, **vectors.about}
    header = json.dumps(about, ensure_ascii=False)
    if len(header.encode()) > MOST_HEADER_BYTES:
        raise SettingError(f"the names take more than the {MOST_HEADER_BYTES:,} bytes a safetensors header can hold: use --format parquet")
    with new_place(out) as draft:
        draft.touch()
        mode = draft.stat().st_mode & 0o777
        try:
            save_file({name: np.ascontiguousarray(array) for name, array in vectors.arrays().items()}, draft, metadata={"relcode": header})
        except SafetensorError as error:  # a full disk, in its own words
            raise OSError(str(error)) from None
        draft.chmod(mode)


def write_npz(vectors: Vectors, out: Path) -> None:
    """Write one .npz with head, tail, matrix (or block), code, entities, relations; it holds no pickles."""
    names = {"entities": vectors.entities, "relations": vectors.relations}
    for kind, texts in names.items():
        if 4 * len(texts) * max(map(len, texts), default=0) > MOST_NAME_BYTES or any(text.endswith("\0") for text in texts):
            raise SettingError(f"the {kind} do not fit a NumPy array of names (the longest sets the room of all): use --format parquet")
    arrays: dict[str, Any] = {**vectors.arrays(), **{kind: np.array(texts, dtype=np.str_) for kind, texts in names.items()}}
    with new_place(out) as draft, draft.open("wb") as handle:
        np.savez(handle, **arrays)


def write_parquet(vectors: Vectors, out: Path) -> None:
    """Write a folder: entities.parquet (name, label, head, tail) and relations.parquet (name, code, matrix row by row)."""
    labels = [vectors.labels.get(name) for name in vectors.entities]
    entity_columns: dict[str, Any] = {"name": vectors.entities, "label": labels, "head": vectors.head_ED, "tail": vectors.tail_ED}
    relation_columns: dict[str, Any] = {"name": vectors.relations}
    if vectors.code_SC is not None:
        relation_columns["code"] = vectors.code_SC
    relation_columns["matrix"] = vectors.matrix_SDD
    with new_place(out) as draft:
        draft.mkdir()
        _write_table(draft / "entities.parquet", entity_columns, vectors.about)
        _write_table(draft / "relations.parquet", relation_columns, vectors.about)


def _write_table(path: Path, columns: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write columns of texts, of vectors and of matrices (whole), some rows at a time so that the table is never there twice."""
    widths = {name: values.shape[1] ** (values.ndim - 1) for name, values in columns.items() if isinstance(values, np.ndarray)}
    kinds = {name: pa.list_(pa.float32(), widths[name]) if name in widths else pa.utf8() for name in columns}
    schema = pa.schema(list(kinds.items()), metadata={"relcode": json.dumps({"orientation": ORIENTATION, **about})})
    rows, step = len(columns["name"]), max(1, ROWS_AT_ONCE_BYTES // (4 * sum(widths.values()) + 1))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for begin in range(0, max(rows, 1), step):
            arrays = [_column(values[begin : begin + step], kinds[name]) for name, values in columns.items()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if not isinstance(values, np.ndarray):
        return pa.array(values, kind)
    rows = whole_array(values) if values.ndim == 3 else values
    flat = pa.array(np.ascontiguousarray(rows, dtype=np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)


def write_projector(vectors: Vectors, out: Path) -> None:
    """Write a folder that TensorBoard's embedding projector opens: entities by their head vectors, relations by their codes."""
    tensors = {"entities": (vectors.head_ED, vectors.entities)}
    if vectors.code_SC is not None:
        tensors["relations"] = (vectors.code_SC, vectors.relations)
    config = []
    with new_place(out) as draft:
        draft.mkdir()
        for name, (rows, names) in tensors.items():
            with (draft / f"{name}.tsv").open("w", encoding="utf-8", newline="\n") as handle:
                handle.writelines("\t".join(_number(value) for value in row) + "\n" for row in rows.tolist())
            with (draft / f"{name}_names.tsv").open("w", encoding="utf-8", newline="\n") as handle:
                handle.write("name\tlabel\n")  # one column would have no header in this format
                handle.writelines(f"{_one_cell(text)}\t{_one_cell(vectors.labels.get(text, text))}\n" for text in names)
            config.append(f'embeddings {{\n  tensor_name: "{name}"\n  tensor_path: "{name}.tsv"\n  metadata_path: "{name}_names.tsv"\n}}\n')
        (draft / "projector_config.pbtxt").write_text("".join(config), encoding="utf-8")


def write_word2vec(vectors: Vectors, out: Path) -> None:
    """Write head vectors as word2vec text: a line with count and size, then name and numbers; white space in a name becomes _."""
    names = [re.sub(r"\s", "_", name) for name in vectors.entities]
    if len(set(names)) != len(names) or "" in names:
        raise SettingError("word2vec text has no spaces in names, and with _ in their place some names are equal or empty: use --format parquet")
    with new_place(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as handle:
        handle.write(f"{len(names)} {vectors.head_ED.shape[1]}\n")
        for name, row in zip(names, vectors.head_ED, strict=True):
            handle.write(f"{name} {' '.join(map(_number, row.tolist()))}\n")


def write_ntriples(
    facts: Iterable[tuple[str, str, str, float | None]], out: Path, prefixes: Mapping[str, str] | None = None, base: str | None = None
) -> int:
    """Write facts (head, relation, tail, probability) as N-Triples, the probability as a comment; return how many.

    Names that are IRIs, or short forms of some, become those; all others become ``base`` + entity/ or relation/ + the name, percent-encoded.
    """
    if base is not None and not IRI.fullmatch(base):
        raise SettingError(f"the base {base!r} is no IRI: it must begin like https://example.org/")
    count, short = 0, prefixes or {}
    with new_place(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as handle:
        for head, relation, tail, probability in facts:
            terms = (term(head, "entity", short, base), term(relation, "relation", short, base), term(tail, "entity", short, base))
            remark = "" if probability is None else f" # probability {probability:.4f}"
            handle.write(f"{' '.join(terms)} .{remark}\n")
            count += 1
    return count


def term(name: str, kind: str, prefixes: Mapping[str, str], base: str | None = None) -> str:
    """Return a name as a term of N-Triples: an IRI where it is or stands for one, a blank node, a literal, or an IRI made of it."""
    whole = expand(name, prefixes)
    if kind == "entity" and (BLANK.fullmatch(whole) or LITERAL.fullmatch(whole)):
        return whole
    if IRI.fullmatch(whole) and (whole != name or "://" in whole or whole.startswith("urn:")):
        return f"<{whole}>"
    return f"<{BASE}{kind}:{quote(name, safe='')}>" if base is None else f"<{base}{kind}/{quote(name, safe='')}>"


def _number(value: float) -> str:
    """Write a float32 so that it is read back as itself."""
    return f"{value:.9g}"


def _one_cell(text: str) -> str:
    """Write a text where tabs and line ends would begin another cell or line."""
    return re.sub(r"\s", " ", text) or " "
