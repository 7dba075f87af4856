"""Sign-in of browsers by OpenID Connect: at a real provider (Canaille), and at one that lies."""

import base64
import time
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from ridgeline.api.errors import RidgelineError
from ridgeline.service.access.access import Access
from ridgeline.service.access.audit import AuditLog
from ridgeline.service.access.login import BEGUN_SECONDS, Login, LoginRefusedError
from ridgeline.service.access.oidc import AGAIN_SECONDS, Issuer
from ridgeline.service.access.options import AccessOptions
from ridgeline.service.access.roles import Identity, Role
from ridgeline.service.access.rules import Rule, Rules
from ridgeline.service.page.session import Sessions
from ridgeline.testing import SteppingClock
from support.service.asking import BASE
from support.service.identity import Browser, Provider
from support.service.issuer import Liar
from support.service.living import living
from support.waiting import PATIENCE_SECONDS

ONCALL = Rules.of([Rule("claim:groups=oncall", Role.OPERATE)])
ALL = Rules.of([Rule("claim:sub=ann", Role.READ)])
SIGNS_IN = {"oidc_issuer": "https://x", "oidc_client_id": "x"}


@pytest.fixture(scope="module")
def provider():
    with Provider() as found:
        yield found


class Service:
    """An application that lets people sign in at the provider."""

    def __init__(self, app, provider):
        self.app, self.url = app, f"http://127.0.0.1:{app.server.port}"
        provider.leads_to(f"{self.url}/page/login/callback")

    def begin_session(self, browser, **headers):
        """What the page does once the provider has led back: status, answer, and what sets cookies."""
        sent = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"} | headers
        given = browser.session.post(f"{self.url}/page/session", json={"signedIn": True}, headers=sent)
        return given.status_code, given.json(), given.headers.get("Set-Cookie", "")

    def ask(self, browser, path, key, method="GET", **headers):
        sent = {"X-Ridgeline-Key": key, "Origin": self.url, "Sec-Fetch-Site": "same-origin"} | headers
        body = {"json": {}} if method == "POST" else {}
        return browser.session.request(method, f"{self.url}{path}", headers=sent, **body)


@pytest.fixture(scope="module")
def clock():
    return SteppingClock(datetime.now(UTC))


@pytest.fixture(scope="module")
def service(provider, clock, tmp_path_factory):
    login = Login(Issuer(provider.url, "", print, clock), "ridgeline", provider.secret)
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    audit = AuditLog(str(path), "numbers", print)
    with living(access=Access("numbers", None, login=login, mapped=ONCALL), audit=audit) as app:
        yield Service(app, provider)
    text = path.read_text()
    assert '"path": "/page/login/callback"' in text  # each try that was denied
    assert "state=" not in text
    assert "code=" not in text


def back(service, name="ann"):
    """A browser that has signed in at the provider, and the address to which it was led back."""
    browser = Browser()
    address = browser.sign_in(f"{service.url}/page/login", name, until=f"{service.url}/page/login/callback")
    return browser, address


def test_who_signs_in_has_the_role_of_a_claim_until_signing_out(service, provider):
    browser, address = back(service)
    landed = browser.go(address)
    assert (landed.status_code, landed.url) == (200, f"{service.url}/#signed-in")
    assert "script-src 'self'" in landed.headers["Content-Security-Policy"]
    status, answer, cookies = service.begin_session(browser)
    assert (status, answer["role"], answer["name"]) == (200, "operate", "ann")
    assert "HttpOnly" in cookies
    assert "SameSite=strict" in cookies
    assert not [one.name for one in browser.session.cookies if "login" in one.name or "signed" in one.name]
    row = service.ask(browser, f"{BASE}/pause", answer["key"], "POST").json()
    assert row["who"] == "ann"
    assert service.ask(browser, f"{BASE}/kill", answer["key"], "POST").status_code == 403
    assert service.ask(browser, f"{BASE}/info", "guessed").status_code == 401
    rights = service.ask(browser, "/page/session", answer["key"]).json()
    assert (rights["login"], rights["role"]) == (urlsplit(provider.url).netloc, "operate")
    ended = service.ask(browser, "/page/session/end", answer["key"], "POST").json()
    assert ended["next"].startswith(f"{provider.url}/oauth/end_session?client_id=ridgeline&")
    assert service.ask(browser, f"{BASE}/info", answer["key"]).status_code == 401


