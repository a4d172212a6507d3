"""``relcode serve`` and ``relcode explore``: a run's answers over HTTP, and a page to look around in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relcode.cli.ask import DeviceOption, RunArgument
from relcode.cli.show import notice
from relcode.errors import MissingExtra

PORT = 8237
HostOption = Annotated[str, typer.Option(help="Where to listen; only this machine can reach 127.0.0.1.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")]
WEB_PACKAGES = {"fastapi", "starlette", "uvicorn", "pydantic"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(explore)
    app.command()(serve)


def explore(
    run: RunArgument,
    port: PortOption = PORT,
    host: HostOption = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Look around in a run: serve its page and open it.

    Ask, entities, relations and their codes, the map, compositions, reasons; the API is there too, under /api/v1.
    """
    _serve(run, host, port, device, page=True, open_page=not no_open)


def serve(run: RunArgument, port: PortOption = PORT, host: HostOption = "127.0.0.1", device: DeviceOption = "auto") -> None:
    """Serve a run's answers over HTTP.

    The API is under /api/v1, its description at /api/v1/openapi.json; /health and /metrics are for whoever keeps it running.
    """
    _serve(run, host, port, device, page=False, open_page=False)


def _serve(run: Path, host: str, port: int, device: str, page: bool, open_page: bool) -> None:
    """Start the server; a package that is missing is named."""
    try:
        from relcode.web.server import serve as serve_run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in WEB_PACKAGES:
            raise
        raise MissingExtra(str(error.name), "explorer", "serving a run") from None
    serve_run(run, host=host, port=port, device=device, page=page, open_page=open_page, say=notice)
