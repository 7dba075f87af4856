"""Tokens of an OpenID Connect issuer: a server of this test on loopback, with keys of its own."""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from joserfc import jwk, jwt

from ridgeline.api.errors import RidgelineError
from ridgeline.service.access import oidc
from ridgeline.service.access.access import Access
from ridgeline.service.access.oidc import AGAIN_SECONDS, FRESH_SECONDS, Issuer, TokenRefusedError
from ridgeline.service.access.roles import Role
from ridgeline.service.access.rules import Rule
from ridgeline.service.access.rules_file import RulesFile, add_rule
from ridgeline.testing import SteppingClock
from support.service.asking import BASE, ask
from support.service.living import living
from support.waiting import PATIENCE_SECONDS


class Login:
    """The issuer's side: discovery, keys, and tokens."""

    def __init__(self):
        login = self
        self.keys = [jwk.RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})]
        self.asked = 0
        self.works = True
        self.pause = 0.0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                login.asked += 1
                keys = [key.as_dict(private=False) for key in login.keys]
                found = {
                    "/.well-known/openid-configuration": {
                        "issuer": login.url,
                        "jwks_uri": f"{login.url}/keys",
                    },
                    "/keys": {"keys": keys},
                }.get(self.path)
                self.send_response(200 if found and login.works else 500)
                self.end_headers()
                data = json.dumps(found).encode()
                if not login.pause:
                    self.wfile.write(data)
                    return
                with contextlib.suppress(OSError):  # who asks has left
                    for byte in data:
                        self.wfile.write(bytes([byte]))
                        time.sleep(login.pause)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, key=None, header=None, now=None, **claims):
        key, now = key or self.keys[-1], int(now or time.time())
        given = {"iss": self.url, "aud": "ridgeline", "sub": "ann", "iat": now, "exp": now + 600, **claims}
        kept = {name: value for name, value in given.items() if value is not None}
        head = {"alg": "RS256", "kid": key.kid, **(header or {})}
        return jwt.encode(head, kept, key, algorithms=[head["alg"]])


@pytest.fixture
def login():
    found = Login()
    yield found
    found.server.shutdown()
    found.server.server_close()


def refusal(issuer, token):
    with pytest.raises(TokenRefusedError) as refused:
        issuer.identity(token.encode())
    return str(refused.value)


def test_claims_give_roles(login, tmp_path):
    path = str(tmp_path / "tokens")
    add_rule(path, Rule("claim:groups=oncall", Role.OPERATE))
    add_rule(path, Rule("claim:realm.roles=read", Role.READ))
    issuer = Issuer(login.url, "ridgeline", print)
    with living(access=Access("numbers", RulesFile(path, print), issuer=issuer)) as app:
        oncall = login.token(groups=["dev", "oncall"])
        reads = login.token(realm={"roles": ["read"]})
        assert ask(app.server, f"{BASE}/info", token=reads)[0] == 200
        assert ask(app.server, f"{BASE}/pause", "POST", {}, reads)[0] == 403
        status, row, _ = ask(app.server, f"{BASE}/pause", "POST", {}, oncall)
        assert (status, row["who"]) == (200, "ann")
        assert ask(app.server, f"{BASE}/kill", "POST", {}, oncall)[0] == 403
        assert ask(app.server, f"{BASE}/info", token=login.token())[0] == 403
        status, answer, _ = ask(app.server, f"{BASE}/info", token=login.token(aud="other"))
        assert (status, answer["error"]) == (401, "the token is refused: it is for another audience")


