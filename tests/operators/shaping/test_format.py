"""Tuples as texts and back: random rows through each format, beside json, csv, fastavro and ElementTree."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, OperatorError, ValidationError
from ridgeline.operators import Format, Parse
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.depth import deep

QUIET = settings(deadline=None, max_examples=deep(3), suppress_health_check=[HealthCheck.too_slow])


class Address(NamedTuple):
    street: str
    zip: int | None


class Flat(NamedTuple):
    number: int
    text: str | None
    share: float | None
    paid: bool
    amount: Decimal | None
    at: datetime | None
    day: date
    raw: bytes | None
    clock: time | None
    took: timedelta


def run(
    rows: Sequence[Any], schema: Any, write: Format, read: Parse | None = None, **options: Any
) -> tuple[list[Any], list[Any], list[Any]]:
    """The texts, the tuples that are read of them, and the rows that could not be written."""
    app = Application("formatted", window="1s")
    source = app.read("source", ListInput(schema, list(rows)))
    written = source.process("write", write, partitions=options.pop("partitions", 1))
    written.write("texts", CollectorSink())
    app.stream(write.bad).write("bad", CollectorSink())
    if read is not None:
        written.process("read", read).write("sink", CollectorSink(read.schema))
    found = run_local(app, **options)
    texts = [row["text"] for row in found.collected("texts")]
    return texts, found.collected("sink") if read else [], found.collected("bad")


PLAIN = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9)
TEXT_BYTES = PLAIN.map(str.encode)
FIRST, LAST = datetime(1700, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001  the zone comes from `timezones`
TIMES = st.datetimes(FIRST, LAST, timezones=st.just(UTC))


def rows(texts: st.SearchStrategy[str], raw: Any = TEXT_BYTES) -> st.SearchStrategy[list[Flat]]:
    return st.lists(
        st.builds(
            Flat,
            st.integers(-(2**63), 2**63 - 1),
            st.none() | texts,
            st.none() | st.floats(allow_nan=False),
            st.booleans(),
            st.none() | st.decimals(-(10**9), 10**9, places=6),
            st.none() | TIMES,
            st.dates(date(1700, 1, 1), date(2200, 1, 1)),
            st.none() | raw,
            st.none() | st.times(),
            st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
        ),
        max_size=8,
    )


def bare(found: Sequence[Flat], *, empty: bool = True) -> list[Flat]:
    """Rows as they come back: where an empty text or empty bytes are null, infinities too."""
    made = []
    for row in found:
        text = row.text if empty else row.text or None
        raw = row.raw or None
        made.append(row._replace(text=text, raw=raw))
    return made


@QUIET
@given(rows(PLAIN))
def test_csv_and_back(given: list[Flat]) -> None:
    texts, back, bad = run(given, Flat, Format("csv"), Parse("text", "csv", schema=Flat))
    assert not bad
    assert bare(back, empty=False) == bare(given, empty=False)
    parsed = list(csv.reader(io.StringIO("\n".join(texts))))
    assert [(int(row[0]), row[1] or None) for row in parsed] == [
        (row.number, row.text or None) for row in given
    ]


class Avro(NamedTuple):
    number: int
    text: str | None
    share: float | None
    at: datetime
    tags: list[str]
    home: Address | None


class Payment(NamedTuple):
    user: str
    cents: int | None


WRITTEN = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "cents", "type": ["null", "int"]},
        {"name": "more", "type": "string"},
        {"name": "user", "type": "string"},
    ],
}


def test_framed_avro_without_the_framing_is_bad() -> None:
    app = Application("avro")
    schema = pa.schema([("raw", pa.binary())])
    values = [b"\0\0\0\0\7\6ann\2\n", b"\6ann\2\n", b"\0\0", b"\1\0\0\0\7\6ann\2\n"]
    source = app.read("source", ListInput(schema, [(value,) for value in values]))
    read = source.parse("read", "raw", "avro", schema=Payment, framed=True)
    read.write("sink", CollectorSink(Payment))
    read.bad.write("bad", CollectorSink())
    found = run_local(app)
    assert found.collected("sink") == [Payment("ann", 5)]
    assert ["schema id" in row["reason"] for row in found.collected("bad")] == [True, True, True]


def test_a_template() -> None:
    payments = [Payment("ann", 5), Payment("{bob}", None)]
    texts, _, _ = run(payments, Payment, Format("template", template="{user} paid {cents:>4}{{}}{cents}"))
    assert texts == ["ann paid    5{}5", "{bob} paid {}"]


def test_what_cannot_be_written_is_bad() -> None:
    odd = [Payment("a\nb", 1), Payment("fine", 2), Payment("\x00", 3)]
    texts, _, bad = run(odd, Payment, Format("csv"))
    assert texts == ["fine,2", "\x00,3"]
    assert [(row["user"], row["cents"]) for row in bad] == [("a\nb", 1)]
    assert "column `user`: 'a\\nb' has the end of a line in it" in bad[0]["reason"]
    narrow = {
        "type": "record",
        "name": "P",
        "fields": [{"name": "user", "type": "string"}, {"name": "cents", "type": "int"}],
    }
    texts, _, bad = run(
        [Payment("a", 2**63 - 1), Payment("b", None), Payment("c", 1)],
        Payment,
        Format("avro", written=narrow),
    )
    assert (len(texts), [row["user"] for row in bad]) == (2, ["b"])


def test_without_a_reader_of_bad_it_is_an_error() -> None:
    app = Application("formatted")
    source = app.read("source", ListInput(Payment, [Payment("a\nb", 1)]))
    source.format("lines", "csv").write("sink", CollectorSink())
    with pytest.raises(OperatorError, match=r"cannot be written as csv: .* read the port `bad`"):
        run_local(app)


def test_chosen_columns_and_kept_ones() -> None:
    app = Application("formatted")
    source = app.read("source", ListInput(Payment, [Payment("ann", 1)]))
    source.format("lines", column="line", columns="cents", keep=["user"]).write("sink", CollectorSink())
    assert run_local(app).collected("sink") == [{"user": "ann", "line": '{"cents":1}'}]


LISTS = pa.schema([("tags", pa.list_(pa.string())), ("a b", pa.string())])


@pytest.mark.parametrize(
    ("operator", "schema", "what"),
    [
        (lambda: Format("csv"), LISTS, "flatten or explode it before, or take json"),
        (lambda: Format("key_value", columns="a b"), LISTS, "`a b` cannot be a key"),
        (lambda: Format("avro"), LISTS, "`a b` is no name of a field in Avro"),
        (lambda: Format("template"), Payment, "must be given for the format template"),
        (lambda: Format("json", template="{user}"), Payment, "is of the format template alone"),
        (lambda: Format("template", template="{usr}"), Payment, "did you mean `user`"),
        (lambda: Format("template", template="{user.__class__}"), Payment, "which is no column"),
        (lambda: Format("template", template="{user!r}"), Payment, "is no part of a template"),
        (lambda: Format("template", template="{user"), Payment, "is no template"),
        (lambda: Format("json", written=WRITTEN), Payment, "is of the format avro alone"),
        (lambda: Format("avro", written={"type": "recrd"}), Payment, "no Avro schema"),
        (lambda: Format("json", columns="usr"), Payment, "did you mean `user`"),
        (
            lambda: Format("json", "user", keep="user"),
            Payment,
            "must not have the name of a column",
        ),
        (lambda: Format("xml", root="a b"), Payment, "root"),
    ],
)
def test_what_does_not_fit_is_a_fault(operator: Any, schema: Any, what: str) -> None:
    app = Application("formatted")
    app.read("source", ListInput(schema, [])).process("write", operator()).write("sink")
    with pytest.raises(ValidationError, match=what):
        run_local(app)
