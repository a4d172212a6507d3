"""Ways to spoil bytes, JSON and files. Choices are made by hypothesis, which shrinks what breaks, or by a plain random stream, which is quicker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")


class Choices(Protocol):
    """Whoever chooses."""

    def integer(self, low: int, high: int) -> int: ...

    def pick(self, options: Sequence[T]) -> T: ...

    def some_bytes(self, most: int) -> bytes: ...


@dataclass
class Drawn:
    """Choices by hypothesis."""

    draw: DrawFn

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def some_bytes(self, most: int) -> bytes:
        return self.draw(st.binary(min_size=1, max_size=most))


@dataclass
class Rolled:
    """Choices by a random stream."""

    random: Random

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def some_bytes(self, most: int) -> bytes:
        return self.random.randbytes(self.random.randint(1, most))


@st.composite
def _made(draw: DrawFn, make: Callable[[Choices], T]) -> T:
    return make(Drawn(draw))


def strategy(make: Callable[[Choices], T]) -> SearchStrategy[T]:
    """Return the strategy of the cases that a function makes of choices."""
    return _made(make)


EXTREMES = (
    b"\xff" * 8,
    b"\0" * 8,
    b"\xff" * 7 + b"\x7f",
    (2**63).to_bytes(8, "little"),
    b"\x80\0\0\0\0\0\0\0",
    b"\x01",
    b"PAR1",
    b"{",
    b'"',
    b"\n",
    b"\\",
)
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, 1e-320)
ODD_TEXTS = ("", " ", "x", "../x", "/etc/passwd", "0.safetensors", "..\\..\\x", "inf", "nan", "NaN", "None", "true", "1", "1e999", "\0", "😀")
CODE = ("__import__('os').system('true')", "!!python/object:os.system", "${HOME}", "a" * 5000)
ODD_VALUES: tuple[Any, ...] = (None, True, False, *ODD_NUMBERS, *ODD_TEXTS, *CODE, [], [1], [[]], {}, {"a": 1}, {"": {}}, {"__proto__": 1})
Content = Callable[[], bytes]  # what is spoilt; a function, so that hypothesis need not write it out


def spoilt_bytes(choose: Choices, of: Content) -> bytes:
    """Return content with up to three of: a bit flipped, bytes cut, doubled, inserted, overwritten, the end cut off."""
    content = of()
    for _ in range(choose.integer(1, 3)):
        place = choose.integer(0, max(0, len(content) - 1))
        size = choose.integer(1, 64)
        kind = choose.pick(("flip", "flip", "cut", "double", "insert", "overwrite", "end", "extreme"))
        before, after = content[:place], content[place:]
        if kind == "flip" and after:
            after = bytes([after[0] ^ (1 << choose.integer(0, 7))]) + after[1:]
        elif kind == "cut":
            after = after[size:]
        elif kind == "double":
            after = after[:size] + after
        elif kind == "insert":
            after = choose.some_bytes(16) + after
        elif kind == "overwrite":
            new = choose.some_bytes(16)
            after = new + after[len(new) :]
        elif kind == "extreme":
            new = choose.pick(EXTREMES)
            after = new + after[len(new) :]
        elif kind == "end":
            after = b""
        content = before + after
    return content


def spoil_tree(choose: Choices, tree: Any) -> Any:
    """Return a JSON tree in which one or two places have an odd value, are gone, or are new."""
    tree = json.loads(json.dumps(tree))
    for _ in range(choose.integer(1, 2)):
        inner = tree
        while isinstance(inner, dict) and inner:
            key = choose.pick(sorted(inner))
            if isinstance(inner[key], dict) and inner[key] and choose.integer(0, 4):
                inner = inner[key]
                continue
            kind = choose.pick(("replace", "replace", "replace", "remove", "add"))
            if kind == "remove":
                del inner[key]
            else:
                place = key if kind == "replace" else choose.pick(("x", "", "status", "dim", "../x", key * 2))
                inner[place] = json.loads(json.dumps(choose.pick(ODD_VALUES)))
            break
    return tree


def spoilt_json(choose: Choices, of: Content) -> bytes:
    """Return JSON with odd values, or JSON no longer: a name twice, NaN, brackets without end, other encodings."""
    text = json.dumps(spoil_tree(choose, json.loads(of())))
    kind = choose.pick(("plain", "plain", "plain", "twice", "nan", "deep", "bom", "utf16", "long", "tail"))
    if kind == "twice" and text.startswith("{"):
        text = '{"status": {}, ' + text[1:]
    elif kind == "nan":
        text = text.replace("1", choose.pick(("NaN", "Infinity", "-Infinity", "1e999")), 1)
    elif kind == "deep":
        text = text.replace(": ", ": " + "[" * choose.pick((10, 1000, 100_000)), 1)
    elif kind == "long":
        text = text.replace('"', '"' + "x" * 100_000, 1)
    elif kind == "tail":
        text += choose.pick((" ", "x", "{}", "\0", "é", ",", "}"))
    if kind == "bom":
        return b"\xef\xbb\xbf" + text.encode()
    return text.encode("utf-16") if kind == "utf16" else text.encode("utf-8", "surrogatepass")


def spoilt_safetensors(choose: Choices, of: Content) -> bytes:
    """Return a safetensors file whose header says something else: offsets, shapes, types, lengths."""
    content = of()
    length = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    kind = choose.pick(("tree", "tree", "length", "body", "numbers"))
    if kind == "numbers":  # a whole file with numbers that no training makes
        extreme = choose.pick((b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\xff\xff\x7f\x7f", b"\1\0\0\0"))
        place = 4 * choose.integer(0, max(0, len(body) // 4 - 1))
        body = body[:place] + extreme + body[place + 4 :]
    if kind == "body":
        whole = body
        body = spoilt_bytes(choose, lambda: whole)
    if kind == "tree":
        name = choose.pick(sorted(name for name in header if name != "__metadata__"))
        change = choose.pick(("dtype", "shape", "data_offsets", "rename", "any"))
        if change == "dtype":
            header[name]["dtype"] = choose.pick(("F32", "F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "", "C64"))
        elif change == "shape":
            shape = header[name]["shape"]
            header[name]["shape"] = choose.pick(([], [0], [2**63], [2**32, 2**32], [-1], shape[::-1], [1, *shape]))
        elif change == "data_offsets":
            header[name]["data_offsets"] = choose.pick(([0, 0], [0, 2**63], [2**64, 0], [-1, 4], [8, 4], [], None))
        elif change == "rename":
            header[choose.pick(("x", "", "../x", "generator", "tail_ED", "head_square_ED"))] = header.pop(name)
        else:
            header = spoil_tree(choose, header)
    text = json.dumps(header).encode()
    claimed = choose.pick((2**63, 2**64 - 1, 0, 1, len(text) + 1, len(content), 10**8)) if kind == "length" else len(text)
    return claimed.to_bytes(8, "little") + text + body
