"""The explorer's files: our own from this package, plotly.js from the installed plotly package; nothing from a network.

Only the files that are there when the server starts are served, by name, so that no address can lead anywhere else.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from starlette.responses import Response

from relcode.errors import MissingExtra

# By hand: what a system says of .js differs, and a browser that is told not to guess refuses a module that is called text.
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
VIEWS = ("/", "/ask", "/entity", "/relations", "/map", "/rules", "/why")
REVALIDATE = "no-cache"  # kept by the browser, but asked for again: an unchanged file costs a few bytes


@dataclass(frozen=True)
class Asset:
    """A file as it is sent, once plain and, where that pays, once compressed."""

    body: bytes
    media_type: str
    etag: str
    zipped: bytes | None = None

    @classmethod
    def of(cls, body: bytes, ending: str, compress: bool = False) -> Asset:
        """Take a file's bytes."""
        etag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        return cls(body, TYPES[ending], etag, gzip.compress(body, 6, mtime=0) if compress else None)

    def response(self, request: Request) -> Response:
        """Answer with the file, or with nothing where the browser has it already."""
        headers = {"ETag": self.etag, "Cache-Control": REVALIDATE, "Vary": "Accept-Encoding"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if self.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.zipped, 200, {**headers, "Content-Encoding": "gzip"}, self.media_type)
        return Response(self.body, 200, headers, self.media_type)


@cache
def static_files() -> dict[str, Asset]:
    """Return our own files by their address below /static/."""
    return dict(_below(resources.files("relcode.web") / "static", ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for entry in folder.iterdir():
        ending = entry.name.rpartition(".")[2]
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif ending in TYPES:
            found.append((prefix + entry.name, Asset.of(entry.read_bytes(), ending)))
    return found


@cache
def plotly() -> Asset:
    """Return plotly.js as the installed package carries it; 4.8 MB are compressed once, to 1.4."""
    try:
        path = resources.files("plotly") / "package_data" / "plotly.min.js"
        return Asset.of(path.read_bytes(), "js", compress=True)
    except (ImportError, FileNotFoundError):
        raise MissingExtra("plotly", "explorer", "drawing charts in the explorer") from None


def is_for_people(request: Request) -> bool:
    """Tell whether a browser asks for a page, as it does for what a person typed."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(("/api/", "/static/"))


def nowhere() -> Response:
    """Answer with the page where there is no view: it says so, and leads on."""
    return Response(static_files()["index.html"].body, 404, media_type=TYPES["html"])


def routes() -> APIRouter:
    """Return the routes of the page; they are no part of the API's description."""
    router = APIRouter(include_in_schema=False)
    files = static_files()

    async def page(request: Request) -> Response:
        return files["index.html"].response(request)

    def send(asset: Asset) -> object:
        async def file(request: Request) -> Response:
            return asset.response(request)

        return file

    def plotly_js(request: Request) -> Response:  # in a thread: the first time it is compressed
        return plotly().response(request)

    for view in VIEWS:
        router.add_api_route(view, page, methods=["GET", "HEAD"])
    for name, asset in files.items():
        if name != "index.html":
            router.add_api_route(f"/static/{name}", send(asset), methods=["GET", "HEAD"])  # type: ignore[arg-type]
    router.add_api_route("/static/plotly.js", plotly_js, methods=["GET", "HEAD"])
    router.add_api_route("/favicon.ico", send(files["icon.svg"]), methods=["GET", "HEAD"])  # type: ignore[arg-type]
    return router
