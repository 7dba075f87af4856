"""Steps that follow each other hand on a frame: results, counts and errors as of each by itself."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from ridgeline import Application, InputOperator, OperatorError, OutputPort
from ridgeline.engine.container import chain
from ridgeline.engine.container.container import Container
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators.frames._held import Held
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing import CollectorSink, LocalRun, SteppingClock, run_local
from support.depth import deep
from support.measure.reports import operator_windows

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("i", pa.int64()),
        pa.field("f", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("d", pa.dictionary(pa.int32(), pa.string())),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("r", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        pa.field("t", pa.timestamp("us", "UTC")),
    ]
)
START = datetime(2026, 1, 1, tzinfo=UTC)
FRAMES: list[int] = []
"""The number of rows of each frame that a step was handed."""
_after = Held.after


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def after(self: Held, *step: Any) -> Held:
        if self.frame is not None:
            FRAMES.append(self.batch.num_rows)
        return _after(self, *step)

    monkeypatch.setattr(Held, "after", after)
    FRAMES.clear()
    yield
    FRAMES.clear()


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is handed a frame."""
    monkeypatch.setattr(chain, "can_take_pending", lambda _: False)


class Batches(InputOperator):
    """The batches of each window."""

    output = OutputPort[Any](Any)
    windows: list[list[Any]]

    def derived_schema(self, port: str, inputs: Any) -> object:
        return next(batch.schema for window in self.windows for batch in window)

    def emit_tuples(self) -> None:
        for batch in self.windows[self.context.window_id]:
            self.output.emit_batch(batch)
        if self.context.window_id + 1 == len(self.windows):
            self.finish()


def record(chance: random.Random) -> dict[str, Any]:
    """A record; each column but one is null now and then."""
    values: dict[str, Any] = {
        "i": chance.choice([0, 1, -1, 2**40, chance.randint(-9, 9)]),
        "f": chance.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, chance.random()]),
        "s": chance.choice(["", "a", "ä/b", "x" * 40]),
        "d": chance.choice(["red", "green"]),
        "l": [chance.randint(0, 3) for _ in range(chance.randint(0, 3))],
        "r": {"x": chance.choice([None, 3]), "y": chance.choice(["u", None])},
        "t": START + timedelta(microseconds=chance.randint(0, 10**12)),
    }
    nulls = {name: None if chance.random() < 0.2 else value for name, value in values.items()}
    return {"n": chance.randint(-5, 5), **nulls}


