"""A real OpenID Connect provider on loopback, Canaille, and a browser that signs in at it."""

import contextlib
import logging
import re
import threading
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest
import requests
from joserfc import jwk

from support.waiting import PATIENCE_SECONDS

PASSWORDS = {"ann": "correct horse battery", "bob": "staple of bob, 17"}


def _find_codes_alone():
    """Mend its backend in memory, which takes any code of a client for another one where several wait."""
    from canaille.backends.memory.backend import MemoryBackend

    find = MemoryBackend.do_query

    def do_query(self, model, *names, **values):
        found = find(self, model, *names, **values)
        return [one for one in found if "code" not in values or one.code == values["code"]]

    MemoryBackend.do_query = do_query


def _gone(environ, _start):
    environ["werkzeug.socket"].close()
    return []


def _key(kid):
    return jwk.RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"}).as_dict(private=True)


class Provider:
    """Canaille in this process, with its data in memory. `secret`: of its client `ridgeline`."""

    def __init__(self, secret="of the client, s3cret"):
        self.client_id, self.secret = "ridgeline", secret

    def __enter__(self):
        canaille = pytest.importorskip("canaille")
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        config = {
            "SECRET_KEY": "of the test",
            "CANAILLE": {"DATABASE": "memory", "LOGGING": None},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [_key("1")]},
            "PREFERRED_URL_SCHEME": "http",
        }
        self.server = make_server("127.0.0.1", 0, lambda *_: [], threaded=True)
        self.url = f"http://localhost:{self.server.port}"
        config["SERVER_NAME"] = f"localhost:{self.server.port}"
        _find_codes_alone()
        self.app = canaille.create_app(config)
        self.server.app = self.app
        with self.app.app_context():
            self._fill()
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def _fill(self):
        from canaille.app import models
        from canaille.backends import Backend

        users = []
        for name, password in PASSWORDS.items():
            mail = f"{name}@example.org"
            user = models.User(formatted_name=name, family_name=name, user_name=name, emails=[mail])
            user.password = password
            Backend.instance.save(user)
            users.append(user)
        Backend.instance.save(models.Group(display_name="oncall", members=users[:1]))
        client = models.Client(
            client_id=self.client_id,
            client_secret=self.secret,
            client_name="Ridgeline",
            client_uri="http://127.0.0.1",
            redirect_uris=["http://127.0.0.1:1/"],
            grant_types=["authorization_code"],
            response_types=["code"],
            token_endpoint_auth_method="client_secret_basic" if self.secret else "none",
            scope=["openid", "profile", "email", "groups"],
        )
        client.audience = [client]
        Backend.instance.save(client)

    def leads_to(self, address):
        """Let it lead back to this address, and to no other."""
        from canaille.app import models
        from canaille.backends import Backend

        with self.app.app_context():
            client = Backend.instance.get(models.Client, client_id=self.client_id)
            client.redirect_uris, client.audience = [address], [client]
            Backend.instance.save(client)

    def rotate(self, kid):
        """Sign by a new key from now on; the one before is gone."""
        self.app.config["CANAILLE_OIDC"]["ACTIVE_JWKS"] = [_key(kid)]

    @contextlib.contextmanager
    def away(self):
        """It does not answer in this block: each connection is closed without a word."""
        app, self.server.app = self.server.app, _gone
        try:
            yield
        finally:
            self.server.app = app

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Browser:
    """A browser as far as a sign-in needs one: cookies by host, forms, and the addresses it was led to."""

    def __init__(self):
        self.session = requests.Session()
        self.addresses = []

    def _get(self, url):
        headers = {"Accept": "text/html"}
        return self.session.get(url, allow_redirects=False, timeout=PATIENCE_SECONDS, headers=headers)

    def go(self, url, until=None):
        """Follow an address, by redirects of the same kind as browsers do, until one begins with `until`."""
        answer = self._get(url)
        self.addresses.append(url)
        return self._led(answer, until)

    def _led(self, answer, until):
        while answer.is_redirect:
            address = urljoin(answer.url, answer.headers["Location"])
            self.addresses.append(address)
            if until is not None and address.startswith(until):
                return address
            answer = self._get(address)
        return answer

    def send(self, answer, until=None, **values):
        """Send the form of an answer with these values."""
        form = re.search(r"<form.*?</form>", answer.text, re.DOTALL)[0]
        action = re.search(r'<form[^>]*action="([^"]*)"', form)
        hidden = re.findall(r'<input[^>]*type="hidden"[^>]*>', form)
        found = {}
        for one in hidden:
            name, value = re.search(r'name="([^"]*)"', one), re.search(r'value="([^"]*)"', one)
            found[name[1]] = unescape(value[1]) if value else ""
        address = urljoin(answer.url, unescape(action[1])) if action else answer.url
        sent = self.session.post(
            address, {**found, **values}, allow_redirects=False, timeout=PATIENCE_SECONDS,
            headers={"Referer": answer.url, "Origin": "{0.scheme}://{0.netloc}".format(urlsplit(answer.url))},
        )  # fmt: skip
        return self._led(sent, until)

    def sign_in(self, url, name, until=None):
        """Go to an address that leads to the provider, and sign in there with a password."""
        answer = self.go(url, until)
        if isinstance(answer, str):
            return answer
        if 'name="password"' not in answer.text:
            answer = self.send(answer, until, login=name)
        if isinstance(answer, str) or 'name="password"' not in answer.text:
            return answer
        return self.send(answer, until, password=PASSWORDS[name])
