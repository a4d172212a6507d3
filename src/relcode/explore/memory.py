"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from relcode.errors import SettingError

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", re.IGNORECASE)


def parse_memory(text: str | int | None) -> int | None:
    """Return bytes from ``2GB``, ``500 MB``, ``1.5g`` or a plain number; units are powers of 1024. None, no bound given, stays None."""
    if text is None or isinstance(text, int):
        return text
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise SettingError(f"memory cannot be {text!r}: write an amount such as 2GB, 500MB or a number of bytes")
    return int(float(match.group(1)) * UNITS[match.group(2).upper()])
