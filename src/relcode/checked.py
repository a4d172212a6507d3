"""Records that check themselves when they are made: each field says what it means and which values it may have (see config)."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from relcode.errors import SettingError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must satisfy, and how to say so."""

    allowed: str
    holds: Callable[[Any], bool]


POSITIVE_INT = Rule("a whole number of at least 1", lambda value: value >= 1)
COUNT = Rule("a whole number of at least 0", lambda value: value >= 0)
SEED = Rule("a whole number from 0 to 2⁶³ − 1", lambda value: 0 <= value < 1 << 63)
POSITIVE = Rule("a finite number above 0", lambda value: math.isfinite(value) and value > 0)
LIMIT = Rule("a number above 0 (inf for no limit)", lambda value: value > 0)
WEIGHT = Rule("a finite number of at least 0", lambda value: math.isfinite(value) and value >= 0)
SHARE = Rule("a number from 0 to 1", lambda value: 0 <= value <= 1)
BLOCK = Rule("0 or a power of two", lambda value: value >= 0 and value & (value - 1) == 0)
ANY = Rule("", lambda value: True)


def option(default: T, text: str, rule: Rule = ANY) -> T:
    """Define one option: its default, what it means, and which values it may have."""
    return field(default=default, metadata={"help": text, "rule": rule})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the annotated types of a record's fields; working them out takes longer than checking them."""
    return typing.get_type_hints(kind)


class Checked:
    """Checks every field against its type and rule when the record is made."""

    def __post_init__(self) -> None:
        """Refuse a value of the wrong type or out of its range, in one line."""
        hints = _hints(type(self))  # type: ignore[arg-type]
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            kind, value = hints[item.name], getattr(self, item.name)
            if dataclasses.is_dataclass(kind):
                continue
            rule: Rule = item.metadata.get("rule", ANY)
            if not _has_type(value, kind) or (value is not None and not rule.holds(value)):
                raise SettingError(f"{item.name} cannot be {value!r}: it must be {rule.allowed or describe_type(kind)}")


def _has_type(value: object, kind: Any) -> bool:
    """Say whether ``value`` fits the annotated type; an int is a good float, a bool is no number."""
    options = typing.get_args(kind)
    if typing.get_origin(kind) is Literal:
        return value in options
    if options:  # a union such as int | None
        return any(_has_type(value, part) for part in options)
    if kind is type(None):
        return value is None
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) if kind is float else isinstance(value, kind)


def describe_type(kind: Any) -> str:
    """Say in words which values an annotated type allows."""
    options = typing.get_args(kind)
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(str(value) for value in options)
    if options:
        return " or ".join(describe_type(part) for part in options)
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "none"}[kind]
