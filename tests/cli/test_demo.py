from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demonstration_shows_everything_and_names_commands_that_work(relcode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = relcode("demo", "--quick", "--device", "cpu")
    assert result.code == 0, result.err
    folder = Path("runs/demo-1")
    for shown in (
        "most frequent answer",
        "this model (default)",
        "Ten facts that are not in the data",
        "Relation codes",
        "Compositions",
        str(folder),
    ):
        assert shown in result.out
    facts = result.out.split("Ten facts")[1].split("(guesses")[0].splitlines()[3:]
    assert len([line for line in facts if line.strip()]) == 10
    assert "valid MRR" in result.err
    pytest.importorskip("matplotlib")
    assert (folder / "codes.png").read_bytes().startswith(b"\x89PNG")
    commands = [shlex.split(line)[1:] for line in re.findall(r"^  (relcode .*)$", result.out, re.MULTILINE)]
    assert [command[0] for command in commands] == ["predict", "predict", "suggest", "explore"]
    for command in commands[:-1]:  # the last one serves until it is stopped
        assert relcode(*command).code == 0


def test_an_existing_folder_is_refused_before_anything_is_trained(relcode, tmp_path: Path) -> None:
    result = relcode("demo", "--out", tmp_path)
    assert (result.code, result.out) == (2, "") and "exists already" in result.err


def test_an_unknown_device_is_refused(relcode, tmp_path: Path) -> None:
    result = relcode("demo", "--out", tmp_path / "run", "--device", "tpu")
    assert result.code == 2 and "it must be one of auto, cpu, cuda" in result.err and not (tmp_path / "run").exists()
