"""What a source is: the form of a file by its name, or by what it begins with; the files of a folder, and the split each is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relcode.errors import DataError, SettingError, UnknownName, suggestion
from relcode.formats import rdf
from relcode.formats.folders import is_openke, is_rotate, read_openke, read_rotate
from relcode.formats.ntriples import read_ntriples
from relcode.formats.reading import Batch, ReadOptions, Tally
from relcode.formats.tables import read_arrow, read_parquet, read_text_table
from relcode.graph.catalogue import resolve
from relcode.graph.split_names import SPLITS
from relcode.graph.store import is_store
from relcode.graph.unpack import JSON_ENDINGS, json_refused, opened, packing_of, refuse_wrapped

ENDINGS = {
    **dict.fromkeys((".tsv", ".tab", ".txt"), "tsv"),
    ".csv": "csv",
    **dict.fromkeys((".nt", ".ntriples"), "ntriples"),
    **dict.fromkeys((".nq", ".nquads"), "nquads"),
    **dict.fromkeys((".ttl", ".turtle"), "turtle"),
    ".trig": "trig",
    **dict.fromkeys((".rdf", ".owl", ".rdfxml"), "rdfxml"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}
FORMS = tuple(dict.fromkeys(ENDINGS.values()))
TITLES = {"tsv": "TSV", "csv": "CSV", "parquet": "Parquet", "arrow": "Arrow", "openke": "OpenKE", "rotate": "RotatE", **rdf.FORMS}
FOLDER_SPLITS = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
LOOKED_AT = 1 << 16


@dataclass(frozen=True, slots=True)
class Source:
    """One file (or one split of a program's folder): where it is, its form, and the split it is (None: not said)."""

    path: Path
    form: str
    split: str | None = None


def find_sources(where: str | Path, options: ReadOptions) -> list[Source]:
    """Return the files that a source stands for: a file, a folder, the name of a dataset, or - for standard input."""
    where = "/dev/stdin" if str(where) == "-" else where
    try:
        path = resolve(where).path
    except UnknownName:
        if _ending(Path(where)) in ENDINGS:  # somebody meant a file
            raise DataError(f"{where}: no such file") from None
        raise
    if not path.is_dir():
        return [Source(path, form_of(path, options))]
    return _folder(path, options)


def labels_beside(path: Path) -> Path | None:
    """Return the file of labels in a folder of splits, if there is one."""
    return next((file for name in ("labels.tsv", "labels.tsv.gz") if (file := path / name).is_file()), None)


def _folder(folder: Path, options: ReadOptions) -> list[Source]:
    """Return the files of a folder."""
    if is_store(folder):
        return [Source(folder, "dataset")]
    if is_openke(folder) and options.form in (None, "openke"):
        return [Source(folder, "openke", split) for split in SPLITS if (folder / f"{split}2id.txt").is_file()]
    if is_rotate(folder) and options.form in (None, "rotate"):
        return [Source(folder, "rotate", split) for split in SPLITS if (folder / f"{split}.txt").is_file()]
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and _ending(path) in ENDINGS)
    except OSError as error:
        raise DataError(f"{folder}: cannot be looked into ({error.strerror})") from None
    by_split = [(FOLDER_SPLITS[stem], path) for path in files if (stem := path.name.partition(".")[0].lower()) in FOLDER_SPLITS]
    if by_split:
        for split in SPLITS:
            paths = [path for one, path in by_split if one == split]
            if len(paths) > 1:
                raise DataError(f"{folder}: both {paths[0].name} and {paths[1].name}; keep one file for {split}, or name the files one by one")
        if "train" not in [split for split, _ in by_split]:
            raise DataError(f"{folder}: {by_split[0][1].name}, but no train; name the files one by one")
        return [Source(path, form_of(path, options), split) for split, path in sorted(by_split, key=lambda pair: SPLITS.index(pair[0]))]
    if not files:
        raise DataError(f"{folder}: no file of facts; known endings are {', '.join(ENDINGS)} (and .gz, .zst)")
    return [Source(path, form_of(path, options)) for path in files]


def _ending(path: Path) -> str:
    """Return the ending of a file's name, without that of its packing."""
    return (Path(path.stem) if packing_of(path) else path).suffix.lower()


def form_of(path: Path, options: ReadOptions) -> str:
    """Return the form of a file: as asked for, by its ending, or by what it begins with (where the ending says little)."""
    if options.form is not None:
        if options.form not in (*FORMS, "openke", "rotate"):
            raise SettingError(f"unknown format {options.form!r}{suggestion(options.form, FORMS)}; known are {', '.join(FORMS)}, openke, rotate")
        return options.form
    if path.name.lower().endswith(JSON_ENDINGS):
        raise json_refused(path)
    ending = _ending(path)
    form = ENDINGS.get(ending)
    if form is None or ending in (".txt", ".xml"):
        form = _by_content(path) or form
    if form is None:
        raise DataError(f"{path}: of which format? Its ending {ending!r} is not known; say it with --format ({', '.join(FORMS)})")
    if form in ("parquet", "arrow") and packing_of(path):
        raise DataError(f"{path}: unpack it first; {TITLES[form]} files are packed inside")
    return form


def _by_content(path: Path) -> str | None:
    """Guess the form of a file from its first bytes."""
    if path.exists() and not path.is_file():  # looking would take away what is looked at
        raise DataError(f"{path}: a pipe can be read only once, so say what it holds with --format ({', '.join(FORMS)}); or make it a file")
    with opened(path) as stream:
        start = stream.read(LOOKED_AT)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"ARROW1"):
        return "arrow"
    refuse_wrapped(start, str(path))
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"<?xml", b"<rdf:RDF")):
        return "rdfxml"
    if re.match(rb"(?i)@(prefix|base)\s|(prefix|base)\s+\S*\s*<", text):
        return "turtle"
    line = next((line for line in text.splitlines() if line and not line.startswith(b"#")), b"")
    if re.match(rb"(<[^<>\s]+>|_:\S+)[ \t]*<[^<>\s]+>[ \t]*[<_\"]", line) and line.rstrip().endswith(b"."):
        return "nquads" if re.search(rb"[>\"\w][ \t]+<[^<>\s]+>[ \t]*\.\s*$", line.partition(b"> ")[2].partition(b"> ")[2]) else "ntriples"
    return "tsv" if line.count(b"\t") >= 2 else "csv" if any(line.count(mark) >= 2 for mark in (b",", b";", b"|")) else None


def read_source(source: Source, tally: Tally, options: ReadOptions, blank_prefix: str = "") -> Iterator[Batch]:
    """Read the facts of a source."""
    if source.form == "openke":
        yield from read_openke(source.path, source.split or "train", tally)
    elif source.form == "rotate":
        yield from read_rotate(source.path, source.split or "train", tally)
    elif source.form == "parquet":
        yield from read_parquet(source.path, tally, options)
    elif source.form == "arrow":
        yield from read_arrow(source.path, tally, options)
    else:
        with opened(source.path, options.most_bytes) as stream:
            if source.form in ("ntriples", "nquads"):
                yield from read_ntriples(stream, source.form, tally, options, blank_prefix)
            elif source.form in rdf.FORMS:
                yield from rdf.read_rdf(stream, source.form, tally, options, blank_prefix)
            else:
                yield from read_text_table(stream, source.form, tally, options)
