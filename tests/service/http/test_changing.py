"""Recordings over REST: asked for by POST, refused in words."""

from __future__ import annotations

import json

import pytest

from ridgeline.service.http.changing import changing_endpoints
from ridgeline.service.http.endpoint import AnswerError

START = next(one for one in changing_endpoints("") if one.method == "POST" and one.body)


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b'{"operator": "sum"}', "text/plain", 415),
        (b"[]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
        (b'{"operator": "sum", "folder": "/etc"}', "application/json", 400),
        (b'{"windows": 0}', "application/json", 400),
        (b'{"windows": true}', "application/json", 400),
    ],
)
def test_a_body_that_says_something_else_is_refused(body: bytes, media_type: str, status: int) -> None:
    with pytest.raises(AnswerError) as caught:
        START.parse_body(body, media_type)
    assert caught.value.status == status


def test_a_body_has_values_of_their_types() -> None:
    body = json.dumps({"operator": "sum", "port": None, "windows": 3}).encode()
    assert START.parse_body(body, "application/json; charset=utf-8") == {"operator": "sum", "windows": 3}
