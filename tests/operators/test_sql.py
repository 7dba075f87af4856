"""SQL as a step: results equal DuckDB alone over the same windows, whatever the partitions and failures."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

from ridgeline import Application, OperatorError, RidgelineError
from ridgeline.operators import FileReplayInput, sliding, tumbling
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import read_document
from ridgeline.plan.specification import read_specification
from ridgeline.plan.validation import find_faults
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.plan.specifications import write_specification

START = datetime(2026, 3, 29, tzinfo=UTC)


class Order(NamedTuple):
    user: str | None
    kind: str
    cents: int
    weight: float | None
    time: datetime


class User(NamedTuple):
    user: str | None
    country: str
    time: datetime


def orders(chance: random.Random, windows: int) -> list[list[Order]]:
    return [
        [
            Order(
                chance.choice([None, "a", "b", "c", "d"]),
                chance.choice("xyz"),
                chance.randrange(-9, 9) * chance.choice([1, 1, 10**9]),
                chance.choice([None, 0.5, -0.0, 0.0, float("nan"), float("inf"), 2.25]),
                START + timedelta(seconds=number - chance.randrange(3), microseconds=place),
            )
            for place in range(chance.randrange(8))
        ]
        for number in range(windows)
    ]


def users(chance: random.Random, windows: int) -> list[list[User]]:
    return [
        [
            User(
                chance.choice([None, "a", "b", "c"]),
                chance.choice(["ch", "no"]),
                START + timedelta(seconds=n),
            )
            for _ in range(chance.randrange(4))
        ]
        for n in range(windows)
    ]


def items(windows: Sequence[Sequence[Any]]) -> list[Any]:
    return [item for window in windows for item in (*window, END_WINDOW)]


def arrow(kind: type, rows: Sequence[Any]) -> pa.Table:
    schema = ListInput(kind, []).output.schema.arrow
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def alone(sql: str, more: str = "", **tables: pa.Table) -> list[tuple[Any, ...]]:
    """The rows that DuckDB alone makes."""
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(f"_{name}", table)
            connection.execute(f"create view {name} as select *{more} from _{name}")
        return connection.sql(sql).fetchall()


def comparable(rows: Sequence[Any]) -> Counter[str]:
    return Counter(repr(tuple(map(plain, row))) for row in rows)


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, float) and value == 0:
        return 0.0
    return value


STATEMENTS = [
    "select user, count(*) as n, sum(cents) as cents, min(kind) as kind from orders group by user",
    "select o.user, kind, max(weight) as w, count(weight) as m from orders o group by o.user, kind",
    "select distinct user, kind from orders where cents > 0",
    "select upper(kind) as kind, cents + 1 as cents, user from orders where weight is not null",
    "select * from orders qualify row_number() over (partition by user order by cents, kind, time) <= 2",
    "select user, avg(weight) filter (where weight < 9) as w from orders group by 1 having count(*) > 1",
    "select user, time, list(kind order by kind) as kinds from orders group by all",
    "select o.user, country, cents from orders o join users u on o.user = u.user",
    "select user, count(*) as n from orders join users using (user) group by user",
    "select o.user, o.cents, u.country from orders o left join users u on u.user = o.user and cents > 0",
    "select o.user, u.user as other from orders o, users u where o.user = u.user",
    "select * from orders o anti join users u on o.user = u.user",
    "select count(*) as n, sum(cents) as cents, bool_or(cents > 3) as any_dear from orders",
    "select kind, sum(cents) as cents from orders group by kind order by cents desc, kind limit 2",
    "with x as (select kind, cents from orders) select kind, median(cents) as m from x group by kind",
    "select user, time from orders union all select user, time from users",
    "select *, rank() over (order by cents) as place from orders",
    "select * from orders where cents > (select avg(cents) from orders)",
    "select o.kind, u.country, count(*) as n from orders o cross join users u group by all",
    "select kind, country from orders full join users using (user)",
    "select approx_count_distinct(user) as n, date_trunc('minute', max(time)) as t from orders",
    "select kind, max(time) - min(time) as took, {'n': count(*)} as s from orders group by rollup (kind)",
]


def application(sql: str, rows: Any, others: Any, *variants: dict[str, Any]) -> Application:
    app = Application("sql", window="1s")
    tables = {"orders": app.read("orders", ListInput(Order, items(rows), "time", lateness="5s"))}
    if "users" in sql:
        tables["users"] = app.read("users", ListInput(User, items(others), "time", lateness="5s"))
    for number, variant in enumerate(variants):
        app.sql(f"step{number}", sql, **tables, **variant).write(f"sink{number}", CollectorSink())
    return app


@pytest.mark.parametrize("sql", STATEMENTS)
def test_results_equal_duckdb_window_by_window(sql: str) -> None:
    chance = random.Random(sql)
    rows, others = orders(chance, 7), users(chance, 7)
    run = run_local(application(sql, rows, others, {}))
    for window, own, other in zip(run.window_ids, rows, others, strict=False):
        there = own or (other and "users" in sql)
        expected = alone(sql, orders=arrow(Order, own), users=arrow(User, other)) if there else []
        found = [tuple(row.values()) for row in run.collected("sink0", window)]
        if "order by cents desc" in sql:
            assert found == expected
        if "approx" not in sql:
            assert comparable(found) == comparable(expected)


def test_late_records_go_to_a_port_of_their_own() -> None:
    def order(second: int) -> Order:
        return Order("a", "x", second, None, START + timedelta(seconds=second))

    app = Application("late", window="1s", time_ahead_limit="365d")
    rows = [[order(1), order(9)], [order(3), order(10)], [order(30)], [order(11)]]
    source = app.read("orders", ListInput(Order, items(rows), "time", lateness="2s"))
    step = app.sql("sums", "select sum(cents) as cents from orders", orders=source, windows=tumbling("5s"))
    step.write("sums_out", CollectorSink())
    step.late.write("late", CollectorSink(Order))
    run = run_local(app)
    assert [row["cents"] for row in run.collected("sums_out")] == [1, 9, 10, 30]
    assert [row.cents for row in run.collected("late")] == [3, 11]


class Sum(NamedTuple):
    user: str | None
    n: int
    cents: int


FAULTS = {
    "select cent from orders": 'column "cent" not found in FROM clause! Candidate bindings: "cents"',
    "select o.cent from orders o": '"o" does not have a column named "cent"',
    "select kind from order_s": 'Did you mean "orders"; its tables are `orders`',
    "select sum(kind) as x from orders": "argument types 'sum(VARCHAR)'. You might need to add explicit type",
    "selec kind from orders": 'syntax error at or near "selec"',
    "create table x as select 1": "the SQL must be one SELECT, but it is CREATE",
    "select 1; select 2": "the SQL must be one SELECT, but it is SELECT, SELECT",
    "": "the SQL must be one SELECT, but it is nothing",
    "select null as x from orders": "column `x` is null in all rows; give it a type",
    "select kind, kind from orders": "the result has column `kind` twice",
    "select * from read_csv('/etc/passwd')": "file system operations are disabled",
    "select kind, count(*) as n from orders": '"kind" must appear in the GROUP BY clause',
}


@pytest.mark.parametrize(("sql", "text"), FAULTS.items())
def test_faults_of_sql_name_step_column_and_remedy(sql: str, text: str) -> None:
    app = application(sql, [[]], [[]], {})
    (fault,) = find_faults(app)
    assert fault.where == "step0.output"
    assert text in str(fault)


def fault_of(sql: str = "select kind, cents from orders", **options: Any) -> str:
    fault, *_ = find_faults(application(sql, [[]], [[]], options))
    return str(fault)


def test_other_faults() -> None:
    assert "cannot have more than one" in fault_of(partitions=2)
    assert "`timestamp` names `times`, which the SQL does not make" in fault_of(timestamp="times")
    assert "`schema` has column `n`, which the SQL does not make" in fault_of(
        "select user, cents from orders", schema=Sum
    )
    assert "column `n` is string, but int64 in `schema`" in fault_of(
        "select user, cents, kind as n from orders", schema=Sum
    )


def test_a_step_without_streams_or_with_a_table_is_refused() -> None:
    app = Application("refused")
    source = app.read("orders", ListInput(Order, []))
    with pytest.raises(RidgelineError, match="reads 0 streams, but SQL reads 1 to 4"):
        app.sql("x", "select 1 as x")
    with pytest.raises(RidgelineError, match=r"is a table; .*`orders=table.changes`"):
        app.sql("x", "select * from orders", orders=source.table("t", key="user"))
    other = Application("other").read("orders", ListInput(Order, []))
    with pytest.raises(RidgelineError, match="a stream of another application"):
        app.sql("x", "select * from orders", orders=other)
    assert "x" not in [one.name for one in app.operators]


def test_sql_that_fails_names_its_reason() -> None:
    app = application(
        "select cast(kind as int) as n from orders", [[Order("a", "x", 1, None, START)]], (), {}
    )
    with pytest.raises(OperatorError, match=r"Could not convert string 'x'"):
        run_local(app)
    months = application(
        "select interval 1 month as x from orders", [[Order("a", "x", 1, None, START)]], (), {}
    )
    with pytest.raises(OperatorError, match="column `x` has an interval with months"):
        run_local(months)
    great = [[Order("a", "x", 2**62, None, START)] * 2]
    with pytest.raises(OperatorError, match=r"does not fit into int64; make it a decimal"):
        run_local(application("select sum(cents) as n from orders", great, (), {}))
    sql = "select sum(cents)::decimal(38, 0) as n from orders"
    assert run_local(application(sql, great, (), {})).collected("sink0") == [{"n": Decimal(2**63)}]


def test_specifications_have_all_of_a_step() -> None:
    app = Application("written")
    files = {"schema": Order, "format": "csv", "timestamp": "time", "lateness": "1s"}
    left, right = (app.read(name, FileReplayInput(f"{name}.csv", **files)) for name in ("left", "right"))
    sql = "select a.user, sum(a.cents) as cents from a join b on a.user = b.kind group by a.user"
    step = app.sql("step", sql, a=left, b=right, windows=sliding("2s", "1s"))
    step.write("out")
    text = write_specification(app, Form.YAML)
    again = read_specification(read_document(text, Form.YAML), "file")
    assert write_specification(again, Form.YAML) == text
    assert not find_faults(again)
