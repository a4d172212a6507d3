"""The documents say what is so: commands, options, paths, functions and tests exist, snippets run, figures are those of the committed result."""

from __future__ import annotations

import ast
import math
import re
import shlex
import statistics
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

import relcode
from relcode.cli import main
from relcode.cli.app import app
from relcode.config import Settings, parse_assignments
from relcode.errors import RelcodeError
from relcode.graph.dataset import Dataset, load_dataset
from relcode.recipes import fit_to_device, recipe
from relcode.studies.reproduction_plan import VARIANTS
from relcode.studies.reproduction_record import identity, identity_of, plain_settings, read_records
from relcode.training.fit import fit_settings

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "relcode"
README, MODEL, ARCHITECTURE = ROOT / "README.md", ROOT / "docs" / "model.md", ROOT / "docs" / "architecture.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
RECORDS = ROOT / "benchmarks" / "results" / "reproduction"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOLDERS = "src|tests|docs|benchmarks|scripts"
LONG = {"demo", "train", "resume", "extend", "map", "study", "reproduce", "serve", "explore", "import-authors"}  # read, not run


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text_of(path)) if language in languages]


def shell_lines(path: Path) -> Iterator[str]:
    """Yield every command of a document: all lines of sh blocks, and those after a $ in console blocks; continued lines as one."""
    for body in blocks(path, "sh"):
        yield from (line for line in body.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#"))
    for body in blocks(path, "console"):
        yield from (line[2:] for line in body.replace("\\\n", " ").splitlines() if line.startswith("$ "))


def programs(line: str) -> list[list[str]]:
    """Return the arguments of each program of a pipe."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line, comments=True):
        if word in ("|", "&&"):
            found.append([])
        else:
            found[-1].append(word)
    return found


def relcode_commands(path: Path) -> list[list[str]]:
    return [words[1:] for line in shell_lines(path) for words in programs(line) if words and words[0] == "relcode"]


def check_arguments(arguments: list[str]) -> None:
    """Read arguments as the command would, without running it: an unknown command, option or kind of value raises."""
    command: Any = typer.main.get_command(app)
    rest = list(arguments)
    while rest and getattr(command, "commands", None) and not rest[0].startswith("-"):
        command = command.commands[rest.pop(0)]
    command.make_context("relcode", rest)


EVERY_COMMAND = [(path, arguments) for path in DOCUMENTS if path.exists() for arguments in relcode_commands(path)]


def test_the_readme_shows_every_command() -> None:
    shown = {arguments[0] for arguments in relcode_commands(README) if arguments}
    assert shown == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("path", "arguments"), EVERY_COMMAND, ids=[f"{path.name}: {' '.join(arguments)}"[:80] for path, arguments in EVERY_COMMAND])
def test_commands_and_their_options_exist(path: Path, arguments: list[str], family: Dataset) -> None:
    check_arguments(arguments)
    given = [value for option, value in pairwise(arguments) if option == "--set"]
    recipes = [value for option, value in pairwise(arguments) if option == "--recipe"]
    fit_settings(recipe(*recipes or ["default"]).with_values(parse_assignments(given)), family)  # which refuses what cannot go together


@pytest.mark.parametrize(
    "arguments", [["predikt"], ["predict", "run", "--haed", "x"], ["predict", "run", "--top", "many"], ["datasets", "sohw", "x"]]
)
def test_the_check_of_commands_can_fail(arguments: list[str]) -> None:
    with pytest.raises(Exception):  # noqa: B017
        check_arguments(arguments)


def test_settings_in_tables_exist_and_can_have_the_values_told() -> None:
    told = re.findall(r"`((?:model|sampling|updates|softmax|coder|training)\.\w+=[^`]+)`", text_of(MODEL) + text_of(README))
    assert len(told) > 10
    for assignment in told:
        Settings().with_values(parse_assignments([assignment]))


def test_defaults_are_those_that_the_table_tells() -> None:
    """Whoever changes a default changes docs/model.md, and this list, with it."""
    joint, comp = (fit_to_device(recipe(name), cuda=True) for name in ("joint", "joint+comp"))
    on_cpu = fit_to_device(recipe("joint"), cuda=False).sampling
    assert (on_cpu.noises, on_cpu.noise_draws, on_cpu.noise_rows, on_cpu.noise_sharing) == (64, 64, 64, "batch")
    assert (joint.model.dim, joint.model.code_dim, joint.sampling.noises, joint.coder.noises) == (256, 16, 256, 3)
    assert (joint.updates.rule, joint.training.epochs, comp.training.epochs) == ("adagrad", 200, 120)
    assert (joint.updates.vector_rate, joint.updates.vector_decay) == (2**-2, 2**-10)
    assert (joint.updates.matrix_rate, joint.updates.matrix_decay) == (2**-1, 2**-14)
    assert (joint.updates.vector_damping, joint.updates.matrix_damping, joint.updates.anneal) == (0.5, 0.02, True)
    assert (joint.coder.rate, joint.coder.decay, joint.coder.matrix_rate, joint.coder.matrix_decay) == (2**-2, 2**-14, 2**-6, 2**-26)
    assert (joint.coder.batch, joint.coder.every, joint.coder.scale, joint.coder.smooth_relu) == (4, None, 1, True)
    assert (joint.updates.orthogonal_rate, joint.updates.orthogonal_every) == (2**-4, 256)
    assert (joint.updates.factor_limit, joint.updates.saturation, joint.updates.path_matrices) == (math.inf, math.inf, "one")
    assert (joint.sampling.head_power, joint.sampling.max_path, comp.sampling.path_mean) == (0.75, 6, 1)
    assert (joint.sampling.noise_sharing, joint.sampling.noise_draws, joint.sampling.tile, comp.sampling.noise_draws) == ("batch", 1024, 1, 1024)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_paths_and_links_lead_somewhere(path: Path) -> None:
    text = FENCE.sub("", text_of(path))
    named = set(re.findall(rf"`((?:{FOLDERS})/[\w./-]*\w)`", text))
    missing = [name for name in named if not (ROOT / name).exists()]
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    missing += [link for link in links if not (path.parent / link).exists()]
    assert missing == []


def test_modules_named_in_the_architecture_exist() -> None:
    named = set(re.findall(r"`(\w+/\w+\.py)", text_of(ARCHITECTURE))) - {"scripts/build_world.py", "tests/test_imports.py"}
    assert len(named) > 15
    assert [name for name in named if not (PACKAGE / name).exists()] == []


def table_rows() -> list[tuple[str, str]]:
    """Return the function and test columns of the tables of equations."""
    tables = text_of(MODEL).split("## The released program")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in tables.splitlines() if line.startswith("|")]
    return [(row[1], row[2]) for row in rows if "`" in row[1]]


def exists(dotted: str) -> bool:
    """Say whether ``relcode.<dotted>`` can be imported and looked up."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value: Any = import_module(".".join(["relcode", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(value, name):
                return False
            value = getattr(value, name)
        return True
    return False


@cache
def functions_in(path: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(ast.parse(text_of(path))) if isinstance(node, ast.FunctionDef))


def test_every_equation_has_functions_and_tests_that_exist() -> None:
    rows = table_rows()
    assert len(rows) > 35
    functions = [name for column, _ in rows for name in re.findall(r"`([^`]+)`", column)]
    assert [name for name in functions if not exists(name)] == []
    assert all("::test_" in column for _, column in rows)
    tests = [name.split("::") for _, column in rows for name in re.findall(r"`([^`]+)`", column)]
    missing = [(file, name) for file, name in tests if not (ROOT / "tests" / file).exists() or name not in functions_in(ROOT / "tests" / file)]
    assert missing == []


def test_the_check_of_functions_can_fail() -> None:
    assert exists("model.score.Scorer.queries")
    assert not exists("model.score.Scorer.nonsense") and not exists("model.scoer.Scorer") and not exists("nonsense.at.all")


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^(\w+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = {name for path in DOCUMENTS for name in re.findall(r"`make (\w+)`", text_of(path))}
    assert {"demo", "test"} <= named <= targets


TITLES = {"fb15k-237": "FB15k-237", "wn18rr": "WN18RR", "fb15k": "FB15k", "wn18": "WN18"}


def test_figures_are_those_of_the_committed_records() -> None:
    for dataset, title in TITLES.items():
        seeds = [each["test"]["paper"] for each in read_records(RECORDS).values() if (each["dataset"], each["variant"]) == (dataset, "base+comp")]
        mrr, hits, mr = (statistics.fmean(each[name] for each in seeds) for name in ("mrr", "hits@10", "mr"))
        assert f"| {title} | {mrr:.3f} | {100 * hits:.1f} | {mr:,.0f} |".replace("| 0.", "| .") in text_of(README)


@pytest.mark.parametrize("dataset", TITLES)
def test_the_recipes_of_today_are_those_of_the_committed_records(dataset: str) -> None:
    """The command of every record, with today's recipes and rules, gives the settings that it was trained with."""
    try:
        data = load_dataset(dataset)
    except RelcodeError as error:
        pytest.skip(f"needs the benchmark: {error}")
    records = [record for record in read_records(RECORDS).values() if record["dataset"] == dataset]
    assert records
    for record in records:
        device = record["settings"]["training"]["device"]
        today = fit_settings(VARIANTS[record["variant"]].settings(dataset, record["seed"], {"training.device": device}), data)
        assert identity(dataset, plain_settings(today)) == identity_of(record), record["variant"]


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the README's run, runs/demo-1, is there; trained so briefly that it knows nothing."""
    folder = tmp_path_factory.mktemp("readme")
    settings = {"model.dim": 4, "model.code_dim": 8, "training.epochs": 1, "training.validations": 0, "training.device": "cpu"}
    relcode.train("world", out=folder / "runs" / "demo-1", settings=settings, progress=False)
    family = [(f"Ada{place}", relation, f"Ada{place + step}") for place in range(30) for relation, step in (("parent", 1), ("grandparent", 2))]
    family.append(("Ada", "parent", "Ada0"))
    (folder / "family.csv").write_text("head,relation,tail\n" + "".join(f"{','.join(fact)}\n" for fact in family), encoding="utf-8")
    relcode.train(family, out=folder / "runs" / "family", settings=settings, progress=False)
    return folder


def test_snippets_run(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the README's Python as it stands, but for the size and length of what it trains."""
    train = relcode.train

    def small_train(*arguments: Any, **options: Any) -> Any:
        return train(*arguments, **{**options, "dim": 4, "epochs": 1, "device": "cpu", "progress": False})

    monkeypatch.chdir(small_run)
    monkeypatch.setattr(relcode, "train", small_train)
    snippets = blocks(README, "python")
    assert len(snippets) >= 2
    space: dict[str, Any] = {}
    for number, snippet in enumerate(snippets):
        exec(compile(snippet, f"README.md, snippet {number + 1}", "exec"), space)


QUICK = [arguments for arguments in relcode_commands(README) if arguments and arguments[0] not in LONG]


@pytest.mark.parametrize("arguments", QUICK, ids=[" ".join(arguments)[:80] for arguments in QUICK])
def test_commands_of_the_readme_run(
    arguments: list[str], small_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(small_run)
    (small_run / "facts.tsv").write_text("Bilbao\tcity_country\tSpain\n", encoding="utf-8")
    (small_run / "questions.tsv").write_text("Bilbao\tcity_country\nBilbao\tcity_timezone/timezone_country\n", encoding="utf-8")
    if "--png" in arguments:
        pytest.importorskip("matplotlib")
    assert main(arguments) == 0, capsys.readouterr().err
