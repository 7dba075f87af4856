"""TLS of the web service, as curl, openssl, Python's own client and strangers see it."""

import contextlib
import http.client
import json
import logging
import shutil
import socket
import ssl
import subprocess

import pytest

from ridgeline import RidgelineError
from ridgeline.service.access.options import AccessOptions
from ridgeline.service.http.connections import Connections
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from ridgeline.service.tls.serving import ServedTls, secured
from support.service.asking import ask, dial, ended
from support.service.certificates import Authority
from support.service.watched import BASE, watched
from support.waiting import PATIENCE_SECONDS, wait_until

OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
INFO = f"{BASE}/info"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def serve():
    """`serve(AccessOptions(...))`: a server, closed after the test."""
    servers = []

    def start(options, **given):
        watch, plan, _, _ = watched(until=2)
        app = create_app(watch, plan, **given)
        servers.append(WebServer(app, tls=secured(options)))
        return servers[-1]

    yield start
    for one in servers:
        one.close()


def with_files(signed):
    return AccessOptions(web_cert=str(signed.certificate), web_key=str(signed.key_file))


def trusting(authority):
    return ssl.create_default_context(cafile=authority.file)


def presented(server):
    """The certificate that a new client sees (DER)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as line,
        context.wrap_socket(line) as secure,
    ):
        return secure.getpeercert(binary_form=True)


# The certificate --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"web_cert": "a"}, "`--web-cert` needs `--web-key`"),
        ({"web_key": "a"}, "`--web-key` needs `--web-cert`"),
        ({"web_cert": "none.crt", "web_key": "none.key"}, "`none.crt` and `none.key` .*: No such file"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, text):
    with pytest.raises(RidgelineError, match=text):
        secured(AccessOptions(**options))


def test_files_of_no_use_are_refused(authority, tmp_path):
    one, other = authority.sign("one"), authority.sign("other")
    with pytest.raises(RidgelineError, match="the key is that of another certificate"):
        ServedTls(one.certificate, other.key_file)
    key = one.key_file
    key.chmod(0o644)
    with pytest.raises(RidgelineError, match=r"the key `.*one.key` can be read .* \(mode 0644\); run `chmod"):
        ServedTls(one.certificate, key)
    with pytest.raises(RidgelineError, match="there is no certificate in it"):
        ServedTls(one.key_file, one.key_file)


def test_a_renewed_certificate_is_read_while_a_stream_runs(serve, authority, caplog):
    now = authority.sign("web")
    server = serve(with_files(now))
    told = []
    server.tls.on_renewed = told.append
    stream = http.client.HTTPSConnection(
        "127.0.0.1", server.port, timeout=PATIENCE_SECONDS, context=trusting(authority)
    )
    stream.request("GET", f"{BASE}/live?every=100")
    events = stream.getresponse()
    assert events.readline().startswith((b"event:", b":", b"data:", b"id:"))
    now.certificate.write_text("half a certificate")
    caplog.set_level(logging.INFO, "ridgeline.service.tls")
    wait_until(lambda: presented(server) and "keeps its certificate" in caplog.text, "a note of the damage")
    assert server.tls.fingerprint == now.fingerprint
    renewed = authority.sign("web")
    _ = renewed.certificate, renewed.key_file
    wait_until(lambda: presented(server) == ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text()), "it")
    assert told == [renewed.fingerprint]
    server.app.state.pages.close()  # the stream, which began before, runs to its end
    assert b"event: delta" in events.read()
    stream.close()


def test_a_browser_is_held_to_it_by_names_of_more_than_this_host(serve, authority):
    name = "app.example"
    signed = authority.sign("web", hosts=("localhost", "127.0.0.1", name))
    server = serve(with_files(signed))
    server.app.state.hosts = None
    context = trusting(authority)
    for host, strict in ((name, True), ("localhost", False), ("127.0.0.1", False), ("[::1]", False)):
        _, _, headers = ask(server, INFO, context=context, Host=f"{host}:{server.port}")
        assert ("strict-transport-security" in headers) is strict, host


# Strangers --------------------------------------------------------------------------------------------------


@pytest.fixture
def bounded(monkeypatch, serve, authority):
    """`bounded(most=4)`: a server with limits of its own, and these."""
    made = []

    def start(**limits):
        def connections():
            made.append(Connections(**limits))
            return made[-1]

        monkeypatch.setattr("ridgeline.service.http.server.Connections", connections)
        return serve(with_files(authority.sign("web"))), made[-1]

    return start


def hello():
    """The first message of a client of TLS."""
    sent = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def test_http_in_the_clear_gets_a_hint(bounded):
    server, bounds = bounded()
    got = ended(
        dial(server, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n" + b"a" * 9000)
    )
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["hint"].startswith("begin its address with `https://`")
    assert bounds.refusals.totals["malformed"] == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"\x16", hello()[:60], hello(), b"GET / HTTP/1.1\r\nHost: a\r\n"],
    ids=("nothing", "a byte", "a part of hello", "hello", "a head"),  # the same in all processes of the tests
)
def test_who_stops_in_the_middle_is_not_waited_for(bounded, data):
    server, bounds = bounded(request_seconds=0.3)
    line = dial(server, data)
    ended(line)
    wait_until(lambda: sum(bounds.refusals.totals.values()), "its refusal")
    assert len(bounds) == 0


def test_rubbish_is_hung_up_on(bounded, authority):
    server, _ = bounded()
    for data in (b"\x00" * 100, b"\x80\x2e\x01", b"\x16" * 5000, b"\x16\x03\x01\xff\xff" + b"a" * 70000):
        line = dial(server)
        with contextlib.suppress(OSError):  # it may be hung up on before it has sent all, or is shut down
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
        ended(line)
    assert ask(server, "/healthz", context=trusting(authority))[0] == 200


def test_a_flood_of_handshakes_that_never_end_holds_no_one_up(bounded, authority):
    server, bounds = bounded(most=16)
    first = hello()
    with contextlib.ExitStack() as lines:
        for number in range(100):
            lines.enter_context(dial(server, (b"", b"\x16", first)[number % 3]))
            if number % 25 == 24:
                assert ask(server, "/healthz", context=trusting(authority))[0] == 200
        assert bounds.refusals.totals["too many"] >= 50


def test_old_versions_of_tls_are_refused(serve, authority):
    server = serve(with_files(authority.sign("web")))
    context = trusting(authority)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert ask(server, "/healthz", context=context)[0] == 200
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match=r"(?i)protocol|version|ciphers"):
        ask(server, "/healthz", context=context)


@OPENSSL
def test_a_client_cannot_renegotiate(serve, authority):
    server = serve(with_files(authority.sign("web")))
    words = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{server.port}"]
    with subprocess.Popen(
        [*words, "-CAfile", authority.file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as client:
        client.stdin.write(b"R\n")
        client.stdin.flush()  # and stays open: it ends by the refusal
        said = client.stdout.read().decode(errors="replace")
    assert "Verify return code: 0 (ok)" in said
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said.lower()
    assert ask(server, "/healthz", context=trusting(authority))[0] == 200
