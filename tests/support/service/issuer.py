"""An issuer whose ID tokens a test makes: those of a real one are always right."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from joserfc import jwk, jws


class Liar:
    """Discovery, keys and a token endpoint on loopback. `answer`: makes what a code is exchanged for."""

    def __init__(self):
        liar = self
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
        self.answer = lambda _: {}
        self.asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/keys":
                    self.reply({"keys": [liar.key.as_dict(private=False)]})
                    return
                names = ("authorization", "token")
                found = {f"{name}_endpoint": f"{liar.url}/{name}" for name in names}
                self.reply({"issuer": liar.url, "jwks_uri": f"{liar.url}/keys", **found})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                liar.asked.append({name: values[0] for name, values in parse_qs(body).items()})
                self.reply(liar.answer(liar.asked[-1]))

            def reply(self, value):
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, nonce, /, key=None, header=None, **claims):
        """An ID token for `ridgeline`, with other claims; None leaves one out."""
        now = int(time.time())
        given = {
            "iss": self.url,
            "aud": "ridgeline",
            "sub": "ann",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
        }
        kept = {name: value for name, value in (given | claims).items() if value is not None}
        head = {"alg": "RS256", "kid": "1", **(header or {})}
        return jws.serialize_compact(head, json.dumps(kept), key or self.key, algorithms=[head["alg"]])

    def close(self):
        self.server.shutdown()
        self.server.server_close()
