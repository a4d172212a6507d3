"""Runs for the service and the explorer, trained in a few seconds, and a browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from serving import GRAND, PARENT, awkward_family, chromium_path, trained


@pytest.fixture(scope="session")
def web_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run on the family with awkward names."""
    return trained(tmp_path_factory.mktemp("web") / "run", awkward_family(), "joint+comp", 150)


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run without an autoencoder; two relations alone, so that its map needs no UMAP."""
    return trained(tmp_path_factory.mktemp("web") / "plain", awkward_family(PARENT, GRAND), "base", 10)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of a browser; without one, tests are skipped, but never in CI."""
    path = chromium_path()
    if path is not None:
        return path
    message = "no Chromium: install Debian's chromium, or set RELCODE_CHROMIUM to one"
    if os.environ.get("RELCODE_REQUIRE_BROWSER") or os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
