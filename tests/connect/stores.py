"""Stores with a table: databases, files and lakes, and how tests look at them."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
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
from ridgeline.connect import Sink
from ridgeline.connectors.lake import DeltaOutput, IcebergOutput
from ridgeline.connectors.lake.iceberg_output import IcebergSink
from ridgeline.connectors.postgres import PostgresInput, PostgresOutput
from ridgeline.connectors.postgres.tables import PostgresSink
from ridgeline.connectors.sql import (
    DuckDbInput,
    DuckDbOutput,
    MariaDbInput,
    MariaDbOutput,
    SqliteInput,
    SqliteOutput,
)
from ridgeline.connectors.sql.duckdb import DuckDbSink
from ridgeline.connectors.sql.mariadb import MariaDbSink
from ridgeline.connectors.sql.sqlite import SqliteSink
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

_NUMBERS = itertools.count()
ROWS = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("text", pa.string()), ("value", pa.float64())])
SYMBOL, PRICE = pa.field("symbol", pa.string()), pa.field("price", pa.float64())


class Price(NamedTuple):
    symbol: str
    price: float


PRICES = [("IBM", 12.5), ("SAP", 101.25), END_WINDOW, ("IBM", 13.0)]


class Everything(NamedTuple):
    number: int
    small: float | None = None
    text: str | None = None
    yes: bool | None = None
    data: bytes | None = None
    price: Decimal | None = None
    day: dt.date | None = None
    at: dt.datetime | None = None
    took: dt.timedelta | None = None
    parts: list[int] | None = None


def writing(output: Any, kind: Any, rows: Sequence[Any], **attributes: Any) -> Application:
    app = Application("sales")
    source = app.add_operator("source", ListInput(kind, rows))
    out = app.add_operator("out", output, **attributes)
    app.add_stream("rows", source.output, out.input)
    return app


def reading(source: Any, kind: Any, **attributes: Any) -> Application:
    app = Application("orders")
    orders = app.add_operator("orders", source, **attributes)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("orders", orders.output, sink.input)
    return app


def refused_rows(checkpoint: Path) -> list[str]:
    """The lines about rows that `out` has left out."""
    files = sorted((checkpoint / "staging" / "out").glob("refused-*.jsonl"))
    return [line for file in files for line in file.read_text().splitlines()]


def check_that_no_secret_is_shown(
    secret: str, right: Iterable[Any], wrong: Iterable[tuple[Any, str]]
) -> None:
    """`right`: outputs that write, `wrong`: those that fail, and what is said of them."""
    for output in right:
        run = run_local(writing(output, Price, PRICES))
        assert secret not in repr(run.events)
        assert secret not in str(run.plan)
    for output, what in wrong:
        with pytest.raises((RidgelineError, OSError), match=what) as raised:
            run_local(writing(output, Price, PRICES))
        assert secret not in str(raised.value)


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
    hostile: ClassVar[Sequence[Everything]] = ()
    """Values that this store takes and others do not."""

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

    def holds(self, row: Everything) -> tuple[Any, ...]:
        """What the table has for a row."""
        return tuple(row)


class Sql(Store):
    kinds: ClassVar[dict[str, str]] = {
        "int64": "bigint",
        "string": "text",
        "double": "double",
        "date32[day]": "date",
    }
    quote = '"'

    farthest = 9 * 10**12
    """A number of a row far behind the others."""
    identity = ""
    """The type of a column that the server counts."""

    def source(self, **properties: Any) -> Any:
        """An input that reads the table, or what is given."""
        raise NotImplementedError

    def connect(self) -> Any:
        """A connection with transactions."""
        raise NotImplementedError

    def execute(self, *statements: str) -> list[Any]:
        """Run statements. The rows of the last one."""
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
    identity = "bigint generated always as identity"
    farthest = 5_000  # it takes numbers for rows: a larger gap takes as many windows as if it had them
    sink = PostgresSink
    hostile: ClassVar[Sequence[Everything]] = (
        Everything(10, small=math.nan),
        Everything(11, small=math.inf),
        Everything(12, small=-0.0),
    )

    def __init__(self, request: Any, folder: Path) -> None:
        self.server = request.getfixturevalue("postgres")
        self.dsn = self.server.database()

    def output(self, **properties: Any) -> Any:
        return PostgresOutput(**{"dsn": self.dsn, "table": "items", **properties})

    def source(self, **properties: Any) -> Any:
        return PostgresInput(**{"dsn": self.dsn, "table": "items", "lag": 0.0, **properties})

    def connect(self) -> Any:
        return psycopg.connect(self.dsn)

    def execute(self, *statements: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


class OnMariaDb(Sql):
    absent = pymysql.err.ProgrammingError
    kinds: ClassVar[dict[str, str]] = {**Sql.kinds, "string": "varchar(99) character set utf8mb4"}
    identity = "bigint auto_increment primary key"
    quote = "`"
    takes_nan = False
    sink = MariaDbSink
    hostile: ClassVar[Sequence[Everything]] = (Everything(10, text="\\0 \0"),)

    def __init__(self, request: Any, folder: Path) -> None:
        self.server = request.getfixturevalue("mariadb")
        self.url = self.server.database()

    def output(self, **properties: Any) -> Any:
        return MariaDbOutput(**{"url": self.url, "table": "items", **properties})

    def source(self, **properties: Any) -> Any:
        return MariaDbInput(**{"url": self.url, "table": "items", "lag": 0.0, **properties})

    def connect(self, *, autocommit: bool = False) -> Any:
        at = urlsplit(self.url)
        given = {"host": at.hostname, "port": at.port, "user": at.username, "database": at.path.strip("/")}
        return pymysql.connect(**given, charset="utf8mb4", autocommit=autocommit)

    def execute(self, *statements: str) -> list[Any]:
        with closing(self.connect(autocommit=True)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def holds(self, row: Everything) -> tuple[Any, ...]:
        at = row.at and row.at.replace(tzinfo=None)
        took = row.took and row.took // dt.timedelta(microseconds=1)
        parts = None if row.parts is None else str(row.parts)
        return tuple(row._replace(at=at, took=took, parts=parts))  # type: ignore[arg-type]


class InSqlite(Sql):
    absent = sqlite3.OperationalError
    takes_nan = False
    converts = True
    sink = SqliteSink

    def output(self, **properties: Any) -> Any:
        return SqliteOutput(**{"path": self.place, "table": "items", **properties})

    def source(self, **properties: Any) -> Any:
        return SqliteInput(**{"path": self.place, "table": "items", **properties})

    def execute(self, *statements: str) -> list[Any]:
        with closing(sqlite3.connect(self.place, isolation_level=None)) as connection:
            return [connection.execute(statement).fetchall() for statement in statements][-1]


class InDuckDb(Sql):
    absent = duckdb.Error
    refuses = False
    sink = DuckDbSink

    def output(self, **properties: Any) -> Any:
        return DuckDbOutput(**{"path": self.place, "table": "items", **properties})

    def source(self, **properties: Any) -> Any:
        return DuckDbInput(**{"path": self.place, "table": "items", **properties})

    def execute(self, *statements: str) -> list[Any]:
        with duckdb.connect(str(self.place)) as connection:
            return [connection.execute(statement).fetchall() for statement in statements][-1]


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
        self.catalog: dict[str, Any] = {
            "type": "sql",
            "uri": f"sqlite:///{self.place}/catalog.db",
            "warehouse": f"file://{self.place}",
        }

    def output(self, **properties: Any) -> Any:
        given = {"table": "shop.items", "catalog": "shop", "properties": self.catalog, **properties}
        return IcebergOutput(**given)

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


SERVERS = [
    pytest.param(OnPostgres, marks=pytest.mark.server),
    pytest.param(OnMariaDb, marks=[pytest.mark.server, pytest.mark.slow]),
]
FILES = [InSqlite, InDuckDb]
DATABASES = [*SERVERS, *FILES]
LAKES = [InDelta, InIceberg]
STORES = [*DATABASES, *LAKES]
