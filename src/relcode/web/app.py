"""The application: routes of the API and of the page, errors as problem JSON."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from relcode import __version__
from relcode.errors import RelcodeError
from relcode.explore.model import Model
from relcode.web import assets, problems, routes
from relcode.web.describe import describe
from relcode.web.front import DEFECT, Front
from relcode.web.lanes import Busy
from relcode.web.limits import LaneSize
from relcode.web.metrics import MEDIA_TYPE as METRICS_TYPE
from relcode.web.service import Service

PREFIX = "/api/v1"
DESCRIPTION = "Ask a relcode run: predictions, reasons, codes and compositions. Names are arguments, so that slashes and all letters work."


TEXT: dict[int | str, dict[str, Any]] = {200: {"description": "The counts.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


class UnknownArguments(Exception):
    """Arguments that a route does not have: most often misspelt ones, which would be passed over in silence."""

    def __init__(self, unknown: list[str], known: list[str]) -> None:
        """Take the names."""
        super().__init__(unknown)
        self.unknown, self.known = unknown, known


async def _only_known_arguments(request: Request) -> None:
    """Refuse arguments that the route does not have."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise UnknownArguments(list(dict.fromkeys(unknown)), known)


def create_app(model: Model, *, page: bool = True, hosts: frozenset[str] | None = None, sizes: dict[str, LaneSize] | None = None) -> Front:
    """Return the application for one run: with ``page`` the explorer too; ``hosts`` are the names it answers to (None: any)."""
    service = Service(model, sizes)
    app = FastAPI(title="relcode", version=__version__, description=DESCRIPTION, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.service = service
    for router in (routes.names, routes.questions, routes.meaning):
        app.include_router(router, prefix=PREFIX, dependencies=[Depends(_only_known_arguments)])
    _add_house_routes(app, service)
    if page:
        app.include_router(assets.routes())
    _add_handlers(app, page)
    return Front(app, service, hosts)


def _add_house_routes(app: FastAPI, service: Service) -> None:
    """Add what programs that run the server want: its description, health and counts."""

    async def openapi() -> Response:
        return await service.once(("openapi",), lambda: describe(app, service))

    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__, "dataset": service.model.dataset.name}

    async def metrics() -> Response:
        return Response(service.metrics.text(service.lanes.values()), media_type=METRICS_TYPE)

    for path in (PREFIX, f"{PREFIX}/openapi.json"):
        app.add_api_route(path, openapi, include_in_schema=False)
    app.add_api_route("/health", health, tags=["house"], summary="Whether the server answers")
    app.add_api_route("/metrics", metrics, tags=["house"], summary="Counts, as Prometheus reads them", response_class=Response, responses=TEXT)


def _add_handlers(app: FastAPI, page: bool) -> None:
    """Turn every error into problem JSON."""

    async def known(_: Request, error: Exception) -> Response:
        assert isinstance(error, RelcodeError)
        return problems.of_error(error)

    async def busy(_: Request, error: Exception) -> Response:
        assert isinstance(error, Busy)
        return problems.of_busy(error)

    async def arguments(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problems.of_arguments(error.errors())

    async def unknown_arguments(_: Request, error: Exception) -> Response:
        assert isinstance(error, UnknownArguments)
        return problems.of_unknown_arguments(error.unknown, error.known)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path[:200]}: {error.detail}"
        if error.status_code == 404 and page and assets.is_for_people(request):
            return assets.nowhere()
        if error.status_code == 404:
            hint = "" if page else "; this server has no page, relcode explore has"
            detail = f"nothing is at {request.url.path[:200]!r}: {PREFIX}/openapi.json lists what there is{hint}"
        return problems.problem(error.status_code, "http", detail, error.headers)

    async def defect(_: Request, error: Exception) -> Response:
        return problems.problem(500, "defect", DEFECT)

    handlers: dict[type[Exception], Any] = {
        RelcodeError: known,
        Busy: busy,
        RequestValidationError: arguments,
        UnknownArguments: unknown_arguments,
        HTTPException: http,
        Exception: defect,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
