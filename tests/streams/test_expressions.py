"""Steps that are expressions: results equal those of polars, and faults are found before anything runs."""

import datetime as dt
import json
import random
import sys
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, RidgelineError, Stream, ValidationError
from ridgeline.api.columns.schema import Schema
from ridgeline.operators import FileReplayInput
from ridgeline.operators.frames._expressions import never_null, reads_other_rows, sure_after, tree
from ridgeline.plan.planner import plan_application
from ridgeline.plan.show.text import describe
from ridgeline.plan.spec.writer import specification_of
from ridgeline.plan.specification import read_specification
from ridgeline.plan.validation import find_faults, validate
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep


class Order(NamedTuple):
    id: str
    cents: int
    customer: str | None
    at: dt.datetime


NAIVE = dt.datetime(2026, 1, 1)  # noqa: DTZ001  a column without a zone
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ORDERS = [
    Order(f"o{n}", n * 37 % 100 - 20, None if n % 5 == 0 else f"c{n % 3}", START + dt.timedelta(seconds=n))
    for n in range(50)
]
SOLID = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])


def orders(app: Application, items: Any = ORDERS) -> Stream[Order]:
    return app.read("orders", ListInput(Order, items, "at", lateness="5s"))


def frame() -> pl.DataFrame:
    return pl.DataFrame(
        ORDERS,
        schema={"id": pl.String, "cents": pl.Int64, "customer": pl.String, "at": pl.Datetime("us", "UTC")},
        orient="row",
    )


STEPS = {
    "filter_text": (
        lambda s: s.filter("step", "cents > 0 and customer is not null"),
        lambda f: f.filter((pl.col("cents") > 0) & pl.col("customer").is_not_null()),
    ),
    "filter_expr": (
        lambda s: s.filter("step", pl.col("customer") == "c1"),
        lambda f: f.filter(pl.col("customer") == "c1"),
    ),
    "select": (
        lambda s: s.select(
            "step", "id", "upper(customer) as who", euros=pl.col("cents") / 100, one=pl.lit(1)
        ),
        lambda f: f.select(
            "id",
            pl.col("customer").str.to_uppercase().alias("who"),
            euros=pl.col("cents") / 100,
            one=pl.lit(1, pl.Int32),
        ),
    ),
    "constants": (
        lambda s: s.select("step", one=pl.lit("x")),
        lambda f: f.select(pl.lit("x").repeat_by(1).list.first().alias("one"), "id").select("one"),
    ),
    "with": (
        lambda s: s.with_columns("step", cents="cents * 2", day=pl.col("at").dt.date()),
        lambda f: f.with_columns(cents=pl.col("cents") * 2, day=pl.col("at").dt.date()),
    ),
    "swap": (
        lambda s: s.with_columns("step", id="customer", customer="id"),
        lambda f: f.with_columns(id="customer", customer="id"),
    ),
    "rename": (lambda s: s.rename("step", {"id": "order"}), lambda f: f.rename({"id": "order"})),
    "drop": (lambda s: s.drop("step", "id", "at"), lambda f: f.drop("id", "at")),
    "cast": (
        lambda s: s.cast("step", {"cents": float, "at": "date", "id": pl.Categorical}),
        lambda f: f.cast({"cents": float, "at": pl.Date, "id": pl.String}),
    ),
    "cast_arrow": (
        lambda s: s.cast("step", {"cents": pa.decimal128(12, 2)}),
        lambda f: f.cast({"cents": pl.Decimal(12, 2)}),
    ),
    "all": (
        lambda s: s.select("step", pl.all().exclude("at"), pl.col("cents").alias("c")),
        lambda f: f.select(pl.all().exclude("at"), pl.col("cents").alias("c")),
    ),
    "many": (
        lambda s: s.select("step", pl.col("id", "customer").str.len_chars().name.suffix("_n")),
        lambda f: f.select(pl.col("id", "customer").str.len_chars().name.suffix("_n")),
    ),
    "transform": (
        lambda s: s.transform(
            "step", lambda f: f.filter(pl.col("cents") > 5).with_columns(x=pl.col("id") + "!").drop("at")
        ),
        lambda f: f.filter(pl.col("cents") > 5).with_columns(x=pl.col("id") + "!").drop("at"),
    ),
    "function": (
        lambda s: s.with_columns("step", n=length),
        lambda f: f.with_columns(n=pl.col("id").str.len_chars().cast(pl.Int64)),
    ),
}