def test_what_is_forged_late_or_for_others_is_refused(login):
    issuer = Issuer(login.url, "ridgeline", print)
    now = time.time()
    assert issuer.identity(login.token().encode()).name == "ann"
    assert issuer.identity(login.token(exp=int(now) - 50).encode())  # clocks may be 60 s apart
    assert refusal(issuer, login.token(exp=int(now) - 70)) == "it has ended"
    assert refusal(issuer, login.token(exp=None)) == "it has no end (`exp`)"
    assert refusal(issuer, login.token(nbf=int(now) + 70)) == "it does not count yet"
    assert refusal(issuer, login.token(iss="http://other")) == "it is of another issuer"
    assert refusal(issuer, login.token(sub=None)) == "it names nobody (`sub`)"
    assert refusal(issuer, login.token(exp="soon")) == "its `exp` is no time"
    assert "key" in refusal(issuer, login.token(jwk.RSAKey.generate_key(2048, {"kid": "9"})))
    other = jwk.RSAKey.generate_key(2048, {"kid": "1"})
    assert "signature" in refusal(issuer, login.token(other))
    head, claims, _ = login.token().split(".")
    confused = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"1"}').rstrip(b"=").decode()
    by_public = hmac.new(login.keys[0].as_pem(private=False), f"{confused}.{claims}".encode(), hashlib.sha256)
    signature = base64.urlsafe_b64encode(by_public.digest()).rstrip(b"=").decode()
    assert "not right" in refusal(issuer, f"{confused}.{claims}.{signature}")
    none = "eyJhbGciOiJub25lIiwia2lkIjoiMSJ9"  # {"alg":"none","kid":"1"}
    assert refusal(issuer, f"{none}.{claims}.")
    assert refusal(issuer, f"{head}.{claims}.")
    assert refusal(issuer, "a.b.c")
    assert refusal(issuer, "x" * 20_000)
    deep = base64.urlsafe_b64encode(b"[" * 9_000).rstrip(b"=").decode()  # read before the signature is
    assert "not right" in refusal(issuer, f"{deep}.{claims}.")


def test_keys_are_fetched_again_as_often_as_needed_and_no_more(login):
    clock = SteppingClock()
    said = []
    issuer = Issuer(login.url, "ridgeline", said.append, clock)
    now = clock.wall()
    assert login.asked == 2
    for _ in range(20):
        issuer.identity(login.token(now=now).encode())
        refusal(issuer, login.token(jwk.RSAKey.generate_key(2048, {"kid": "9"}), now=now))
    assert login.asked == 2
    login.keys.append(jwk.ECKey.generate_key("P-256", {"kid": "2", "use": "sig"}))
    clock.advance(AGAIN_SECONDS + 1)
    rotated = login.token(header={"alg": "ES256"}, now=clock.wall())
    assert issuer.identity(rotated.encode()).name == "ann"
    assert login.asked == 4
    old = login.keys.pop(0)
    clock.advance(FRESH_SECONDS + 1)
    assert "key" in refusal(issuer, login.token(old, now=clock.wall()))
    login.works = False
    clock.advance(FRESH_SECONDS + 1)
    later = login.token(header={"alg": "ES256"}, now=clock.wall())
    assert issuer.identity(later.encode()).name == "ann"
    assert "those of before count" in said[-1]


def test_an_issuer_that_answers_byte_by_byte_holds_one_request_for_a_while_alone(
    login, monkeypatch, wait_until
):
    clock, said = SteppingClock(), []
    issuer = Issuer(login.url, "ridgeline", said.append, clock)
    monkeypatch.setattr(oidc, "MOST_SECONDS", 1.0)
    login.pause = 0.05
    clock.advance(FRESH_SECONDS + 1)
    token = login.token(now=clock.wall()).encode()
    held = threading.Thread(target=issuer.identity, args=(token,), daemon=True)
    held.start()
    wait_until(lambda: login.asked == 3, "the issuer is asked")
    for _ in range(3):
        clock.advance(AGAIN_SECONDS + 1)
        assert issuer.identity(token).name == "ann"
    assert login.asked == 3
    held.join(PATIENCE_SECONDS)
    assert not held.is_alive()
    assert "not whole after 1 s; those of before count" in said[-1]


def test_an_address_that_is_wrong_is_an_error_at_the_start(login):
    with pytest.raises(RidgelineError, match="must begin with `https://`"):
        Issuer("http://login.example", "ridgeline", print)
    with pytest.raises(RidgelineError, match="cannot be fetched"):
        Issuer(f"{login.url}/other", "ridgeline", print)
