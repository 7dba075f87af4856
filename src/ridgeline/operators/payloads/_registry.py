"""A schema registry: schemas by their id, over HTTP, as Confluent's and Apicurio's registries have it."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from ridgeline.api.errors import RidgelineError

_SECONDS = 10.0
_GONE = (429, 500, 502, 503, 504)
"""Answers of HTTP after which asking again may help."""
_REMEDIES = {
    401: "give a user in the URL of `registry`, and `registry_password`",
    403: "give the user of `registry` the right to it",
    409: "it is not compatible with the schemas before: correct the schema, or the rule of its subject",
    422: "correct the schema",
}
"""Remedies, by the status of an HTTP answer."""
FRAMED = 5
"""Bytes of the framing: a zero, and the schema's id."""


class UnavailableError(OSError):
    """The registry did not answer. No message is at fault: asking again may help."""


class RegisteredSchema(NamedTuple):
    """A schema of the registry. `kind`: AVRO, PROTOBUF or JSON."""

    id: int
    kind: str
    text: str
    references: tuple[Mapping[str, Any], ...] = ()


class Registry:
    """A client of a schema registry, which keeps what it was given once: an id never changes its schema.

    `url` may have a user: `https://ann@registry:8081`. `certificates`: a file of those that it must have.
    """

    def __init__(self, url: str, password: str = "", certificates: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        user, own = parts.username, parts.password
        self.url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user:
            pair = f"{urllib.parse.unquote(user)}:{password or urllib.parse.unquote(own or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif password:
            self._headers["Authorization"] = f"Bearer {password}"
        self._tls = ssl.create_default_context(cafile=certificates) if parts.scheme == "https" else None
        self._schemas: dict[int, RegisteredSchema] = {}

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id. Raises ValueError if there is none, UnavailableError."""
        if schema_id not in self._schemas:
            found = self._ask("GET", f"/schemas/ids/{schema_id}")
            if found is None:
                raise ValueError(f"the registry {self.url} has no schema of id {schema_id}")
            self._schemas[schema_id] = _schema(schema_id, found)
        return self._schemas[schema_id]

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The latest schema of a subject, such as `orders-value`; None if there is none."""
        found = self._ask("GET", f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
        return None if found is None else _schema(int(found["id"]), found)

    def referred(self, schema: RegisteredSchema) -> list[RegisteredSchema]:
        """The schemas that a schema refers to, those first that others need."""
        found: dict[int, RegisteredSchema] = {}
        for reference in schema.references:
            subject, version = urllib.parse.quote(str(reference["subject"]), safe=""), reference["version"]
            answer = self._ask("GET", f"/subjects/{subject}/versions/{version}")
            if answer is None:
                raise ValueError(f"the registry {self.url} lacks `{reference['subject']}`, version {version}")
            one = _schema(int(answer["id"]), answer)
            for other in self.referred(one):
                found.setdefault(other.id, other)
            found.setdefault(one.id, one)
        return list(found.values())

    def register(self, subject: str, kind: str, text: str) -> int:
        """Register a schema; the id that it has, also if it was there. Raises RidgelineError if refused."""
        body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        found = self._ask("POST", f"/subjects/{urllib.parse.quote(subject, safe='')}/versions", body)
        if found is None:
            raise RidgelineError(
                f"the registry {self.url} does not know the subject `{subject}`, and makes none"
            )
        return int(found["id"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as JSON; None for 404."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": "application/vnd.schemaregistry.v1+json"} if data else {})
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310  an author's
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=self._tls) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == http.client.NOT_FOUND:
                return None
            said = error.read(500).decode(errors="replace").strip()
            msg = f"the registry {self.url} answered {error.code} to {method} {path}: {said}"
            if error.code in _GONE:
                raise UnavailableError(msg) from None
            remedy = _REMEDIES.get(error.code)
            raise RegistryRefusedError(msg if remedy is None else f"{msg}; {remedy}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            msg = f"the registry {self.url} does not answer: {reason}"
            raise UnavailableError(msg) from error


class RegistryRefusedError(Exception):
    """The registry refuses what is asked: rights, or a schema that is not compatible."""


def _schema(schema_id: int, found: Mapping[str, Any]) -> RegisteredSchema:
    references = tuple(found.get("references") or ())
    return RegisteredSchema(schema_id, str(found.get("schemaType", "AVRO")), str(found["schema"]), references)


def framed_id(value: bytes) -> int:
    """The schema's id in the framing of a message. Raises ValueError if it has none."""
    if len(value) < FRAMED or value[0] != 0:
        start = value[:FRAMED].hex(" ")
        raise ValueError(
            f"it does not begin with a schema id (a zero and four bytes), but with {start or 'nothing'}"
        )
    return int.from_bytes(value[1:FRAMED], "big")


def frame(schema_id: int) -> bytes:
    """The framing of a message whose schema has this id."""
    return b"\0" + schema_id.to_bytes(4, "big")
