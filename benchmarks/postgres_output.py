"""Rows into a table of PostgreSQL, beside bare loops of COPY: `python -m benchmarks.postgres_output`.

In process, against a real server that it starts. `write_row`: Python tuples, as an author would write it.
`encoded`: batches as CSV in one thread, which `PostgresOutput` does in partitions.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable

import psycopg
import pyarrow as pa

from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.connectors.postgres import PostgresOutput
from ridgeline.connectors.postgres.tables import copy_text
from ridgeline.testing import run_local, services

SCHEMA = pa.schema(
    [("id", pa.int64()), ("symbol", pa.string()), ("price", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
)
BATCH_ROWS = 50_000


def batch_of(number: int) -> pa.RecordBatch:
    """The rows of a window."""
    ids = range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"symbol {one % 1000}" for one in ids]),
        pa.array([one / 7 for one in ids]),
        pa.array(ids, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


BATCHES: list[pa.RecordBatch] = []
"""The windows, made before the clock runs."""


class Generate(InputOperator):
    """A batch a window."""

    output = OutputPort(SCHEMA)
    position = State(0)

    def emit_tuples(self) -> None:
        """Emit the next batch."""
        self.output.emit_batch(BATCHES[self.position])
        self.position += 1
        if self.position == len(BATCHES):
            self.finish()


def ours(dsn: str, partitions: int) -> None:
    """The application: segments, commits, one transaction a window and its mark."""
    app = Application("rows")
    rows = app.add_operator("rows", Generate())
    table = app.add_operator("table", PostgresOutput(dsn=dsn, table="ours"), partitions=partitions)
    app.add_stream("rows", rows.output, table.input)
    with tempfile.TemporaryDirectory() as folder:
        run_local(app, checkpoint=folder)


def write_row(dsn: str) -> None:
    """Tuple by tuple, a transaction for each batch."""
    with psycopg.connect(dsn) as connection:
        for batch in BATCHES:
            columns = [column.to_pylist() for column in batch]
            with connection.cursor() as cursor, cursor.copy("copy bare from stdin") as copy:
                for row in zip(*columns, strict=True):
                    copy.write_row(row)
            connection.commit()


def encoded(dsn: str) -> None:
    """A batch as text, a transaction for each."""
    with psycopg.connect(dsn) as connection:
        for batch in BATCHES:
            with connection.cursor() as cursor, cursor.copy("copy bare from stdin (format csv)") as copy:
                copy.write(copy_text(batch))
            connection.commit()


def main(windows: int = 20, rounds: int = 3) -> None:
    """Print rows a second of each, by turns."""
    BATCHES.extend(map(batch_of, range(windows)))
    table = "(id bigint, symbol text, price double precision, at timestamptz)"
    rates: dict[str, list[float]] = {}
    with services.postgres() as server:
        server.execute(f"create table bare {table}")
        contestants: dict[str, Callable[[], None]] = {
            "write_row": lambda: write_row(server.dsn),
            "encoded": lambda: encoded(server.dsn),
            "PostgresOutput, 1 partition": lambda: ours(server.dsn, 1),
            "PostgresOutput, 2 partitions": lambda: ours(server.dsn, 2),
        }
        for _ in range(rounds):
            for name, run in contestants.items():
                server.execute("truncate bare; drop table if exists ours; checkpoint")
                began = time.perf_counter()
                run()
                rates.setdefault(name, []).append(windows * BATCH_ROWS / (time.perf_counter() - began))
                found = int(server.execute("select count(*) from bare"))
                if name.startswith("Postgres"):
                    found = int(server.execute("select count(*) from ours"))
                assert found == windows * BATCH_ROWS, name
    for name, each in rates.items():
        sys.stdout.write(f"{name:<30} {max(each):>12,.0f} rows/s of {[round(one) for one in each]}\n")


if __name__ == "__main__":
    main()
