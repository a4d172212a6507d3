"""What tests of the service and the explorer share: a family some of whose members have awkward names, and servers to ask."""

from __future__ import annotations

import asyncio
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from family import Fact, family_facts

from relcode.experiment import train
from relcode.explore.model import Model
from relcode.explore.probability import calibrate
from relcode.graph.dataset import dataset_from_facts
from relcode.recipes import recipe

SCRIPT = "<script>document.title = 'broken'</script><b>bold</b>"
HEBREW = 'שרה "הגדולה"'
EMOJI = "👩‍👧/Zoë & co"
PARENT, GRAND = "/people/person/parent", "grandparent"
RENAMED = {"Ada_2": SCRIPT, "Bea_3": HEBREW, "Cleo_3": EMOJI, "parent": PARENT}
SIZES = {"model.dim": 16, "model.code_dim": 4, "sampling.edges": 256, "sampling.tile": 8, "sampling.noise_draws": 8, "training.device": "cpu"}
ADDRESS = re.compile(r"http://\S+:\d+")
START_SECONDS = 120


def renamed(facts: dict[str, list[Fact]]) -> dict[str, list[Fact]]:
    return {split: [tuple(RENAMED.get(name, name) for name in fact) for fact in some] for split, some in facts.items()}  # type: ignore[misc]


def trained(folder: Path, facts: dict[str, list[Fact]], recipe_name: str, epochs: int) -> Path:
    """Train on some facts, calibrate, and return the run's folder."""
    settings = recipe(recipe_name).with_values({**SIZES, "training.epochs": epochs, "training.validations": 0})
    for _ in train(dataset_from_facts(facts, name="family"), settings, folder):
        pass
    calibrate(Model.open(folder, "cpu"))
    return folder


def awkward_family(*relations: str) -> dict[str, list[Fact]]:
    """Return the facts of the family with awkward names, of some relations or of all."""
    return {split: [fact for fact in some if not relations or fact[1] in relations] for split, some in renamed(family_facts()).items()}


class Client:
    """Ask an application in this process, from any thread: requests run in an event loop in a thread of its own."""

    def __init__(self, app: Any, raise_errors: bool = True) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=raise_errors), base_url="http://localhost")

    def get(self, path: str, params: Any = None, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, params=params, headers=headers)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._client.request(method, path, **more), self._loop).result(120)


@contextmanager
def running(command: str, run: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server as a person would, and yield its process and address; it is stopped at the end."""
    source = Path(__file__).resolve().parents[2] / "src"
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    arguments = [sys.executable, "-m", "relcode", command, str(run), *(options or ("--port", "0")), "--device", "cpu"]
    if command == "explore":
        arguments.append("--no-open")
    process = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        yield process, _address(process)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    """Read what a server says until it says where it listens."""
    assert process.stderr is not None
    said, end = "", time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if select.select([process.stderr], [], [], 1)[0]:
            said += os.read(process.stderr.fileno(), 4096).decode()  # not readline, whose buffer would hide a second line from select
            found = ADDRESS.search(said)
            if found:
                return found.group()
    raise AssertionError(f"the server did not start: {said}{process.stderr.read() if process.poll() is not None else ''}")


def chromium_path() -> str | None:
    """Return a Chromium to test with: $RELCODE_CHROMIUM, or one on the path."""
    named = os.environ.get("RELCODE_CHROMIUM")
    if named:
        return named
    return next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome")) if path), None)
