"""The gallery and the page on understanding: every picture is there, with the command that makes it under it; commands and links hold."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import typer

from relcode.cli.app import app

ROOT = Path(__file__).parent.parent
GALLERY, UNDERSTANDING = ROOT / "docs" / "gallery.md", ROOT / "docs" / "understanding.md"
IMAGE = re.compile(r"^!\[[^\]]{15,}\]\((images/gallery-[\w.-]+\.png)\)", re.MULTILINE)


def sections(path: Path) -> list[str]:
    return re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


def commands(text: str) -> list[list[str]]:
    lines = re.findall(r"^(?:\$ )?relcode (.+)$", text, re.MULTILINE)
    return [line.split(" #")[0].split() for line in lines]


def check_arguments(arguments: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    rest = list(arguments)
    while rest and getattr(command, "commands", None) and not rest[0].startswith("-"):
        command = command.commands[rest.pop(0)]
    command.make_context("relcode", rest)


@pytest.mark.parametrize("section", sections(GALLERY), ids=lambda text: text.splitlines()[0])
def test_every_picture_has_the_command_that_makes_it_under_it(section: str) -> None:
    found = IMAGE.findall(section)
    assert found, "a section without a picture"
    for name in found:
        data = (GALLERY.parent / name).read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) > 10_000
    below = section[section.index("](images/") :]
    assert [arguments for arguments in commands(below) if "--png" in arguments], "no command that draws"


def test_no_picture_of_the_gallery_lies_about_unused() -> None:
    shown = set(IMAGE.findall(GALLERY.read_text(encoding="utf-8")))
    assert {f"images/{path.name}" for path in (ROOT / "docs" / "images").glob("gallery-*")} == shown and len(shown) >= 5


@pytest.mark.parametrize("path", [GALLERY, UNDERSTANDING], ids=lambda path: path.name)
def test_commands_exist_and_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for arguments in commands(text):
        check_arguments(arguments)
    assert len(commands(text)) > 5
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    files = set(re.findall(r"`((?:src|scripts|docs)/[\w./-]*\w)`", text))
    assert [link for link in links if not (path.parent / link).exists()] == [] == [name for name in files if not (ROOT / name).exists()]


def test_the_check_of_commands_can_fail() -> None:
    with pytest.raises(Exception):  # noqa: B017
        check_arguments(["study", "necessity", "run", "--fcats", "3"])


def test_the_script_makes_what_the_page_shows() -> None:
    spec = spec_from_file_location("make_gallery", ROOT / "scripts" / "make_gallery.py")
    assert spec is not None and spec.loader is not None
    script = module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    drawn = [*script.pictures("world", list(script.WORLD)), script.discovery("world", "runs/gallery-world-discovery", script.WORLD_DISCOVERY)]
    page = GALLERY.read_text(encoding="utf-8")
    assert {f"images/gallery-world-{one.name}.png" for one in drawn} == {name for name in IMAGE.findall(page) if "-world-" in name}
    shown = commands(page)
    for one in drawn:
        arguments = [*one.arguments, "--png", f"{one.name}.png"]
        check_arguments(arguments)
        assert sorted(arguments) in [sorted(line) for line in shown], arguments
    for recipe, line in script.WORLD.items():
        arguments = [*line.split(), "--out", script.folder_of("world", recipe)]
        assert arguments in shown
