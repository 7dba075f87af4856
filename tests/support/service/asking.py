"""Requests of a web service, with what each kind of client sends, and connections of strangers."""

import contextlib
import http.client
import json
import socket

from support.waiting import PATIENCE_SECONDS

BASE = "/ws/v2/stram"


def ask(server, path, method="GET", body=None, token=None, *, context=None, **headers):
    """Status, decoded answer and headers.

    `server`: whatever has a `port`. `body`: JSON, or bytes as they are sent. Headers have `_` for `-`; two
    values of one as a list, None for none. `context`: of TLS.
    """
    connection = (
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS, context=context)
    )
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = {} if body is None else {"Content-Type": "application/json", "Content-Length": str(len(data))}
    sent |= {} if token is None else {"Authorization": f"Bearer {token}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host="Host" in sent)
        for name, values in sent.items():
            for value in values if isinstance(values, list) else [values]:
                if value is not None:
                    connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        content = answer.read()
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json and content else content, answer.headers


def dial(server, data=b""):
    """A connection to whatever has a `port`, over which this was sent."""
    line = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    line.sendall(data)
    return line


def ended(line):
    """Wait for the end of a connection; what came before it."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while data := line.recv(1 << 16):
            got += data
    line.close()
    return got
