"""The explorer's files: what is sent, and what must never be in them."""

from __future__ import annotations

import gzip
import re
from importlib import resources
from pathlib import Path

import pytest
from serving import Client
from small_model import small_model

from relcode.errors import MissingExtra
from relcode.web import assets
from relcode.web.app import create_app

STATIC = Path(assets.__file__).parent / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(create_app(small_model()))


@pytest.mark.parametrize("view", assets.VIEWS)
def test_every_view_has_an_address(client: Client, view: str) -> None:
    response = client.get(view)
    assert response.status_code == 200 and response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.text.startswith("<!doctype html>")


def test_every_file_is_sent_with_its_type_and_not_twice(client: Client) -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file() and path.name != "index.html"]
    assert len(files) > 12
    for path in files:
        response = client.get(f"/static/{path.relative_to(STATIC).as_posix()}")
        assert response.status_code == 200 and response.content == path.read_bytes()
        assert response.headers["content-type"] == assets.TYPES[path.suffix[1:]]
        again = client.get(f"/static/{path.relative_to(STATIC).as_posix()}", headers={"if-none-match": response.headers["etag"]})
        assert again.status_code == 304 and again.content == b""


def test_plotly_comes_from_the_installed_package_compressed(client: Client) -> None:
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    response = client.get("/static/plotly.js")
    assert response.headers["content-encoding"] == "gzip" and int(response.headers["content-length"]) < len(script) / 3
    assert response.content == script
    plain = client.get("/static/plotly.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.content == script
    assert gzip.decompress(assets.plotly().zipped or b"") == script


def test_without_plotly_the_page_is_served_and_the_chart_says_what_is_missing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("plotly")

    assets.plotly.cache_clear()
    monkeypatch.setattr(assets.resources, "files", missing)
    with pytest.raises(MissingExtra, match=r"relcode\[explorer\]"):
        assets.plotly()
    response = client.get("/static/plotly.js")
    assert response.status_code == 501 and "plotly" in response.json()["detail"]
    assets.plotly.cache_clear()


def test_the_page_has_no_inline_script_and_nothing_from_elsewhere() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"<[^>]*\son\w+=", page) == []
    for text in (page, *(path.read_text(encoding="utf-8") for path in (*SCRIPTS, STATIC / "style.css"))):
        assert [found for found in re.findall(r"https?://[^\s\"'`)]+", text) if "www.w3.org" not in found] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_never_make_markup_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "scattergl", "DOMParser"):
        assert word not in text
    folder = path.parent
    for module in re.findall(r"from \"(\.[^\"]+)\"", text):
        assert (folder / module).resolve().is_file(), module


def test_files_named_in_the_page_exist() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    named = re.findall(r"\"/static/([^\"]+)\"", page)
    assert len(named) > 8 and all((STATIC / name).is_file() for name in named)


def test_a_server_without_the_page_has_the_api_alone() -> None:
    client = Client(create_app(small_model(), page=False))
    assert client.get("/api/v1/about").status_code == 200
    for path in ("/", "/ask", "/static/main.js"):
        response = client.get(path)
        assert response.status_code == 404 and "relcode explore has" in response.json()["detail"]
