"""What looks over XML says the same in this process and in another one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

from relcode.errors import DataError
from relcode.formats import xmlguard
from relcode.formats.importing import import_facts
from relcode.formats.xmlguard import XmlGuard

RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.x/">'
FACT = '<rdf:Description rdf:about="http://e.x/{}"><e:r rdf:resource="http://e.x/b"/></rdf:Description>\n'
BODY = "".join(FACT.format(number) for number in range(2000))
BAD = {
    "elements within one another": RDF + BODY + "<e:a>" * 1001,
    "is the file whole": RDF + BODY,
    "mismatched tag": RDF + BODY + "</e:wrong>",
    "the entity 'b' is not": '<!DOCTYPE rdf:RDF [<!ENTITY b "&c;">]>' + RDF + BODY + "</rdf:RDF>",
}


@pytest.fixture(params=["here", "elsewhere"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let short documents, too, be looked over by another process, in small pieces; or never."""
    monkeypatch.setattr(xmlguard, "LONG", 1 if request.param == "elsewhere" else 1 << 40)
    monkeypatch.setattr(xmlguard, "CHUNK", 4096)
    return str(request.param)


@pytest.fixture
def guard(where: str) -> Iterator[Callable[[str], XmlGuard]]:
    opened: list[XmlGuard] = []

    def make(text: str) -> XmlGuard:
        opened.append(XmlGuard(BytesIO(text.encode()), "a.rdf"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def read_all(guard: XmlGuard, size: int) -> bytes:
    return b"".join(iter(lambda: guard.read(size), b""))


@pytest.mark.parametrize("size", [7, 2048, 1 << 20, -1])
def test_what_is_good_is_handed_on_as_it_is(guard: Callable[[str], XmlGuard], where: str, size: int) -> None:
    text = RDF + BODY + "</rdf:RDF>\n"
    guarded = guard(text)
    assert read_all(guarded, size) == text.encode()
    assert guarded.read(size) == b""
    assert type(guarded._checker).__name__ == {"here": "_Here", "elsewhere": "_Elsewhere"}[where]


@pytest.mark.parametrize("message", BAD)
def test_what_is_bad_is_refused_before_its_piece_is_handed_on(
    guard: Callable[[str], XmlGuard], monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    guarded, given = guard(BAD[message]), b""
    with pytest.raises(DataError, match=rf"^a\.rdf, line [\d,]+: .*{message}") as caught:
        while data := guarded.read(2048):
            given += data
    assert BAD[message].encode().startswith(given)
    assert b"<e:a>" * 1000 not in given and "\n" not in str(caught.value)


@pytest.mark.parametrize("where", ["here"], indirect=True)
def test_text_without_end_is_refused(guard: Callable[[str], XmlGuard], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relcode.formats.xmlcheck.LONGEST_TEXT", 1 << 16)
    with pytest.raises(DataError, match="more than 65,536 bytes without a tag"):
        read_all(guard(RDF + "x" * (1 << 17) + "</rdf:RDF>"), 2048)


@pytest.mark.parametrize("where", ["elsewhere"], indirect=True)
def test_a_process_that_is_killed_ends_the_reading(guard: Callable[[str], XmlGuard]) -> None:
    guarded = guard(RDF + BODY * 10 + "</rdf:RDF>")
    guarded.read(10)
    child = guarded._checker._child  # type: ignore[union-attr]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with pytest.raises(DataError, match="was ended; try again"):
        read_all(guarded, 4096)


@pytest.mark.parametrize("where", ["elsewhere"], indirect=True)
def test_no_process_is_left_behind(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    begin = xmlguard._Elsewhere.__init__

    def remember(self: xmlguard._Elsewhere) -> None:
        begin(self)
        started.append(self._child)

    monkeypatch.setattr(xmlguard._Elsewhere, "__init__", remember)
    path = tmp_path / "a.rdf"
    path.write_text(RDF + BODY + "</rdf:RDF>", encoding="utf-8")
    assert len(import_facts(path, split=False).dataset.train) == 2000
    path.write_text(RDF + BODY, encoding="utf-8")
    with pytest.raises(DataError, match="is the file whole"):
        import_facts(path, split=False)
    assert len(started) == 2 and all(child.returncode is not None for child in started)


@pytest.mark.parametrize("where", ["elsewhere"], indirect=True)
def test_where_no_process_can_be_started_it_is_done_here(guard: Callable[[str], XmlGuard], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlguard.sys, "executable", "/nowhere/python")
    text = RDF + BODY + "</rdf:RDF>"
    guarded = guard(text)
    assert read_all(guarded, 2048) == text.encode()
    assert type(guarded._checker).__name__ == "_Here"
