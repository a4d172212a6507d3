from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from relcode.ops.workers import share, torch_alone


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_every_piece_is_done_once(threads: int) -> None:
    done: list[int] = []
    share(done.append, range(100))
    assert sorted(done) == list(range(100))
    share(done.append, [])
    assert len(done) == 100


def test_torch_runs_alone_inside_and_as_before_outside(threads: int) -> None:
    inside: list[int] = []
    share(lambda _: inside.append(torch.get_num_threads()), range(20))
    assert set(inside) == {1}
    assert torch.get_num_threads() == threads


def test_pieces_are_shared_among_all_threads_at_once(threads: int) -> None:
    meeting = threading.Barrier(threads)
    names: set[str] = set()

    def meet(_: int) -> None:
        meeting.wait(timeout=30)  # passes only where as many pieces are under way as there are threads
        names.add(threading.current_thread().name)

    share(meet, range(threads))
    assert len(names) == threads


def test_a_piece_that_fails_is_told_and_threads_are_put_back(threads: int) -> None:
    def fail(piece: int) -> None:
        if piece == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        share(fail, range(20))
    assert torch.get_num_threads() == threads


def test_around_several_shares_torch_stays_alone(threads: int) -> None:
    names: set[str] = set()
    meeting = threading.Barrier(threads)

    def meet(_: int) -> None:
        meeting.wait(timeout=30)
        names.add(threading.current_thread().name)

    with torch_alone() as count:
        assert count == threads and torch.get_num_threads() == 1
        share(meet, range(threads))
        assert torch.get_num_threads() == 1
    assert len(names) == threads and torch.get_num_threads() == threads


def test_a_piece_may_share_again(threads: int) -> None:
    done: list[tuple[int, int]] = []
    share(lambda one: share(lambda other: done.append((one, other)), range(3)), range(4))
    assert sorted(done) == [(one, other) for one in range(4) for other in range(3)]