def length(order: Order) -> int:
    return len(order.id)


@pytest.mark.parametrize("name", STEPS)
def test_results_are_those_of_polars_also_of_windows_that_run_again(name: str) -> None:
    make, expected = STEPS[name]
    items = [*ORDERS[:9], END_WINDOW, *ORDERS[9:30], ABORT, END_WINDOW, *ORDERS[30:]]
    wanted = expected(frame()).rows()
    for partitions in (1, 3):
        app = Application("orders")
        step = make(orders(app, items))
        app.set_attribute(app.operators[-1].operator, partitions=partitions)
        step.write("sink", CollectorSink())
        run = run_local(app)
        assert run.retries
        rows = run.collected("sink")
        found = [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]
        assert found == wanted if partitions == 1 else sorted(found, key=repr) == sorted(wanted, key=repr)
        assert step.schema.names == expected(frame()).columns


def test_a_filter_keeps_the_class_of_the_tuples_and_its_times() -> None:
    app = Application("orders")
    step = orders(app).filter("dear", "cents > 60")
    step.filter("dearer", lambda order: order.cents > 70).write("sink", CollectorSink(Order))
    found = run_local(app).collected("sink")
    assert found == [order for order in ORDERS if order.cents > 70]


class Stamp(Operator):
    """Rows with the record times that windows see."""

    input = InputPort[Any](Any)
    output = OutputPort[Any](object)

    @input.process_batch
    def stamp(self, batch: pa.RecordBatch) -> None:
        times = self.context.batch_times()
        assert times is not None
        for row, time in zip(batch.to_pylist(), times.tolist(), strict=True):
            self.output.emit((row, time))


@pytest.mark.parametrize("named", [False, True], ids=["numbers", "with text"])
def test_large_batches_are_filtered_with_nulls_and_times(named: bool) -> None:
    """Polars filters large batches of numbers, Arrow all others; times are those of rows that are left."""
    draw, size = np.random.default_rng(5), 10_000
    micros = draw.integers(0, 10**9, size)
    columns = {
        "number": pa.array(draw.integers(-5, 5, size), mask=draw.random(size) < 0.1),
        "small": pa.array(draw.integers(0, 200, size).astype(np.uint8)),
        "share": pa.array(draw.random(size)),
        "time": pa.array(micros).cast(pa.timestamp("us", "UTC")),
    }
    if named:
        columns["name"] = pa.array([f"n{place % 7}" for place in range(size)])
    table = pa.table(columns)

    app = Application("large")
    source = ListInput(table.schema, table.to_pylist(), timestamp="time", lateness="1h")
    stream = app.read("rows", source).filter("positive", "number > 0")
    timed = stream.with_columns("twice", twice="number * 2").with_columns(
        "later", time=pl.col("time").dt.offset_by("1h")
    )
    timed.process("stamp", Stamp()).write("sink", CollectorSink())
    kept = table.append_column("micros", pa.array(micros)).filter(pc.greater(table["number"], 0)).to_pylist()
    hour = dt.timedelta(hours=1)
    wanted = [
        ({**row, "time": row["time"] + hour, "twice": row["number"] * 2}, row.pop("micros")) for row in kept
    ]
    for row, _ in wanted:
        row.pop("micros")
    assert run_local(app).collected("sink") == wanted


def test_split_and_branch_divide_without_rest() -> None:
    app = Application("orders")
    source = orders(app)
    known, unknown = source.split("known", "customer = 'c1'")
    parts = source.branch("size", large="cents > 50", small=lambda order: order.cents > 0, partitions=2)
    assert list(parts) == ["large", "small", "rest"]
    by_function, others = source.split("by_function", lambda order: order.cents < 0)
    for name, stream in {"known": known, "unknown": unknown, "by": by_function, "others": others}.items():
        stream.write(f"{name}_out", CollectorSink(Order))
    for name in parts:
        parts[name].write(f"{name}_out", CollectorSink(Order))
    run = run_local(app)

    def ids(name: str) -> list[str]:
        return sorted(order.id for order in run.collected(f"{name}_out"))

    def of(test: Any) -> list[str]:
        return sorted(order.id for order in ORDERS if test(order))

    assert ids("known") == of(lambda o: o.customer == "c1")
    assert ids("unknown") == of(lambda o: o.customer != "c1")
    assert ids("large") == of(lambda o: o.cents > 50)
    assert ids("small") == of(lambda o: 0 < o.cents <= 50)
    assert ids("rest") == of(lambda o: o.cents <= 0)
    assert ids("by") == of(lambda o: o.cents < 0)
    assert ids("others") == of(lambda o: o.cents >= 0)


