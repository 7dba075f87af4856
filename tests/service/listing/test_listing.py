"""The list of applications: what it says of each, and of those that hang, are gone, or are none at all."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.web import given
from ridgeline.service.http.server import WebServer
from ridgeline.service.listing.asking import Asking
from ridgeline.service.listing.web import create_list
from ridgeline.service.registry import Entry, own_entry, register, running
from support.service.living import living
from support.waiting import wait_until

HOSTILE = "a\x1b[2J\u2028<script>alert(1)</script>\u202egnp"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))


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


class List:
    """The list, served, and asked as its page asks it."""

    def __init__(self, *entries):
        self.server = WebServer(create_list(Asking(entries, running)))

    def ask(self, path="/ws/v2/apps", token=None, **options):
        headers = {"Authorization": f"Bearer {self.server.token if token is None else token}"}
        request = urllib.request.Request(self.server.url + path, headers=headers, **options)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def apps(self):
        return {app["url"].rstrip("/"): app for app in self.ask()["apps"]}

    def close(self):
        self.server.close()


@pytest.fixture
def listing():
    """`listing(*entries)`: a list that is closed after the test."""
    lists = []

    def make(*entries):
        lists.append(List(*entries))
        return lists[-1]

    yield make
    for one in lists:
        one.close()


def test_it_says_how_each_does_and_opens_its_page_with_rights(application, listing):
    url = application.server.url
    mine = own_entry("numbers-1", "numbers", url, token="secret", started=1000.0, user="ann")
    registration = register(mine)
    made = listing()
    wait_until(lambda: made.apps()[url]["saidAt"], "its sentence")
    app = made.apps()[url]
    assert (app["name"], app["id"], app["startTime"], app["user"]) == ("numbers", "numbers-1", 1000.0, "ann")
    assert app["state"] in {"starting", "ok", "behind", "stuck"}
    assert "window" in app["sentence"]
    assert app["problem"] == ""
    assert "secret" not in json.dumps(made.ask())
    opened = made.ask(f"/ws/v2/apps/{app['key']}/page", method="POST", data=b"{}")["url"]
    assert opened.startswith(f"{url}/#code=")
    registration.close()
    app = made.apps()[url]
    assert (app["state"], app["problem"]) == ("gone", "it has ended: the registry has it no more")
    assert "window" in app["sentence"]
    register(replace(mine, id="numbers-2"))
    wait_until(lambda: made.apps()[url]["saidAt"], "the run that follows")
    assert made.apps()[url]["id"] == "numbers-2"


def test_an_address_needs_its_token(application, listing):
    url = application.server.url
    made = listing(*given([url], []))
    wait_until(lambda: made.apps()[url]["state"] == "refused", "the refusal")
    assert f"ridgeline web {url} --token TOKEN" in made.apps()[url]["problem"]
    made = listing(*given([url.removeprefix("http://")], [f"{url}=secret"]))
    wait_until(lambda: made.apps()[url]["saidAt"], "its sentence")
    assert made.apps()[url]["name"] == "numbers"
    assert made.apps()[url]["startTime"] is not None


def test_those_that_hang_or_answer_something_else_hold_up_no_other(application, listing):
    def body(document):
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(document), document)

    good = application.server.url
    sentence = body(json.dumps({"text": HOSTILE, "state": "ok", "parts": []}).encode())
    with (
        answering(hang=True) as hanging,
        answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", hang=True) as dripping,
        answering(b"SSH-2.0-OpenSSH_9.6\r\n") as other,
        answering(body(b'{"state": "ok", "text": 1}')) as wrong,
        answering(body(b"[" * 100_000)) as deep,
        answering(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2_000_000) as endless,
        answering(sentence) as hostile,
    ):
        nothing = "http://127.0.0.1:1"
        urls = [hanging, dripping, other, wrong, deep, endless, hostile, nothing]
        named = Entry("i", HOSTILE, hostile, user=HOSTILE, host=HOSTILE, started=1.0)
        others = [replace(named, url=hostile) if url == hostile else Entry("", "", url) for url in urls]
        made = listing(Entry("", "", good, "secret"), *others)
        wait_until(lambda: made.apps()[good]["saidAt"], "the good one")
        assert made.apps()[hanging]["state"] in {"asking", "silent"}
        wait_until(lambda: made.apps()[hanging]["state"] == "silent", "the time of one that hangs")
        wait_until(lambda: made.apps()[dripping]["state"] == "silent", "the time of one that stops within")
        apps = made.apps()
    assert {apps[url]["state"] for url in (other, wrong, deep, endless)} == {"strange"}
    assert apps[nothing]["state"] == "gone"
    assert "no answer within 3 s" in apps[hanging]["problem"]
    assert apps[hostile]["state"] == "ok"
    for shown in (apps[hostile]["name"], apps[hostile]["sentence"], apps[hostile]["host"]):
        assert not {"\x1b", "\u2028", "\u202e"} & set(shown)


def test_two_hundred_that_are_gone(listing):
    for number in range(200):
        entry = Entry(f"dead-{number}", "dead", f"http://127.0.0.1:{1 + number}", host="elsewhere")
        register(replace(entry, started=float(number)))
    made = listing()
    wait_until(lambda: {app["state"] for app in made.ask()["apps"]} == {"gone"}, "all to be asked")
    assert len(made.ask()["apps"]) == 200


def test_nothing_is_said_without_the_token(listing):
    made = listing()
    for token in ("", "wrong"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            made.ask(token=token)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        made.ask("/ws/v2/apps/none/page", method="POST", data=b"{}")


def test_the_command_prints_an_address_and_ends_with_ctrl_c():
    command = [sys.executable, "-m", "ridgeline.cli.main", "web", "127.0.0.1:1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    assert re.fullmatch(r"applications: http://127\.0\.0\.1:\d+/#code=[\w-]+\n", first)
    assert process.stdout.readline().startswith("token for other browsers: ")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_tokens_are_of_an_address_or_of_all():
    one, two = "http://one:1", "https://two:2"
    assert [entry.token for entry in given([one, two, "one:1"], ["x"])] == ["x", "x"]
    tokens = ["one:1=a=b", "https://two:2=c"]
    assert [entry.token for entry in given([one, two], tokens)] == ["a=b", "c"]
    assert [entry.token for entry in given([one], ["padded=="])] == ["padded=="]
    with pytest.raises(CommandError, match="more than once"):
        given([one], ["a", "b"])
    for wrong in ("ftp://one", "http://", "http://ann:secret@one:1", "http://one:0"):
        with pytest.raises(CommandError) as error:
            given([wrong], [])
        assert "secret" not in str(error.value)
