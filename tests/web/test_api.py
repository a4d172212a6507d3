"""The API of a real run, in this process: the same records as the command line's, limits, and errors that help."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from serving import EMOJI, HEBREW, PARENT, SCRIPT, Client

from relcode.cli import main
from relcode.explore.model import Model
from relcode.web.app import create_app
from relcode.web.front import HEADERS, LOOPBACK, POLICY
from relcode.web.limits import LaneSize

API = "/api/v1"


@pytest.fixture(scope="module")
def model(web_run: Path) -> Model:
    return Model.open(web_run, "cpu")


@pytest.fixture(scope="module")
def client(model: Model) -> Client:
    return Client(create_app(model))


def answer(client: Client, route: str, **arguments: Any) -> Any:
    response = client.get(f"{API}/{route}", params=arguments)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def refusal(client: Client, route: str, status: int, **arguments: Any) -> dict[str, Any]:
    response = client.get(f"{API}/{route}", params=arguments)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status and body["detail"] and "Traceback" not in response.text
    return body


# -- the same records as the command line's


@pytest.mark.parametrize(
    ("route", "arguments", "command"),
    [
        ("predict", {"head": "Ada_3", "relation": PARENT, "top": 3}, ["predict", "--head", "Ada_3", "--relation", PARENT, "--top", "3"]),
        (
            "predict",
            {"tail": "Ada_1", "relation": "grandparent", "new": "true"},
            ["predict", "--tail", "Ada_1", "--relation", "grandparent", "--new"],
        ),
        ("predict", {"head": "Ada_3", "tail": "Gus_2"}, ["predict", "--head", "Ada_3", "--tail", "Gus_2"]),
        ("predict", {"head": "Ada_3", "path": f"<{PARENT}>/sibling"}, ["predict", "--head", "Ada_3", "--path", f"<{PARENT}>/sibling"]),
        (
            "explain",
            {"head": "Ada_4", "relation": "grandparent", "tail": "Abe_2", "top": 2},
            ["explain", "--head", "Ada_4", "--relation", "grandparent", "--tail", "Abe_2", "--top", "2"],
        ),
        ("codes", {"top": 2}, ["codes", "--top", "2"]),
        ("compositions", {"min_pairs": 20, "propose": 2}, ["constraints", "--min-pairs", "20", "--propose", "2"]),
    ],
)
def test_the_record_is_that_of_the_command_line(
    client: Client, web_run: Path, capsys: pytest.CaptureFixture[str], route: str, arguments: dict[str, Any], command: list[str]
) -> None:
    capsys.readouterr()
    assert main([command[0], str(web_run), *command[1:], "--json"]) == 0
    assert answer(client, route, **arguments) == json.loads(capsys.readouterr().out)


# -- what the page needs beside


def test_about_tells_what_is_served(client: Client) -> None:
    about = answer(client, "about")
    assert (about["dataset"], about["entities"], about["relations"], about["code_dim"]) == ("family", 66, 6, 4)
    assert about["probabilities"].startswith("probabilities are calibrated on")
    for starter in about["starters"]:
        assert answer(client, "predict", **starter)["answers"]
    assert any("path" in starter for starter in about["starters"])


def test_names_are_found_by_their_parts(client: Client) -> None:
    assert [one["name"] for one in answer(client, "entities", q="ada_", top=10)["entities"]] == ["Ada_3", "Ada_4", "Ada_1"]
    assert answer(client, "entities", q="zoe", top=1)["entities"][0]["name"] == EMOJI
    assert answer(client, "entities", q="הגד", top=1)["entities"][0]["name"] == HEBREW
    assert answer(client, "entities", q="no such thing")["entities"] == []
    assert len(answer(client, "entities", q="", top=7)["entities"]) == 7


def test_relations_of_an_entity_come_first(client: Client) -> None:
    found = answer(client, "relations", q="", entity="female", top=3)["relations"]
    assert found[0]["relation"] == "^gender" and found[0]["has"] == 32 and found[0]["inverse"]
    assert [one["relation"] for one in answer(client, "relations", q="^gend")["relations"]] == ["^gender"]


@pytest.mark.parametrize("name", [SCRIPT, HEBREW, EMOJI])
def test_awkward_names_work_everywhere(client: Client, name: str) -> None:
    assert answer(client, "predict", head=name, relation=PARENT, top=1)["head"] == name
    assert answer(client, "facts", entity=name)["name"] == name
    assert answer(client, "neighbours", entity=name, top=2)["name"] == name
    assert answer(client, "suggest", entity=name, top=2)["entity"] == name
    assert answer(client, "explain", head=name, relation=PARENT, tail="Ada_1")["head"] == name


def test_facts_of_an_entity_tell_which_were_held_out(client: Client, model: Model) -> None:
    h, r, t = model.dataset.test[0].tolist()
    head, tail = model.dataset.entities[h], model.dataset.entities[t]
    groups = {group["relation"]: group for group in answer(client, "facts", entity=head)["relations"]}
    stated = {fact["entity"]: fact["trained"] for fact in groups[model.dataset.relations[r]]["facts"]}
    assert stated[tail] is False
    assert {group["total"] for group in groups.values()} >= {1, 2}


def test_suggestions_are_not_known_and_have_probabilities(client: Client) -> None:
    found = answer(client, "suggest", entity="Ada_3", top=5)["suggestions"]
    assert found and all(0 <= one["probability"] <= 1 and "Ada_3" in (one["head"], one["tail"]) for one in found)
    for one in found:
        known = [
            other["entity"] for other in answer(client, "predict", head=one["head"], relation=one["relation"], top=66)["answers"] if other["known"]
        ]
        assert one["tail"] not in known


def test_a_path_is_answered_both_ways(client: Client) -> None:
    record = answer(client, "predict", head="Ada_4", path=f"<{PARENT}>/<{PARENT}>", top=5)
    assert record["answers"] and record["beam"]
    assert all(len(one["through"]) == 1 and len(one["stated"]) == 2 for one in record["beam"])


def test_a_relation_has_a_profile(client: Client) -> None:
    record = answer(client, "relation", relation="grandparent", top=3)
    assert sum(record["code"]) == pytest.approx(1) and len(record["nearest"]) == 3 and len(record["examples"]) == 3
    found = answer(client, "compositions", relation="grandparent")["compositions"]
    assert any(one["path"] == f"<{PARENT}>/<{PARENT}>" for one in found)
    assert all("grandparent" in one["path"] + one["relation"] for one in found)
    assert found == answer(client, "compositions", relation="^grandparent")["compositions"]
    assert len(answer(client, "compositions")["compositions"]) > len(found)
    backwards = answer(client, "relation", relation="^grandparent", top=3)
    assert [(one["tail"], one["head"]) for one in backwards["examples"]] == [(one["head"], one["tail"]) for one in record["examples"]]


def test_a_composition_has_examples_and_counter_examples(client: Client) -> None:
    record = answer(client, "composition", path=f"<{PARENT}>/<{PARENT}>", relation="grandparent", top=50)
    assert len(record["examples"]) == 50
    # Exactly the held-out facts are missing from training: this family has no exceptions.
    assert len(record["counter_examples"]) == 24 and all(one["known"] for one in record["counter_examples"])


def test_the_description_has_examples_that_can_be_asked(client: Client) -> None:
    description = client.get(f"{API}/openapi.json").json()
    assert client.get(API).json() == description  # the address that relcode serve prints
    assert len(description["paths"]) >= 14
    for path, operations in description["paths"].items():
        operation = operations["get"]
        given = {one["name"]: one["example"] for one in operation.get("parameters", ()) if "example" in one}
        if path == f"{API}/map":
            continue
        response = client.get(path, params=given)
        assert response.status_code == 200, (path, given, response.text)
        sent = operation["responses"]["200"]["content"].get("application/json", {})
        if "example" in sent and path != f"{API}/about":
            assert response.json() == json.loads(json.dumps(sent["example"])), path


# -- bad use


def test_unknown_names_get_suggestions(client: Client) -> None:
    body = refusal(client, "predict", 404, head="Adda_3", relation=PARENT)
    assert body["type"] == "urn:relcode:unknown-name" and body["kind"] == "entity" and "Ada_3" in body["suggestions"]
    body = refusal(client, "predict", 404, head="Ada_3", relation="granparent")
    assert body["kind"] == "relation" and body["suggestions"][0] == "grandparent"


def test_a_path_that_does_not_parse_shows_where(client: Client) -> None:
    body = refusal(client, "predict", 422, head="Ada_3", path="sibling//spouse")
    assert body["type"] == "urn:relcode:path-syntax" and body["column"] == 9


@pytest.mark.parametrize(
    ("route", "arguments", "said"),
    [
        ("predict", {"head": "Ada_3", "relation": PARENT, "top": 10**9}, "top cannot be '1000000000'"),
        ("predict", {"head": "Ada_3", "relation": PARENT, "top": 0}, "top cannot be '0'"),
        ("predict", {"head": "Ada_3", "relation": PARENT, "top": "many"}, "top cannot be 'many'"),
        ("predict", {"head": "x" * 2000, "relation": PARENT}, "head cannot be"),
        ("predict", {"head": "Ada_3", "path": "/".join(["sibling"] * 9)}, "9 steps: at most 8"),
        ("predict", {"head": "Ada_3", "path": "/".join(["sibling"] * 2000)}, "path cannot be"),
        ("predict", {"head": "Ada_3"}, "given is only a head"),
        ("predict", {"head": "Ada_3", "relation": f"{PARENT}/x"}, ""),
        ("predict", {"haed": "Ada_3"}, "did you mean head?"),
        ("entities", {"q": "x" * 300}, "q cannot be"),
        ("explain", {"head": "Ada_3", "relation": PARENT}, "tail is missing"),
        ("map", {"kind": "everything"}, "kind cannot be 'everything'"),
        ("compositions", {"min_jaccard": "nan"}, "min_jaccard cannot be"),
        ("composition", {"path": "sibling", "relation": PARENT}, "path of 2 steps"),
        ("labels", {"name": ["a"] * 201}, "name cannot be"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(client: Client, route: str, arguments: dict[str, Any], said: str) -> None:
    status = client.get(f"{API}/{route}", params=arguments).status_code
    assert status in (404, 422)
    assert said in refusal(client, route, status, **arguments)["detail"]


def test_addresses_and_methods_that_are_not_there(client: Client) -> None:
    for method, path, status in (
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/../etc/passwd", 404),
        ("POST", "/api/v1/predict", 405),
        ("DELETE", "/", 405),
    ):
        response = client.request(method, path)
        assert response.status_code == status and response.headers["content-type"] == "application/problem+json"


def test_a_run_without_an_autoencoder_says_so(plain_run: Path) -> None:
    client = Client(create_app(Model.open(plain_run, "cpu")))
    assert answer(client, "about")["code_dim"] is None
    assert "no autoencoder" in refusal(client, "codes", 404)["detail"]
    assert answer(client, "relation", relation=PARENT)["code"] is None
    assert answer(client, "map")["method"] == "first two principal axes"


def test_a_missing_package_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    body = refusal(client, "map", 501)
    assert "umap-learn" in body["detail"] and "pip install 'relcode[analysis]'" in body["detail"]


def test_a_defect_is_a_problem_without_a_traceback(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(model)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(app.service.browser, "entities", fail)
    response = Client(app, raise_errors=False).get(f"{API}/entities")
    assert response.status_code == 500 and response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text and "Traceback" not in response.text
    assert response.headers["content-security-policy"] == POLICY


# -- the house


@pytest.mark.parametrize(
    "path", ["/", "/ask", "/why?head=x", "/static/style.css", "/health", "/metrics", f"{API}/about", f"{API}/nothing", f"{API}/predict", "/nothing"]
)
def test_every_answer_carries_the_policy(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == (
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
    )
    assert {name: headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(("host", "status"), [("localhost:8237", 200), ("127.0.0.1", 200), ("[::1]:8237", 200), ("evil.example", 421), ("", 421)])
def test_only_this_machines_own_names_are_answered_to(model: Model, host: str, status: int) -> None:
    client = Client(create_app(model, hosts=LOOPBACK))
    assert client.get("/health", headers={"host": host}).status_code == status


def test_health_and_metrics(client: Client) -> None:
    assert client.get("/health").json()["status"] == "ok"
    client.get(f"{API}/about")
    client.get("/no/such/route")
    text = client.get("/metrics").text
    assert f'route="{API}/about",status="200"' in text and 'route="unknown",status="404"' in text
    assert "/no/such/route" not in text  # nobody can make counters without end


def test_a_slow_question_does_not_block_the_rest_and_too_many_are_refused(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {
        "predict": LaneSize(workers=1, waiting=1),
        "quick": LaneSize(workers=1, waiting=1),
        "slow": LaneSize(workers=1, waiting=0),
        "long": LaneSize(workers=1, waiting=0),
        "map": LaneSize(workers=1, waiting=0),
    }
    app, gate, begun = create_app(model, sizes=sizes), threading.Event(), threading.Event()

    def wait(*_: object) -> dict[str, Any]:
        begun.set()
        gate.wait(60)
        return {"kind": "relation"}

    monkeypatch.setattr(app.service.browser, "map", wait)
    client = Client(app)
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(client.get(f"{API}/map").status_code))
    asking.start()
    assert begun.wait(60)
    assert answer(client, "predict", head="Ada_3", relation=PARENT)["answers"]
    assert answer(client, "explain", head="Ada_3", relation=PARENT, tail="Abe_2")["head"] == "Ada_3"
    full = client.get(f"{API}/map?kind=entities")
    assert full.status_code == 503 and full.headers["retry-after"] == "1" and full.json()["type"] == "urn:relcode:busy"
    gate.set()
    asking.join(60)
    assert found == [200]
    monkeypatch.setattr(app.service.browser, "map", lambda *_: pytest.fail("it was kept"))
    assert answer(client, "map") == {"kind": "relation"}


def test_the_map_that_was_begun_is_there_when_it_is_asked_for_and_is_made_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    app, gate, made = create_app(model), threading.Event(), []

    def slow_map(kind: str) -> dict[str, Any]:
        made.append(kind)
        gate.wait(60)
        return {"kind": kind}

    monkeypatch.setattr(app.service.browser, "map", slow_map)
    app.service.begin_map()
    client, found = Client(app), []
    asking = threading.Thread(target=lambda: found.append(answer(client, "map")))
    asking.start()
    assert answer(client, "codes")["dimensions"], "the codes do not wait for it"
    gate.set()
    asking.join(60)
    assert found == [{"kind": "relations"}] and made == ["relations"]


def test_a_map_that_could_not_be_begun_is_refused_when_it_is_asked_for(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    app = create_app(model)
    app.service.begin_map()
    assert "umap-learn" in refusal(Client(app), "map", 501)["detail"]
