"""A server in the foreground: a socket, a model, uvicorn."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

import torch
import uvicorn

from relcode.errors import RelcodeError
from relcode.explore.model import Model
from relcode.web.app import create_app
from relcode.web.front import LOOPBACK

BACKLOG = 256
MOST_CONNECTIONS = 1_000
TURN_SECONDS = 0.0005  # after which a thread busy in Python lets others on: an answer takes many turns, and must not wait long for each
GOODBYE_SECONDS = 2  # that open requests have to finish when the server is stopped


class CannotListen(RelcodeError):
    """An address that cannot be listened on."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 takes any that is free."""
    place = f"port {port} of {host}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise CannotListen(
            f"cannot listen on {host!r}: {getattr(error, 'strerror', None) or error}; --host takes an address of this machine"
        ) from None
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that has just stopped does not block its port
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(f"{place} is in use, perhaps by another relcode: give another with --port, or --port 0 for any that is free") from None
        raise CannotListen(f"cannot listen on {place}: {error.strerror}; choose others with --host and --port") from None
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Tell whether only this machine can reach a socket."""
    host = listening.getsockname()[0]
    return host == "::1" or host.startswith("127.")


def can_open() -> bool:
    """Tell whether there is a screen to open a page on; without one, Python would start a browser in the terminal."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def serve(folder: Path, *, host: str, port: int, device: str, page: bool, open_page: bool, say: Callable[[str], None]) -> None:
    """Serve a run until Ctrl-C; ``say`` tells the person at the terminal."""
    with listen(host, port) as listening:
        # Several questions at a time, each by one thread, are quicker than each by all threads, one after the other.
        torch.set_num_threads(1)
        sys.setswitchinterval(TURN_SECONDS)
        model = Model.open(folder, device)
        local = is_loopback(listening)
        app = create_app(model, page=page, hosts=LOOPBACK | {listening.getsockname()[0]} if local else None)
        app.service.warm_up()
        if page:
            app.service.begin_map()
        address = address_of(listening)
        if not local:
            say(f"warning: {host} can be reached from other machines, and whoever reaches it may ask everything: there is no password")
        say(f"{model.dataset.name} ({model.settings.recipe}) on {address}{'' if page else '/api/v1'}; Ctrl-C stops")
        if open_page and can_open():
            webbrowser.open(address)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
        )
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            say("stopped")
