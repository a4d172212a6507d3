"""Time ``relcode serve`` under concurrent questions: one JSON line.

    python benchmarks/bench_service.py [--dataset fb15k-237] [--clients 8] [--requests 300] [--dim 256] [--run FOLDER]

A real server, in a process of its own, on a run folder with random weights (or on a run given), is asked /api/v1/predict by several client processes,
each with one connection, the next question as soon as the last is answered; no question is asked twice. First an answer is compared with what the
model says in this process. Then it is timed twice: alone, and while others ask for the map and for explanations. DATASET lies under $RELCODE_DATA;
where it is not there, facts are drawn in the numbers of FB15k-237.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

WARM_UP = 20  # requests of each client that are not counted


def percentile(seconds: list[float], part: float) -> float:
    """Return the time within which that part of the requests was answered, in milliseconds."""
    return round(1000 * sorted(seconds)[min(len(seconds) - 1, int(part * len(seconds)))], 1)


# -- a client, in a process of its own; imports nothing heavy


def client(host: str, port: int, questions: list[list[str]], requests: int, top: int) -> list[float]:
    """Ask and ask, and return how long each answer took."""
    connection, seconds = http.client.HTTPConnection(host, port), []
    for number in range(requests + WARM_UP):
        head, relation = questions[number % len(questions)]
        address = "/api/v1/predict?" + urlencode({"head": head, "relation": relation, "top": top})
        start = time.perf_counter()
        connection.request("GET", address)
        response = connection.getresponse()
        body = response.read()
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - start)
        if response.status != 200:
            raise SystemExit(f"{response.status}: {body.decode()}")
    return seconds


def ask_all(port: int, questions: list[list[str]], arguments: argparse.Namespace) -> tuple[list[float], float]:
    """Run the clients at the same time; return all times, and the wall time of the slowest client."""
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for number in range(arguments.clients):
            path = Path(folder) / f"{number}.json"
            path.write_text(json.dumps(questions[number :: arguments.clients]), encoding="utf-8")
            options = ["--client", str(path), "--port", str(port), "--requests", str(arguments.requests), "--top", str(arguments.top)]
            commands.append([sys.executable, __file__, *options])
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        found = [json.loads(one.communicate()[0]) for one in started]
    return [second for seconds in found for second in seconds], max(sum(seconds) for seconds in found)


# -- the run and its server


def make_run(folder: Path, dataset_name: str, dim: int) -> str:
    """Make a run folder with random weights, calibrated as a trained one would be; return the name of its data."""
    import torch
    from bench_evaluation import FB15K_237, synthetic

    from relcode.errors import RelcodeError
    from relcode.explore.model import Model
    from relcode.explore.probability import calibrate
    from relcode.graph.dataset import load_dataset
    from relcode.recipes import recipe
    from relcode.runs.run import create_run
    from relcode.training.advance import initial_state
    from relcode.training.fit import fit_settings

    try:
        dataset = load_dataset(dataset_name)
    except RelcodeError:
        dataset = synthetic(*FB15K_237)
    settings = fit_settings(recipe("joint").with_values({"model.dim": dim, "training.device": "cpu"}), dataset)
    create_run(folder, dataset, settings, torch.device("cpu"), initial_state(dataset, settings, torch.device("cpu")))
    calibrate(Model.open(folder, "cpu"))
    return dataset.name


@contextmanager
def serving(run: Path, command: str = "serve", *options: str) -> Iterator[tuple[int, int]]:
    """Start ``relcode serve`` (or ``explore``) and yield its port and its process number."""
    words = [sys.executable, "-m", "relcode", command, str(run), "--port", "0", "--device", "cpu", *options]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", said)):
            line = process.stderr.readline()
            if not line:
                raise SystemExit(f"the server did not start: {said}")
            said += line
        yield int(found.group(1)), process.pid
    finally:
        process.kill()
        process.wait()


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has had, 0 where the system does not tell; other than waiting, it hardly grows on a busy machine."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(run: Path, port: int, questions: list[list[str]], top: int) -> None:
    """Compare answers over HTTP with the model's own."""
    from relcode.explore.model import Model

    model, connection = Model.open(run, "cpu"), http.client.HTTPConnection("127.0.0.1", port)
    for head, relation in questions[:5]:
        connection.request("GET", "/api/v1/predict?" + urlencode({"head": head, "relation": relation, "top": top}))
        served = json.loads(connection.getresponse().read())
        own = model.predict_tails(head, relation, top).to_json()
        if [one["entity"] for one in served["answers"]] != [one["entity"] for one in own["answers"]]:
            raise SystemExit(f"the server answers ({head}, {relation}) differently from the model")