def test_no_address_has_a_token(service):
    """Nor has the way from the issuer to the page anything but a code, which counts once."""
    browser, address = back(service)
    browser.go(address)
    for one in browser.addresses:
        assert "eyJ" not in one
        assert "token" not in one.partition("?")[2]
    assert set(parse_qs(urlsplit(address).query)) == {"code", "state", "iss"}
    begun = parse_qs(urlsplit(next(one for one in browser.addresses if "/oauth/authorize?" in one)).query)
    assert begun["code_challenge_method"] == ["S256"]
    assert begun["response_type"] == ["code"]
    assert begun["nonce"][0] != begun["state"][0]


def test_who_has_no_role_does_not_get_in(service):
    browser, address = back(service, "bob")
    refused = browser.go(address)
    assert refused.status_code == 403
    assert "`bob` has no role here" in refused.text
    assert service.begin_session(browser)[0] == 403


def test_an_answer_counts_once_and_in_the_browser_that_has_asked(service):
    browser, address = back(service)
    cookies = browser.session.cookies.copy()
    other, others = back(service)
    assert "has not begun" in other.go(address).text  # another person's code, to sign in the victim
    swapped = others.replace(state(others), state(address))
    assert "has not begun" in other.go(swapped).text
    assert "has not begun" in Browser().go(address).text
    assert "#signed-in" in browser.go(address).url
    browser.session.cookies = cookies
    assert "was finished already" in browser.go(address).text
    code = parse_qs(urlsplit(address).query)["code"][0]
    replayed = others.replace(parse_qs(urlsplit(others).query)["code"][0], code)
    assert "refuses the code: invalid_grant" in other.go(replayed).text  # PKCE, and the provider's own memory


def state(address):
    return parse_qs(urlsplit(address).query)["state"][0]


def test_two_tabs_sign_in_side_by_side(service):
    browser, first = back(service)
    second = browser.sign_in(f"{service.url}/page/login", "ann", until=f"{service.url}/page/login/callback")
    assert state(first) != state(second)
    for address in (second, first):
        assert "#signed-in" in browser.go(address).url
        assert service.begin_session(browser)[0] == 200


def test_answers_that_no_provider_gives_are_refused(service):
    browser, address = back(service)
    clean = address.partition("?")[0]
    for wrong, words in {
        f"{address}&code=other": "says something twice",
        address.replace("iss=", "iss=http%3A%2F%2Fevil.example"): "is of another issuer",
        f"{clean}?state={state(address)}&error=access_denied": "issuer refuses: access_denied",
        f"{clean}?state={state(address)}&error=%3Cscript%3E": "it does not say why",
        f"{clean}?state={state(address)}": "has no code",
        clean: "has not begun",
    }.items():
        refused = browser.session.get(wrong)
        assert refused.status_code == 403
        assert words in refused.text
        assert "<script" not in refused.text
        assert refused.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert browser.session.head(address).status_code == 405
    assert "#signed-in" in browser.go(address).url  # what others tried has used nothing up


def test_pages_of_other_sites_neither_begin_nor_end_a_sign_in(service):
    frame = requests.get(
        f"{service.url}/page/login", headers={"Sec-Fetch-Mode": "no-cors"}, allow_redirects=False, timeout=30
    )
    assert frame.status_code == 403
    assert "another site" in frame.text
    browser, address = back(service)
    browser.go(address)
    status, answer, _ = service.begin_session(
        browser, Origin="https://evil.example", **{"Sec-Fetch-Site": "cross-site"}
    )
    assert (status, answer["error"]) == (403, "a page of another site sent this request")
    browser.session.cookies.set(f"ridgeline-{service.app.server.port}", "fixed", domain="127.0.0.1", path="/")
    status, answer, cookies = service.begin_session(browser)
    assert status == 200
    assert "fixed" not in cookies  # the session of who has signed in is a new one
    assert service.begin_session(browser)[0] == 403  # once


def test_next_has_no_say_in_where_it_leads(service):
    browser = Browser()
    end = f"{service.url}/page/login/callback"
    address = browser.sign_in(f"{service.url}/page/login?next=https://evil.example", "ann", until=end)
    assert browser.go(f"{address}&next=//evil.example").url == f"{service.url}/#signed-in"


