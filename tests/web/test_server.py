"""Servers as people start them: real processes, real sockets."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from serving import PARENT, running

from relcode.cli import main
from relcode.web import server


def test_a_socket_listens_on_any_free_port() -> None:
    with server.listen("127.0.0.1", 0) as listening:
        assert server.address_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert server.is_loopback(listening)


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1", "a" * 300])
def test_an_address_that_is_not_ours_is_refused_in_a_line(host: str) -> None:
    with pytest.raises(server.CannotListen, match="cannot listen on") as found:
        server.listen(host, 0)
    assert "\n" not in str(found.value)


def test_all_addresses_are_not_loopback() -> None:
    with server.listen("0.0.0.0", 0) as listening:
        assert not server.is_loopback(listening)
        assert server.address_of(listening).startswith("http://127.0.0.1:")


def test_a_port_in_use_is_one_line(web_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for command in ("serve", "explore"):
            assert main([command, str(web_run), "--port", str(port)]) == 2
            said = capsys.readouterr().err
            assert said.count("\n") == 1 and f"port {port} of 127.0.0.1 is in use" in said and "--port 0" in said


@pytest.mark.parametrize(
    ("arguments", "said"), [(["serve", "nowhere"], "nowhere"), (["serve", ".", "--port", "99999"], "port"), (["explore", ".", "--port", "x"], "port")]
)
def test_mistakes_at_the_start_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main([*arguments, *(["--port", "0"] if "--port" not in arguments else [])]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error


def test_a_missing_package_is_one_line(web_run: Path) -> None:
    program = "import sys; sys.modules['fastapi'] = None; from relcode.cli import main; sys.exit(main(['serve', sys.argv[1], '--port', '0']))"
    done = subprocess.run([sys.executable, "-c", program, str(web_run)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "pip install 'relcode[explorer]'" in done.stderr


def test_a_server_answers_until_it_is_stopped(web_run: Path) -> None:
    with running("serve", web_run, "--port", "0", "--host", "localhost") as (process, address):
        assert httpx.get(f"{address}/health").json()["status"] == "ok"
        assert httpx.get(f"{address}/api/v1/predict", params={"head": "Ada_3", "relation": PARENT}).json()["answers"]
        assert httpx.get(f"{address}/health", headers={"host": "evil.example"}).status_code == 421
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10) as raw:
            raw.sendall(b"this is not HTTP\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 400")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None and "Traceback" not in process.stderr.read()


def test_other_machines_are_warned_about(web_run: Path) -> None:
    with running("serve", web_run, "--port", "0", "--host", "0.0.0.0") as (process, address):
        assert httpx.get(f"{address}/health", headers={"host": "any.example"}).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