def batch(chance: random.Random, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([record(chance) for _ in range(rows)], SCHEMA)


MADE: dict[str, list[pl.Expr]] = {
    "n": [pl.col("n") * 2 + 1, pl.lit(7, dtype=pl.Int64)],
    "i": [pl.col("i") + pl.col("n"), pl.coalesce("i", "n")],
    "f": [pl.col("f") / pl.col("n"), pl.col("f").round(1), pl.col("f") * pl.col("i")],
    "s": [pl.col("s") + "!", pl.col("s").str.to_uppercase(), pl.col("d").cast(pl.String)],
    "l": [pl.col("l").list.reverse(), pl.col("l").list.eval(pl.element() + 1)],
    "r": [pl.struct(x=pl.col("n"), y=pl.col("s"))],
    "t": [pl.col("t") + pl.duration(hours=1)],
    "a": [pl.col("n") - 1, pl.lit("c"), pl.col("r").struct.field("y"), pl.col("t").dt.time()],
    "j": [
        pl.struct("n", "s").struct.json_encode(),
        pl.struct("i").name.suffix_fields("_").struct.json_encode(),
    ],
    "b": [pl.col("l").list.len(), pl.col("s").cast(pl.Categorical), pl.lit(None, dtype=pl.Int32)],
    "c": [pl.concat_list("n", "i"), pl.when(pl.col("n") > 0).then(pl.col("i")), pl.col("f").is_nan()],
}
TESTS = [pl.col("n") > -3, pl.col("f").is_not_nan(), pl.col("s").str.len_chars() < 9, pl.col("i") < 10]
Frame = Callable[[pl.LazyFrame], pl.LazyFrame]


def step(chance: random.Random, number: int, columns: list[str]) -> tuple[Callable[[Any], Any], Frame]:
    """A random step, as of a stream and as of polars; changes `columns` as it does."""
    name, kind = f"step{number}", chance.random()
    plain = [one for one in columns if one in SCHEMA.names]
    if kind < 0.6:
        usable = {
            one: [made for made in many if set(made.meta.root_names()) <= set(columns)]
            for one, many in MADE.items()
        }
        names = chance.sample([one for one, many in usable.items() if many], chance.randint(1, 2))
        made = {one: chance.choice(usable[one]) for one in names}
        columns += [one for one in names if one not in columns]
        return lambda s: s.with_columns(name, **made), lambda f: f.with_columns(**made)
    if kind < 0.7:
        fitting = [one for one in TESTS if set(one.meta.root_names()) <= set(columns)] or [pl.lit(1) == 1]
        test = chance.choice(fitting)
        return lambda s: s.filter(name, test), lambda f: f.filter(test)
    if kind < 0.8 and len(columns) > 3:
        gone = chance.choice([one for one in columns if one != "n"])
        columns.remove(gone)
        return lambda s: s.drop(name, gone), lambda f: f.drop(gone)
    if kind < 0.9 and plain:
        old = chance.choice([one for one in plain if one != "n"] or ["n"])
        new = f"{old}{number}"
        columns[columns.index(old)] = new
        return lambda s: s.rename(name, {old: new}), lambda f: f.rename({old: new})
    kept = chance.sample(columns, max(2, len(columns) - 1))
    kept = kept if "n" in kept else [*kept, "n"]
    columns[:] = [*kept, "e"] if "e" not in kept else kept
    extra = {} if "e" in kept else {"e": pl.col("n") * 3}
    return lambda s: s.select(name, *kept, **extra), lambda f: f.select(*kept, **extra)


def plain(value: Any) -> Any:
    """A value as it is compared: a NaN equals another one, 0.0 is not -0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def counts(run: LocalRun) -> list[Any]:
    return [
        (event.window_id, event.operator, event.tuples_in, event.tuples_out)
        for event in operator_windows(run.events)
    ]


def rows(run: LocalRun) -> list[Any]:
    return [plain(row) for row in run.collected("out")]


def test_random_chains_give_what_polars_gives_and_what_each_step_gives(monkeypatch):
    joined = 0
    for seed in range(deep(15)):
        chance = random.Random(seed)
        sizes = [chance.choice([0, 1, 5, 40]) for _ in range(7)]
        windows = [[batch(chance, size) for size in sizes[:4]], [], [batch(chance, one) for one in sizes[4:]]]
        columns = list(SCHEMA.names)
        steps = [step(chance, number, columns) for number in range(chance.randint(2, 7))]

        def built(windows: Any = windows, steps: Any = steps) -> Application:
            app = Application("chain")
            stream: Any = app.read("source", Batches(windows=windows))
            for of_stream, _ in steps:
                stream = of_stream(stream)
            stream.write("out", CollectorSink())
            return app

        FRAMES.clear()
        found = run_local(built())
        joined += len(FRAMES)
        with pytest.MonkeyPatch.context() as patch:
            one_by_one(patch)
            FRAMES.clear()
            alone = run_local(built())
            assert not FRAMES
        assert rows(found) == rows(alone), seed
        assert counts(found) == counts(alone), seed
        frame: Any = pl.from_arrow(pa.Table.from_batches([one for many in windows for one in many], SCHEMA))
        frame = frame.lazy()
        for _, of_frame in steps:
            frame = of_frame(frame)
        expected = frame.collect()
        assert rows(found) == [plain(row) for row in expected.to_arrow().to_pylist()], seed
    assert joined > deep(15)


NAMED = {
    "keep": pl.struct((pl.col("n") + 1).alias("z").name.keep()).struct.json_encode(),
    "text": pl.struct("n", "s").struct.json_encode(),
    "nested": pl.struct(pl.struct("n"), "i").struct.json_encode(),
    "field": pl.struct("n", "i").struct.field("i"),
    "suffix": pl.struct(pl.col("n").name.suffix("_z"), "s").struct.json_encode(),
    "prefix": pl.struct("n", "s").name.prefix_fields("z_").struct.json_encode(),
    "upper": pl.struct(pl.col("n").name.map(str.upper)).struct.json_encode(),
    "listed": pl.concat_list(pl.struct("n", "i")).list.eval(pl.element().struct.json_encode()),
    "added": pl.col("r").struct.with_fields(pl.col("n"), z=pl.field("x") + pl.col("n")).struct.json_encode(),
    "cast": pl.struct("n", "i").cast(pl.Struct({"n": pl.Int64, "i": pl.Float64})).struct.json_encode(),
    "equal": pl.struct("n", "i") == pl.lit({"n": 3, "i": None}),
    "read": pl.struct("n").struct.json_encode().str.json_decode(pl.Struct({"n": pl.Int64})),
    "function": pl.col("n").map_batches(lambda values: pl.Series([values.name] * len(values)), pl.String),
    "rows": pl.struct("n", "s").map_elements("".join, pl.String),
}
"""What sees the names of columns. Each must see those of the step before it, though that replaced them."""


def test_expressions_see_the_names_that_columns_have_before_their_step(monkeypatch):
    chance = random.Random(1)
    windows = [[batch(chance, size) for size in sizes] for sizes in ([5, 0], [1], [40])]
    first = {"n": pl.col("n") + 1, "i": pl.coalesce("i", "n"), "s": pl.col("s") + "!"}

    def built() -> Application:
        app = Application("names")
        stream: Any = app.read("source", Batches(windows=windows)).with_columns("first", **first)
        stream.with_columns("named", **NAMED).with_columns("last", z="n").write("out", CollectorSink())
        return app

    found = rows(run_local(built()))
    assert FRAMES
    one_by_one(monkeypatch)
    assert found == rows(run_local(built()))
    frame: Any = pl.from_arrow(pa.Table.from_batches([one for many in windows for one in many], SCHEMA))
    expected = frame.with_columns(**first).with_columns(**NAMED).with_columns(z="n")
    assert found == [plain(row) for row in expected.to_arrow().to_pylist()]


NUMBERS = pa.schema([pa.field("x", pa.int64(), nullable=False)])


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=NUMBERS)


def chained(windows: list[list[Any]], **attributes: Any) -> Application:
    app = Application("chained")
    stream: Any = app.read("source", Batches(windows=windows)).with_columns("first", a="x + 1")
    stream = stream.with_columns("second", b="a * 2", **attributes).with_columns("third", c="b - x")
    stream.write("out", CollectorSink())
    return app


def poisoned(**attributes: Any) -> Application:
    windows = [[numbers(number, number + 1)] for number in range(8)] + [[numbers(1, 300, 2), numbers(4)]]
    app = Application("poisoned")
    stream: Any = app.read("source", Batches(windows=windows)).with_columns("first", a="x + 1")
    stream = stream.with_columns("second", b=pl.col("a").cast(pl.Int8), **attributes)
    stream = stream.with_columns("third", c="b + 1").filter("last", "c > 0")
    stream.write("out", CollectorSink())
    return app


def failure(app: Application) -> Any:
    with pytest.raises(OperatorError) as error:
        run_local(app, attributes={"recovery_attempts": 0})
    found = error.value.failure
    return found.operator, found.callback, found.window_id, found.tuple, found.error


def test_a_fault_names_the_step_whose_it_is_and_what_it_got(monkeypatch):
    together = failure(poisoned())
    assert FRAMES
    assert together[:3] == ("second", "process_batch of port input", 8)
    assert together[3] == "one of a batch of 3, the first being {'x': 1, 'a': 2}"
    one_by_one(monkeypatch)
    assert failure(poisoned()) == together


def test_a_stream_that_is_looked_at_has_its_rows():
    plan = plan_application(chained([[numbers(number, 5), numbers(7)] for number in range(4)]))
    (spec,) = container_specs(plan)
    storage = MemoryStorage()
    container = Container(spec, storage, SteppingClock(), "run")
    ids = {one.name: one.id for one in plan.physical.operators}
    asked: dict[int, dict[str, Any]] = {2: {"samples": {(ids["first"], "output"): 2}}}
    for number in range(4):
        request = WindowRequest(number, 0, 1, False, frozenset(), {}, **asked.get(number, {}))
        FRAMES.clear()
        _, report = container.run(request, [], (), f"t{number}")
        (first,) = (one for one in report.operators if one.window.operator == ids["first"])
        assert first.window.tuples_out == {"output": 3}
        assert len(FRAMES) == 4, "of two batches both steps behind it"
        if number == 2:
            sample = pa.ipc.open_stream(first.samples["output"]).read_all().to_pylist()
            assert sample == [{"x": 5, "a": 6}, {"x": 7, "a": 8}]
