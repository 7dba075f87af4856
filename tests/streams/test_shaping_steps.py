"""Steps that give tuples another form: each adds one operator, and what does not fit is a stream too."""

from typing import NamedTuple

import pyarrow as pa
from pydantic import BaseModel, Field

from ridgeline import Application
from ridgeline.operators import Parse, Validate
from ridgeline.testing import CollectorSink, ListInput, run_local


class Line(NamedTuple):
    text: str


class Payment(NamedTuple):
    user: str
    cents: int


class Valid(BaseModel):
    cents: int = Field(gt=0)


LINES = ['{"user": "ann", "cents": 5}', '{"user": "bob", "cents": -5}', "nothing"]


def test_parse_and_validate() -> None:
    app = Application("payments")
    lines = app.read("lines", ListInput(Line, [Line(line) for line in LINES]))
    payments = lines.parse("payments", "text", schema=Payment, partitions=2)
    assert payments.schema.names == ["user", "cents"]
    assert payments.bad.schema.names == ["text", "reason"]
    valid = payments.validate("valid", Valid)
    valid.write("sink", CollectorSink(Payment))
    valid.bad.write("invalid", CollectorSink())
    payments.bad.write("broken", CollectorSink())
    assert [type(one.operator) for one in app.operators[1:3]] == [Parse, Validate]
    run = run_local(app)
    assert run.collected("sink") == [Payment("ann", 5)]
    assert [row["user"] for row in run.collected("invalid")] == ["bob"]
    assert [row["text"] for row in run.collected("broken")] == ["nothing"]


def test_explode_and_flatten() -> None:
    item = pa.struct([("name", pa.string()), ("count", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("items", pa.list_(item))])
    app = Application("baskets")
    baskets = app.read("baskets", ListInput(schema, [(1, [{"name": "a", "count": 2}]), (2, [])]))
    flat = baskets.explode("items", "items", keep_empty=True).flatten("flat", separator=".")
    flat.write("sink", CollectorSink())
    rows = [tuple(row.values()) for row in run_local(app).collected("sink")]
    assert rows == [(1, "a", 2), (2, None, None)]
    assert flat.schema.names == ["id", "items.name", "items.count"]
