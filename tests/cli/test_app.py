from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relcode import __version__
from relcode.cli import app as module

COMMANDS = ("demo", "train", "resume", "evaluate", "predict", "score", "codes", "constraints", "map", "settings", "datasets")


def test_the_version(relcode) -> None:
    result = relcode("--version")
    assert (result.code, result.out, result.err) == (0, f"relcode {__version__}\n", "")


def test_help_names_every_command(relcode) -> None:
    result = relcode("--help")
    assert result.code == 0
    assert all(f"\n  {command} " in result.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(relcode, command: str) -> None:
    result = relcode(command, "--help")
    assert result.code == 0 and f"Usage: relcode {command}" in result.out


def test_no_arguments_show_the_help(relcode) -> None:
    result = relcode()
    assert result.code in (0, 2) and "Usage: relcode" in result.out + result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense",), "No such command 'nonsense'; see relcode --help"),
        (("trane",), "No such command 'trane'"),
        (("evaluate",), "Missing argument 'RUN'; see relcode evaluate --help"),
        (("evaluate", "x", "--splitt", "test"), "No such option: --splitt"),
        (("train", "world", "--epochs", "many"), "--epochs"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line_and_exit_code_2(relcode, arguments: tuple[str, ...], message: str) -> None:
    result = relcode(*arguments)
    assert result.code == 2 and result.out == ""
    assert result.err.count("\n") == 1 and result.err.startswith("relcode: ") and message in result.err


def test_ctrl_c_is_exit_code_130(relcode, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("relcode.graph.catalogue.available", interrupted)
    result = relcode("datasets")
    assert (result.code, result.out, result.err) == (130, "", "relcode: interrupted\n")


def test_a_defect_is_not_hidden(relcode, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("relcode.graph.catalogue.available", broken)
    with pytest.raises(ZeroDivisionError):
        relcode("datasets")


def python(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2]), "PYTHONIOENCODING": "latin-1"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, env=environment, check=False, timeout=120, **options)  # type: ignore[call-overload]


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, relcode.cli; relcode.cli.main(['--help']); relcode.cli.main(['train', '--help']); sys.exit('torch' in sys.modules)"
    assert python("-c", code).returncode == 0


def test_output_is_utf8_whatever_the_locale_says() -> None:
    done = python("-m", "relcode", "settings")
    assert done.returncode == 0 and "√d" in done.stdout.decode("utf-8")


@pytest.mark.skipif(os.name == "nt", reason="pipes break otherwise there")
def test_a_reader_that_has_had_enough_is_no_error() -> None:
    program = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'relcode', 'settings'], stdout=subprocess.PIPE, stderr=subprocess.PIPE);"
    )
    program += "p.stdout.close(); sys.stderr.buffer.write(p.stderr.read()); p.wait()"
    assert python("-c", program).stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "relcode", "datasets"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("relcode: the output could not be written: ") and done.stderr.count(b"\n") == 1
