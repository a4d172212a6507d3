"""Two halves of one piece of work side by side, each on a core of its own.

torch's threads share every single operation and wait for each other after it, spinning: where products are small that gains little, and beside
another busy process it costs many times what it gains. Here a half is a whole sequence of operations in one thread, and nobody waits before the end.
How work is cut must depend on its size alone, never on whether there are two threads, so that a result has the same bits on one core and on two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


class _Helper:
    """The thread beside the caller's: made when first needed, and again in a process that was forked, where threads are gone."""

    def __init__(self) -> None:
        self.wanted = False
        self.pool: ThreadPoolExecutor | None = None

    def submitting(self) -> ThreadPoolExecutor:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(1, thread_name_prefix="relcode-half")
        return self.pool

    def forget(self) -> None:
        self.pool = None


_helper = _Helper()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helper.forget)


@contextmanager
def two_at_once(wanted: bool) -> Iterator[None]:
    """Let halves run side by side in this block, or one after the other; what was before comes back after it."""
    before, _helper.wanted = _helper.wanted, wanted
    try:
        yield
    finally:
        _helper.wanted = before


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Do both and return what they return: side by side where :func:`two_at_once` says so. Neither may touch what the other writes."""
    if not _helper.wanted:
        return first(), second()
    other = _helper.submitting().submit(second)
    try:
        mine = first()
    finally:
        other.exception()  # whatever happened here, nobody works on when this returns
    return mine, other.result()
