"""What tests of several folders share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from family import family_dataset
from hypothesis import settings

from relcode.graph.dataset import Dataset
from relcode.recipes import recipe

# No deadline: how long an example takes says how busy the machine is. Derandomised: a test that passed once passes again.
settings.register_profile("relcode", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "relcode"))

BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def pykeen_at_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """PyKEEN makes folders under the user's home when it is imported; during tests these are somewhere else."""
    os.environ.setdefault("PYSTOW_HOME", str(tmp_path_factory.mktemp("pystow")))


@pytest.fixture(scope="session")
def benchmark() -> Callable[[str], Path]:
    """Return a function from a benchmark's name to its folder; it skips the test where the data are absent."""
    variable = os.environ.get("RELCODE_DATA")
    root = Path(variable) if variable else BESIDE_THE_REPOSITORY

    def folder_of(name: str) -> Path:
        folder = root / name
        if not folder.is_dir():
            pytest.skip(f"no benchmark {name!r}: set RELCODE_DATA to the folder that holds it")
        return folder

    return folder_of


@pytest.fixture(scope="session")
def family() -> Dataset:
    """Return the generated family tree, where parent/parent is exactly grandparent."""
    return family_dataset()


@pytest.fixture(scope="session")
def family_run(family: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run trained once on the family tree; tests only read it, or copy it first."""
    from relcode.experiment import train

    sizes = {"model.dim": 16, "model.code_dim": 4}
    length = {"training.epochs": 150, "training.validations": 3, "training.patience": 0, "training.device": "cpu"}
    folder = tmp_path_factory.mktemp("runs") / "family"
    for _ in train(family, recipe("joint+comp").with_values({**sizes, **length}), folder):
        pass
    return folder
