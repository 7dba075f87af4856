"""Who may do what from a browser: sessions, one-time codes, and attacks on them."""

import socket

import pytest

from ridgeline.service.access.roles import OWNER, Identity
from ridgeline.service.page.session import CODE_SECONDS, Sessions
from ridgeline.testing import SteppingClock
from support.service.asking import ask
from support.service.watched import BASE, START, serving, watched
from support.waiting import PATIENCE_SECONDS

CHANGE = f"{BASE}/pause"  # 409 where it is let through: nothing runs
PASSED = 409


class Browser:
    """A browser that keeps cookies as browsers do: by host, for all ports."""

    def __init__(self, client):
        self.client = client
        self.host = f"{client.host}:{client.port}"
        self.cookie = self.key = None

    def ask(self, path, method="GET", body=None, **headers):
        """Status and JSON; the cookie and the key are sent, and what a page's own request says."""
        own = {"Origin": f"http://{self.host}", "Sec_Fetch_Site": "same-origin"} if method == "POST" else {}
        sent = own | {"Cookie": self.cookie, "X_Ridgeline_Key": self.key} | headers
        status, answer, got = ask(self.client, path, method, body, **sent)
        if set_cookie := got.get("set-cookie"):
            assert "HttpOnly" in set_cookie
            assert "SameSite=strict" in set_cookie
            self.cookie = set_cookie.partition(";")[0]
        self.key = (answer or {}).get("key", self.key)
        return status, answer

    def sign_in(self, **credentials):
        return self.ask("/page/session", "POST", credentials)[0]


@pytest.fixture(scope="module")
def guarded():
    """A service that asks for a token, and has one to read."""
    watch, plan, _, _ = watched()
    with serving(watch, plan, token="all", read_token="read") as client:
        yield client


@pytest.fixture(scope="module")
def local():
    """A service on the loopback address: all may read, who has the token may change something."""
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        yield client


@pytest.fixture
def browser(guarded):
    return Browser(guarded)


def test_a_token_opens_a_session_with_its_rights(browser, guarded):
    assert browser.sign_in(token="wrong") == 403
    assert browser.sign_in(token="all") == 200
    assert browser.ask("/page/session") == (200, {"reads": True, "writes": True, "role": "admin", "name": ""})
    assert browser.ask(f"{BASE}/info")[0] == 200
    assert browser.ask(CHANGE, "POST", {})[0] == PASSED
    reader = Browser(guarded)
    assert reader.sign_in(token="read") == 200
    assert reader.ask("/page/session") == (200, {"reads": True, "writes": False, "role": "read", "name": ""})
    assert reader.ask(f"{BASE}/info")[0] == 200
    assert reader.ask(CHANGE, "POST", {})[0] == 403


def test_the_cookie_alone_opens_nothing_and_neither_does_the_key(browser):
    """A browser sends the cookie to services of others on this host too."""
    assert browser.sign_in(token="all") == 200
    assert browser.ask(f"{BASE}/info", X_Ridgeline_Key=None)[0] == 401
    assert browser.ask(f"{BASE}/info", Cookie=None)[0] == 401
    assert browser.ask(f"{BASE}/info", X_Ridgeline_Key="x" * 32)[0] == 401


@pytest.mark.parametrize("other", ['a={"x": 1}', "a=b c", "flag", "path=/", "a@b=1", 'a="', "a=\xe9"])
def test_cookies_of_other_services_of_the_host_do_not_hide_the_session(browser, other):
    assert browser.sign_in(token="all") == 200
    for cookies in (f"{other}; {browser.cookie}", f"{browser.cookie}; {other}"):
        assert browser.ask("/page/session", Cookie=cookies) == (
            200,
            {"reads": True, "writes": True, "role": "admin", "name": ""},
        )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": None},
        {"Origin": "null", "Sec_Fetch_Site": None},
        {"Origin": None, "Sec_Fetch_Site": "same-site"},
        {"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"},
        {"Origin": None, "Sec_Fetch_Site": None},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "http://[", "Sec_Fetch_Site": None},
    ],
)
def test_another_site_changes_nothing_in_the_name_of_who_looks_at_both(browser, headers):
    assert browser.sign_in(token="all") == 200
    assert browser.ask(CHANGE, "POST", {}, **headers)[0] == 403
    assert browser.ask("/page/session", "POST", {"token": "all"}, **headers)[0] == 403
    assert browser.ask(f"{BASE}/info")[0] == 200  # it did not end


def test_a_name_that_an_attacker_resolves_to_this_machine_is_refused(browser):
    for path in ("/", "/page/main.js", "/page/session", f"{BASE}/info"):
        assert browser.ask(path, Host="evil.example", Accept="text/html")[0] == 403
    assert browser.ask("/page/session", "POST", {"token": "all"}, Host="evil.example")[0] == 403


def test_a_code_is_good_once(browser, guarded):
    assert Browser(guarded).ask(f"{BASE}/page", "POST", {})[0] == 401
    assert Browser(guarded).ask(f"{BASE}/page", "POST", {}, Authorization="Bearer read")[0] == 403
    status, answer = Browser(guarded).ask(f"{BASE}/page", "POST", {}, Authorization="Bearer all")
    assert status == 200
    code = answer["path"].removeprefix("/#code=")
    assert browser.sign_in(code=code[:-1]) == 403
    assert browser.sign_in(code=code) == 200
    assert browser.ask(CHANGE, "POST", {})[0] == PASSED
    assert Browser(guarded).sign_in(code=code) == 403
    for nonsense in ("", None, 7, ["x"], "\udcff", "ü" * 1000):
        assert Browser(guarded).sign_in(code=nonsense) in {400, 403}
        assert Browser(guarded).sign_in(token=nonsense) in {400, 403}


def test_a_code_is_good_for_an_hour():
    clock = SteppingClock(START)
    sessions = Sessions(clock)
    early, late = sessions.code(), sessions.code()
    clock.advance(CODE_SECONDS - 1)
    assert sessions.exchange(early) is not None
    clock.advance(2)
    assert sessions.exchange(late) is None


def test_codes_and_sessions_take_no_more_memory_than_a_thousand_do():
    sessions = Sessions(SteppingClock(START))
    reader = Identity("ann", "token")
    first = sessions.open(OWNER)
    kept = sessions.open(reader)
    for _ in range(1500):
        sessions.code()
        sessions.open(OWNER)
        assert sessions.identity(kept.cookie, kept.key) == reader  # in use
    assert sessions.identity(first.cookie, first.key) is None
    assert len(sessions._sessions) == len(sessions._codes) == 1000


def test_where_all_may_read_a_session_is_for_changes(local):
    browser = Browser(local)
    assert browser.ask("/page/session") == (200, {"reads": True, "writes": False, "role": "read", "name": ""})
    assert browser.ask(f"{BASE}/info")[0] == 200
    assert browser.ask(CHANGE, "POST", {})[0] == 401
    assert browser.sign_in(token="read") == 403


def test_bodies_without_an_end_and_headers_that_are_none_are_refused(guarded):
    browser = Browser(guarded)
    assert browser.ask("/page/session", "POST", {"token": "x" * 20_000})[0] == 413
    browser.cookie = 'ridgeline-1="\\; x=; ;;=; \\"'
    assert browser.ask(f"{BASE}/info")[0] == 401
    with socket.create_connection((guarded.host, guarded.port), PATIENCE_SECONDS) as raw:
        raw.sendall(
            f"GET {BASE}/info HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: \xff\xfe=\x80\r\n\r\n".encode("latin-1")
        )
        assert raw.recv(100).startswith((b"HTTP/1.1 401", b"HTTP/1.1 400"))
