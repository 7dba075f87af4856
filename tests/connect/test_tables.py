"""What all outputs into tables promise, one contract for each store: databases, files and lakes."""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import duckdb
import psycopg
import pyarrow as pa
import pymysql
import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.connect import Batch, Mark, Sink
from ridgeline.operators.lake import DeltaOutput, IcebergOutput
from ridgeline.operators.lake.iceberg_output import IcebergSink
from ridgeline.operators.mariadb import MariaDbOutput
from ridgeline.operators.mariadb.output import MariaDbSink
from ridgeline.operators.postgres import PostgresOutput
from ridgeline.operators.postgres.output import PostgresSink
from ridgeline.operators.sql_files import DuckDbOutput, SqliteOutput
from ridgeline.operators.sql_files.duckdb_output import DuckDbSink
from ridgeline.operators.sql_files.sqlite_output import SqliteSink
from ridgeline.testing import (
    END_WINDOW,
    ConnectorRow,
    ConnectorTarget,
    Faults,
    ListInput,
    connector_checks,
    run_local,
)

_NUMBERS = itertools.count()
ROWS = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("text", pa.string()), ("value", pa.float64())])
SYMBOL, PRICE = pa.field("symbol", pa.string()), pa.field("price", pa.float64())


class Store:
    """A place for the table `items`. `refuses`: a constraint of it may. `sink`: the class that writes."""

    absent: ClassVar[Any] = ()
    """What is raised if the table is not there."""
    refuses = True
    takes_nan = True
    has_indexes = True
    converts = False
    """Numbers are converted to the type of their column."""
    sink: ClassVar[type[Sink] | None] = None
    server: Any = None

    def __init__(self, request: Any, folder: Path) -> None:
        self.place = folder / f"place{next(_NUMBERS)}"

    def output(self, **properties: Any) -> Any:
        raise NotImplementedError

    def fetch(self, *columns: str) -> list[Any]:
        """The rows of the table. Raises what is `absent`."""
        raise NotImplementedError

    def make(self, *fields: pa.Field, check: str = "", key: str = "") -> None:
        raise NotImplementedError

    def unmark(self) -> None:
        """Remove the marks of all outputs."""
        raise NotImplementedError


class Sql(Store):
    kinds: ClassVar[dict[str, str]] = {
        "int64": "bigint",
        "string": "text",
        "double": "double",
        "date32[day]": "date",
    }
    quote = '"'

    def execute(self, statement: str) -> list[Any]:
        raise NotImplementedError

    def fetch(self, *columns: str) -> list[Any]:
        names = ", ".join(f"{self.quote}{name}{self.quote}" for name in columns)
        return [tuple(row) for row in self.execute(f"select {names} from items")]

    def make(self, *fields: pa.Field, check: str = "", key: str = "") -> None:
        columns = []
        for field in fields:
            null = "" if field.nullable else " not null"
            columns.append(f"{self.quote}{field.name}{self.quote} {self.kinds[str(field.type)]}{null}")
        columns += [f"check ({check})"] if check else []
        columns += [f"primary key ({self.quote}{key}{self.quote})"] if key else []
        self.execute(f"create table items ({', '.join(columns)})")

    def unmark(self) -> None:
        self.execute("delete from ridgeline_marks")


class OnPostgres(Sql):
    absent = psycopg.errors.UndefinedTable
    kinds: ClassVar[dict[str, str]] = {**Sql.kinds, "double": "float8"}
    sink = PostgresSink

    def __init__(self, request: Any, folder: Path) -> None:
        self.server = request.getfixturevalue("postgres")
        self.dsn = self.server.database()

    def output(self, **properties: Any) -> Any:
        return PostgresOutput(**{"dsn": self.dsn, "table": "items", **properties})

    def execute(self, statement: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


class OnMariaDb(Sql):
    absent = pymysql.err.ProgrammingError
    kinds: ClassVar[dict[str, str]] = {**Sql.kinds, "string": "varchar(99) character set utf8mb4"}
    quote = "`"
    takes_nan = False
    sink = MariaDbSink

    def __init__(self, request: Any, folder: Path) -> None:
        self.server = request.getfixturevalue("mariadb")
        self.url = self.server.database()

    def output(self, **properties: Any) -> Any:
        return MariaDbOutput(**{"url": self.url, "table": "items", **properties})

    def execute(self, statement: str) -> list[Any]:
        at = urlsplit(self.url)
        given = {"host": at.hostname, "port": at.port, "user": at.username, "database": at.path.strip("/")}
        with closing(pymysql.connect(**given, charset="utf8mb4", autocommit=True)) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall())


