"""Requests of a web service, with what each kind of client sends."""

import http.client
import json

from support.waiting import PATIENCE_SECONDS

BASE = "/ws/v2/stram"


def ask(server, path, method="GET", body=None, token=None, **headers):
    """Status, decoded answer and headers. Headers have `_` for `-`; two values of one as a list."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    try:
        connection.putrequest(method, path)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        for name, values in sent.items():
            for value in values if isinstance(values, list) else [values]:
                connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        content = answer.read()
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json and content else content, answer.headers
    finally:
        connection.close()
