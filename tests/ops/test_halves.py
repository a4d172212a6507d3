"""Halves side by side and one after the other: the same results, errors of either, nobody left working, a process that was forked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
import torch

from relcode.ops.halves import both, two_at_once


@pytest.mark.parametrize("wanted", [False, True])
def test_both_are_done_and_come_back_in_order(wanted: bool) -> None:
    with two_at_once(wanted):
        first, second = both(lambda: (1, threading.get_ident()), lambda: ("two", threading.get_ident()))
    assert (first[0], second[0]) == (1, "two")
    assert first[1] == threading.get_ident() and (second[1] != first[1]) == wanted


def test_they_are_at_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=60)  # passed only by two who are there together
    with two_at_once(True):
        assert set(both(meeting.wait, meeting.wait)) == {0, 1}


def test_the_same_bits_either_way() -> None:
    vector_ED = torch.randn(400, 16, generator=torch.Generator().manual_seed(0))

    def work(part: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: torch.softmax(part @ vector_ED.T, 1) @ vector_ED

    found = []
    for wanted in (False, True):
        with two_at_once(wanted):
            found.append(torch.cat(both(work(vector_ED[:200]), work(vector_ED[200:]))))
    assert torch.equal(*found)


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("which", [0, 1])
def test_an_error_of_either_comes_through_after_both_have_ended(wanted: bool, which: int) -> None:
    ended = []

    def fails() -> None:
        raise ValueError("not this one")

    def works() -> None:
        ended.append(True)

    with two_at_once(wanted), pytest.raises(ValueError, match="not this one"):
        both(*((fails, works) if which == 0 else (works, fails)))
    assert ended == ([] if which == 0 and not wanted else [True])
    with two_at_once(wanted):
        assert both(lambda: 3, lambda: 4) == (3, 4)  # and it goes on


def test_what_was_wanted_before_comes_back() -> None:
    def elsewhere() -> bool:
        return len(set(both(threading.get_ident, threading.get_ident))) == 2

    assert not elsewhere()
    with two_at_once(True):
        with two_at_once(False):
            assert not elsewhere()
        assert elsewhere()
    assert not elsewhere()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
def test_a_forked_process_has_a_thread_of_its_own() -> None:
    with two_at_once(True):
        both(lambda: None, lambda: None)  # the thread is there, and a child would wait for it for ever
        child = os.fork()
        if not child:
            os._exit(0 if both(lambda: 1, lambda: 2) == (1, 2) else 1)
    assert os.waitpid(child, 0)[1] == 0
