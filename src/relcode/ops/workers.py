"""Pieces of work on several threads of the CPU, each piece on one of them.

torch shares a single product among threads, and they wait for each other at its end: of products as small as a relation's that costs more than it
gives. Here threads take whole pieces instead, one after the other, as they become free (torch lets go of Python's lock while it computes). Which
thread takes which piece depends on the clock, so a piece writes where no other does and reads nothing that another writes. Then results depend
neither on the clock nor on the number of threads.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
First = TypeVar("First")
Second = TypeVar("Second")
_here = threading.local()  # .threads: on how many pieces are shared, where torch has been told to run on one


def share(work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
    """Do ``work`` on every piece, on as many threads as torch has been given; return when all are done."""
    pieces = list(pieces)
    waiting, lock = iter(pieces), threading.Lock()

    def take_all() -> None:
        while True:
            with lock:
                try:
                    piece = next(waiting)
                except StopIteration:
                    return
            work(piece)

    with torch_alone() as threads:
        helpers = [_pool(threads).submit(take_all) for _ in range(min(threads, len(pieces)) - 1)]
        try:
            take_all()
        finally:
            wait(helpers)  # all of them, before what one of them may have to say
        for helper in helpers:
            helper.result()


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Do both and return what they return: shared where torch runs alone (:func:`torch_alone`), else one after the other on torch's own threads.

    Neither may touch what the other writes, and how work is cut in two must depend on its size alone, never on where this is called.
    """
    if not getattr(_here, "threads", 0):
        return first(), second()
    one: list[First] = []
    other: list[Second] = []
    pieces: list[Callable[[], None]] = [lambda: one.append(first()), lambda: other.append(second())]
    share(lambda piece: piece(), pieces)
    return one[0], other[0]


@contextmanager
def torch_alone(most: int | None = None) -> Iterator[int]:
    """Let every product run on the thread that asks for it; yield on how many threads pieces are shared: as many as torch had, or ``most``.

    Around all that a step does: threads that torch has used wait busily for some time for the next product, where they are in the way.
    """
    given = getattr(_here, "threads", 0)
    if given:
        yield given
        return
    before = torch.get_num_threads()
    threads = min(before, most or before)
    _here.threads = threads
    torch.set_num_threads(1)  # threads that begin from now on have it too
    try:
        yield threads
    finally:
        _here.threads = 0
        torch.set_num_threads(before)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads beside the caller's: kept, since each has memory of its own for products."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="relcode", initializer=torch.set_num_threads, initargs=(1,))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not live on in a forked process
