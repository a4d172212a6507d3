"""Time the explorer in a real browser, from the click to what a person can read: one JSON line.

    python benchmarks/bench_explorer.py [--run FOLDER] [--dataset world] [--times 5]

Without a run, one with random weights is made. The server runs in a process of its own; every time the browser starts with nothing kept. Times are of
the first view (questions to begin with) and of an answered question, in milliseconds from the start of the navigation. Needs Playwright and Chromium
($RELCODE_CHROMIUM, or on the path).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench_service import make_run, serving

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]


def until(browser: Any, address: str, selector: str) -> float:
    """Open an address in a browser that has nothing kept, and return after how many milliseconds something is there."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    # The page itself notes the moment, so that the time of talking to the browser does not count.
    page.add_init_script(
        f"new MutationObserver((_, me) => {{ if (document.querySelector({json.dumps(selector)})) "
        "{ window.shownAt = performance.now(); me.disconnect(); } }).observe(document, { childList: true, subtree: true })"
    )
    page.goto(address)
    page.wait_for_selector(selector, timeout=120_000)
    shown = float(page.evaluate("window.shownAt"))
    context.close()
    return shown


def measure(run: Path, chromium: str, times: int) -> dict[str, object]:
    """Time the views of a run."""
    from playwright.sync_api import sync_playwright

    from relcode.explore.model import Model
    from relcode.runs.environment import environment

    model = Model.open(run, "cpu")
    h, r, _ = model.dataset.train[0].tolist()
    question = "/ask?" + urlencode({"head": model.dataset.entities[h], "relation": model.names.path_text((r,))})
    views = {"first_view": ("/", ".starters a"), "answered_question": (question, ".answers li")}
    with serving(run, "explore", "--no-open") as (port, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        found = {name: [until(browser, f"http://127.0.0.1:{port}{path}", selector) for _ in range(times)] for name, (path, selector) in views.items()}
        version = browser.version
        browser.close()
    figures = {f"{name}_ms": {"median": round(statistics.median(one)), "all": [round(each) for each in one]} for name, one in found.items()}
    load = {"load_average": round(os.getloadavg()[0], 1)} if hasattr(os, "getloadavg") else {}
    sizes = {"dataset": model.dataset.name, "entities": model.dataset.num_entities, "dim": model.settings.model.dim}
    return {"benchmark": "explorer", **sizes, **figures, "chromium": version, **load, "environment": environment()}


def main() -> None:
    """Read the arguments and print one JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--dataset", default="world")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    chromium = os.environ.get("RELCODE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print(json.dumps({"benchmark": "explorer", "skipped": "no Chromium: install it, or set RELCODE_CHROMIUM"}))
        return
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or Path(folder) / "run"
        if arguments.run is None:
            make_run(run, arguments.dataset, arguments.dim)
        print(json.dumps(measure(run, chromium, arguments.times)))


if __name__ == "__main__":
    main()