CENTS = pl.col("cents")
FAULTS: list[tuple[Any, str]] = [
    (lambda s: s.filter("step", pl.col("cent") > 0), r"no column `cent`; did you mean `cents`\?"),
    (
        lambda s: s.with_columns("step", euros="cent / 100"),
        r"`euros`: there is no column `cent`; did you mean",
    ),
    (lambda s: s.filter("step", "cents >"), r"'cents >' is no SQL expression: unable to parse"),
    (
        lambda s: s.select("step", x="nofunc(cents)"),
        r"`x`: 'nofunc\(cents\)' is no SQL .*unsupported function",
    ),
    (lambda s: s.with_columns("step", x=CENTS + pl.col("id")), r"`x`: arithmetic on .*column 'cents'"),
    (lambda s: s.with_columns("step", x=CENTS.str.to_uppercase()), r"`x`: .*expected `String`, got `i64`"),
    (lambda s: s.filter("step", "cents > 'x'"), r"cents.*cannot compare string with numeric type"),
    (lambda s: s.filter("step", "cents + 1"), r"the predicate .* gives Int64, not true or false; compare it"),
    (lambda s: s.with_columns("step", x=CENTS.sum()), r"`x`: .*reads other rows .* use `window"),
    (lambda s: s.with_columns("step", x="cents - sum(cents)"), r"`x`: .*reads other rows"),
    (lambda s: s.filter("step", CENTS.shift() < CENTS), r"reads other rows"),
    (lambda s: s.filter("step", pl.col("id").is_in(pl.col("customer"))), r"reads other rows"),
    (
        lambda s: s.with_columns("step", x=pl.col("id").replace(pl.col("customer"), pl.col("id"))),
        r"other rows",
    ),
    (lambda s: s.select("step", "id", CENTS.cast(pl.String).alias("id")), r"column `id` twice; rename one"),
    (lambda s: s.select("step", x="cent", y="custom"), r"`x`: .*`cents`.*; `y`: .*`customer`"),
    (lambda s: s.rename("step", {"ident": "x"}), r"there is no column `ident`"),
    (lambda s: s.rename("step", {"id": "cents"}), r"column `cents` twice"),
    (lambda s: s.drop("step", "identifier"), r"there is no column `identifier`"),
    (lambda s: s.drop("step", "id", "cents", "customer", "at"), r"no column would be left"),
    (lambda s: s.cast("step", {"cents": "nonsense"}), r"`cents`: .* is no SQL expression"),
    (lambda s: s.cast("step", {"cent": float}), r"there is no column `cent`; did you mean `cents`"),
    (lambda s: s.cast("step", {"cents": 5}), r"`step\.types\.cents`|`step.types`"),
    (lambda s: s.transform("step", lambda f: f.filter(pl.col("cent") > 0)), r"cannot be applied .*`cents`"),
    (lambda s: s.transform("step", lambda f: None), r"the function returns a NoneType, not a frame"),
    (lambda s: s.transform("step", lambda f: 1 / 0), r"ZeroDivisionError"),
    (lambda s: s.split("step", "cents")[0], r"`step.matching`: the predicate .*Int64"),
    (lambda s: s.branch("step", large="cent > 5").large, r"`step.large`: there is no column `cent`"),
    (lambda s: s.branch("step", rest="cents > 5").rest, r"`step.predicates`.*'rest'.*must be a name"),
    (lambda s: s.with_columns("step", x=lambda order: order.cents), r"`x`: its function .*; annotate"),
    (lambda s: s.with_columns("step", x=CENTS.cast(pl.Int128)), r"`x` would be Int128, which Arrow does not"),
]