class InSqlite(Sql):
    absent = sqlite3.OperationalError
    takes_nan = False
    converts = True
    sink = SqliteSink

    def output(self, **properties: Any) -> Any:
        return SqliteOutput(**{"path": self.place, "table": "items", **properties})

    def execute(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.place, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()


class InDuckDb(Sql):
    absent = duckdb.Error
    refuses = False
    sink = DuckDbSink

    def output(self, **properties: Any) -> Any:
        return DuckDbOutput(**{"path": self.place, "table": "items", **properties})

    def execute(self, statement: str) -> list[Any]:
        with duckdb.connect(str(self.place)) as connection:
            return connection.execute(statement).fetchall()


class InDelta(Store):
    absent = TableNotFoundError
    takes_nan = has_indexes = False

    def output(self, **properties: Any) -> Any:
        return DeltaOutput(self.place, **properties)

    def fetch(self, *columns: str) -> list[Any]:
        rows = DeltaTable(self.place).to_pyarrow_table().to_pylist()
        return [tuple(row[name] for name in columns) for row in rows]

    def make(self, *fields: pa.Field, check: str = "", key: str = "") -> None:
        DeltaTable.create(self.place, schema=Schema.from_arrow(pa.schema(fields)))
        if check:
            DeltaTable(self.place).alter.add_constraint({"checked": check})


class InIceberg(Store):
    absent = NoSuchTableError
    refuses = takes_nan = has_indexes = False
    sink = IcebergSink

    def __init__(self, request: Any, folder: Path) -> None:
        super().__init__(request, folder)
        self.place.mkdir()
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{self.place}/catalog.db",
            "warehouse": f"file://{self.place}",
        }

    def output(self, **properties: Any) -> Any:
        return IcebergOutput("shop.items", catalog="shop", properties=self.catalog, **properties)

    def fetch(self, *columns: str) -> list[Any]:
        with load_catalog("shop", **self.catalog) as catalog:
            rows = catalog.load_table("shop.items").scan().to_arrow().to_pylist()
        return [tuple(row[name] for name in columns) for row in rows]

    def make(self, *fields: pa.Field, check: str = "", key: str = "") -> None:
        with load_catalog("shop", **self.catalog) as catalog:
            catalog.create_namespace_if_not_exists("shop")
            catalog.create_table("shop.items", pa.schema(fields))

    def unmark(self) -> None:
        with load_catalog("shop", **self.catalog) as catalog:
            table = catalog.load_table("shop.items")
            marks = [name for name in table.properties if name.startswith("ridgeline.mark.")]
            table.transaction().remove_properties(*marks).commit_transaction()


STORES = [
    pytest.param(OnPostgres, marks=pytest.mark.server),
    pytest.param(OnMariaDb, marks=[pytest.mark.server, pytest.mark.slow]),
    InSqlite,
    InDuckDb,
    InDelta,
    InIceberg,
]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = request.param(request, tmp_path)
    return made


def write(output: Any, kind: Any, rows: Sequence[Any], *, partitions: int = 1, **given: Any) -> Any:
    app = Application("sales")
    source = app.add_operator("source", ListInput(kind, rows))
    attributes = {"on_error": OnError.SKIP} if given.pop("skips", False) else {}
    out = app.add_operator("out", output, partitions=partitions, **attributes)
    app.add_stream("rows", source.output, out.input)
    return run_local(app, **given)


class Target(ConnectorTarget):
    def __init__(self, store: Store, key: str | None) -> None:
        self.store, self.key, self.upserts = store, key, key is not None

    def output(self) -> Any:
        return self.store.output(key=self.key)

    def rows(self) -> Sequence[Any]:
        try:
            return self.store.fetch(*ROWS.names)
        except self.store.absent:
            return []

    def poison(self) -> ConnectorRow | None:
        if not self.store.refuses:
            return None
        if not self.rows():
            self.store.make(*ROWS, check="value < 1000", key=self.key or "")
        return ConnectorRow(10**6, 99, "poison", 1001.0)

    def down(self) -> bool:
        if self.store.server is not None:
            self.store.server.kill()
        return self.store.server is not None

    def up(self) -> None:
        self.store.server.restart()


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "key"])
@pytest.mark.parametrize("kind", STORES)
def test_each_row_is_there_exactly_once(
    request: pytest.FixtureRequest, tmp_path: Path, kind: Callable[..., Store], key: str | None
) -> None:
    report = connector_checks(lambda: Target(kind(request, tmp_path), key))
    assert report.guarantee == "exactly once"


class Change(NamedTuple):
    id: int
    part: str
    op: str
    amount: int | None


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_last_change_of_each_key_counts(store: Store, partitions: int) -> None:
    random = Random(partitions)
    rows: list[Any] = []
    kept: dict[tuple[int, str], int] = {}
    for number in range(300):
        part, op = random.choice(["a", "A", "a ", "ä'"]), random.choice(["u", "u", "delete"])
        change = Change(random.randrange(12), part, op, number)
        rows.append(change)
        if op == "delete":
            kept.pop((change.id, part), None)
        else:
            kept[change.id, part] = number
        if random.random() < 0.03:
            rows.append(END_WINDOW)
    faults = Faults(seed=partitions, rate=0.2, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    write(store.output(key=("id", "part"), delete="op"), Change, rows, partitions=partitions, faults=faults)
    found = store.fetch("id", "part", "amount")
    assert {(one, part): amount for one, part, amount in found} == kept
    assert len(found) == len(kept)


class Price(NamedTuple):
    symbol: str
    price: float


PRICES = [("IBM", 12.5), ("SAP", 101.25), END_WINDOW, ("IBM", 13.0)]
DAY = pa.field("day", pa.date32(), nullable=False)


def test_a_table_that_does_not_fit_is_refused(
    request: pytest.FixtureRequest, store: Store, tmp_path: Path
) -> None:
    misfits: list[tuple[list[pa.Field], dict[str, Any], str]] = [
        ([SYMBOL], {}, "no column `price`"),
        ([SYMBOL, PRICE, DAY], {}, r"\bday\b"),
        ([], {"create": False}, "the table does not exist; create it"),
        ([], {"key": "sybmol"}, "key column `sybmol` is not in .*did you mean `symbol`"),
    ]
    if not store.converts:
        misfits.append(([SYMBOL, pa.field("price", pa.int64())], {}, "column `price` is"))
    if store.has_indexes:
        misfits.append(([SYMBOL, PRICE], {"key": "symbol"}, r"unique index|UNIQUE"))
    for fields, properties, what in misfits:
        one = type(store)(request, tmp_path)
        if fields:
            one.make(*fields)
        with pytest.raises(RidgelineError, match=what):
            write(one.output(**properties), Price, PRICES)


@pytest.mark.parametrize("key", [None, "symbol"])
def test_a_row_that_is_refused_is_named_or_left_out(store: Store, key: str | None, tmp_path: Path) -> None:
    if not store.refuses:
        pytest.skip("it has no constraints")
    store.make(SYMBOL, PRICE, check="price > 0", key="symbol")
    rows: list[Any] = [(f"s{number}", -1.0 if number % 7 == 3 else 1.0) for number in range(50)]
    rows.insert(20, END_WINDOW)
    with pytest.raises(RidgelineError, match=r"cannot write a row of window 0: .*s3.*`on_error` to `SKIP`"):
        write(store.output(key=key), Price, rows)
    assert store.fetch("symbol") == []
    write(store.output(key=key), Price, rows, skips=True, checkpoint=tmp_path / "checkpoint")
    found = {symbol for (symbol,) in store.fetch("symbol")}
    assert found == {f"s{number}" for number in range(50) if number % 7 != 3}
    files = (tmp_path / "checkpoint" / "staging" / "out").glob("refused-*.jsonl")
    assert sum(len(file.read_text().splitlines()) for file in files) == 7


def test_no_row_is_written_without_its_mark(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if store.sink is None:
        pytest.skip("its marks are removed otherwise")
    real = store.sink.write

    def unmarked(self: Any, batches: Sequence[Batch], mark: Mark) -> None:
        if mark.window == 2:
            store.unmark()
        real(self, batches, mark)

    monkeypatch.setattr(store.sink, "write", unmarked)
    monkeypatch.setattr(store.sink, "most_bytes", 1)
    rows = [one for number in range(5) for one in ((f"s{number}", 1.0), END_WINDOW)]
    with pytest.raises(RidgelineError, match=r"its mark .* is gone"):
        write(store.output(), Price, rows)
    assert sorted(store.fetch("symbol")) == [("s0",), ("s1",)]


def test_a_key_that_is_nan_is_left_out(store: Store) -> None:
    if store.takes_nan:
        pytest.skip("NaN is a value there")
    schema = pa.schema([pa.field("key", pa.float64(), nullable=False), ("value", pa.int64())])
    rows: list[Any] = [(math.nan, 1), (1.0, 1), END_WINDOW, (math.nan, 3), (1.0, 2)]
    write(store.output(key="key"), schema, rows, skips=True)
    assert store.fetch("key", "value") == [(1.0, 2)]
