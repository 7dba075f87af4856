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

from ridgeline import Application, OperatorError
from ridgeline.operators import Format, Parse
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.depth import deep

QUIET = settings(deadline=None, max_examples=deep(3), suppress_health_check=[HealthCheck.too_slow])


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


class Payment(NamedTuple):
    user: str
    cents: int | None


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


def test_what_cannot_be_written_is_bad() -> None:
    odd = [Payment("a\nb", 1), Payment("fine", 2), Payment("\x00", 3)]
    texts, _, bad = run(odd, Payment, Format("csv"))
    assert texts == ["fine,2", "\x00,3"]
    assert [(row["user"], row["cents"]) for row in bad] == [("a\nb", 1)]
    assert "column `user`: 'a\\nb' has the end of a line in it" in bad[0]["reason"]


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
