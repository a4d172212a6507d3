from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest
import torch

import relcode
from relcode.runs import environment as module
from relcode.runs.environment import commit, environment


def test_an_environment_says_where_a_number_was_made() -> None:
    found = environment("cpu")
    assert found["relcode"] == relcode.__version__ and found["torch"] == torch.__version__ and found["python"] == platform.python_version()
    assert found["device"] == "cpu" and found["threads"] == torch.get_num_threads() and found["cores"] >= 1
    assert json.loads(json.dumps(found)) == found and all(value != "" for value in found.values())


def test_the_command_names_the_program_without_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/relcode", "train", "world", "--out", "/somewhere/runs/mine"])
    assert environment()["command"] == "relcode train world --out mine"


def test_the_commit_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELCODE_COMMIT", "abc1234")
    assert commit() == "abc1234"


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.delenv("RELCODE_COMMIT", raising=False)
    monkeypatch.setattr(module.subprocess, "run", fail)
    assert commit() == "unknown"


def test_the_commit_is_what_git_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[0] == "git"
        return subprocess.CompletedProcess(command, 0, "0123abc+\n", "")

    monkeypatch.delenv("RELCODE_COMMIT", raising=False)
    monkeypatch.setattr(module.Path, "exists", lambda self: True)
    monkeypatch.setattr(module.subprocess, "run", describe)
    assert commit() == "0123abc+"
