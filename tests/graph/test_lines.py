from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from relcode.errors import DataError
from relcode.graph.lines import LONGEST_LINE, read_blocks, split_blocks


def lines_of(data: bytes, block_bytes: int = 1 << 20, most_bytes: int = 1 << 30) -> list[tuple[int, bytes]]:
    return [line for block in split_blocks(BytesIO(data), "x", most_bytes, block_bytes) for line in block.lines()]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"a", [(1, b"a")]),
        (b"a\n", [(1, b"a")]),
        (b"a\nb", [(1, b"a"), (2, b"b")]),
        (b"a\r\nb\r\n\r\n", [(1, b"a"), (2, b"b")]),
        (b"\xef\xbb\xbfa\nb\n\n\n", [(1, b"a"), (2, b"b")]),
        (b"a\r", [(1, b"a")]),
        ("a\u2028b\x0b\x1c\nc".encode(), [(1, "a\u2028b\x0b\x1c".encode()), (2, b"c")]),
    ],
)
def test_lines_by_hand(data: bytes, lines: list[tuple[int, bytes]]) -> None:
    for block_bytes in (1, 2, 3, 100):
        assert lines_of(data, block_bytes) == lines


@given(st.lists(st.binary(min_size=1, max_size=6).filter(lambda line: not set(line) & set(b"\0\n\r")), max_size=12), st.integers(1, 40))
def test_the_size_of_blocks_does_not_show(lines: list[bytes], block_bytes: int) -> None:
    assume(lines[:1] != [b"\xef\xbb\xbf"])  # a mark alone leaves a blank line
    try:
        got = lines_of(b"\n".join(lines) + b"\n\n", block_bytes)
    except DataError as error:
        assert lines[0].startswith((b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")), error
    else:
        assert got == list(enumerate([line if i else line.removeprefix(b"\xef\xbb\xbf") for i, line in enumerate(lines)], start=1))


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 4, 100])
def test_a_blank_line_before_the_end_is_shown_or_refused(block_bytes: int) -> None:
    # Inside a block the line is handed on (whoever parses it refuses it); between two blocks it is refused here. Either way with its number.
    try:
        lines = lines_of(b"a\n\n\nb\n", block_bytes)
    except DataError as error:
        assert "x, line 2: blank" in str(error)
    else:
        assert lines == [(1, b"a"), (2, b""), (3, b""), (4, b"b")]


def test_a_nul_byte_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match="x, line 3: a NUL byte"):
        lines_of(b"a\nb\nc\0\n")


@pytest.mark.parametrize("ending", [b"", b"\n", b"\nb\n"])
@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 24])
def test_a_line_too_long_is_refused_with_its_number(ending: bytes, block_bytes: int) -> None:
    allowed, too_long = b"a" * LONGEST_LINE, b"a" * (LONGEST_LINE + 1)
    assert len(lines_of(b"x\n" + allowed + ending, block_bytes)) == 2 + (ending == b"\nb\n")
    with pytest.raises(DataError, match="x, line 2: longer than 1,048,576 bytes"):
        lines_of(b"x\n" + too_long + ending, block_bytes)


def test_what_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"a\tb\tc\n" * 100_000))
    assert path.stat().st_size < 5_000
    with pytest.raises(DataError, match="more than 100,000 bytes"):
        list(read_blocks(path, most_bytes=100_000, block_bytes=1 << 10))


def test_other_wrappings_are_recognised() -> None:
    with pytest.raises(DataError, match=r"rename it to end in \.gz"):
        lines_of(gzip.compress(b"a\n"))
    with pytest.raises(DataError, match="looks like UTF-16"):
        lines_of("a\tb\tc\n".encode("utf-16"))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read_blocks(tmp_path / "none.txt"))
    with pytest.raises(DataError, match="a folder"):
        list(read_blocks(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_blocks(Path("a\0b")))


def test_gzip_cut_anywhere_is_a_data_error(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"h{i}\tr\tt{i}\n" for i in range(50)).encode())
    path = tmp_path / "cut.txt.gz"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="gzip"):
            list(read_blocks(path))


def test_gzip_with_a_changed_byte_is_never_another_error(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"h{i}\tr\tt{i}\n" for i in range(50)).encode())
    path, refused = tmp_path / "changed.txt.gz", 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            list(read_blocks(path))
        except DataError:
            refused += 1
    assert refused > 0.8 * len(whole)


def test_plain_text_named_gz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt.gz"
    path.write_bytes(b"a\tb\tc\n")
    with pytest.raises(DataError, match="not a sound gzip file"):
        list(read_blocks(path))
