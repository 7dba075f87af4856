"""Connections of the web service: strangers take neither its descriptors nor its time."""

import http.client
import json
import socket
import subprocess
import sys
import textwrap
from contextlib import ExitStack, contextmanager

import pytest

from ridgeline.service.http import connections
from ridgeline.service.http.connections import Connections
from support.paths import SUPPORT
from support.service.asking import dial, ended
from support.service.watched import BASE, serving, watched
from support.waiting import PATIENCE_SECONDS

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "


@pytest.fixture
def service(monkeypatch):
    """A service with limits of one's own."""
    made = []

    @contextmanager
    def serve(**limits):
        def bounded():
            made.append(Connections(**limits))
            return made[-1]

        monkeypatch.setattr("ridgeline.service.http.server.Connections", bounded)
        watch, plan, _, _ = watched(until=1)
        with serving(watch, plan) as client:
            yield client, made[-1]

    return serve


def over(line):
    """Whether a connection has ended, by now or by the end of its timeout."""
    try:
        return not line.recv(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_the_oldest_without_a_request_makes_room(service):
    with service(most=4) as (client, bounds), ExitStack() as open_lines:
        oldest, *others = [dial(client, HALF) for _ in range(4)]
        for line in others:
            open_lines.enter_context(line)
        assert client.ask("/healthz")[0] == 200
        assert ended(oldest) == b""
        assert bounds.refusals.totals["too many"] == 1
        assert all(line.send(b"a") for line in others)


def test_connections_with_requests_are_not_ended_for_others(service):
    with service(most=2) as (client, bounds), ExitStack() as streams:
        for _ in range(2):
            line = dial(client, f"GET {BASE}/live HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            streams.enter_context(line)
            assert line.recv(12) == b"HTTP/1.1 200"
        refused = ended(dial(client))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"all connections of this service are in use" in refused
        assert bounds.refusals.totals["too many"] == 1


@pytest.mark.parametrize("data", [b"", HALF, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"])
def test_a_request_that_does_not_come_is_not_waited_for(service, data):
    with service(request_seconds=0.2) as (client, bounds):
        line = dial(client, data)
        assert ended(line).count(b"HTTP/1.1 200") == data.count(b"healthz")
        assert bounds.refusals.totals["late"] == 1
        assert len(bounds) == 0


def test_who_sends_no_http_reads_why_while_it_still_sends(service, wait_until):
    with service() as (client, bounds):
        line = dial(client, b"PO S / HTTP/1.1\r\nContent-Length: 2\r\n\r\n")
        wait_until(lambda: line.recv(1, socket.MSG_PEEK), "the answer")
        for _ in range(3):
            line.sendall(b"{}")
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert answer.status == 400
        assert json.loads(answer.read())["error"] == "the request is no HTTP"
        assert line.recv(1) == b""
        line.close()
        wait_until(lambda: len(bounds) == 0, "the end of the connection")


def test_who_sends_no_http_and_stays_is_hung_up_on(service, wait_until, monkeypatch):
    monkeypatch.setattr(connections, "PART_SECONDS", 0.1)
    with service() as (client, bounds):
        line = dial(client, b"PO S / HTTP/1.1\r\n\r\n")
        wait_until(lambda: len(bounds) == 0, "the end of the connection")
        assert ended(line).startswith(b"HTTP/1.1 400 ")


def test_a_header_that_dribbles_is_not_waited_for(service, wait_until):
    with service(request_seconds=0.5) as (client, bounds):
        line = dial(client, HALF)
        line.settimeout(0.05)
        sent = 0

        def is_over():
            nonlocal sent
            line.sendall(b"a")
            sent += 1
            return over(line)

        wait_until(is_over, "the end of a connection whose header dribbles")
        line.close()
        assert sent > 2
        assert bounds.refusals.totals["late"] == 1


def test_a_connection_that_is_used_again_stays(service):
    with service(request_seconds=0.5) as (client, bounds):
        connection = http.client.HTTPConnection(client.host, client.port, timeout=PATIENCE_SECONDS)
        for _ in range(6):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
        assert len(bounds) == 1
        connection.close()


def test_who_takes_nothing_of_an_answer_is_hung_up_on(service, wait_until):
    with service(request_seconds=0.2, read_seconds=0.5) as (client, bounds):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect((client.host, client.port))
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)
        wait_until(lambda: bounds.refusals.totals["late"], "the end of a client that does not read")
        wait_until(lambda: len(bounds) == 0, "its connection to be gone")
        line.close()


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("ridgeline.service.http.web.BODY_SECONDS", 0.2)
    watch, plan, _, _ = watched()
    with serving(watch, plan, token="mine") as client:
        head = f"POST {BASE}/changes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer mine\r\n"
        line = dial(client, f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert ended(line).startswith(b"HTTP/1.1 408 ")


def test_strangers_leave_descriptors_to_the_application():
    """A process that may open 256 files, held by 400 connections: it opens files, and answers."""
    program = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        from support.service.watched import watched
        from ridgeline.service.http.server import WebServer
        from ridgeline.service.http.web import create_app
        watch, plan, _, _ = watched()
        server = WebServer(create_app(watch, plan))
        print(server.port, flush=True)
        for line in sys.stdin:
            files = [open("/dev/null") for _ in range(32)]
            for file in files:
                file.close()
            print("opened 32 files", flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(SUPPORT.parent)},
    ) as serving_process, ExitStack() as held:  # fmt: skip
        port = int(serving_process.stdout.readline())
        for number in range(400):
            line = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
            held.enter_context(line)
            line.sendall(HALF)
            if number % 100 == 99:
                serving_process.stdin.write("\n")
                serving_process.stdin.flush()
                assert serving_process.stdout.readline() == "opened 32 files\n"
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == 200
                connection.close()
        serving_process.stdin.close()


def test_a_quarter_of_the_descriptors_at_most(monkeypatch):
    monkeypatch.setattr(connections, "share_of_descriptors", lambda parts: 128 // parts)
    assert connections.most_connections() == 32
