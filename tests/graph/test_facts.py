from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import relcode.graph.facts as module
from relcode.errors import DataError
from relcode.graph.facts import contains, directed, facts_from_blocks, names_of, read_facts, table_of, unique_facts
from relcode.graph.lines import Block, split_blocks

NAME = st.text(min_size=1, max_size=8).filter(lambda name: name.strip() and not set(name) & set("\t\n\r\0"))
FACTS = st.lists(st.tuples(NAME, NAME, NAME), min_size=1, max_size=20)


def parse(data: bytes, block_bytes: int = 1 << 20) -> list[tuple[str, str, str]]:
    return list(names_of(facts_from_blocks(split_blocks(BytesIO(data), "x", block_bytes=block_bytes), "x")))


def test_directed_appends_the_inverses() -> None:
    facts = torch.tensor([[0, 1, 2], [3, 0, 3]])
    assert directed(facts, 2).tolist() == [[0, 1, 2], [3, 0, 3], [2, 3, 0], [3, 2, 3]]
    assert directed(facts[:0], 2).shape == (0, 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), max_size=30))
@pytest.mark.parametrize("largest_key", [2**63 - 1, 0], ids=["as numbers", "as rows"])
def test_unique_and_contains_agree_with_sets(largest_key: int, facts: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_KEY", largest_key)
        tensor = torch.tensor(facts, dtype=torch.int64).reshape(-1, 3)
        assert [tuple(row) for row in unique_facts(tensor, 5, 3).tolist()] == sorted(set(facts))
        half, wanted = tensor[: len(tensor) // 2], tensor[len(tensor) // 2 :]
        known = set(facts[: len(tensor) // 2])
        assert contains(half, wanted, 5, 3).tolist() == [tuple(row) in known for row in wanted.tolist()]


def test_keys_do_not_overflow() -> None:
    facts = torch.tensor([[2**40, 5, 3], [1, 2, 2**40], [2**40, 5, 3]])
    assert unique_facts(facts, 2**40 + 1, 6).tolist() == [[1, 2, 2**40], [2**40, 5, 3]]
    assert contains(facts[:1], facts, 2**40 + 1, 6).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        (b"a\tr\tb\n", [("a", "r", "b")]),
        (b"\xef\xbb\xbfa\tr\tb\r\nc\tr\td\r\n\r\n", [("a", "r", "b"), ("c", "r", "d")]),
        (b'"a\tNA\t"b"\n\'\t\\N\t#null', [('"a', "NA", '"b"'), ("'", "\\N", "#null")]),
        (" a \t r\u2028\t🙂\n".encode(), [(" a ", " r\u2028", "🙂")]),
        (b"a\tr\tb\na\tr\tb\n", [("a", "r", "b")] * 2),
        ("\ufeff\ufeffa\tr\tb\n".encode(), [("\ufeffa", "r", "b")]),
    ],
)
def test_files_by_hand(data: bytes, facts: list[tuple[str, str, str]]) -> None:
    for block_bytes in (1, 7, 1000):
        assert parse(data, block_bytes) == facts


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x: empty; expected a fact on each line"),
        (b"\n\r\n\n", "x: empty"),
        (b"a\tr\tb\nc\tr\n", "x, line 2: 2 fields; expected three"),
        (b"a\tr\tb\tc\td\n", "x, line 1: 5 fields; expected three"),
        (b"a r b\n", "x, line 1: one field (spaces or commas do not separate fields, tabs do)"),
        (b"abc\n", "x, line 1: one field; expected three"),
        (b"a\tr\tb\n\t\t\n", "x, line 2: the head is empty"),
        (b"a\tr\tb\na\t\tb\n", "x, line 2: the relation is empty"),
        (b"a\tr\tb\na\tr\t \n", "x, line 2: the tail is empty"),
        (b"a\tr\tb\n\nc\tr\td\n", "x, line 2: blank"),
        (b"\na\tr\tb\n", "x, line 1: blank"),
        (b"a\tr\tb\n\xff\tr\tb\n", "x, line 2: not UTF-8 (byte 0xff at position 1)"),
        (b"a\tr\tb\na\tr\t\xed\xa0\x80\n", "x, line 2: not UTF-8 (byte 0xed at position 5)"),
        (b"a\tr\tb\0\n", "x, line 1: a NUL byte"),
        (b"a\tr\tb\rc\tr\td\n", "x, line 1: 5 fields"),
        (b"a\tr\tb\na\rc\tr\td\n", "x, line 2: the head 'a\\rc' holds a tab, line break or NUL"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(data: bytes, message: str) -> None:
    for block_bytes in (1, 3, 1000):
        with pytest.raises(DataError) as caught:
            parse(data, block_bytes)
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)


@given(FACTS, st.integers(1, 60))
def test_what_is_written_is_read(facts: list[tuple[str, str, str]], block_bytes: int) -> None:
    text = "".join("\t".join(fact) + "\n" for fact in facts)
    assert parse("\ufeff".encode() + text.encode(), block_bytes) == facts
    assert list(names_of(table_of(facts))) == facts


@given(st.one_of(st.binary(max_size=60), st.text(alphabet="ab\t\n\r \0\ufeffé", max_size=60).map(str.encode)), st.integers(1, 70))
def test_any_bytes_give_facts_or_a_data_error_and_blocks_do_not_show(data: bytes, block_bytes: int) -> None:
    def outcome(size: int) -> list[tuple[str, str, str]] | None:
        try:
            return parse(data, size)
        except DataError:
            return None

    assert outcome(block_bytes) == outcome(1 << 20)


@given(st.text(alphabet="ab\t\n\x1c\u2028\x85 \"'\\,#é", max_size=80))
def test_fast_and_slow_reading_agree(text: str) -> None:
    block = Block(1, text.encode() + b"\n")

    def outcome(parser: object) -> list[tuple[str, str, str]] | str:
        try:
            return list(names_of(parser(block, "x")))  # type: ignore[operator]
        except DataError as error:
            return str(error)

    assert outcome(module._parse_block) == outcome(module._parse_slowly)


def test_gzip_and_plain_files_are_the_same(tmp_path: Path) -> None:
    data = b"a\tr\tb\nc\tr\td\n"
    (tmp_path / "f.tsv").write_bytes(data)
    (tmp_path / "f.txt.gz").write_bytes(gzip.compress(data[:7]) + gzip.compress(data[7:]))
    assert list(names_of(read_facts(tmp_path / "f.tsv"))) == list(names_of(read_facts(str(tmp_path / "f.txt.gz")))) == parse(data)


def test_the_file_is_named_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"a\tr\tb\n" * 99 + b"a\tr\n")
    with pytest.raises(DataError, match=r"train\.txt, line 100: 2 fields"):
        read_facts(path)


@pytest.mark.parametrize("fact", [("a", "b"), ("a", "b", "c", "d"), ("a", "", "c"), ("a", "b", "c\td"), ("a", 1, "c"), "abc", ("a", "b", "\ud800")])
def test_bad_facts_in_memory_are_refused(fact: object) -> None:
    with pytest.raises(DataError):
        table_of([("a", "r", "b"), fact])  # type: ignore[list-item]
