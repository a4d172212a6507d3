"""Downloads from a real server on this machine that misbehaves in every way a mirror may."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from relcode.cli import main
from relcode.errors import DataError, OutputError, UnknownName
from relcode.graph import cache, catalogue, download
from relcode.graph.cache import cache_folder, datasets_folder
from relcode.graph.catalogue import available, find, resolve
from relcode.graph.dataset import load_dataset
from relcode.graph.download import normalised
from relcode.graph.known_datasets import KNOWN, KnownDataset, Split

TEXTS = {
    "train": "".join(f"city{number}\tnear\tcity{number + 1}\n" for number in range(9000)).encode(),
    "valid": b"city1\tnear\tcity3\n",
    "test": b"city2\tnear\tcity4\n",
}
Handler = Callable[[BaseHTTPRequestHandler, bytes], None]


@dataclass
class Server:
    """What the server does with each request, in turn (the last way stays), and what was asked of it."""

    address: str = ""
    ways: list[Handler] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)


def plain(request: BaseHTTPRequestHandler, text: bytes) -> None:
    """Serve the file, or the part asked for."""
    wanted = request.headers.get("Range")
    begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
    if begin >= len(text) and wanted:
        request.send_error(416)
        return
    request.send_response(206 if wanted else 200)
    if wanted:
        request.send_header("Content-Range", f"bytes {begin}-{len(text) - 1}/{len(text)}")
    request.send_header("Content-Length", str(len(text) - begin))
    request.end_headers()
    request.wfile.write(text[begin:])


def cut_after(size: int) -> Handler:
    def serve(request: BaseHTTPRequestHandler, text: bytes) -> None:
        wanted = request.headers.get("Range")
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        request.send_response(206 if wanted else 200)
        if wanted:
            request.send_header("Content-Range", f"bytes {begin}-{len(text) - 1}/{len(text)}")
        request.send_header("Content-Length", str(len(text) - begin))
        request.end_headers()
        request.wfile.write(text[begin : begin + size])

    return serve


def without_ranges(request: BaseHTTPRequestHandler, text: bytes) -> None:
    answer(text)(request, text)


def answer(body: bytes, length: int | None = None, code: int = 200, **headers: str) -> Handler:
    """Serve this, whatever is asked; ``length`` is what is claimed, -1 for no claim."""

    def serve(request: BaseHTTPRequestHandler, text: bytes) -> None:
        request.send_response(code)
        if length != -1:
            request.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return serve


def endless(request: BaseHTTPRequestHandler, text: bytes) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b"x" * 65536)
    except OSError:
        pass


def redirect(place: str, code: int = 302) -> Handler:
    return answer(b"", code=code, Location=place)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # a connection ends with its answer

        def do_GET(self) -> None:
            found.asked.append((self.path, self.headers.get("Range")))
            split = Path(self.path).stem.removesuffix(".tar")
            way = (found.ways.pop(0) if len(found.ways) > 1 else found.ways[0]) if found.ways else plain
            way(self, TEXTS.get(split, b""))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as running:
        found.address = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("RELCODE_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("RELCODE_DATA", raising=False)
        monkeypatch.setattr(download, "WAIT", 0.0)
        monkeypatch.setattr(download, "TIMEOUT", 5.0)
        for variable in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(variable, raising=False)
            monkeypatch.delenv(variable.upper(), raising=False)
        yield found
        running.shutdown()
        thread.join()


def split_of(name: str) -> Split:
    return Split(TEXTS[name].count(b"\n"), len(TEXTS[name]), hashlib.sha256(TEXTS[name]).hexdigest())


def small(*mirrors: str) -> dict[str, KnownDataset]:
    return {"small": KnownDataset("small", "", "none", 9001, 1, split_of("train"), split_of("valid"), split_of("test"), mirrors)}


def fetched(*mirrors: str) -> Path:
    folder = download.download("small", known=small(*mirrors))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {f"{name}.txt": text for name, text in TEXTS.items()}
    return folder


def refused(*mirrors: str) -> str:
    """Return the one line said where no mirror will do, after checking that nothing that looks like a dataset was left."""
    with pytest.raises(DataError) as caught:
        download.download("small", known=small(*mirrors))
    assert "\n" not in str(caught.value) and "under $RELCODE_DATA" in str(caught.value)
    assert not (datasets_folder() / "small" / "train.txt").exists()
    return str(caught.value)


def test_a_good_mirror_is_enough_and_nothing_is_fetched_twice(server: Server) -> None:
    folder = fetched(f"{server.address}/{{split}}.txt")
    assert folder == datasets_folder() / "small" and len(server.asked) == 3
    fetched(f"{server.address}/{{split}}.txt")
    assert len(server.asked) == 3


def test_progress_is_told(server: Server) -> None:
    told: list[tuple[str, int, int]] = []
    download.download("small", lambda *moment: told.append(moment), small(f"{server.address}/{{split}}.txt"))
    assert [moment for moment in told if moment[0] == "train"][-1] == ("train", len(TEXTS["train"]), len(TEXTS["train"]))
    assert len([moment for moment in told if moment[0] == "train"]) > 2 and {moment[0] for moment in told} == set(TEXTS)


def test_a_connection_cut_again_and_again_goes_on_where_it_was(server: Server) -> None:
    server.ways = [cut_after(100_000), cut_after(50_000), cut_after(1), plain]
    fetched(f"{server.address}/{{split}}.txt")
    ranges = [wanted for path, wanted in server.asked if "train" in path]
    assert ranges == [None, "bytes=100000-", "bytes=150000-", "bytes=150001-"]


def test_a_later_process_goes_on_where_the_first_was_cut(server: Server) -> None:
    server.ways = [cut_after(70_000), cut_after(0)]
    assert "the connection was cut" in refused(f"{server.address}/{{split}}.txt")
    server.ways, server.asked = [plain], []
    fetched(f"{server.address}/{{split}}.txt")
    assert server.asked[0] == ("/train.txt", "bytes=70000-")


def test_a_server_that_knows_no_ranges_starts_again(server: Server) -> None:
    server.ways = [cut_after(70_000), without_ranges]
    fetched(f"{server.address}/{{split}}.txt")


def test_a_part_that_belongs_to_another_file_is_thrown_away(server: Server) -> None:
    server.ways = [cut_after(70_000), cut_after(0)]
    refused(f"{server.address}/{{split}}.txt")
    (part,) = (datasets_folder() / "small").glob(".train*.part")
    part.write_bytes(b"y" * 70_000)
    server.ways = [plain]
    fetched(f"{server.address}/{{split}}.txt")


def test_a_part_longer_than_the_file_is_thrown_away(server: Server) -> None:
    server.ways = [cut_after(70_000), cut_after(0)]
    refused(f"{server.address}/{{split}}.txt")
    (part,) = (datasets_folder() / "small").glob(".train*.part")
    part.write_bytes(TEXTS["train"] + b"more")
    server.ways = [plain]
    fetched(f"{server.address}/{{split}}.txt")


def test_a_range_that_was_not_asked_for_is_not_taken(server: Server) -> None:
    lie = answer(TEXTS["train"][5:], code=206, Content_Range=f"bytes 5-{len(TEXTS['train']) - 1}/*")
    server.ways = [cut_after(70_000), lie, plain]
    fetched(f"{server.address}/{{split}}.txt")


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (answer(TEXTS["train"], length=len(TEXTS["train"]) - 10), "has another train than the one known"),
        (answer(TEXTS["train"], length=len(TEXTS["train"]) + 10), "the connection was cut"),
        (answer(TEXTS["train"], length=2**63), r"claims 9,223,372,036,854,775,808 bytes, at most [\d,]+ are expected"),
        (answer(TEXTS["train"][:-1] + b"x\n"), "has another train than the one known"),
        (answer(b"<html>no such file</html>"), "has another train than the one known (26 bytes"),
        (answer(b""), "has another train"),
        (endless, "sends more than the"),
        (answer(gzip.compress(TEXTS["train"]), Content_Encoding="gzip"), "sends what was not asked for"),
        (answer(b"", code=404), "HTTP 404"),
        (answer(b"", code=403), "HTTP 403"),
        (answer(b"", code=500), "HTTP 500"),
        (redirect("file:///etc/passwd"), "not allowed"),
        (redirect("ftp://127.0.0.1/train.txt"), "not allowed"),
        (redirect("data:text/plain,x"), "not allowed"),
        (redirect("/train.txt"), "HTTP 302"),  # in a circle
        (answer(b"", length=-1, Content_Length="many"), "has another train"),
    ],
)
def test_a_mirror_that_lies_is_refused_and_the_next_one_asked(server: Server, way: Handler, said: str) -> None:
    server.ways = [way]
    message = refused(f"{server.address}/{{split}}.txt")
    assert said in message or re.search(said, message), message
    server.ways = [*[way] * download.TRIES, plain] if "HTTP 5" in said or "cut" in said else [way, plain]
    if "circle" not in said and "302" not in said:
        fetched(f"{server.address}/{{split}}.txt", f"{server.address}/copy/{{split}}.txt")


def test_from_https_a_redirect_never_leads_to_http() -> None:
    import urllib.request

    request = urllib.request.Request("https://example.org/train.txt")
    with pytest.raises(download._Refused, match=r"redirects to http://example\.org/train\.txt, which is not allowed"):
        download._Redirects().redirect_request(request, None, 302, "Found", {}, "http://example.org/train.txt")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_web_address_is_followed(server: Server, code: int) -> None:
    server.ways = [redirect(f"{server.address}/elsewhere/train.txt", code), plain]
    fetched(f"{server.address}/{{split}}.txt")
    assert server.asked[1] == ("/elsewhere/train.txt", None)


def test_without_a_network_it_is_one_line(server: Server) -> None:
    free = "http://127.0.0.1:9/{split}.txt"  # nobody listens there
    message = refused(free, free.replace("127.0.0.1", "localhost"))
    assert "cannot download small (127.0.0.1:9: " in message and "copy train.txt, valid.txt, test.txt to a folder small" in message


@pytest.mark.parametrize("address", ["file:///etc/{split}", "ftp://127.0.0.1/{split}", "/etc/passwd", "data:,{split}"])
def test_only_web_addresses_are_opened(server: Server, address: str) -> None:
    assert "is no web address" in refused(address)


# -- other forms of the same facts


@pytest.mark.parametrize(
    "change", [lambda text: text.replace(b"\n", b"\r\n"), lambda text: text[:-1], lambda text: text[:-1].replace(b"\n", b"\r\n")]
)
def test_line_ends_do_not_matter(server: Server, change: Callable[[bytes], bytes]) -> None:
    server.ways = [lambda request, text: plain(request, change(text))]
    fetched(f"{server.address}/{{split}}.txt")


def test_nothing_else_is_forgiven() -> None:
    assert normalised(b"a\r\nb") == b"a\nb\n" and normalised(b"a\n\n") == b"a\n\n" and normalised(b"a \n") != normalised(b"a\n")


def archive(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.parametrize("prefix", ["", "./", "WN/", "../../../tmp/", "/etc/"])
def test_an_archive_will_do_wherever_its_files_lie_in_it(server: Server, tmp_path: Path, prefix: str) -> None:
    server.ways = [answer(archive({f"{prefix}{name}.txt": text for name, text in TEXTS.items()}))]
    fetched(f"{server.address}/all.tar.gz")
    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == ["test.txt", "train.txt", "valid.txt"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not an archive", "its archive cannot be read"),
        (archive({"train.txt": TEXTS["train"]})[:-100], "cannot be read"),
        (archive({"other.txt": b"x"}), "its archive has no train.txt"),
        (archive({"train.txt": TEXTS["valid"]}), "has another train"),
        (archive({"bomb": b"\0" * 50_000_000, "train.txt": TEXTS["train"]}), "unpacks to more than its facts"),
        (archive({"train.txt": b"\0" * 50_000_000}), "unpacks to more than its facts"),
        (archive({f"{number}": b"" for number in range(200)} | {"train.txt": TEXTS["train"]}), "has no train.txt"),
    ],
)
def test_a_bad_archive_is_refused(server: Server, content: bytes, said: str) -> None:
    server.ways = [answer(content)]
    assert said in refused(f"{server.address}/all.tar.gz")


# -- the cache and the catalogue


@pytest.fixture
def small_known(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Let relcode know the small benchmark by name."""
    entry = small(f"{server.address}/{{split}}.txt")
    for module in (download, catalogue):
        monkeypatch.setattr(module, "KNOWN", entry)
    monkeypatch.setattr("relcode.graph.known_datasets.KNOWN", entry)
    return server


