from __future__ import annotations

import json

import pytest

from relcode.errors import MissingExtra, NotFinite, PathSyntaxError, RelcodeError, SettingError, UnknownName
from relcode.explore.names import AmbiguousName
from relcode.graph.paths import parse_path
from relcode.graph.vocab import Vocab
from relcode.web.lanes import Busy
from relcode.web.problems import of_arguments, of_busy, of_error, of_unknown_arguments, problem, suggestions


def body_of(response) -> dict:
    assert response.media_type == "application/problem+json"
    return json.loads(response.body)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UnknownName("entity", "x", ["y"]), 404, "unknown-name"),
        (PathSyntaxError("path 'a//b', column 3: a step without a name"), 422, "path-syntax"),
        (SettingError("top cannot be 0"), 422, "not-possible"),
        (RelcodeError("anything else"), 422, "not-possible"),
        (MissingExtra("umap-learn", "analysis", "a map"), 501, "missing-extra"),
        (NotFinite("diverged"), 500, "diverged"),
    ],
)
def test_every_error_has_its_status(error: RelcodeError, status: int, code: str) -> None:
    response = of_error(error)
    body = body_of(response)
    assert response.status_code == body["status"] == status
    assert body["type"] == f"urn:relcode:{code}" and body["title"] and body["detail"] == str(error)


def test_a_detail_is_one_line() -> None:
    assert body_of(problem(404, "x", "two\nlines"))["detail"] == "two lines"


@pytest.mark.parametrize("names", [["Bilbao"], ["it's", 'a "b"'], ["both ' and \"", "or or or"], ["back\\slash", "שלום"]])
def test_the_names_that_a_message_suggests_are_read_back(names: list[str]) -> None:
    asked = "did you mean 'this'?"
    error = UnknownName("entity", asked, [])
    error.args = (f"unknown entity {asked!r}: did you mean {' or '.join(map(repr, names))}? (known are a, b)",)
    assert suggestions(error) == names


def test_suggestions_come_from_the_real_message() -> None:
    assert set(suggestions(UnknownName("entity", "Bilbo", ["Bilbao", "Balboa", "Rome"] + [str(n) for n in range(20)]))) == {"Bilbao", "Balboa"}
    assert suggestions(UnknownName("entity", "zzzz", [str(n) for n in range(20)])) == []
    assert suggestions(AmbiguousName("Paris", ["/m/1", "it's"])) == ["/m/1", "it's"]


@pytest.mark.parametrize(("path", "column"), [("a//b", 3), ("a/<b", 3), ("', column 9: /b//a", 17), ("^^a", 2)])
def test_a_path_that_does_not_parse_says_where(path: str, column: int) -> None:
    with pytest.raises(PathSyntaxError) as found:
        parse_path(path, Vocab(["a", "b", "', column 9:"], "relation"))
    assert body_of(of_error(found.value))["column"] == column


def test_arguments_are_named_with_what_is_wrong() -> None:
    errors = [
        {"loc": ("query", "top"), "msg": "Input should be less than or equal to 200", "type": "less_than_equal", "input": "1000000000"},
        {"loc": ("query", "head"), "msg": "Field required", "type": "missing", "input": None},
    ]
    body = body_of(of_arguments(errors))
    assert body["detail"] == "top cannot be '1000000000': input should be less than or equal to 200; head is missing"
    assert [one["parameter"] for one in body["errors"]] == ["top", "head"]
    assert len(body_of(of_arguments([{**errors[0], "input": "9" * 10_000}]))["detail"]) < 300


def test_misspelt_arguments_get_a_suggestion() -> None:
    assert body_of(of_unknown_arguments(["haed"], ["head", "tail"]))["detail"] == "unknown argument 'haed': did you mean head?"
    assert "known are head, tail" in body_of(of_unknown_arguments(["zzz"], ["head", "tail"]))["detail"]
    assert "none here" in body_of(of_unknown_arguments(["zzz"], []))["detail"]


def test_a_full_lane_tells_when_to_come_back() -> None:
    response = of_busy(Busy("slow"))
    assert response.status_code == 503 and response.headers["retry-after"] == "1"
