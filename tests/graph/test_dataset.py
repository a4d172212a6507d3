from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relcode.errors import DataError, SettingError
from relcode.graph.dataset import Dataset, dataset_from_facts, dataset_from_tables, load_dataset, read_labels

TRAIN = "b\tr2\ta\na\tr1\tb\nb\tr2\ta\n"
VALID = "a\tr2\tc\n"
TEST = "b\tr3\tb\n"


def folder_with(folder: Path, **files: str | bytes) -> Path:
    """Write files named like train_txt or labels_tsv_gz into a folder; those that end in gz are packed."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(gzip.compress(data) if name.endswith("gz") and isinstance(content, str) else data)
    return folder


def test_a_folder_by_hand(tmp_path: Path) -> None:
    dataset = load_dataset(folder_with(tmp_path / "tiny", train_txt=TRAIN, valid_tsv=VALID, test_txt_gz=TEST, labels_tsv="a\tAda\nzz\tnobody\n"))
    assert dataset.name == "tiny"
    assert dataset.entities.names == ("a", "b", "c")
    assert dataset.relations.names == ("r1", "r2", "r3")
    assert dataset.train.tolist() == [[0, 0, 1], [1, 1, 0]]
    assert dataset.valid.tolist() == [[0, 1, 2]]
    assert dataset.test.tolist() == [[1, 2, 1]]
    assert dataset.train.dtype == torch.int64
    assert (dataset.num_entities, dataset.num_relations, dataset.num_directed) == (3, 3, 6)
    assert dataset.seen_E.tolist() == [True, True, False]
    assert dataset.labels == {"a": "Ada"} and dataset.label(0) == "Ada" and dataset.label(1) == "b"
    assert dataset.duplicates == {"train": 1, "valid": 0, "test": 0}
    assert dataset.source == str(tmp_path / "tiny")
    notes = " | ".join(dataset.notes)
    assert "train from train.txt" in notes and "test from test.txt.gz" in notes and "labels from labels.tsv" in notes
    assert "1 repeated fact in train counted once" in notes
    assert "1 relation only in valid or test, kept: r3" in notes


def test_splits_by_name() -> None:
    dataset = dataset_from_facts({"train": [("a", "r", "b")], "test": [("b", "r", "a")]})
    assert dataset.split("test").tolist() == [[1, 0, 0]]
    assert dataset.split("valid").shape == (0, 3)
    with pytest.raises(SettingError, match="unknown split 'dev': known are train, valid, test"):
        dataset.split("dev")
    with pytest.raises(SettingError, match="unknown split 'dev'"):
        dataset_from_facts({"train": [], "dev": []})


def test_a_list_in_memory_is_train_alone() -> None:
    dataset = dataset_from_facts([("a", "r", "b"), ("a", "r", "b")], name="two")
    assert (dataset.name, len(dataset.train), len(dataset.valid), len(dataset.test)) == ("two", 1, 0, 0)
    assert len(dataset_from_facts([]).train) == 0
    assert dataset_from_facts([]).seen_E.shape == (0,)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_show(rng: random.Random) -> None:
    facts = [(f"e{i * 7 % 11}", f"r{i % 3}", f"e{i * 5 % 13}") for i in range(60)]
    splits = {"train": facts[:40], "valid": facts[40:50], "test": facts[50:]}
    shuffled = {name: rng.sample(rows, len(rows)) for name, rows in splits.items()}
    first, second = dataset_from_facts(splits), dataset_from_facts(shuffled)
    assert first.entities == second.entities and torch.equal(first.train, second.train)
    assert first.fingerprint == second.fingerprint


def test_the_fingerprint_tells_names_facts_and_splits_apart() -> None:
    def fingerprint(**splits: list[tuple[str, str, str]]) -> str:
        return dataset_from_facts(splits).fingerprint

    fact, other = ("a", "r", "b"), ("b", "r", "a")
    distinct = [
        fingerprint(train=[fact, other]),
        fingerprint(train=[fact], test=[other]),
        fingerprint(train=[other], test=[fact]),
        fingerprint(train=[fact], valid=[other]),
        fingerprint(train=[("a", "q", "b")], test=[("b", "q", "a")]),
        fingerprint(train=[("a", "r", "c")], test=[("c", "r", "a")]),
    ]
    assert len(set(distinct)) == len(distinct)
    assert all(len(text) == 64 for text in distinct)


def ring_text(size: int = 60) -> str:
    return "".join(f"e{i}\tr{step}\te{(i + step) % size}\n" for i in range(size) for step in (1, 2, 3))


def check_split(dataset: Dataset) -> None:
    assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (162, 9, 9)
    assert dataset.seen_E.all() and set(dataset.train[:, 1].tolist()) == {0, 1, 2}
    assert any("split into 162/9/9 facts" in note for note in dataset.notes)


def test_train_alone_and_one_file_are_split_the_same_whatever_the_order(tmp_path: Path) -> None:
    lines = ring_text().splitlines(keepends=True)
    alone = load_dataset(folder_with(tmp_path / "alone", train_tsv_gz="".join(lines)))
    (tmp_path / "ring.txt").write_text("".join(reversed(lines)), encoding="utf-8")
    single = load_dataset(tmp_path / "ring.txt")
    check_split(alone)
    check_split(single)
    assert single.name == "ring" and alone.name == "alone"
    assert alone.fingerprint == single.fingerprint


@pytest.mark.parametrize("header", ["head\trelation\ttail\n", "Subject\tPredicate\tObject\n", "person\trelation\tother\n"])
def test_a_first_line_that_names_the_columns_of_one_file_is_no_fact(tmp_path: Path, header: str) -> None:
    (tmp_path / "ring.tsv").write_text(header + ring_text(), encoding="utf-8")
    dataset = load_dataset(tmp_path / "ring.tsv")
    check_split(dataset)
    (warning,) = dataset.warnings
    assert warning in dataset.notes and "the first line names the columns" in warning and "--no-header" in warning


def test_a_first_line_like_a_header_whose_names_come_again_is_a_fact(tmp_path: Path) -> None:
    """object and type name columns, but type comes again as the relation of many facts: read as a header it would turn all of them round."""
    facts = [f"n{place}\ttype\tC{place % 3}\nn{place}\tnear\tn{(place + 1) % 60}\n" for place in range(60)]
    text = "object\ttype\tThing\n" + "".join(facts)
    (tmp_path / "types.tsv").write_text(text, encoding="utf-8")
    dataset = load_dataset(tmp_path / "types.tsv")
    assert len(dataset.train) + len(dataset.valid) + len(dataset.test) == 121 and {"object", "Thing"} <= set(dataset.entities.names)
    (warning,) = dataset.warnings
    assert "comes again in its column: it is read as a fact" in warning and "--header" in warning


def test_columns_named_in_another_order_are_read_in_theirs(tmp_path: Path) -> None:
    lines = [line.split("\t") for line in ring_text().splitlines()]
    (tmp_path / "ring.txt").write_text(ring_text(), encoding="utf-8")
    (tmp_path / "turned.txt").write_text("object\tsubject\tpredicate\n" + "".join(f"{t}\t{h}\t{r}\n" for h, r, t in lines), encoding="utf-8")
    turned = load_dataset(tmp_path / "turned.txt")
    assert turned.fingerprint == load_dataset(tmp_path / "ring.txt").fingerprint
    assert "head, relation, tail are subject, predicate, object" in turned.warnings[0]


def test_a_header_alone_holds_no_facts(tmp_path: Path) -> None:
    (tmp_path / "none.tsv").write_text("head\trelation\ttail\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"none\.tsv: no facts after its first line, which names the columns"):
        load_dataset(tmp_path / "none.tsv")


def test_a_first_line_whose_names_never_come_again_is_suspected(tmp_path: Path) -> None:
    (tmp_path / "ring.tsv").write_text("Subjekt\tPrädikat\tObjekt\n" + ring_text(), encoding="utf-8")
    dataset = load_dataset(tmp_path / "ring.tsv")
    assert "Subjekt" in dataset.entities and len(dataset.warnings) == 1
    assert "none of its names comes again in its column" in dataset.warnings[0] and "--header" in dataset.warnings[0]
    (tmp_path / "plain.tsv").write_text("Subjekt\tr1\tObjekt\n" + ring_text(), encoding="utf-8")
    assert load_dataset(tmp_path / "plain.tsv").warnings == ()


def test_splits_have_no_headers_and_a_line_like_one_is_only_warned_of(tmp_path: Path) -> None:
    dataset = load_dataset(folder_with(tmp_path / "tiny", train_txt="head\trelation\ttail\n" + TRAIN, valid_txt=VALID, test_txt=TEST))
    assert "relation" in dataset.relations and len(dataset.train) == 3
    assert [warning.partition(" looks")[0] for warning in dataset.warnings] == ["train.txt: the first line (head, relation, tail)"]
    assert load_dataset(folder_with(tmp_path / "plain", train_txt=TRAIN, valid_txt=VALID, test_txt=TEST)).warnings == ()


def test_too_little_to_split_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a\tr\tb\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"one\.txt: too few of the 1 facts can be spared"):
        load_dataset(tmp_path / "one.txt")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no file of facts for train and valid and test"),
        ({"valid_txt": VALID, "test_txt": TEST}, "no file of facts for train "),
        ({"train_txt": TRAIN, "test_txt": TEST}, "no file of facts for valid "),
        ({"train_txt": TRAIN, "valid_txt": VALID}, "no file of facts for test "),
        ({"train_txt": TRAIN, "train_tsv": TRAIN, "valid_txt": VALID, "test_txt": TEST}, "both train.txt and train.tsv; keep one"),
        ({"train_txt": TRAIN, "train_txt_gz": TRAIN, "valid_txt": VALID, "test_txt": TEST}, "both train.txt and train.txt.gz"),
        ({"train_txt": TRAIN, "valid_txt": "", "test_txt": TEST}, "valid.txt: empty"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt": "a\tr\n"}, "test.txt, line 1: 2 fields"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt": b"a\tr\t\xff\n"}, "test.txt, line 1: not UTF-8"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt_gz": gzip.compress(TEST.encode())[:-3]}, "test.txt.gz: the gzip ends early"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt": TEST, "labels_tsv": "a\n"}, "labels.tsv, line 1: 1 field"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt": TEST, "labels_tsv": "a\tA\na\tB\n"}, "labels.tsv, line 2: a second label for 'a'"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt": TEST, "labels_tsv": b"a\t\xff\n"}, "labels.tsv, line 1: not UTF-8"),
        ({"train_txt": TRAIN, "valid_txt": VALID, "test_txt": TEST, "labels_tsv": "a\tA\n", "labels_tsv_gz": "a\tA\n"}, "both labels.tsv and"),
    ],
)
def test_bad_folders_get_one_clear_line(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(folder_with(tmp_path / "bad", **files))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_may_repeat_and_need_not_be_unique(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("a\tX\nb\tX\na\tX\n", encoding="utf-8")
    assert read_labels(path) == {"a": "X", "b": "X"}


def test_tables_may_be_plain_chunked_or_list_names_nobody_uses() -> None:
    plain = pa.table({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "c"]})
    unused = pa.DictionaryArray.from_arrays(pa.array([1, 2], pa.int8()), pa.array(["ghost", "b", "c"]))
    chunked = pa.concat_tables([plain.slice(0, 1), plain.slice(1, 1)])
    expected = dataset_from_facts([("a", "r", "b"), ("b", "r", "c")])
    for table in (plain, chunked, plain.set_column(2, "tail", unused)):
        dataset = dataset_from_tables({"train": table}, "t")
        assert dataset.fingerprint == expected.fingerprint
    with pytest.raises(DataError, match="1 of the facts lack a name"):
        dataset_from_tables({"train": plain.set_column(2, "tail", pa.array(["b", None]))}, "t")


@pytest.mark.parametrize("name", ["facts.nt", "facts.csv", "facts.ttl.gz", "facts.parquet"])
def test_files_of_other_forms_say_how_to_import_them(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a,r,b\n")
    with pytest.raises(DataError, match=f"relcode import .*{name} --out"):
        load_dataset(tmp_path / name)
    with pytest.raises(DataError, match="OpenKE's files of numbers"):
        load_dataset(folder_with(tmp_path / "openke", train2id_txt="0\n"))
