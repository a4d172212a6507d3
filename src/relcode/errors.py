"""The error tree: everything relcode raises for its user's sake.

A message is one line that says what was given, what is allowed and what to do. The command line prints it and exits with the class's
``exit_code``; a traceback is only ever a defect of relcode itself.

    RelcodeError            2
    ├── DataError             a file or folder of facts cannot be read
    ├── UnknownName           an entity, relation, dataset, recipe, … nobody knows
    ├── SettingError          a setting that does not exist or cannot have that value
    ├── PathSyntaxError       a relation path that does not parse
    ├── DeviceError           a device that is not there
    ├── RunError              a run folder that is missing, damaged or of another version
    ├── OutputError           a place that cannot be written, or already exists
    ├── MissingExtra          an optional package that is not installed
    └── NotFinite           1 a loss, score or parameter that is NaN or infinite
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 12  # where no more names than this are known, all of them are listed


def counted(number: int, thing: str) -> str:
    """Write a number of things for a message: 1 fact, 1,200 facts."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


class RelcodeError(Exception):
    """A mistake its user can mend; the message is one line."""

    exit_code = 2


class DataError(RelcodeError):
    """A file or folder of facts cannot be read as one."""


class UnknownName(RelcodeError):
    """A name that is not in the vocabulary it was looked up in."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        """Say that no ``kind`` is called ``name`` and which known names come close."""
        super().__init__(f"unknown {kind} {name!r}{suggestion(name, known)}")
        self.kind = kind
        self.name = name


class SettingError(RelcodeError):
    """A setting that does not exist or cannot have the value given."""


class PathSyntaxError(RelcodeError):
    """A relation path that does not parse."""


class DeviceError(RelcodeError):
    """A device that this machine does not have."""


class RunError(RelcodeError):
    """A run folder that is missing, damaged or made by another version."""


class OutputError(RelcodeError):
    """A place that cannot be written, or that holds something already."""


class ExistsAlready(OutputError):
    """A place that would be written over."""

    def __init__(self, place: object) -> None:
        """Say which, and what to do."""
        super().__init__(f"{place} exists already: choose another place with --out, or remove it first")


class CannotWrite(OutputError):
    """A place that the system will not write to."""

    def __init__(self, place: object, error: Exception, instead: str = "choose another place with --out") -> None:
        """Say which, why, and what to do: free space where there is none, or do something ``instead``."""
        is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        super().__init__(f"cannot write {place}: {reason}; {'free space there, or ' if is_full else ''}{instead}")


class MissingExtra(RelcodeError):
    """An optional package that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        """Name the package that is missing, what it is for, and the extra that brings it."""
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'relcode[{extra}]'")


class NotFinite(RelcodeError):
    """A loss, score or parameter is NaN or infinite: a failure, never a rank."""

    exit_code = 1


def suggestion(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return ``": did you mean …?"`` for the known names closest to ``name``, else the known names if few, else those that come nearest."""
    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    close = [folded[match] for match in get_close_matches(name.casefold(), list(folded), n=most, cutoff=0.6)]
    few = "known are " + ", ".join(names) if 0 < len(names) <= MOST_LISTED else ""
    if close:
        return ": did you mean " + " or ".join(repr(match) for match in close) + "?" + (f" ({few})" if few else "")
    if few or not names:
        return f": {few}" if few else ""
    nearest = get_close_matches(name.casefold(), list(folded), n=most, cutoff=0.0)
    return ": none is spelt like it; nearest come " + ", ".join(repr(folded[match]) for match in nearest)