@pytest.mark.parametrize(("make", "text"), FAULTS)
def test_a_fault_names_step_column_and_remedy_before_anything_runs(make: Any, text: str) -> None:
    app = Application("orders")
    make(orders(app)).write("sink", CollectorSink())
    with pytest.raises(ValidationError, match=text) as raised:
        validate(app)
    assert "step." in raised.value.faults[0].where


def test_what_is_no_expression_is_refused_with_the_attribute_that_may_be_meant() -> None:
    app = Application("orders")
    source = orders(app)
    with pytest.raises(RidgelineError, match=r"`partition` of step `x` is 2, .*attribute `partitions`\?"):
        source.with_columns("x", euros="cents / 100", partition=2)
    with pytest.raises(RidgelineError, match=r"`five` of step `x` is 5, .*`pl.lit\(5\)`"):
        source.select("x", five=5)
    app = Application("orders")
    orders(app).filter("y", 5).write("out")  # type: ignore[call-overload]
    assert "is no expression; give `pl.col(...)`" in str(find_faults(app)[0])


def test_nulls_are_derived() -> None:
    app = Application("nulls")
    stream = app.read("in", ListInput(SOLID, []))
    made = stream.with_columns(
        "made", c="a + 1", d="a + b", e="coalesce(b, 0)", f="b is null", g="a / 0", h=pl.col("a") // 2, i="b"
    ).schema
    assert [field.name for field in made if not field.nullable] == ["a", "c", "e", "f", "g"]
    assert not stream.filter("has", "b > 0").schema.field("b").nullable
    assert stream.filter("or", "b > 0 or a > 0").schema.field("b").nullable


def test_fields_of_a_class_are_null_only_if_they_are_optional() -> None:
    app = Application("nulls")
    made = orders(app).with_columns("made", twice="cents * 2", who="upper(customer)").schema
    assert [field.name for field in made if field.nullable] == ["customer", "who"]


def test_expressions_of_random_shape_are_null_only_where_they_may_be() -> None:
    chance = random.Random(4)
    columns = pl.DataFrame(
        {
            "a": [0, 1, -1, 2**62],
            "b": [None, 1, 0, None],
            "s": ["", "x", "yy", "/"],
            "t": [True, False, True, False],
        }
    )
    leaves = [pl.col("a"), pl.col("b"), pl.lit(0), pl.lit(None, pl.Int64), pl.lit(3)]
    operations = [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x // y,
        lambda x, y: x % y,
        lambda x, y: (x > y).cast(pl.Int64),
        pl.coalesce,
        lambda x, y: x.fill_null(y),
        lambda x, y: pl.when(x > y).then(x).otherwise(y),
        lambda x, y: pl.when(x == y).then(y),
        lambda x, y: x.is_null().cast(pl.Int64),
        lambda x, y: x.abs(),
        lambda x, y: -y,
        lambda x, y: x.eq_missing(y).cast(pl.Int64),
        lambda x, y: (x / y).fill_nan(1.0).cast(pl.Int64, strict=False),
        pl.max_horizontal,
    ]
    known = 0
    for _ in range(deep(200)):
        made = list(leaves)
        for _ in range(chance.randint(1, 5)):
            made.append(chance.choice(operations)(chance.choice(made), chance.choice(made)))
        expression = made[-1]
        if never_null(tree(expression), {"a", "s", "t"}):
            known += 1
            assert columns.select(expression.alias("x"))["x"].null_count() == 0, expression
        predicate = chance.choice(made) > chance.choice(made)
        kept = columns.filter(predicate & pl.lit(True))
        for name in sure_after(tree(predicate)):
            assert kept[name].null_count() == 0, predicate
    assert known > deep(33)


