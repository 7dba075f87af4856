"""The server: where it listens, who may ask, and that it ends."""

import contextlib
import socket
import threading

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ridgeline import RidgelineError
from ridgeline.service.access.access import Access
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from support.ports import free_port
from support.service.watched import Client, watched
from support.waiting import PATIENCE_SECONDS


@pytest.fixture
def app():
    watch, plan, _, _ = watched()
    return create_app(watch, plan)


def test_an_address_that_cannot_be_had_is_reported_at_once(app):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host, number, words in (
            ("127.0.0.1", port, f"port {port} of `127.0.0.1` is in use; give another one"),
            ("127.0.0.1", 99_999, "a port is a number from 0 to 65535; got 99999"),
            ("192.0.2.1", 0, "cannot listen on `192.0.2.1`, port 0: .*; give an address of this machine"),
            ("no-such-host.invalid", 0, "cannot listen on `no-such-host.invalid`"),
        ):
            with pytest.raises(RidgelineError, match=words):
                WebServer(app, host, number)


def test_elsewhere_than_on_the_loopback_address_it_makes_a_token(app):
    server = WebServer(app, "0.0.0.0")
    try:
        assert server.url == f"http://{socket.gethostname()}:{server.port}"
        here = f"http://127.0.0.1:{server.port}"
        assert len(server.token) >= 32
        assert Client(here).ask("/ws/v2/stram/versions")[0] == 401
        assert Client(here, server.token).ask("/ws/v2/stram/versions")[0] == 200
    finally:
        server.close()


def test_it_ends_and_its_port_is_free_again(app):
    before = set(threading.enumerate())
    server = WebServer(app, port=free_port())
    server.close()
    server.close()
    assert not server._thread.is_alive()
    assert [thread for thread in set(threading.enumerate()) - before if not thread.daemon] == []
    with pytest.raises(ConnectionRefusedError):
        Client(server.url).ask("/ws/v2/stram/versions")
    again = WebServer(app, port=server.port)
    again.close()


def test_it_ends_while_a_request_hangs(wait_until):
    hanging, over = threading.Event(), threading.Event()

    def hang(request: Request) -> PlainTextResponse:
        hanging.set()
        over.wait(PATIENCE_SECONDS)
        return PlainTextResponse("late")

    class Stream:
        def close(self):
            pass

    app = Starlette(routes=[Route("/hang", hang)])
    app.state.access = Access()
    app.state.pages = Stream()
    server = WebServer(app)
    asking = socket.create_connection(("127.0.0.1", server.port))
    asking.sendall(b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wait_until(hanging.is_set, "the request")
    server.close()
    ended = not server._thread.is_alive()
    over.set()
    asking.close()
    assert ended


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff" * 100,
        b"GET " + b"/" * 100_000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ],
)
def test_rubbish_does_no_harm(app, sent):
    server = WebServer(app)
    try:
        with (
            contextlib.suppress(ConnectionError),  # it may hang up before it has read all
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as rude,
        ):
            rude.sendall(sent)
            rude.shutdown(socket.SHUT_WR)
            while rude.recv(10_000):
                pass
        assert Client(server.url).ask("/healthz")[0] == 200
    finally:
        server.close()
