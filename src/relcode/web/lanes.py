"""Lanes: bounded work in threads beside the event loop, so that slow questions queue among themselves and too many are refused at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from relcode.web.limits import LaneSize

RETRY_SECONDS = 1
MOST_KEPT = 32  # answers kept of a lane that computes once

MOST_TOGETHER = 8  # questions answered at once by one worker
LINGER_SECONDS = 0.0015  # that a worker waits for more to join, where the last ones were several: those who asked them ask again by then

Work = Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Joint:
    """Work that is cheaper with others of its kind: ``together`` takes the items of all, and returns a result or an error for each."""

    together: Callable[[Sequence[Any]], Sequence[bytes | BaseException]]
    item: Any


Waiting = tuple[Future[bytes], Work | Joint]


class Busy(Exception):
    """A lane that has as much to do as it may have."""

    def __init__(self, lane: str) -> None:
        """Name the lane."""
        super().__init__(f"too many questions at once: the {lane} lane is full; ask again in {RETRY_SECONDS} s")
        self.lane = lane


class Lane:
    """Some worker threads and a bounded queue. The threads are daemons: a long question never keeps the server from stopping."""

    def __init__(self, name: str, size: LaneSize) -> None:
        """Start the threads."""
        self.name, self.size = name, size
        self.inside = 0  # being worked on or waiting; only the event loop's thread changes it
        self.refused = 0
        self._queue: SimpleQueue[Waiting] = SimpleQueue()
        for number in range(size.workers):
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True).start()

    async def run(self, work: Work | Joint) -> bytes:
        """Do the work in a thread, joint work with what waits beside it, and return its result; raise :class:`Busy` where too much waits already."""
        if self.inside >= self.size.workers + self.size.waiting:
            self.refused += 1
            raise Busy(self.name)
        self.inside += 1
        try:
            future: Future[bytes] = Future()
            self._queue.put((future, work))
            return await asyncio.wrap_future(future)
        finally:
            self.inside -= 1

    def begin(self, work: Work) -> None:
        """Have work done that nobody waits for; its result, or what it raises, is dropped."""
        self._queue.put((Future(), work))

    def _serve(self) -> None:
        group: list[Waiting] = []
        several = False
        while True:
            group = group or [self._queue.get()]
            rest = self._join(group, LINGER_SECONDS if several else 0.0)
            several = len(group) > 1
            _do([(future, work) for future, work in group if future.set_running_or_notify_cancel()])
            group = rest

    def _join(self, group: list[Waiting], seconds: float) -> list[Waiting]:
        """Let joint work that waits, or comes soon, join a group of such; return what was taken from the queue and cannot."""
        if not isinstance(group[0][1], Joint):
            return []
        end = time.monotonic() + seconds
        while len(group) < MOST_TOGETHER:
            try:
                left = end - time.monotonic()
                other = self._queue.get(timeout=left) if left > 0 else self._queue.get_nowait()
            except Empty:
                return []
            if not isinstance(other[1], Joint) or other[1].together != group[0][1].together:
                return [other]
            group.append(other)
        return []


def _do(group: Sequence[Waiting]) -> None:
    """Do some work and hand results and errors to whoever waits; nothing that is raised ends the thread."""
    results: Sequence[bytes | BaseException] = []
    try:
        joint = [work for _, work in group if isinstance(work, Joint)]
        results = joint[0].together([work.item for work in joint]) if joint else [work() for _, work in group if not isinstance(work, Joint)]
    except BaseException as error:
        results = [error] * len(group)
    for (future, _), result in zip(group, results, strict=True):
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


class Kept:
    """The last answers of a lane, by what was asked; the oldest goes when there are too many."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        """Start with nothing."""
        self._most, self._lock = most, threading.Lock()
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """Return the answer kept under a key."""
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def or_else(self, key: Hashable, work: Work) -> bytes:
        """Return the answer kept under a key, else do the work and keep what it returns."""
        kept = self.get(key)
        if kept is not None:
            return kept
        answer = work()
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer
