from __future__ import annotations

import re

from relcode.web.lanes import Lane
from relcode.web.limits import LaneSize
from relcode.web.metrics import BOUNDS, Metrics

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.]+')


def test_requests_are_counted_by_route_and_status_and_time() -> None:
    metrics = Metrics()
    for seconds in (0.004, 0.03, 20):
        metrics.observe("/api/v1/predict", 200, seconds)
    metrics.observe("/api/v1/predict", 404, 0.001)
    lines = metrics.text([Lane("quick", LaneSize(workers=1, waiting=0))]).splitlines()
    assert 'relcode_requests_total{route="/api/v1/predict",status="200"} 3' in lines
    assert 'relcode_requests_total{route="/api/v1/predict",status="404"} 1' in lines
    within = {bound: int(count) for bound, count in re.findall(r'le="([^"]+)"} (\d+)', "\n".join(lines))}
    assert within["0.005"] == 2 and within["0.05"] == 3 and within["10.0"] == 3 and within["+Inf"] == 4
    assert list(within.values()) == sorted(within.values()) and len(within) == len(BOUNDS) + 1
    assert 'relcode_request_seconds_sum{route="/api/v1/predict"} 20.035000' in lines
    assert 'relcode_questions_inside{lane="quick"} 0' in lines


def test_every_line_is_as_prometheus_reads_it() -> None:
    metrics = Metrics()
    metrics.observe("unknown", 404, 0.1)
    for line in metrics.text([]).splitlines():
        assert line.startswith(("# HELP relcode_", "# TYPE relcode_")) or LINE.fullmatch(line), line
