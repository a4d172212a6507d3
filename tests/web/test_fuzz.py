"""The API as its own description tells it, asked at random: 2,000 requests, sensible and senseless, and none of them breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import EMOJI, GRAND, HEBREW, PARENT, SCRIPT, Client

from relcode.analysis import maps
from relcode.explore.model import Model
from relcode.web.app import create_app

REQUESTS = 2_000
PATHS = [f"^{PARENT}", f"<{PARENT}>/{GRAND}", f"^<{PARENT}>/<{PARENT}>", "^", "/", "<", "a//b"]
NAMES = ["Ada_3", "Abe_1", SCRIPT, HEBREW, EMOJI, PARENT, GRAND, *PATHS]
LETTERS = st.text(st.characters(codec="utf-8"), max_size=40)
WILD = st.one_of(
    LETTERS,
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", "null", "true", "10**9", "1e400", "-0", "NaN", "%00", "\x00", "'; drop table", "../../etc/passwd", "x" * 5000, "🙂" * 300]),
)


def sensible(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that a schema of the description allows."""
    if "anyOf" in schema:
        return sensible(next(one for one in schema["anyOf"] if one.get("type") != "null"))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "integer":
        return st.integers(schema.get("minimum"), schema.get("maximum"))
    if kind == "number":
        return st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False)
    if kind == "boolean":
        return st.sampled_from(["true", "false", "1", "0"])
    if kind == "array":
        return st.lists(sensible(schema["items"]), min_size=1, max_size=5)
    return st.one_of(st.sampled_from(NAMES), LETTERS.filter(bool))


@st.composite
def requests(draw: st.DrawFn, description: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Draw a route and its arguments: mostly as described, some missing, some senseless, some unknown."""
    path = draw(st.sampled_from(sorted(description["paths"])))
    given_values: list[tuple[str, str]] = []
    for parameter in description["paths"][path]["get"].get("parameters", ()):
        chance = draw(st.integers(0, 9))
        if chance < (2 if parameter["required"] else 5):
            continue
        value = draw(WILD if chance == 9 else sensible(parameter["schema"]))
        given_values += [(parameter["name"], str(one)) for one in (value if isinstance(value, list) else [value])]
    if draw(st.integers(0, 19)) == 0:
        given_values.append((draw(LETTERS.filter(bool)), draw(WILD)))
    return path, given_values


@pytest.mark.slow
def test_no_request_breaks_the_service(web_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "FEWEST", 1000)  # maps by principal axes: UMAP takes seconds to load
    client = Client(create_app(Model.open(web_run, "cpu")))
    description = client.get("/api/v1/openapi.json").json()
    statuses: dict[int, int] = {}

    @settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck), database=None)
    @given(requests(description))
    def ask(request: tuple[str, list[tuple[str, str]]]) -> None:
        path, arguments = request
        response = client.get(path, params=arguments)
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
        assert response.status_code < 500, response.text
        if response.status_code == 200:
            assert path == "/metrics" or response.json() is not None
        else:
            body = response.json()
            assert response.headers["content-type"] == "application/problem+json" and body["status"] == response.status_code and body["detail"]

    ask()
    assert sum(statuses.values()) >= REQUESTS
    assert statuses[200] > REQUESTS / 10 and statuses[404] > 0 and statuses[422] > REQUESTS / 10  # it asked sense and nonsense alike
