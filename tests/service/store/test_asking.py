"""What applications say of themselves, and those that hang, are gone, or are none at all."""

import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from ridgeline.service.registry import Entry
from ridgeline.service.store.asking import ask
from support.service.living import living

HOSTILE = "a\x1b[2J\u2028<script>alert(1)</script>\u202egnp"


@pytest.fixture(scope="module")
def application():
    with living(token="secret") as found:
        yield found


@contextmanager
def answering(*chunks, hang=False):
    """A server that answers every request with these bytes, and then closes, or says nothing more."""
    listening = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve():
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            held.append(client)
            with suppress(OSError):  # who asked hung up first: it had heard enough
                client.recv(65_536)
                for chunk in chunks:
                    client.sendall(chunk)
                if not hang:
                    client.shutdown(socket.SHUT_RDWR)
                    client.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for client in held:
            client.close()


def test_it_says_how_each_does(application):
    url = application.server.url
    with_token, without, wrong = ask([Entry("", "", url, token) for token in ("secret", None, "other")])
    assert with_token.state in {"starting", "ok", "behind", "stuck"}
    assert "window" in with_token.words
    assert (without.state, wrong.state) == ("refused", "refused")
    assert "--token" in without.words
    assert "secret" not in json.dumps([with_token, without])


def test_those_that_hang_or_answer_something_else_hold_up_no_other(application):
    def body(document):
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(document), document)

    sentence = body(json.dumps({"text": HOSTILE, "state": "ok", "parts": []}).encode())
    silent = {"chunks": (), "hang": True}, {"chunks": (b"HTTP/1.1 200 OK\r\n\r\n{",), "hang": True}
    strange = (b"SSH-2.0-OpenSSH_9.6\r\n", body(b'{"state": "ok", "text": 1}'), body(b"[" * 100_000),
               b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000_000)  # fmt: skip
    with ExitStack() as stack:
        urls = [stack.enter_context(answering(*one["chunks"], hang=one["hang"])) for one in silent]
        urls += [stack.enter_context(answering(one)) for one in (*strange, sentence)]
        urls += ["http://127.0.0.1:1"]
        entries = [Entry("", "", application.server.url, "secret"), *(Entry("", "", url) for url in urls)]
        good, *rest = ask(entries)
    assert "window" in good.words
    assert [one.state for one in rest] == ["silent"] * 2 + ["strange"] * 4 + ["ok", "gone"]
    assert "no answer within 3 s" in rest[0].words
    assert not {"\x1b", "\u2028", "\u202e"} & set(rest[-2].words)