def test_a_known_benchmark_is_found_once_it_was_downloaded(
    small_known: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["datasets", "show", "small"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "relcode: dataset 'small' is not on this machine: get it with relcode datasets download small (0.2 MB), "
        "or set RELCODE_DATA to a folder that has it\n"
    )
    assert main(["datasets", "download", "small"]) == 0
    assert capsys.readouterr().out.strip() == str(datasets_folder() / "small")
    assert len(load_dataset("small").train) == 9000 and [entry.name for entry in available()] == ["world", "small"]
    (tmp_path / "data" / "small").mkdir(parents=True)
    (tmp_path / "data" / "small" / "train.txt").write_text("a\tb\tc\n")
    monkeypatch.setenv("RELCODE_DATA", str(tmp_path / "data"))
    assert resolve("small").path == tmp_path / "data" / "small", "$RELCODE_DATA comes first"
    monkeypatch.delenv("RELCODE_DATA")
    (datasets_folder() / "small" / "train.txt").write_bytes(TEXTS["train"][:-1] + b" ")
    with pytest.raises(DataError, match=r"train\.txt is not what was downloaded; mend it with relcode datasets download small"):
        resolve("small")
    assert main(["datasets", "download", "small"]) == 0 and len(load_dataset("small").train) == 9000


def test_a_half_downloaded_one_is_not_taken(small_known: Server) -> None:
    download.download("small")
    (datasets_folder() / "small" / "test.txt").unlink()
    assert find("small") is None


def test_the_catalogue_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "catalogue"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in KNOWN) and "WordNet 3.0 licence" in out
    assert main(["datasets", "catalogue", "--json"]) == 0


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownName, match="did you mean 'wn18rr'"):
        download.download("wn18r")
    assert main(["datasets", "download", "../../etc"]) == 2 and capsys.readouterr().err.count("\n") == 1


