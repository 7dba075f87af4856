"""What `Windowed` emits goes into any port with these columns; what does not fit is refused by `validate`."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, InputPort, Operator, Order, OutputPort, Schema, ValidationError
from ridgeline.operators import Sliding, Windowed, aggregate, session, sliding, tumbling
from ridgeline.plan.validation import validate
from ridgeline.testing import CollectorSink, ListInput, run_local

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Click(NamedTuple):
    page: str
    time: datetime
    seconds: float | None


class Views(NamedTuple):
    page: str
    minute: datetime
    views: int
    total: float


class OptionalViews(NamedTuple):
    page: str | None
    minute: datetime | None
    views: int | None
    total: float | None


class Fewer(NamedTuple):
    page: str
    minute: datetime
    views: int


class Other(NamedTuple):
    page: str
    minute: datetime
    views: float
    total: float


COLUMNS = [
    ("page", pa.string()),
    ("minute", pa.timestamp("us", "UTC")),
    ("views", pa.int64()),
    ("total", pa.float64()),
]


class Seen(Operator):
    """Takes batches, and says what schema they have."""

    input = InputPort(Views, order=Order.BY_TIME)
    output = OutputPort(Views)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        assert batch.schema.equals(Schema(Views).arrow)
        self.output.emit_batch(batch)


CLICKS = [Click("/", AT, 1.5), Click("/", AT, None), Click("/a", AT, 2.0)]


def application(schema: Any, clicks: Any = CLICKS, *, seen: bool = False, **of_operator: Any) -> Application:
    """`seen`: an operator between looks at the batches."""
    app = Application("views", window="1s")
    values = {
        "minute": aggregate.window_start(),
        "views": aggregate.count(),
        "total": aggregate.sum("seconds"),
    }
    windowed = Windowed(tumbling("1m"), key="page", values=values, timestamp="minute")
    source = app.read("source", ListInput(Click, clicks, "time", lateness="5s"))
    views = source.process("windowed", windowed, **of_operator)
    (views.process("seen", Seen()) if seen else views).write("sink", CollectorSink(schema))
    return app


@pytest.mark.parametrize(
    "schema",
    [
        Views,
        OptionalViews,
        pa.schema(COLUMNS),
        pa.schema([pa.field(name, kind, nullable=name != "views") for name, kind in COLUMNS]),
        pa.schema(COLUMNS, metadata={"made": "elsewhere"}),
        object,
    ],
)
def test_results_go_into_any_port_with_their_columns(schema: Any) -> None:
    rows = run_local(application(schema)).collected("sink")
    found = [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]
    assert sorted(found) == [("/", AT, 2, 1.5), ("/a", AT, 1, 2.0)]


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (Fewer, "field `total` is only here"),
        (Other, "field `views` is int64 here and double there"),
        (pa.schema([*COLUMNS, ("more", pa.int64())]), "field `more` is only there"),
        (pa.schema(COLUMNS[::-1]), "field 1 is `page` here and `total` there"),
        (
            pa.schema([pa.field(name, kind, nullable=name != "total") for name, kind in COLUMNS]),
            "field `total` may be null here and not there",
        ),
    ],
)
def test_what_does_not_fit_is_refused(schema: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        run_local(application(schema))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("session(10m)", session("10m")),
        ({"gap": "10m"}, session("10m")),
        ("sliding(2d, 1d, zone='Europe/Berlin')", sliding("2d", "1d", zone="Europe/Berlin")),
        ("tumbling(count=100)", tumbling(count=100)),
        ({"size": 5, "slide": 5}, Sliding(5, 5)),
        *(
            (one, r"should be windows, such as `session\(10m\)`")
            for one in ({"foo": 1}, {}, "10m", "tens(1)")
        ),
        ({"gap": "x"}, "its `gap` is no time"),
        ({"gap": [1]}, "should be a valid integer"),
        ({"gap": -5}, "should be greater than 0"),
    ],
)
def test_windows_are_read_of_texts_and_fields_and_of_nothing_else(given: Any, what: Any) -> None:
    one, properties = application(Views), {"windowed.windows": given}
    if isinstance(what, str):
        with pytest.raises(ValidationError, match=what) as error:
            validate(one, properties, {})
        assert len(error.value.faults) == 1
    else:
        assert validate(one, properties, {}).operator("windowed").operator.windows == what


@pytest.mark.parametrize("partitions", [1, 3])
def test_batches_of_several_partitions_have_the_schema_of_the_port(partitions: int) -> None:
    clicks = [Click(f"/{number}", AT, 1.5) for number in range(20)]
    run = run_local(application(Views, clicks, seen=True, partitions=partitions))
    assert sorted(run.collected("sink")) == sorted((f"/{n}", AT, 1, 1.5) for n in range(20))


class Number(NamedTuple):
    number: int


def test_columns_that_may_not_be_null_take_records_that_declare_it() -> None:
    app = Application("numbers")
    never_null = pa.schema([pa.field("number", pa.int64(), nullable=False)])
    app.read("source", ListInput(Number, [Number(1)])).write("sink", CollectorSink(never_null))
    assert run_local(app).collected("sink") == [{"number": 1}]
