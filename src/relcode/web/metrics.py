"""Counting requests, and telling the counts as Prometheus reads them (text exposition format 0.0.4)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from relcode.web.lanes import Lane

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Metrics:
    """Requests by route and status, and how long they took; only the event loop's thread writes."""

    def __init__(self) -> None:
        """Start at zero."""
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.within: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, status] += 1
        self.seconds[route] += seconds
        buckets = self.within[route]
        for place, bound in enumerate(BOUNDS):
            if seconds <= bound:
                buckets[place] += 1
        buckets[-1] += 1

    def text(self, lanes: Iterable[Lane]) -> str:
        """Write everything."""
        return "".join(f"{line}\n" for line in (*self._request_lines(), *self._time_lines(), *_lane_lines(tuple(lanes))))

    def _request_lines(self) -> Iterator[str]:
        yield "# HELP relcode_requests_total Requests answered."
        yield "# TYPE relcode_requests_total counter"
        for (route, status), count in sorted(self.requests.items()):
            yield f'relcode_requests_total{{route="{route}",status="{status}"}} {count}'

    def _time_lines(self) -> Iterator[str]:
        yield "# HELP relcode_request_seconds How long requests took, waiting included."
        yield "# TYPE relcode_request_seconds histogram"
        for route, buckets in sorted(self.within.items()):
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                yield f'relcode_request_seconds_bucket{{route="{route}",le="{bound}"}} {count}'
            yield f'relcode_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}'
            yield f'relcode_request_seconds_count{{route="{route}"}} {buckets[-1]}'


def _lane_lines(lanes: tuple[Lane, ...]) -> Iterator[str]:
    yield "# HELP relcode_questions_inside Questions being worked on or waiting."
    yield "# TYPE relcode_questions_inside gauge"
    yield from (f'relcode_questions_inside{{lane="{lane.name}"}} {lane.inside}' for lane in lanes)
    yield "# HELP relcode_questions_refused_total Questions refused because too many waited."
    yield "# TYPE relcode_questions_refused_total counter"
    yield from (f'relcode_questions_refused_total{{lane="{lane.name}"}} {lane.refused}' for lane in lanes)