def test_a_cache_that_cannot_be_made_is_one_line(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RELCODE_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="set RELCODE_CACHE to another"):
        download.download("small", known=small(f"{server.address}/{{split}}.txt"))


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"HOME": "/home/ada"}, "/home/ada/.cache/relcode"),
        ("linux", {"HOME": "/home/ada", "XDG_CACHE_HOME": "/fast"}, "/fast/relcode"),
        ("linux", {"HOME": "/home/ada", "XDG_CACHE_HOME": "not/absolute"}, "/home/ada/.cache/relcode"),
        ("darwin", {"HOME": "/Users/ada"}, "/Users/ada/Library/Caches/relcode"),
        ("win32", {"LOCALAPPDATA": "/c/local"}, "/c/local/relcode/cache"),
        ("linux", {"RELCODE_CACHE": "/here", "XDG_CACHE_HOME": "/fast"}, "/here"),
    ],
)
def test_the_cache_lies_where_the_platform_keeps_its_caches(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "RELCODE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cache.sys, "platform", platform)
    assert cache_folder() == Path(expected)


# -- what is known


def test_every_known_benchmark_has_mirrors_licence_and_checksums() -> None:
    assert {"wn18", "fb15k", "wn18rr", "fb15k-237", "umls", "kinship"} <= set(KNOWN)
    for name, entry in KNOWN.items():
        assert name == entry.name and entry.licence and len(set(entry.mirrors)) >= 2
        assert all(re.fullmatch(r"https://[^{}]+(/\{split\}\.txt|\.tar\.gz)", mirror) for mirror in entry.mirrors)
        assert all(re.fullmatch(r"[0-9a-f]{64}", entry.split(split).sha256) for split in TEXTS)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_counts_and_checksums_are_those_of_the_benchmark(name: str, benchmark: Callable[[str], Path]) -> None:
    folder = benchmark(name)
    for split in TEXTS:
        text = gzip.decompress((folder / f"{split}.txt.gz").read_bytes())
        assert KNOWN[name].split(split) == Split(text.count(b"\n"), len(text), hashlib.sha256(normalised(text)).hexdigest())
    if KNOWN[name].size < 1e6:
        data = load_dataset(folder)
        assert (data.num_entities, data.num_relations) == (KNOWN[name].entities, KNOWN[name].relations)


def test_a_wrong_checksum_would_be_noticed(server: Server) -> None:
    entry = small(f"{server.address}/{{split}}.txt")["small"]
    wrong = replace(entry, valid=replace(entry.valid, sha256="0" * 64))
    with pytest.raises(DataError, match="has another valid than the one known"):
        download.download("small", known={"small": wrong})