def ask_slowly(port: int, questions: list[list[str]], stop: threading.Event) -> None:
    """Ask for the map once and for explanations until told to stop."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(10**6):
        head, relation = questions[number % len(questions)]
        route = "map" if number == 0 else "explain?" + urlencode({"head": head, "relation": relation, "tail": questions[0][0]})
        try:
            connection.request("GET", f"/api/v1/{route}")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):  # the server is stopped
            return
        if stop.is_set():
            return


def measure(run: Path, name: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Time the server alone and beside slow questions."""
    from relcode.explore.model import Model
    from relcode.runs.environment import environment

    model = Model.open(run, "cpu")
    facts = model.dataset.test if len(model.dataset.test) else model.dataset.train
    pairs = list(dict.fromkeys((h, r) for h, r, _ in facts.tolist()))
    wanted = (
        2 * arguments.clients * (arguments.requests + WARM_UP)
    )  # as many as are asked in both parts: no question comes twice, if there are so many
    chosen = random.Random(0).sample(pairs, min(len(pairs), wanted))
    questions = [[model.dataset.entities[h], model.names.path_text((r,))] for h, r in chosen]
    with serving(run) as (port, process):
        check(run, port, questions, arguments.top)
        before = processor_seconds(process)
        alone, alone_wall = ask_all(port, questions[: len(questions) // 2], arguments)
        work = (processor_seconds(process) - before) / (arguments.clients * (arguments.requests + WARM_UP))
        stop = threading.Event()
        slow = threading.Thread(target=ask_slowly, args=(port, questions, stop), daemon=True)
        slow.start()
        beside, beside_wall = ask_all(port, questions[len(questions) // 2 :], arguments)
        stop.set()
    figures = {"alone": _figures(alone, alone_wall), "beside_slow_questions": _figures(beside, beside_wall)}
    sizes = {"entities": model.dataset.num_entities, "relations": model.dataset.num_relations, "dim": model.settings.model.dim}
    asked = {
        "clients": arguments.clients,
        "requests": len(alone),
        "top": arguments.top,
        "probabilities": model.calibration is not None,
        "server_cpu_ms": round(1000 * work, 2),
    }
    load = {"load_average": round(os.getloadavg()[0], 1)} if hasattr(os, "getloadavg") else {}
    return {"benchmark": "service", "dataset": name, **sizes, **asked, **figures, **load, "environment": environment()}


def _figures(seconds: list[float], wall: float) -> dict[str, float]:
    """Return how long answers took, and how many came in a second."""
    times = {f"p{round(100 * part)}_ms": percentile(seconds, part) for part in (0.5, 0.95, 0.99)}
    return times | {"requests_per_second": round(len(seconds) / wall)}


def main() -> None:
    """Read the arguments and print one JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--run", type=Path, help="a run's folder, in place of random weights")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=300, help="of each client")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--client", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client is not None:
        questions = json.loads(arguments.client.read_text(encoding="utf-8"))
        print(json.dumps(client("127.0.0.1", arguments.port, questions, arguments.requests, arguments.top)))
        return
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or Path(folder) / "run"
        name = make_run(run, arguments.dataset, arguments.dim) if arguments.run is None else run.name
        print(json.dumps(measure(run, name, arguments)))


if __name__ == "__main__":
    main()
