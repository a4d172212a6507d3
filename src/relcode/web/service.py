"""What a server holds while it runs: the model, the lanes its questions go through, and the answers worth keeping."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.responses import Response

from relcode.errors import RelcodeError
from relcode.explore.browse import Browser
from relcode.explore.model import Model
from relcode.explore.questions import Wish, ask_together
from relcode.web.lanes import Joint, Kept, Lane
from relcode.web.limits import LaneSize, lane_sizes
from relcode.web.metrics import Metrics

JSON = "application/json"
RELATIONS = "relations"  # the kind of map that the page shows
Record = Callable[[], Any]


class Service:
    """A model that answers over HTTP."""

    def __init__(self, model: Model, sizes: dict[str, LaneSize] | None = None) -> None:
        """Open the lanes."""
        self.model, self.browser, self.metrics = model, Browser(model), Metrics()
        self.lanes = {name: Lane(name, size) for name, size in (sizes or lane_sizes()).items()}
        self._kept = Kept()

    async def quick(self, record: Record) -> Response:
        """Answer a question of milliseconds."""
        return Response(await self.lanes["quick"].run(lambda: _bytes(record)), media_type=JSON)

    async def predict(self, wish: Wish) -> Response:
        """Answer a question to the model, together with those that wait beside it."""
        return Response(await self.lanes["predict"].run(Joint(self._together, wish)), media_type=JSON)

    def _together(self, wishes: Sequence[Wish]) -> list[bytes | BaseException]:
        return [_json_or_error(one) for one in ask_together(self.model, wishes)]

    async def slow(self, record: Record) -> Response:
        """Answer a question of seconds."""
        return Response(await self.lanes["slow"].run(lambda: _bytes(record)), media_type=JSON)

    async def once(self, key: tuple[Any, ...], record: Record, lane: str = "long") -> Response:
        """Answer a question that always has the same answer; whoever asks for it while it is computed waits for that, and it is computed once."""
        kept = self._kept.get(key)
        if kept is None:  # the lane has one worker, so whoever comes second finds it kept
            kept = await self.lanes[lane].run(lambda: self._kept.or_else(key, lambda: _bytes(record)))
        return Response(kept, media_type=JSON)

    async def map(self, kind: str) -> Response:
        """Answer with the map of relations or entities."""
        return await self.once(("map", kind), lambda: self.browser.map(kind), "map")

    def begin_map(self) -> None:
        """Begin to lay out the relations, so that their map is there when somebody looks: the first time UMAP has to be loaded and compiled."""
        self.lanes["map"].begin(lambda: self._kept.or_else(("map", RELATIONS), lambda: _bytes(lambda: self.browser.map(RELATIONS))))

    def warm_up(self) -> None:
        """Make what the first question needs, so that it is as quick as the others."""
        self.browser.entities("a", 1)
        for starter in self.browser.about()["starters"][:1]:
            self.browser.relations("", starter["head"], 1)
            self.model.predict_tails(starter["head"], starter["relation"], 1)


def _bytes(record: Record) -> bytes:
    """Compute a record and write it as JSON."""
    return _json(record())


def _json_or_error(answer: Any) -> bytes | BaseException:
    """Write one answer of several; what goes wrong with it is its own, and spoils none of the others."""
    if isinstance(answer, RelcodeError):
        return answer
    try:
        return _json(answer.to_json())
    except ValueError as error:
        return error


def _json(value: Any) -> bytes:
    """Write plain values as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