@pytest.mark.parametrize(
    ("expression", "across"),
    [
        *((pl.sql_expr(text), True) for text in ("sum(a)", "count(*)", "a - avg(a)", "max(a) = a")),
        (pl.col("a").cum_sum() + 1, True),
        (pl.col("a").sort(), True),
        (pl.all().sum(), True),
        (pl.col("a").map_elements(lambda x: x, return_dtype=pl.Int64).rank(), True),
        (pl.concat_list("a", "a").list.eval(pl.element().sum()), False),
        (pl.concat_list("a", "a").list.sum(), False),
        (pl.col("a").is_in([1, 2]), False),
        (pl.col("s").str.split("/").list.get(1), False),
        (pl.lit(pl.Series([1, 2])), True),
        (pl.col("s").cast(pl.Enum(["x"])), False),
        (pl.col("a").fill_null(strategy="forward"), True),
        (pl.col("a").over("s"), True),
        (pl.struct("a", "s"), False),
        (pl.format("{}-{}", "a", "s"), False),
        (pl.len() + pl.col("a"), True),
        (pl.col("a").append(pl.col("a")), True),
        (pl.ones(2), True),
        ((pl.col("a") + 1).name.keep(), False),
        (pl.col("a").sum().name.keep(), True),
        (pl.struct("a", "s").struct.unnest(), False),
    ],
)
def test_expressions_over_several_rows_are_known(expression: pl.Expr, across: bool) -> None:
    assert reads_other_rows(tree(expression)) is across


TYPES = {
    "string": (pa.string(), ["ä", "", None]),
    "large_string": (pa.large_string(), ["ä", "", None]),
    "binary": (pa.binary(), [b"\x00", b"", None]),
    "decimal": (pa.decimal128(12, 3), [Decimal("1.250"), None, Decimal("-9.999")]),
    "zone": (pa.timestamp("us", "Europe/Berlin"), [START, None, START]),
    "seconds": (pa.timestamp("s"), [NAIVE, None, NAIVE]),
    "nano": (pa.timestamp("ns", "UTC"), [START, None, START]),
    "date": (pa.date32(), [dt.date(2026, 1, 1), None, dt.date(1, 1, 1)]),
    "time": (pa.time64("us"), [dt.time(1, 2, 3, 4), None, dt.time()]),
    "duration": (pa.duration("us"), [dt.timedelta(-5, 3), None, dt.timedelta()]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", None, "b"]),
    "small_dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b"]),
    "list": (pa.list_(pa.string()), [["a", None], None, []]),
    "fixed": (pa.list_(pa.int64(), 2), [[1, 2], None, [3, None]]),
    "struct": (
        pa.struct([("x", pa.string()), ("y", pa.list_(pa.int64()))]),
        [{"x": "a", "y": [1]}, None, {"x": None, "y": None}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]),
    "int8": (pa.int8(), [1, None, -128]),
    "uint64": (pa.uint64(), [2**64 - 1, None, 0]),
    "float": (pa.float64(), [float("inf"), None, -0.0]),
    "float32": (pa.float32(), [0.5, None, -0.0]),
    "bool": (pa.bool_(), [True, None, False]),
    "null": (pa.null(), [None, None, None]),
    "fixed_binary": (pa.binary(2), [b"ab", None, b"cd"]),
    "decimal256": (pa.decimal256(40, 2), [Decimal("1.25"), None, Decimal("5.00")]),
}


NOT_COMPUTED = ("null", "decimal256", "fixed_binary", "seconds")
"""What polars has in another form."""


@pytest.mark.parametrize("name", TYPES)
def test_columns_that_pass_or_are_computed_keep_type_and_values(name: str) -> None:
    kind, values = TYPES[name]
    schema = pa.schema([("v", kind), ("n", pa.int64())])
    items = [{"v": value, "n": number} for number, value in enumerate(values)]
    app = Application("types")
    stream = app.read("in", ListInput(schema, items))
    steps = stream.filter("filtered", "n >= 0").with_columns("more", m="n + 1").rename("named", {"v": "w"})
    steps.write("named_out", CollectorSink())
    plain = stream.select("plain", "v")
    plain.write("plain_out", CollectorSink())
    if name not in NOT_COMPUTED:
        computed = pl.when(pl.col("n") >= 0).then(pl.col("v"))
        stream.select("same", v=computed).write("same_out", CollectorSink())
        stream.transform("whole", lambda f: f.filter(pl.col("n") >= 0)).write("whole_out", CollectorSink())
    run = run_local(app)
    assert steps.schema.field("w").type == plain.schema.field("v").type == kind
    assert plain.schema == pa.schema([("v", kind)])
    expected = [row["v"] for row in Schema(schema).decode(Schema(schema).encode(items))]
    assert [row["w"] for row in run.collected("named_out")] == expected
    for sink in ("plain_out", *(() if name in NOT_COMPUTED else ("same_out", "whole_out"))):
        assert [row["v"] for row in run.collected(sink)] == expected


