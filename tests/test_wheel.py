"""The built wheel, in an environment that has relcode only from it, answers the commands a newcomer types first."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the checkout, with no path to its sources, and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=environment, check=False, timeout=600)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("relcode-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone in a new environment that borrows the dependencies, and return its folder of programs.

    A path file makes this environment's packages visible there. Path files found *in* a borrowed folder are not read, so an editable
    relcode of this environment stays invisible.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    windows = os.name == "nt"
    programs = folder / ("Scripts" if windows else "bin")
    python = programs / ("python.exe" if windows else "python")
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (own / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n", encoding="utf-8")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--force-reinstall", wheel, cwd=folder)
    where = run(python, "-c", "import relcode; print(relcode.__file__)", cwd=folder).strip()
    assert Path(where).is_relative_to(own), where
    return programs


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "relcode").rglob("*") if path.is_file()}
    assert names == {name for name in sources if "__pycache__" not in name}
    assert "relcode/py.typed" in names
    assert any(name.startswith("relcode/data/") for name in names)


def test_it_says_its_version(installed: Path, wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.split("-")[1] in run(installed / "relcode", "--version", cwd=tmp_path)


def test_it_runs_the_demonstration(installed: Path, tmp_path: Path) -> None:
    shown = run(installed / "relcode", "demo", "--quick", cwd=tmp_path)
    assert "Ten facts that are not in the data" in shown and "Relation codes" in shown and "Compositions" in shown
    assert (tmp_path / "runs" / "demo-1" / "run.json").exists()
    assert "MRR" in run(installed / "relcode", "evaluate", Path("runs") / "demo-1", cwd=tmp_path)


def test_it_lists_the_bundled_dataset(installed: Path, tmp_path: Path) -> None:
    assert "world" in run(installed / "relcode", "datasets", cwd=tmp_path)
