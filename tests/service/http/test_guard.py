"""Which `Host` a request may name: what an attacker's page leads here is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from ridgeline.service.http.guard import Hosts
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from support.service.watched import watched
from support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    watch, plan, _, _ = watched()
    server = WebServer(create_app(watch, plan), allowed_hosts=["proxy.example"])
    yield server
    server.close()


def asked(server: WebServer, path: str, *headers: str, version: str = "1.1") -> tuple[int, str]:
    """Status and body of a request with just these headers."""
    with socket.create_connection((server.host, server.port), timeout=PATIENCE_SECONDS) as line:
        head = "".join(f"{header}\r\n" for header in headers)
        line.sendall(f"GET {path} HTTP/{version}\r\n{head}Connection: close\r\n\r\n".encode("latin-1"))
        answer = b""
        while piece := line.recv(65536):
            answer += piece
            if answer.split()[1:2] == [b"200"] and b"event-stream" in answer:
                break
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2].decode()


@pytest.mark.parametrize(
    "path", ["/", "/ws/v2/stram/info", "/ws/v2/stram/live", "/metrics", "/healthz", "/nowhere"]
)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4040", "127.0.0.1.evil.example", "10.0.0.5", "localhost.evil.example", ""],
)
def test_another_host_is_refused(server: WebServer, path: str, host: str) -> None:
    status, body = asked(server, path, f"Host: {host}")
    assert status == 403
    assert json.loads(body) == {
        "error": f"this service does not answer to the host `{host}`",
        "hint": "use the address that was shown at start, or start the application with `--allow-host HOST`",
    }


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost",
        "LOCALHOST:4040",
        "app.localhost.",
        "[::1]:80",
        "proxy.example:443",
    ],
)
def test_its_own_names_are_answered(server: WebServer, host: str) -> None:
    assert asked(server, "/ws/v2/stram/info", f"Host: {host}")[0] == 200
    assert asked(server, "/ws/v2/stram/live", f"Host: {host}")[0] == 200


def test_no_host_and_two_hosts_are_refused(server: WebServer) -> None:
    assert asked(server, "/ws/v2/stram/info", version="1.0")[0] in {400, 403}
    assert asked(server, "/ws/v2/stram/info", "Host: localhost", "Host: evil.example")[0] in {400, 403}


def test_a_web_socket_is_refused(server: WebServer) -> None:
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Key: YQ==", "Sec-WebSocket-Version: 13")
    assert asked(server, "/ws/v2/stram/live", "Host: evil.example", *upgrade)[0] == 403


def test_what_listens_everywhere_answers_to_any_address_and_its_name() -> None:
    hosts = Hosts.of("0.0.0.0", "0.0.0.0")
    assert all(
        map(
            hosts.answers_to,
            [
                "10.0.0.5:80",
                "[2001:DB8::1]",
                socket.gethostname(),
                f"{socket.gethostname().upper()}:1",
                "localhost",
            ],
        )
    )
    assert not any(map(hosts.answers_to, ["evil.example", "", "10.0.0.5.evil.example", "0x7f.1"]))


def test_what_listens_on_an_address_answers_to_it_alone() -> None:
    hosts = Hosts.of("10.0.0.5", "driver.example")
    assert all(map(hosts.answers_to, ["10.0.0.5", "driver.example:1", "localhost"]))
    assert not any(map(hosts.answers_to, ["10.0.0.6", "evil.example"]))