def test_keys_that_are_replaced_and_a_provider_that_is_gone(service, provider, clock):
    provider.rotate("2")
    browser, address = back(service)
    assert "signed by a key" in browser.go(address).text or "#signed-in" in browser.addresses[-1]
    clock.advance(AGAIN_SECONDS + 1)
    browser, address = back(service)
    assert "#signed-in" in browser.go(address).url
    browser, address = back(service)
    with provider.away():
        assert "issuer does not answer" in browser.go(address).text
    browser, address = back(service)
    assert "#signed-in" in browser.go(address).url


def test_a_provider_that_is_not_there_at_the_start_is_an_error_that_says_so(tmp_path):
    options = AccessOptions(oidc_issuer="http://127.0.0.1:9", oidc_client_id="x", oidc_role=("sub=ann:read",))
    with pytest.raises(RidgelineError, match=r"keys of `--oidc-issuer http://127\.0\.0\.1:9` cannot be"):
        options.access("numbers", print)


@pytest.fixture
def liar():
    found = Liar()
    yield found
    found.close()


def finished(liar, login, make):
    """The identity, or the refusal, of a sign-in whose ID token `make(nonce)` makes."""
    begun = login.begin("http://127.0.0.1:1/")
    query = parse_qs(urlsplit(begun.address).query)
    liar.answer = lambda _: make(query["nonce"][0])
    answer = {"state": query["state"][0], "code": "c"}
    try:
        return login.finish(answer, {begun.name: begun.cookie})
    except LoginRefusedError as error:
        return str(error)


