"""Make the explorer's pictures in README.md and docs/explorer.md, or pictures of every view to look at, from a run of the bundled facts.

    python scripts/make_screenshots.py RUN                   three pictures into docs/images
    python scripts/make_screenshots.py RUN --all FOLDER      every view and state, wide and on a phone, light and dark

RUN is `relcode train world`, then `relcode calibrate RUN`. Needs the extra `explorer`, playwright and a Chromium (`make browser`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
BILBAO = {"head": "Bilbao", "relation": "city_country"}
PICTURES = {
    "ask": ("/ask?" + urlencode(BILBAO), ".answers li", 860),
    "relations": ("/relations?relation=city_country", ".side .answers li", 900),
    "why": ("/why?" + urlencode({**BILBAO, "tail": "Spain"}), ".graph .node", 900),
}
VIEWS = {
    "ask-start": ("/ask", ".starters a"),
    "ask": PICTURES["ask"][:2],
    "ask-path": ("/ask?" + urlencode({"head": "Bilbao", "path": "city_timezone/timezone_country"}), ".columns .answers li"),
    "ask-unknown": ("/ask?" + urlencode({"head": "Bilbo", "relation": "city_country"}), ".wrong"),
    "ask-syntax": ("/ask?" + urlencode({"head": "Bilbao", "path": "city_timezone//x"}), ".wrong"),
    "entity-start": ("/entity", ".starters a"),
    "entity": ("/entity?name=Norway", ".answers.pairs li"),
    "relations-all": ("/relations", ".view-relations .hm"),
    "relations": PICTURES["relations"][:2],
    "map": ("/map", ".view-map .point"),
    "map-facts": ("/map?colour=facts", ".view-map .point"),
    "rules": ("/rules", ".rules tbody tr"),
    "why-start": ("/why", ".state"),
    "why": PICTURES["why"][:2],
    "nowhere": ("/nowhere", ".state"),
}
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 780}
PATIENCE = 120_000  # milliseconds


@contextmanager
def serving(run: Path) -> Iterator[str]:
    """Serve the explorer of a run and yield its address."""
    words = [sys.executable, "-m", "relcode", "explore", str(run), "--port", "0", "--no-open", "--device", "cpu"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert process.stderr is not None
    try:
        found = next((match for line in process.stderr if (match := re.search(r"http://\S+:\d+", line))), None)
        if found is None:
            raise SystemExit("the server did not start")
        yield found.group()
    finally:
        process.kill()
        process.wait()


def shoot(page: Any, address: str, path: str, selector: str, file: Path, whole: bool) -> None:
    """Open a view, wait until all of it is there, and keep a picture."""
    page.goto(address + path)
    page.wait_for_selector(selector)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(700)  # charts fade in
    page.screenshot(path=str(file), full_page=whole)
    print(file)


def main() -> None:
    """Read the arguments and make pictures."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", help="with --all: only views whose name begins so")
    arguments = parser.parse_args()
    chromium = os.environ.get("RELCODE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with serving(arguments.run) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        if arguments.all is None:
            for name, (path, selector, height) in PICTURES.items():
                page = browser.new_context(viewport={"width": 1280, "height": height}).new_page()
                page.set_default_timeout(PATIENCE)
                shoot(page, address, path, selector, IMAGES / f"explorer-{name}.png", whole=False)
            return
        arguments.all.mkdir(parents=True, exist_ok=True)
        for kind, size, scheme in (("wide", WIDE, "light"), ("phone", PHONE, "dark"), ("wide-dark", WIDE, "dark"), ("phone-light", PHONE, "light")):
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.set_default_timeout(PATIENCE)
            for name, (path, selector) in VIEWS.items():
                if name.startswith(arguments.only):
                    shoot(page, address, path, selector, arguments.all / f"{name}-{kind}.png", whole=True)


if __name__ == "__main__":
    main()
