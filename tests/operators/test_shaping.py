"""Parse, validate: beside polars, re and json, with bad rows apart and over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field

from ridgeline import Application, OperatorError
from ridgeline.operators import Parse, Validate
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.testing.shares import share


class Line(NamedTuple):
    number: int
    text: str | None


class Payment(NamedTuple):
    user: str
    cents: int
    share: float | None
    at: datetime | None


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(
    rows: Sequence[Any], operator: Any, schema: Any = Line, *, bad: bool = True, **attributes: Any
) -> tuple[list[Any], list[Any]]:
    app = Application("shaped", window="1s")
    source = app.add_operator("source", ListInput(schema, list(rows)))
    shape = app.add_operator("shape", operator, **attributes)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("rows", source.output, shape.input)
    app.add_stream("shaped", shape.output, sink.input)
    if bad:
        refused = app.add_operator("bad", CollectorSink())
        app.add_stream("refused", shape.bad, refused.input)
    found = run_local(app)
    return found.collected("sink"), found.collected("bad") if bad else []


GOOD = {
    "json": '{"user": "ann", "cents": 5, "share": 0.5, "at": "2026-01-02T03:04:05Z", "more": [1]}',
    "csv": "ann,5,0.5,2026-01-02T03:04:05Z",
    "key_value": 'cents=5 at=2026-01-02T03:04:05Z more=x share=0.5 user="ann"',
    "regex": "5 cents of ann, 0.5 at 2026-01-02T03:04:05Z",
}
EMPTY = {
    "json": '{"user": "b, \\"b\\"", "cents": -1}',
    "csv": '"b, ""b""",-1,,',
    "key_value": 'user="b, \\"b\\"" cents=-1',
    "regex": '-1 cents of b, "b",  at ',
}
PATTERN = r"(?P<cents>\S+) cents of (?P<user>.+), (?P<share>\S*) at (?P<at>\S*)"
BAD = ["", "  ", None, "{", "a,b", "x=1", "null", "[1]", "ann,five,0.5,", "user=ann cents=5.5", "99 cents"]


@pytest.mark.parametrize(("partitions", "format"), share(2, [1, 3], GOOD))
def test_each_format(format: Any, partitions: int) -> None:
    texts = [GOOD[format], *BAD, EMPTY[format], "{}", GOOD[format]]
    operator = Parse("text", format, schema=Payment, keep="number", pattern=PATTERN)
    found, bad = run(list(enumerate(texts)), operator, partitions=partitions)
    rows = sorted(tuple(row.values()) for row in found)
    full, empty = ("ann", 5, 0.5, AT), ('b, "b"', -1, None, None)
    assert rows == [(0, *full), (len(BAD) + 1, *empty), (len(BAD) + 3, *full)]
    assert sorted(row["number"] for row in bad) == [*range(1, len(BAD) + 1), len(BAD) + 2]
    assert all(row["reason"] and row["text"] == texts[row["number"]] for row in bad)


def test_an_empty_text_in_quotes_is_no_null() -> None:
    texts = ['a="" b=""', "a= b=", "b=1"]
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    found, _ = run(list(enumerate(texts)), Parse("text", "key_value", schema=schema))
    assert [tuple(row.values()) for row in found] == [("", None), (None, None), (None, 1)]


class Short(NamedTuple):
    user: str
    cents: int


class Hit(NamedTuple):
    host: str
    user: str | None
    time: datetime
    path: str
    status: int
    bytes: int | None


class Browsed(NamedTuple):
    path: str
    referer: str | None
    agent: str


class Logged(NamedTuple):
    priority: int
    time: datetime
    host: str
    app: str
    message: str | None


