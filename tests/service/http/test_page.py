"""What the page is served as: files, headers, sessions, the live stream."""

import http.client
import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from ridgeline.measure.wording.times import STEPS
from ridgeline.service import page
from support.service.watched import BASE, serving, watched
from support.waiting import PATIENCE_SECONDS

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def client():
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        yield client


def test_files_are_asked_for_again_only_when_they_change(client):
    _, headers, body = client.ask("/page/main.js")
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    status, again, nothing = client.ask("/page/main.js", headers={"If-None-Match": headers["etag"]})
    assert (status, nothing, again["etag"]) == (304, b"", headers["etag"])
    assert body


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/..%2f__init__.py",
        "/page/../assets.py",
        "/page/%2e%2e/assets.py",
        "/page//etc/passwd",
        "/page/vendor/..%5c..%5cassets.py",
        "/page/main.js%00.css",
        "/page/views",
    ],
)
def test_no_path_leads_out_of_the_folder(client, path):
    assert client.ask(path)[0] == 404


def test_the_page_may_load_nothing_from_elsewhere_and_be_framed_by_nobody(client):
    for path in ("/", "/page/main.js"):
        policy = client.ask(path, headers=HTML)[1]["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    for path in ("/", "/page/main.js", f"{BASE}/info", "/healthz", "/nowhere"):
        headers = client.ask(path)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@contextmanager
def stream(client, every=100):
    """The events of the live stream: name and data."""
    connection = http.client.HTTPConnection(client.host, client.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", f"{BASE}/live?every={every}")
    response = connection.getresponse()
    assert response.status == 200, response.read()

    def events():
        name = ""
        while line := response.readline().decode():
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])

    try:
        yield events()
    finally:
        connection.close()


def test_what_a_window_waited_for_has_the_same_names_as_in_the_terminal():
    words = Path(page.__file__).parent / "assets" / "time" / "words.js"
    table = words.read_text(encoding="utf-8").partition("export const WORDS = {\n")[2].partition("\n};")[0]
    assert dict(re.fullmatch(r'  (\w+): "(.+)",', line).groups() for line in table.splitlines()) == STEPS
