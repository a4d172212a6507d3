"""Lanes: bounded work in threads beside the event loop, so that slow questions queue among themselves and too many are refused at once."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from queue import SimpleQueue

from relcode.web.limits import LaneSize

RETRY_SECONDS = 1
MOST_KEPT = 32  # answers kept of a lane that computes once

Work = Callable[[], bytes]


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
        self._queue: SimpleQueue[tuple[Future[bytes], Work]] = SimpleQueue()
        for number in range(size.workers):
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True).start()

    async def run(self, work: Work) -> bytes:
        """Do the work in a thread and return what it returns; raise :class:`Busy` where too much waits already."""
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

    def _serve(self) -> None:
        while True:
            future, work = self._queue.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # handed to whoever waits; the thread lives on
                future.set_exception(error)
            del future, work


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
