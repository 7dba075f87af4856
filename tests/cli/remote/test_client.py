"""The client against the real web service, and against servers that are none."""

import http.server
import threading

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.client import Client
from ridgeline.measure.events import ApplicationEnded
from support.cli.windows import make_plan, watch_of, window

PLAN = make_plan()


@pytest.fixture
def watch():
    return watch_of(PLAN, window(PLAN, 0))


@pytest.fixture
def answering():
    """A server that answers all with one status and body."""
    servers = []

    def start(status, body):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def refused(kind, client, path="/info"):
    with pytest.raises(kind) as caught:
        client.get(path)
    return str(caught.value)


def test_a_token_is_asked_for_and_given(serve, watch):
    url = serve(watch, PLAN, token="secret").url
    assert Client(url, "secret").get("/info")["name"] == "numbers"
    assert refused(CommandError, Client(url)) == (
        f"`{url}` asks for a token; give the one that was shown when the application was started: `--token "
        "TOKEN`"
    )
    assert "does not accept this token" in refused(CommandError, Client(url, "wrong"))


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://host:0"])
def test_what_is_no_address(url):
    with pytest.raises(CommandError, match="is no address of an application; give `http://host:port`"):
        Client(url)


def test_another_server(answering):
    assert "is it the address of a Ridgeline application?" in refused(
        RidgelineError, Client(answering(200, b"<html>"))
    )
    assert "is it the address of a Ridgeline application of this version?" in refused(
        CommandError, Client(answering(404, b""))
    )
    url = answering(500, b'{"error": "the service failed", "hint": "report it"}')
    assert (
        refused(RidgelineError, Client(url))
        == f"`{url}/ws/v2/stram/info` failed with status 500: the service failed; report it"
    )


def test_events_are_whole_frames_until_the_end(serve, watch):
    client = Client(serve(watch, PLAN).url)
    events = client.events()
    kind, overview = next(events)
    assert (kind, overview["windowId"], overview["criticalPath"]) == ("window", 0, watch.critical_path())
    for event in window(PLAN, 1, at=1.0):
        watch.observe(event)
    assert next(events)[1]["windowId"] == 1
    watch.observe(ApplicationEnded(2.0, "finished"))
    assert list(events) == [("end", {"state": "FINISHED", "windowId": 1})]
