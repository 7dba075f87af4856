"""SQL over streams in process: results equal DuckDB over the recorded tuples, whatever happens meanwhile."""

from __future__ import annotations

import io
import re
from random import Random
from typing import Any, ClassVar, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from rich.console import Console

from ridgeline import Application
from ridgeline.operators import SqlQuery
from ridgeline.operators._sql_engine import SqlEngine
from ridgeline.operators.sql_query import QueryResult, QueryResults, schema_text
from ridgeline.plan.edits import Repartition
from ridgeline.plan.planner import plan_application
from ridgeline.testing import END_WINDOW, CollectorSink, Fault, Faults, ListInput, run_local
from support.depth import deep
from support.examples import yahoo_finance_case as case
from support.examples.cases import add_sink

STREAMS = ("price", "volume", "quotes", "charts", "averages")
DIVIDED = ("high_low", "minute_volume")
"""Operators whose tuples make some of these streams, and which can be divided while they run."""


class Price(NamedTuple):
    symbol: str
    price: float


class Kept(QueryResults):
    """Results for a test, across all drivers of a run."""

    found: ClassVar[dict[str, dict[int, QueryResult]]] = {}

    def open(self, context: Any, state: Any) -> None:
        self.name = context.operator

    def publish(self, window_id: int) -> None:
        super().publish(window_id)
        mine = self.found.setdefault(self.name, {})
        for result in self.after(0):
            assert mine.setdefault(result.number, result).rows == result.rows
            mine[result.number] = result


class Query(SqlQuery):
    def publisher(self) -> QueryResults:
        return Kept()


class Shared(SqlEngine):
    """One process for all queries of a test: starting one takes a quarter of a second."""

    one: ClassVar[SqlEngine | None] = None

    def __init__(self, *_limits: int) -> None:
        Shared.one = Shared.one or SqlEngine()

    def run(self, *arguments: Any, **options: Any) -> Any:
        return Shared.one.run(*arguments, **options)

    def close(self) -> None:
        pass


@pytest.fixture
def results(monkeypatch):
    monkeypatch.setattr("ridgeline.operators.sql_query.SqlEngine", Shared)
    Kept.found.clear()
    yield Kept.found
    if Shared.one is not None:
        Shared.one.close()
        Shared.one = None


