from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
import torch

from relcode.ops.workers import both, share, torch_alone


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


def test_no_more_threads_than_asked_for(threads: int) -> None:
    names: set[str] = set()
    with torch_alone(1) as count:
        assert count == 1 and torch.get_num_threads() == 1
        share(lambda _: names.add(threading.current_thread().name), range(20))
    assert names == {threading.current_thread().name} and torch.get_num_threads() == threads


# -- two pieces of work


@pytest.mark.parametrize("alone", [False, True])
def test_both_are_done_and_come_back_in_order(threads: int, alone: bool) -> None:
    with torch_alone() if alone else nullcontext():
        assert both(lambda: 1, lambda: "two") == (1, "two")


def test_both_are_at_work_at_once_where_torch_is_alone_and_has_two_threads(threads: int) -> None:
    meeting = threading.Barrier(2)
    with torch_alone():
        if threads > 1:
            assert set(both(lambda: meeting.wait(timeout=30), lambda: meeting.wait(timeout=30))) == {0, 1}
        else:
            assert both(threading.get_ident, threading.get_ident) == (threading.get_ident(), threading.get_ident())
    assert both(threading.get_ident, threading.get_ident) == (threading.get_ident(), threading.get_ident())


def test_halves_have_the_same_bits_either_way(threads: int) -> None:
    vector_ED = torch.randn(400, 16, generator=torch.Generator().manual_seed(0))

    def work(part: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: torch.softmax(part @ vector_ED.T, 1) @ vector_ED

    found = []
    for most in (1, None):
        with torch_alone(most):
            found.append(torch.cat(both(work(vector_ED[:200]), work(vector_ED[200:]))))
    assert torch.equal(*found)


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_of_either_comes_through_after_both_have_ended(threads: int, which: int) -> None:
    ended = []

    def fails() -> None:
        raise ValueError("not this one")

    def works() -> None:
        ended.append(True)

    with torch_alone():
        with pytest.raises(ValueError, match="not this one"):
            both(*((fails, works) if which == 0 else (works, fails)))
        assert ended == ([] if which == 0 and threads == 1 else [True])
        assert both(lambda: 3, lambda: 4) == (3, 4)  # and it goes on


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with torch_alone():
        both(lambda: None, lambda: None)  # the thread is there, and a child would wait for it for ever
        child = os.fork()
        if not child:
            os._exit(0 if both(lambda: 1, lambda: 2) == (1, 2) else 1)
    torch.set_num_threads(before)
    assert os.waitpid(child, 0)[1] == 0