def test_logs_in_common_formats() -> None:
    common = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326'
    none = '::1 - - [10/Oct/2000:13:55:36 +0000] "HEAD /" 304 -'
    found, bad = run([(0, common), (1, none), (2, "no log")], Parse("text", "common_log", schema=Hit))
    at = datetime(2000, 10, 10, 13, 55, 36, tzinfo=timezone(timedelta(hours=-7)))
    assert found == [
        Hit("127.0.0.1", "frank", at, "/apache_pb.gif", 200, 2326)._asdict(),
        Hit("::1", None, datetime(2000, 10, 10, 13, 55, 36, tzinfo=UTC), "/", 304, None)._asdict(),
    ]
    assert [row["number"] for row in bad] == [2]
    combined = f'{common} "-" "Mozilla/4.08 [en] (Win98; I ;Nav) \\"x\\""'
    found, _ = run([(0, combined)], Parse("text", "combined_log", schema=Browsed))
    assert [row["referer"] for row in found] == [None]
    assert found[0]["agent"].startswith("Mozilla/4.08 [en]")
    syslog = '<34>1 2003-10-11T22:14:15.003Z mymachine su - ID47 - "su root" failed'
    found, _ = run([(0, syslog)], Parse("text", "syslog", schema=Logged))
    assert found[0] == {
        "priority": 34,
        "time": datetime(2003, 10, 11, 22, 14, 15, 3000, tzinfo=UTC),
        "host": "mymachine",
        "app": "su",
        "message": '"su root" failed',
    }


class Asked(NamedTuple):
    method: str | None
    path: str | None
    status: int


def test_requests_that_are_none_have_no_path() -> None:
    """As web servers log them: after a timeout, for TLS on a plain port, and for what is no HTTP."""
    head = "1.2.3.4 - - [10/Oct/2000:13:55:36 +0000]"
    requests = ["-", "", "\\x16\\x03\\x01", 'GET /a \\"b c\\" HTTP/1.1', "GET /a HTTP/1.1"]
    lines = [(number, f'{head} "{request}" 400 -') for number, request in enumerate(requests)]
    found, bad = run(lines, Parse("text", "common_log", schema=Asked))
    assert [(row["method"], row["path"]) for row in found] == [(None, None)] * 4 + [("GET", "/a")]
    assert not bad
    found, bad = run(lines, Parse("text", "common_log", schema=Hit))
    assert [row["path"] for row in found] == ["/a"]
    assert [row["reason"] for row in bad] == [
        "its request has no path; a schema with `path: str | None` takes such lines"
    ] * 4


def test_bytes_that_are_no_text_are_bad() -> None:
    schema = pa.schema([("raw", pa.binary())])
    found, bad = run([(b'{"user": "a", "cents": 1}',), (b"\xff",)], Parse("raw", schema=Short), schema)
    assert [row["user"] for row in found] == ["a"]
    assert "UTF-8" in bad[0]["reason"]


def test_what_no_stream_reads_is_an_error_or_a_dead_letter() -> None:
    rows = [(0, '{"user": "a", "cents": 1}'), (1, "nothing"), (2, '{"user": "b", "cents": 2}')]
    with pytest.raises(OperatorError, match=r"'nothing' is no json for Short.*read the port `bad`"):
        run(rows, Parse("text", schema=Short), bad=False)
    found, _ = run(rows, Parse("text", schema=Short), bad=False, on_error="SKIP")
    assert [row["user"] for row in found] == ["a", "b"]


class Raw(NamedTuple):
    text: str


class Paid(NamedTuple):
    user: str
    cents: int


class Valid(BaseModel):
    cents: int = Field(gt=0)


LINES = ['{"user": "ann", "cents": 5}', '{"user": "bob", "cents": -5}', "nothing"]


def test_parse_and_validate() -> None:
    app = Application("payments")
    lines = app.read("lines", ListInput(Raw, [Raw(line) for line in LINES]))
    payments = lines.parse("payments", "text", schema=Paid, partitions=2)
    assert payments.schema.names == ["user", "cents"]
    assert payments.bad.schema.names == ["text", "reason"]
    valid = payments.validate("valid", Valid)
    valid.write("sink", CollectorSink(Paid))
    valid.bad.write("invalid", CollectorSink())
    payments.bad.write("broken", CollectorSink())
    assert [type(one.operator) for one in app.operators[1:3]] == [Parse, Validate]
    run = run_local(app)
    assert run.collected("sink") == [Paid("ann", 5)]
    assert [row["user"] for row in run.collected("invalid")] == ["bob"]
    assert [row["text"] for row in run.collected("broken")] == ["nothing"]