def statement(random: Random, schemas: dict[str, pa.Schema]) -> tuple[str, list[str]]:
    """A SELECT over one of the streams, or over two joined by their symbols, and which ones."""
    stream = random.choice(sorted(schemas))
    schema = schemas[stream]
    texts = [one.name for one in schema if pa.types.is_string(one.type)]
    numbers = [one.name for one in schema if pa.types.is_integer(one.type) or pa.types.is_floating(one.type)]
    kind = random.randrange(6)
    number = random.choice(numbers) if numbers else "1"
    text = random.choice(texts)
    aggregate = random.choice(["min", "max", "count", "any_value", "median"])
    aggregate = "max" if aggregate == "any_value" else aggregate
    if kind == 0:
        return f"select {text}, {aggregate}({number}) as a, count(*) as n from {stream} group by {text}", [
            stream
        ]
    if kind == 1:
        return f"select * from {stream} where {number} > {random.randrange(200)}", [stream]
    if kind == 2:
        return f"select distinct {text} from {stream} order by 1 limit {random.randrange(1, 6)}", [stream]
    if kind == 3:
        sql = f"with c as (select {text}, {number} as v from {stream})"
        sql = f"{sql} select {text}, {aggregate}(v) as a from c"
        return f"{sql} group by all having count(*) > {random.randrange(4)}", [stream]
    if kind == 4:
        window = f"rank() over (partition by {text} order by {number}) as place"
        return f"select {text}, {number}, {window} from {stream}", [stream]
    other = random.choice([one for one in sorted(schemas) if one != stream])
    key = next(one.name for one in schemas[other] if pa.types.is_string(one.type))
    sql = (
        f"select a.{text} as s, count(*) as n from {stream} a join {other} b on a.{text} = b.{key} group by 1"
    )
    return sql, [stream, other]


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 1 + deep(4)))]
)
def test_random_sql_equals_duckdb_over_the_recorded_tuples(seed, results, tmp_path):
    """Twenty queries at once while containers and the driver are killed and the plan changes."""
    random = Random(seed)
    app = case.build(None, tmp_path, days=4)
    streams = {one.name: one for one in plan_application(app).logical.streams}
    schemas = {name: streams[name].schema.encode([]).schema.remove_metadata() for name in STREAMS}
    for name in STREAMS:
        add_sink(app, name, app.add_operator(f"{name}_tap", CollectorSink()).input)
    asked = {}
    for number in range(20):
        sql, tables = statement(random, schemas)
        query = Query(
            sql,
            tables,
            schemas=[schema_text(schemas[one]) for one in tables],
            every_windows=random.choice([1, 2, 3, 5]),
            rows=100_000,
            seconds=20.0,
        )
        app.add_operator(f"query_{number}", query)
        for table, port in zip(tables, (query.first, query.second), strict=False):
            add_sink(app, table, port)
        asked[f"query_{number}"] = (sql, tables)
    faults = [
        Fault("kill", random.randrange(1, 12), f"query_{random.randrange(20)}", call=0),
        Fault("repeat", random.randrange(1, 12), f"query_{random.randrange(20)}"),
        Fault("exception", random.randrange(1, 12), "year", call=1),
        Fault("restart", random.randrange(2, 12)),
    ]
    changes = {
        window: [Repartition(random.choice(DIVIDED), random.choice([1, 2, 3, 5]))]
        for window in random.sample(range(1, 10), 4)
    }
    run = run_local(
        app,
        checkpoint=str(tmp_path / "checkpoint"),
        faults=Faults(only=[*map(str, faults)]),
        changes=changes,
        attributes={f"{name}.application_window_count": 2 for name in DIVIDED},
        console=Console(file=io.StringIO()),
    )
    assert [one.state for one in run.changes] == ["APPLIED"] * len(changes), run.changes
    checked = 0
    for name, (sql, tables) in asked.items():
        for result in results[name].values():
            assert not result.error, (sql, result.error)
            with duckdb.connect() as oracle:
                oracle.execute("SET TimeZone = 'UTC'")  # a host may say Etc/UTC, which prints otherwise
                for table in tables:
                    windows = range(result.first_window, result.window + 1)
                    batches = [
                        batch.replace_schema_metadata()
                        for window in windows
                        for batch in run.collectors[f"{table}_tap"].windows.get(window, [])
                    ]
                    oracle.register(table, pa.Table.from_batches(batches, schemas[table]))
                assert rows_of(result.table()) == rows_of(oracle.sql(sql).to_arrow_table()), sql
            checked += 1
    assert checked >= 60


def prices(sql: str, items: list[Any], **options: Any) -> Application:
    app = Application("prices")
    source = app.read("prices", ListInput(Price, items))
    query = app.add_operator("query", Query(sql, ["prices"], **options))
    source.into(query.first)
    source.write("sink", CollectorSink(Price))
    return app


WINDOWS = [("A", 1.0), END_WINDOW, ("A", 2.0), END_WINDOW, ("B", 3.0), END_WINDOW, ("A", 4.0)]


@pytest.mark.parametrize(
    ("sql", "options", "error"),
    [
        ("select nope from prices", {}, "nope"),
        ("select count(*) from prices, range(1000000000000)", {"seconds": 0.1}, "takes longer"),
        ("select error('of its own') from prices", {}, "of its own"),
        ("select 1 / 0 as x, cast('a' as int) from prices", {}, "Could not convert|Conversion"),
    ],
)
def test_what_goes_wrong_ends_the_query_and_nothing_else(sql, options, error, results):
    run = run_local(prices(sql, WINDOWS, **options))
    [found] = results["query"].values()
    assert found.last
    assert re.search(error, found.error)
    assert not run.retries
    assert len(run.collected("sink")) == 4


def test_tuples_without_columns_end_it(results):
    app = Application("objects")
    source = app.add_operator("words", ListInput(object, ["a", "b"]))
    query = app.add_operator("query", Query("select * from words", ["words"]))
    app.add_stream("words", source.output, query.first)
    run_local(app)
    assert "Python objects" in results["query"][1].error


def test_results_that_nobody_reads_are_bounded():
    publisher = QueryResults()
    for number in range(1, 301):
        publisher.stage(number, [QueryResult(number, number, number, rows=b"x" * 1_000_000)])
        publisher.publish(number)
    kept = publisher.after(0)
    assert kept[-1].number == 300
    assert sum(len(one.rows) for one in kept) <= 64 * 2**20
    assert publisher.after(299) == kept[-1:]
    assert publisher.after(300) == []
