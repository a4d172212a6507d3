from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from relcode.web.lanes import Busy, Joint, Kept, Lane
from relcode.web.limits import LaneSize


def test_work_is_done_in_a_thread_and_its_result_returned() -> None:
    lane = Lane("quick", LaneSize(workers=1, waiting=0))
    name = asyncio.run(lane.run(lambda: threading.current_thread().name.encode()))
    assert name == b"quick-0"
    assert lane.inside == 0


def test_an_error_reaches_who_asked_and_the_lane_goes_on() -> None:
    lane = Lane("quick", LaneSize(workers=1, waiting=0))

    def fail() -> bytes:
        raise ZeroDivisionError

    async def both() -> bytes:
        with pytest.raises(ZeroDivisionError):
            await lane.run(fail)
        return await lane.run(lambda: b"on")

    assert asyncio.run(both()) == b"on"
    assert lane.inside == 0


def test_what_nobody_waits_for_is_done_and_its_errors_end_nothing() -> None:
    lane, done = Lane("map", LaneSize(workers=1, waiting=0)), []

    def fail() -> bytes:
        done.append("tried")
        raise ZeroDivisionError

    lane.begin(fail)
    assert asyncio.run(lane.run(lambda: b"on")) == b"on"
    assert (done, lane.inside) == (["tried"], 0)


def test_too_much_work_is_refused_at_once_and_counted() -> None:
    lane, gate = Lane("slow", LaneSize(workers=1, waiting=1)), threading.Event()

    def wait() -> bytes:
        gate.wait(30)
        return b"done"

    async def story() -> list[bytes]:
        inside = [asyncio.ensure_future(lane.run(wait)) for _ in range(2)]
        await asyncio.sleep(0)
        assert lane.inside == 2
        with pytest.raises(Busy, match="slow lane is full"):
            await lane.run(wait)
        gate.set()
        return list(await asyncio.gather(*inside))

    assert asyncio.run(story()) == [b"done", b"done"]
    assert (lane.inside, lane.refused) == (0, 1)


def test_one_lane_never_waits_for_another() -> None:
    slow, quick, gate = Lane("slow", LaneSize(workers=1, waiting=4)), Lane("quick", LaneSize(workers=1, waiting=0)), threading.Event()

    async def story() -> bytes:
        held = asyncio.ensure_future(slow.run(lambda: str(gate.wait(30)).encode()))
        answer = await quick.run(lambda: b"quick")
        assert not held.done()
        gate.set()
        assert await held == b"True"
        return answer

    assert asyncio.run(story()) == b"quick"


def test_kept_answers_are_computed_once_and_the_oldest_goes() -> None:
    kept, computed = Kept(most=2), []

    def work(name: str) -> bytes:
        computed.append(name)
        return name.encode()

    for name in ("a", "b", "a", "c", "a", "b"):
        assert kept.or_else(name, lambda name=name: work(name)) == name.encode()  # type: ignore[misc]
    assert computed == ["a", "b", "c", "b"]
    assert kept.get("c") is None and kept.get("a") == b"a"


def test_joint_work_that_waits_is_done_at_once_and_the_rest_in_its_turn() -> None:
    lane, gate, groups = Lane("quick", LaneSize(workers=1, waiting=30)), threading.Event(), []

    def together(items: Sequence[int]) -> list[bytes | BaseException]:
        groups.append(list(items))
        return [ZeroDivisionError() if item == 3 else str(item).encode() for item in items]

    def other(items: Sequence[int]) -> list[bytes | BaseException]:
        raise KeyError

    async def story() -> list[bytes | BaseException]:
        held = asyncio.ensure_future(lane.run(lambda: str(gate.wait(30)).encode()))
        work = [Joint(together, 1), Joint(together, 2), Joint(together, 3), lambda: b"alone", *(Joint(together, item) for item in range(10, 20))]
        waiting = [asyncio.ensure_future(lane.run(one)) for one in (*work, Joint(other, 1), Joint(other, 2))]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0.01)  # the lane hears of it in the next turn of the loop
        gate.set()
        assert await held == b"True"
        return list(await asyncio.gather(*waiting, return_exceptions=True))

    found = asyncio.run(story())
    assert groups == [[2, 3], list(range(10, 18)), [18, 19]], "at most eight at once; who went away is not asked for"
    assert isinstance(found[0], asyncio.CancelledError) and found[1] == b"2" and isinstance(found[2], ZeroDivisionError)
    assert found[3] == b"alone" and found[4:14] == [str(item).encode() for item in range(10, 20)]
    assert [type(one) for one in found[14:]] == [KeyError, KeyError], "a defect reaches all of its group, and the lane goes on"
    assert lane.inside == 0 and asyncio.run(lane.run(lambda: b"on")) == b"on"
