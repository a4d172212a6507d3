"""Which datasets there are: the bundled ones, the folders under ``$RELCODE_DATA``, and the benchmarks that were downloaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from relcode.errors import DataError, UnknownName
from relcode.graph.cache import datasets_folder
from relcode.graph.download import is_sound
from relcode.graph.known_datasets import KNOWN
from relcode.graph.split_names import SPLITS

DATA_VARIABLE = "RELCODE_DATA"
ENDINGS = (".txt", ".tsv", ".txt.gz", ".tsv.gz")
BUNDLED = ("world",)
STORE = "dataset.json"  # the manifest of a dataset that relcode import made (graph/store.py)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A dataset and where it lies: a folder, or one file of facts."""

    name: str
    path: Path
    bundled: bool

    @property
    def source(self) -> str:
        """Say where it comes from, without naming the place on this machine that the package is installed in."""
        return "bundled with relcode" if self.bundled else str(self.path)


class UnknownDataset(UnknownName):
    """A name that is neither a bundled dataset nor a folder under ``$RELCODE_DATA``."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """Say which names come close and where datasets are looked for."""
        super().__init__("dataset", name, known)
        self.args = (f"{self.args[0]} ({_shelf()}; a folder or file of facts can be given too)",)


class NotDownloaded(UnknownDataset):
    """A benchmark that relcode knows and that is not on this machine."""

    def __init__(self, name: str) -> None:
        """Say how to get it, and how to do without a network."""
        super().__init__(name, ())
        size = f"{KNOWN[name].size / 1e6:.1f} MB"
        how = f"get it with relcode datasets download {name} ({size}), or set {DATA_VARIABLE} to a folder that has it"
        where = f" ({_shelf()})" if os.environ.get(DATA_VARIABLE) else ""
        self.args = (f"dataset {name!r} is not on this machine{where}: {how}",)


def _shelf() -> str:
    """Say where datasets are looked for."""
    root = os.environ.get(DATA_VARIABLE)
    if not root:
        return f"{DATA_VARIABLE} is not set"
    return f"{DATA_VARIABLE} is {root}{'' if os.path.isdir(os.path.expanduser(root)) else ', which is no folder'}"


def available() -> list[CatalogueEntry]:
    """Return every dataset here by name: bundled first, then those under ``$RELCODE_DATA``, then downloaded ones; the first of a name wins."""
    entries = [CatalogueEntry(name, folder, True) for name in BUNDLED if (folder := _bundled_folder(name)) is not None]
    taken = {entry.name for entry in entries}
    root = os.environ.get(DATA_VARIABLE)
    entries += [entry for entry in (_under(Path(root)) if root else []) if entry.name not in taken]
    taken = {entry.name for entry in entries}
    return entries + [entry for entry in _downloaded() if entry.name not in taken]


def find(name: str) -> CatalogueEntry | None:
    """Return the dataset of that name, or None."""
    return next((entry for entry in available() if entry.name == name), None)


def resolve(where: str | Path) -> CatalogueEntry:
    """Return the dataset, by name and folder or file, that ``where`` stands for.

    A plain word is first a name of the catalogue, then a folder or file here (so a folder that happens to be called ``world`` does not hide the
    dataset: write ``./world`` for it). A ``Path``, or text with a separator in it, is always a place.
    """
    text = os.fspath(where)
    is_word = isinstance(where, str) and bool(text) and not {os.sep, os.altsep or os.sep, "/"} & set(text) and text not in (".", "..")
    if is_word and (entry := find(text)) is not None:
        return _checked(entry)
    try:
        path = Path(text).expanduser()
        exists = path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL in it, a user's home that is not there
        raise DataError(f"{text!r} cannot be looked at ({error})") from None
    if exists and text:
        return CatalogueEntry(_name_of(path), path, False)
    if is_word and not text.lower().endswith(ENDINGS):
        raise NotDownloaded(text) if text in KNOWN else UnknownDataset(text, [*(entry.name for entry in available()), *KNOWN])
    raise DataError(f"{text!r}: no such folder or file; expected a dataset's name, a folder with train, valid and test, or a file of facts")


def split_files(folder: Path, stem: str, endings: Iterable[str] = ENDINGS) -> list[Path]:
    """Return the files of a folder that are called ``stem`` with one of the endings: at most one in a sound dataset."""
    try:
        return [path for ending in endings if (path := folder / f"{stem}{ending}").is_file()]
    except OSError as error:
        raise DataError(f"{folder}: cannot be looked into ({error.strerror or error})") from None


def _bundled_folder(name: str) -> Path | None:
    """Return the folder of a dataset inside the installed package, or None where it is not there."""
    folder = Path(str(files("relcode"))) / "data" / name
    return folder if _has_train(folder) else None


def _under(root: Path) -> list[CatalogueEntry]:
    """Return the datasets in the folders directly under ``root``, by name; what may not be looked into is left out."""
    try:
        folders = sorted(path for path in root.expanduser().iterdir() if path.is_dir())
    except (OSError, RuntimeError):
        return []
    return [CatalogueEntry(path.name, path, False) for path in folders if _has_train(path)]


def _downloaded() -> list[CatalogueEntry]:
    """Return the benchmarks that lie whole in the cache."""
    try:
        root = datasets_folder()
        whole = [name for name in sorted(KNOWN) if all((root / name / f"{split}.txt").is_file() for split in SPLITS)]
    except (DataError, OSError):
        return []
    return [CatalogueEntry(name, root / name, False) for name in whole]


def _checked(entry: CatalogueEntry) -> CatalogueEntry:
    """Refuse a downloaded benchmark whose files have changed since."""
    if entry in _downloaded():
        changed = [split for split in SPLITS if not is_sound(entry.path / f"{split}.txt", KNOWN[entry.name].split(split))]
        if changed:
            raise DataError(f"{entry.path}: {changed[0]}.txt is not what was downloaded; mend it with relcode datasets download {entry.name}")
    return entry


def _has_train(folder: Path) -> bool:
    """Tell whether a folder looks like a dataset: a file of training facts, or one that relcode import made."""
    try:
        return bool(split_files(folder, "train")) or (folder / STORE).is_file()
    except (DataError, OSError):
        return False


def _name_of(path: Path) -> str:
    """Return a dataset's name: its folder's, or its file's without the ending."""
    name = path.resolve().name or "facts"
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if path.is_file() and name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name
