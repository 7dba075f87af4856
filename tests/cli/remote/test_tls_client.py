"""Our own commands by TLS: which certificates they accept, and that they send nothing before."""

import contextlib
import http.server
import socket
import ssl
import threading
from dataclasses import replace

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.cli.remote.client import Client
from ridgeline.service import registry
from ridgeline.service.access.options import AccessOptions
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from ridgeline.service.store.asking import ask
from ridgeline.service.tls.serving import secured
from support.cli.windows import make_plan, watch_of, window
from support.ports import free_port
from support.service.certificates import Authority
from support.waiting import wait_until

PLAN = make_plan()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def serve():
    """`serve(AccessOptions(...))`: a server with its entry in the registry, unless it is not `registered`."""
    with contextlib.ExitStack() as opened:

        def start(options, *, registered=True, token=None, port=0):
            app = create_app(watch_of(PLAN, window(PLAN, 0)), PLAN, token=token)
            server = WebServer(app, port=port, tls=secured(options))
            opened.callback(server.close)
            if registered:
                given = {"token": token, "started": 1.0, "certificate": server.tls.fingerprint}
                entry = registry.own_entry("numbers-1", "numbers", server.url, **given)
                opened.callback(registry.remove_own, registry.register(entry))
            return server

        yield start


def with_files(signed):
    return AccessOptions(web_cert=str(signed.certificate), web_key=str(signed.key_file))


def refused(client):
    with pytest.raises(RidgelineError) as caught:
        client.get("/info")
    return str(caught.value)


@pytest.fixture
def strange():
    """`strange(signed)`: the port of a server of TLS that is no application, and all that it was sent."""
    servers = []

    def start(signed, port=0):
        got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                got.append(self.headers.as_string())
                self.send_response(302)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed.certificate, signed.key_file)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                line, address = super().get_request()
                return context.wrap_socket(line, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, *_):
                pass

        server = Server(("127.0.0.1", port), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port, got

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "words",
    [
        ("status", "numbers"),
        ("get-app-info", "numbers", "--json"),
        ("top", "numbers", "--json"),
        ("windows", "numbers", "--json"),
    ],
)
def test_commands_find_the_certificate_by_the_registry(serve, authority, ridgeline_command, words):
    server = serve(with_files(authority.sign("web", hosts=("ops.example",))), token="secret")
    assert server.url.startswith("https://")
    if words[0] == "top":
        threading.Timer(2.0, server.close).start()  # ends it
    done = ridgeline_command(*words)
    assert done.exit_code == 0, done.stderr
    assert "secret" not in done.stdout


def test_another_certificate_at_its_address_gets_no_token(serve, strange, authority):
    server = serve(with_files(authority.sign("web")), token="secret")
    entry = registry.find("numbers")
    client = Client(server.url, entry.token)
    assert client.get("/info")
    server.close()
    _, got = strange(authority.sign("strange"), port=server.port)
    said = refused(client)
    assert f"not {entry.certificate}: another program may answer there, so nothing was sent" in said
    assert got == []


def test_a_client_that_stays_follows_a_renewed_certificate(serve, authority):
    server = serve(with_files(authority.sign("web")))
    entry = registry.find("numbers")
    server.tls.on_renewed = lambda found: registry.register(replace(entry, certificate=found))
    client = Client(server.url)
    assert client.get("/info")
    renewed = authority.sign("web")
    _ = renewed.certificate, renewed.key_file
    wait_until(lambda: client.get("/info") and server.tls.fingerprint == renewed.fingerprint, "it")
    assert registry.find("numbers").certificate == renewed.fingerprint


def test_elsewhere_an_authority_is_needed(serve, authority, ridgeline_command, monkeypatch):
    server = serve(with_files(authority.sign("web")), registered=False)
    said = refused(Client(server.url))
    assert said.startswith(f"the certificate of `{server.url}` is not accepted: ")
    assert "give its authority by `RIDGELINE_CA`" in said
    assert Client(server.url, ca=str(authority.file)).get("/info")["name"] == "numbers"
    monkeypatch.setenv("RIDGELINE_CA", str(authority.file))
    done = ridgeline_command("status", server.url)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("hosts", "days", "text"),
    [
        (("localhost", "127.0.0.1"), -2, "certificate has expired"),
        (("other.example",), 30, "not valid for '127.0.0.1'"),
    ],
)
def test_expired_certificates_and_those_of_other_hosts_are_refused(serve, authority, hosts, days, text):
    server = serve(with_files(authority.sign("web", hosts=hosts, days=days)), registered=False)
    assert text in refused(Client(server.url, ca=str(authority.file)))


def test_wrong_schemes_are_named(serve, authority):
    server = serve(with_files(authority.sign("web")), registered=False)
    plain = server.url.replace("https", "http")
    assert refused(Client(plain)).startswith("this service speaks TLS; begin its address with `https://`")
    watch = watch_of(PLAN, window(PLAN, 0))
    clear = WebServer(create_app(watch, PLAN))
    said = refused(Client(clear.url.replace("http", "https"), ca=str(authority.file)))
    clear.close()
    assert "speaks no TLS; begin the address with `http://`" in said


def test_files_of_no_use_are_named():
    with pytest.raises(RidgelineError, match=r"`none.pem` holds no authority: No such file"):
        Client("https://127.0.0.1:1", ca="none.pem")


def test_no_redirect_gets_the_token(strange, authority):
    signed = authority.sign("strange")
    port, got = strange(signed)
    client = Client(f"https://127.0.0.1:{port}", "secret", ca=str(authority.file))
    assert "failed with status 302" in refused(client)
    assert len(got) == 1


def test_the_list_asks_by_tls(serve, strange, authority):

    server = serve(with_files(authority.sign("web")), token="secret")
    port, got = strange(authority.sign("strange"))
    other = registry.Entry("", "", f"https://127.0.0.1:{port}", "other")
    mine = registry.find(server.url)
    answered, refusal = ask([mine, other])
    assert answered.state in {"starting", "ok", "behind", "stuck"}
    assert refusal.state == "refused"
    assert "is not accepted" in refusal.words
    assert got == []


def test_a_service_that_is_silent_is_not_waited_for_forever():
    with socket.create_server(("127.0.0.1", free_port())) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        assert "did not answer in time" in refused(Client(url, timeout=0.3))
