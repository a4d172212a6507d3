"""The order of the house, checked on the text of every module: who may import whom, what is optional, and that nothing is pickled."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "relcode"

# A stage may import itself and the stages before it. `web` and `cli` stand at the same height in the plan; the command that starts the
# web server has to import it, so `cli` comes last.
ORDER = "errors checked config recipes ops graph formats sampling model training evaluation runs experiment analysis explore studies plots web cli"
STAGES = tuple(ORDER.split())
DOORS = {"__init__", "__main__"}  # the package's own front doors: they may import everything, and nothing may import them
EXTRAS = {"sklearn", "umap", "matplotlib", "fastapi", "starlette", "uvicorn", "plotly", "pyoxigraph", "pykeen", "scipy", "pandas"}
PICKLERS = {"pickle", "cPickle", "_pickle", "pickletools", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def stage_of(path: Path, package: Path = PACKAGE) -> str:
    return path.relative_to(package).with_suffix("").parts[0]


def imported(tree: ast.AST, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything imported anywhere in ``tree``; ``module`` is the importer's package, for relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module[: len(module) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def package_of(path: Path, package: Path = PACKAGE) -> tuple[str, ...]:
    return ("relcode", *path.relative_to(package).parts[:-1])


def order_faults(path: Path, package: Path = PACKAGE) -> list[str]:
    """Say each import of ``path`` that goes to a later stage, to a front door, or to something that is no stage."""
    stage = stage_of(path, package)
    if stage in DOORS:
        return []
    if stage not in STAGES:
        return [f"{path.name}: {stage!r} is not a stage of the house: {', '.join(STAGES)}"]
    faults = []
    for line, name in imported(ast.parse(path.read_text(encoding="utf-8")), package_of(path, package)):
        parts = name.split(".")
        if parts[0] != "relcode" or name == "relcode.__version__":  # the version is a constant, set before the door imports anything
            continue
        target = parts[1] if len(parts) > 1 else "__init__"
        if target not in STAGES:
            faults.append(f"{path.relative_to(package)}:{line} imports {name}, which is not in a stage")
        elif STAGES.index(target) > STAGES.index(stage):
            faults.append(f"{path.relative_to(package)}:{line} ({stage}) imports {name} of the later stage {target}")
    return faults


def at_module_level(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements run on import: all but the bodies of functions and of ``if TYPE_CHECKING``."""
    found: list[ast.stmt] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return found


def extra_faults(path: Path, package: Path = PACKAGE) -> list[str]:
    """Say each optional package that ``path`` imports when it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = ast.Module(body=at_module_level(tree), type_ignores=[])
    names = imported(top, package_of(path, package))
    return [f"{path.relative_to(package)}:{line} imports {name} at module level" for line, name in names if name.split(".")[0] in EXTRAS]


def pickle_faults(path: Path, package: Path = PACKAGE) -> list[str]:
    """Say each use of a pickling module, of torch.load or torch.save, and each allow_pickle that is not False."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    where = path.relative_to(package)
    faults = [f"{where}:{line} imports {name}" for line, name in imported(tree, package_of(path, package)) if name.split(".")[0] in PICKLERS]
    faults += [f"{where}:{line} imports {name}" for line, name in imported(tree, ()) if name in {"torch.load", "torch.save"}]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"torch.load", "torch.save"}:
            faults.append(f"{where}:{node.lineno} uses {ast.unparse(node)}")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            faults.append(f"{where}:{node.value.lineno} allows pickles")
    return faults


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 5


def test_imports_go_one_way() -> None:
    assert [fault for path in MODULES for fault in order_faults(path)] == []


def test_extras_are_imported_where_they_are_used() -> None:
    # The web server's own modules need FastAPI to be defined at all; they are imported only by the command that starts the server.
    assert [fault for path in MODULES if stage_of(path) != "web" for fault in extra_faults(path)] == []


def test_nothing_is_pickled() -> None:
    assert [fault for path in MODULES for fault in pickle_faults(path)] == []


def test_the_version_is_set_before_the_door_imports_anything() -> None:
    # Stages may import the version; were it set after the door's own imports, they would find it missing.
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    version = next(place for place, node in enumerate(body) if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__")
    earlier = ast.Module(body=body[:version], type_ignores=[])
    assert [name for _, name in imported(earlier, ("relcode",)) if name.startswith("relcode")] == []


@pytest.mark.parametrize("module", ["relcode", "relcode.training", "relcode.evaluation", "relcode.analysis", "relcode.cli"])
def test_importing_brings_no_extra(module: str) -> None:
    folder = PACKAGE.parent.joinpath(*module.split("."))
    if not (folder / "__init__.py").exists() and not folder.with_suffix(".py").exists():
        pytest.fail(f"{module} is not there")
    code = f"import sys, {module}; print(*sorted({EXTRAS!r} & set(sys.modules)))"
    environment = {"PYTHONPATH": str(PACKAGE.parent), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("arguments", [["datasets"], ["settings"], ["train", "--help"]])
def test_commands_that_compute_nothing_do_not_wait_for_torch(arguments: list[str]) -> None:
    tell = "print({'torch', 'pyarrow'} & set(sys.modules))"
    code = f"import sys\nfrom relcode.cli import main\nsys.argv[1:] = {arguments!r}\ntry:\n    main()\nfinally:\n    {tell}"
    environment = {"PYTHONPATH": str(PACKAGE.parent), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "set()"


FAULTY = [
    ("graph/a.py", "from relcode.model.score import Scorer", order_faults),
    ("graph/a.py", "def f():\n    import relcode.training", order_faults),
    ("graph/a.py", "from ..evaluation import rank", order_faults),
    ("graph/a.py", "from relcode import train", order_faults),
    ("graph/a.py", "import relcode", order_faults),
    ("utils.py", "x = 1", order_faults),
    ("graph/a.py", "import sklearn.cluster", extra_faults),
    ("graph/a.py", "try:\n    from umap import UMAP\nexcept ImportError:\n    pass", extra_faults),
    ("runs/a.py", "import pickle", pickle_faults),
    ("runs/a.py", "def f():\n    from joblib import dump", pickle_faults),
    ("runs/a.py", "import torch\ntorch.load('a')", pickle_faults),
    ("runs/a.py", "from torch import save", pickle_faults),
    ("runs/a.py", "import numpy as np\nnp.load('a', allow_pickle=True)", pickle_faults),
]
FAULTLESS = [
    ("graph/a.py", "from relcode.errors import DataError\nfrom . import b\nfrom ..ops import c\nfrom relcode.graph.vocab import Vocab", order_faults),
    ("cli/a.py", "import relcode.web.app", order_faults),
    ("runs/a.py", "from relcode import __version__", order_faults),
    ("__init__.py", "from relcode.cli import main", order_faults),
    ("graph/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import umap\ndef f():\n    import sklearn", extra_faults),
    ("runs/a.py", "import numpy as np\nnp.load('a', allow_pickle=False)", pickle_faults),
]


@pytest.mark.parametrize(("name", "text", "check"), FAULTY)
def test_the_checks_can_fail(tmp_path: Path, name: str, text: str, check) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert check(tmp_path / name, tmp_path) != []


@pytest.mark.parametrize(("name", "text", "check"), FAULTLESS)
def test_the_checks_pass_what_is_right(tmp_path: Path, name: str, text: str, check) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert check(tmp_path / name, tmp_path) == []
