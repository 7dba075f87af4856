"""What the page is served as: files, headers, sessions, the live stream."""

import re
from pathlib import Path

import pytest

from ridgeline.measure.wording.times import STEPS
from ridgeline.service import page
from support.service.watched import BASE, serving, watched

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


def test_what_a_window_waited_for_has_the_same_names_as_in_the_terminal():
    words = Path(page.__file__).parent / "assets" / "time" / "words.js"
    table = words.read_text(encoding="utf-8").partition("export const WORDS = {\n")[2].partition("\n};")[0]
    assert dict(re.fullmatch(r'  (\w+): "(.+)",', line).groups() for line in table.splitlines()) == STEPS