def test_id_tokens_that_are_forged_late_or_for_others_are_refused(liar):
    login = Login(Issuer(liar.url, "", print), "ridgeline")
    now = int(time.time())

    def said(header=None, **claims):
        return finished(liar, login, lambda nonce: {"id_token": liar.token(nonce, header=header, **claims)})

    assert said().key == "ann"
    assert liar.asked[-1]["code_verifier"]
    assert said(exp=now - 50).key == "ann"  # clocks may be 60 s apart
    assert said(iat=now + 50).key == "ann"
    for claims, word in (
        ({"aud": "other"}, "aud"),
        ({"aud": ["ridgeline", "other"]}, "azp"),
        ({"aud": ["ridgeline", "other"], "azp": "other"}, "azp"),
        ({"aud": []}, "aud"),
        ({"iss": "http://other"}, "iss"),
        ({"exp": now - 70}, "expired"),
        ({"iat": now + 70}, "issued in the future"),
        ({"nbf": now + 70}, "not yet valid"),
        ({"nonce": "of another sign-in"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": None, "nonce_supported": False}, "nonce"),
        ({"sub": None}, "sub"),
        ({"sub": ["ann"]}, "sub"),
        ({"sub": ""}, ""),
        ({"exp": "soon"}, ""),
        ({"exp": None}, "exp"),
    ):
        refusal = said(**claims)
        assert isinstance(refusal, str), claims
        assert refusal.startswith("the ID token "), refusal
        assert word in refusal, (claims, refusal)

    def unsigned(nonce):
        _, claims, _ = liar.token(nonce).split(".")
        none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"1"}').rstrip(b"=").decode()
        return {"id_token": f"{none}.{claims}."}

    assert "signature or form" in finished(liar, login, unsigned)
    wrong_hash = {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}
    answer = finished(
        liar, login, lambda nonce: {"id_token": liar.token(nonce, **wrong_hash), "access_token": "a"}
    )
    assert "at_hash" in answer
    for nonsense in (b"{", b"[]", b"null", {}, {"id_token": 7}, {"error": "<b>"}, {"id_token": "a.b.c"}):
        assert isinstance(finished(liar, login, lambda _, nonsense=nonsense: nonsense), str)


def test_answers_to_a_code_that_are_huge_or_never_end_are_not_waited_for(liar, monkeypatch):
    login = Login(Issuer(liar.url, "", print), "ridgeline")

    def answer(nonce, tail=b""):
        return b'{"id_token": "' + liar.token(nonce).encode() + b'"}' + tail

    assert finished(liar, login, answer).name == "ann"
    assert finished(liar, login, lambda nonce: answer(nonce, b" " * 200_000)).endswith("the code is none")
    monkeypatch.setattr("ridgeline.service.access.login.MOST_SECONDS", 0.0)
    assert "does not answer (Timeout); try again" in finished(liar, login, answer)


def test_an_issuer_ends_its_session_at_an_address_of_its_own_alone(liar):
    issuer = Issuer(liar.url, "", print)
    login, page = Login(issuer, "ridgeline"), "http://127.0.0.1:1/"
    for address, begins in (
        ("https://x/end?a=b", "https://x/end?a=b&client_id=ridgeline&post_"),
        ("http://x/end", ""),
        ("javascript:alert(1)", ""),
        (7, ""),
        (None, ""),
    ):
        issuer.metadata = {**issuer.metadata, "end_session_endpoint": address}
        found = login.end_address(page)
        assert found.startswith(begins)
        assert bool(found) == bool(begins)


def test_a_sign_in_that_takes_too_long_or_is_of_another_process_counts_no_more(liar):
    clock = SteppingClock(datetime.now(UTC))
    login, other = (Login(Issuer(liar.url, "", print), "ridgeline", clock=clock) for _ in range(2))
    begun = login.begin("http://127.0.0.1:1/")
    answer = {"state": parse_qs(urlsplit(begun.address).query)["state"][0], "code": "c"}
    for cookie in ("", "a.b.c.d.e", begun.cookie[:-2] + "AA", "x" * 9000):
        with pytest.raises(LoginRefusedError, match="has not begun"):
            login.finish(answer, {begun.name: cookie})
    with pytest.raises(LoginRefusedError, match="has not begun"):
        other.finish(answer, {begun.name: begun.cookie})
    clock.advance(BEGUN_SECONDS + 1)
    with pytest.raises(LoginRefusedError, match="has not begun"):
        login.finish(answer, {begun.name: begun.cookie})


def test_behind_a_proxy_with_a_prefix_addresses_and_cookies_are_the_proxys(liar):
    login = Login(Issuer(liar.url, "", print), "ridgeline", page="https://ops.example/orders/")
    with living(access=Access("numbers", None, login=login, mapped=ALL)) as app:
        url = f"http://127.0.0.1:{app.server.port}/page/login"
        begun = requests.get(url, allow_redirects=False, timeout=PATIENCE_SECONDS)
        query = parse_qs(urlsplit(begun.headers["Location"]).query)
        assert query["redirect_uri"] == ["https://ops.example/orders/page/login/callback"]
        cookie = begun.headers["Set-Cookie"]
        for part in ("Path=/orders/page/", "Secure", "HttpOnly", "SameSite=lax"):
            assert part in cookie
        liar.answer = lambda _: {"id_token": liar.token(query["nonce"][0])}
        back = requests.get(
            f"{url}/callback", {"state": query["state"][0], "code": "c"}, allow_redirects=False,
            headers={"Cookie": cookie.partition(";")[0]}, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert back.headers["Location"] == "../../#signed-in"  # below the proxy's prefix, whatever it is
        assert "Path=/orders/page/" in back.headers["Set-Cookie"]


def test_who_has_signed_in_is_out_after_a_while_without_a_request_and_in_any_case_in_the_end():
    clock = SteppingClock(datetime.now(UTC))
    sessions = Sessions(clock, (60.0, 150.0))
    ann = Identity("ann", "oidc", "ann")
    idle, used = sessions.open(ann), sessions.open(ann)
    for _ in range(3):
        clock.advance(45)
        assert sessions.identity(used.cookie, used.key) == ann
    assert sessions.identity(idle.cookie, idle.key) is None
    clock.advance(20)
    assert sessions.identity(used.cookie, used.key) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"oidc_client_id": "x"}, "`--oidc-client-id` does nothing without `--oidc-issuer`"),
        ({"oidc_client_secret": "x"}, "`--oidc-client-secret` does nothing without `--oidc-client-id`"),
        (
            {"oidc_issuer": "https://x", "oidc_client_id": "x"},
            "`--oidc-issuer` does nothing without `--tokens`",
        ),
        ({"oidc_role": ("a=b:read",)}, "`--oidc-role` does nothing without `--oidc-issuer`"),
        ({"oidc_issuer": "https://x", "oidc_client_id": "x", "oidc_role": ("a:read",)}, "names no claim"),
        (
            {"oidc_issuer": "https://x", "oidc_client_id": "x", "oidc_role": ("a=b:boss",)},
            "`boss` is no role",
        ),
        ({"oidc_session": "2h-1h"}, "the second no shorter"),
        ({"oidc_session": "soon"}, "give two times, such as `1h-12h`"),
        ({"public_url": "ops"}, "`--public-url ops` is no address"),
    ],
)
def test_options_that_miss_another_one_or_are_wrong_are_refused(given, words):
    with pytest.raises(RidgelineError) as refused:
        AccessOptions(**given).check()
    assert words in str(refused.value)
