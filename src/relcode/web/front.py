"""What happens to every request before and after its route: who may ask, what every answer carries, and what becomes of a defect."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from relcode.web.problems import problem
from relcode.web.service import Service

# With a bare default-src 'self' plotly's heatmap, an image made on the spot, stays blank while its call succeeds.
POLICY = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
SENT = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
DEFECT = "a defect of relcode's; the server's own output says more"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
log = logging.getLogger("relcode.web")


class Front:
    """The outermost layer, plain ASGI.

    ``hosts`` are the names this server answers to, None for any. A page elsewhere whose own name was made to point at this machine (DNS rebinding)
    sends its own name along, and is refused.
    """

    def __init__(self, app: App, service: Service, hosts: frozenset[str] | None) -> None:
        """Take the application inside."""
        self.app, self.service, self.hosts = app, service, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SENT]
            await send(message)

        try:
            if self._is_expected(scope):
                await self.app(scope, receive, send_with_headers)
            else:
                refusal = problem(421, "host", "this server answers to localhost alone: use the address that it printed when it started")
                await refusal(scope, receive, send_with_headers)
        except Exception:
            log.exception("a defect of relcode's, at %s", scope["path"])
            if not status:
                await problem(500, "defect", DEFECT)(scope, receive, send_with_headers)
        finally:
            self.service.metrics.observe(_route(scope), status, time.perf_counter() - started)

    def _is_expected(self, scope: Scope) -> bool:
        """Tell whether a request names a host that this server answers to."""
        if self.hosts is None:
            return True
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return name.lower() in self.hosts


def _route(scope: Scope) -> str:
    """Return the route that answered; all that no route answered count as one, so that nobody can make counters without end."""
    path: str = scope["path"]
    if scope.get("route") is None:
        return "unknown"
    return path if path.startswith(("/api/", "/health", "/metrics")) else "page"  # no route of ours has a variable part