def test_a_column_that_polars_cannot_hold_is_named_only_if_it_is_used() -> None:
    schema = pa.schema([("v", pa.month_day_nano_interval()), ("n", pa.int64())])
    app = Application("types")
    stream = app.read("in", ListInput(schema, []))
    stream.filter("fine", "n > 0").write("out")
    stream.transform("whole", lambda f: f).write("out2")
    (fault,) = find_faults(app)
    assert (fault.where, "column `v` is month_day_nano_interval" in fault.what) == ("whole.output", True)


class Visit(NamedTuple):
    page: str
    value: int
    at: dt.datetime


def test_an_application_is_written_as_a_specification_and_read_again() -> None:
    app = Application("orders", window="1s")
    source = app.read("orders", FileReplayInput("orders.csv", Visit, format="csv"))
    shops, others = source.split("shops", pl.col("page").str.starts_with("a"))
    parts = shops.union("both", others).branch("parts", long="value > 5", short=pl.col("value") < 2)
    typed = parts.long.cast("typed", {"value": float, "page": "varchar"}).rename("named", {"page": "p"})
    typed.with_times("timed", "at", lateness="1s").drop("less", "at").limit_rate("few", 10).write("out")
    parts.short.select("some", "page", n="length(page)").sample("sampled", 0.5).write("out2")
    document = specification_of(app)
    again = read_specification(json.loads(json.dumps(document)), "orders")
    assert specification_of(again) == document
    assert describe(plan_application(again)) == describe(plan_application(app))


def test_without_polars_such_a_step_is_a_fault_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application("orders")
    source = orders(app)
    source.filter("dear", "cents > 60").write("out")
    source.rename("named", {"id": "order"}).drop("less", "cents").write("out2")
    monkeypatch.setitem(sys.modules, "polars", None)
    (fault,) = find_faults(app)
    assert fault.where == "dear.output"
    assert "pip install 'ridgeline[frames]'" in str(fault)


def times_of(step: Any) -> list[tuple[str, dt.datetime]]:
    """The ids of the result with the record times that windows see."""
    app = Application("times")
    stamped = step(orders(app)).process("stamp", Stamp())
    stamped.write("sink", CollectorSink())
    found = run_local(app).collected("sink")
    return [(row["id"], dt.datetime.fromtimestamp(time / 1e6, dt.UTC)) for row, time in found]


KEEPS = {
    "filter": lambda f: f.filter(pl.col("cents") > 10).with_columns(x=pl.col("cents") * 2),
    "sort": lambda f: f.sort("cents", descending=True),
    "drop": lambda f: f.filter(pl.col("customer") == "c1").drop("cents"),
    "fill": lambda f: f.fill_null("nobody").drop_nulls(),
    "explode": lambda f: f.with_columns(n=pl.concat_list("cents", "cents")).explode("n"),
    "rename": lambda f: f.rename({"cents": "c"}).head(7),
    "round": lambda f: f.filter(pl.col("cents") > 10).with_columns(pl.col("at").dt.truncate("1d")),
}
LOSES = {
    "unique": lambda f: f.unique(["customer"], keep="first", maintain_order=True),
    "select": lambda f: f.filter(pl.col("cents") > 10).select("id"),
    "all": lambda f: f.filter(pl.col("cents") > 10).with_columns(all=pl.struct(pl.all())),
    "group": lambda f: f.group_by("customer").agg(id=pl.col("id").first()),
}


@pytest.mark.parametrize("name", KEEPS)
def test_rows_of_a_transform_keep_their_times(name: str) -> None:
    found = times_of(lambda stream: stream.transform("step", KEEPS[name]))
    at = {order.id: order.at for order in ORDERS}
    assert len(found) > 3
    assert all(time == at[ident] for ident, time in found)


@pytest.mark.parametrize("name", LOSES)
def test_rows_that_cannot_be_followed_are_what_they_would_be_without(name: str) -> None:
    app = Application("times")
    orders(app).transform("step", LOSES[name]).write("sink", CollectorSink())
    found = [tuple(row.values()) for row in run_local(app).collected("sink")]
    assert sorted(found, key=repr) == sorted(LOSES[name](frame().lazy()).collect().rows(), key=repr)
