from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from relcode.checked import POSITIVE_INT, SHARE, Checked, describe_type, option
from relcode.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Tea(Checked):
    spoons: int = option(1, "of tea", POSITIVE_INT)
    milk: float | None = option(None, "share of milk (none: black)", SHARE)
    pot: Literal["round", "tall"] = option("round", "shape of the pot")


def test_a_record_that_holds_is_made() -> None:
    assert Tea() == Tea(spoons=1, milk=None, pot="round")
    assert Tea(milk=1).milk == 1  # a whole number is a good number


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"spoons": 0}, "spoons cannot be 0: it must be a whole number of at least 1"),
        ({"spoons": 1.0}, "spoons cannot be 1.0: it must be a whole number of at least 1"),
        ({"spoons": True}, "spoons cannot be True: it must be a whole number of at least 1"),
        ({"milk": 1.5}, "milk cannot be 1.5: it must be a number from 0 to 1"),
        ({"milk": float("nan")}, "milk cannot be nan: it must be a number from 0 to 1"),
        ({"pot": "square"}, "pot cannot be 'square': it must be one of round, tall"),
    ],
)
def test_a_record_that_does_not_hold_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        Tea(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_types_are_said_in_words() -> None:
    assert describe_type(int | None) == "a whole number or none"
    assert describe_type(bool) == "true or false" and describe_type(str) == "text"
