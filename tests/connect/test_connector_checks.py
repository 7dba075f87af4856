"""The conformance tests of outputs: they hold for a right connector, and find the faults of wrong ones."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ridgeline.connect import Batch, Mark, PartitionedOutput, Sink, SinkContext, UnwritableError
from ridgeline.testing import ConnectorRow, ConnectorTarget, connector_checks


class TableSink(Sink):
    """Appends to a table of SQLite; `wrong`: how the author has erred."""

    first_retry_seconds = 0.01

    def __init__(self, path: str, wrong: str) -> None:
        self.path, self.wrong = path, wrong

    def place(self) -> str:
        return f"table of {self.path}"

    def open(self, context: SinkContext) -> None:
        self.context = context
        self.connection = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        self.connection.execute("create table if not exists rows (id int, key int, text text, value real)")
        self.connection.execute("create table if not exists marks (name text primary key, w int, epoch int)")

    def mark(self) -> Mark | None:
        query = "select w, epoch from marks where name = ?"
        found = self.connection.execute(query, (self.context.mark_name,)).fetchone()
        return None if found is None or self.wrong.startswith("no mark") else Mark(*found)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        if self.wrong.endswith("slow"):
            threading.Event().wait(0.1)
        self.connection.execute("begin immediate")
        try:
            found = None if self.wrong == "not compared" else self.mark()
            for batch in self.context.unwritten(batches, found):
                self._insert(batch)
                if self.wrong == "not one transaction":
                    self.connection.execute("commit")
                    self.connection.execute("begin immediate")
            self.connection.execute(
                "insert or replace into marks values (?, ?, ?)", (self.context.mark_name, *mark)
            )
            self.connection.execute("commit")
        except BaseException:
            self.connection.execute("rollback")
            raise

    def _insert(self, batch: Batch) -> None:
        for row in batch.data.to_pylist():
            if row["id"] < 0:
                if not self.context.skips:
                    raise UnwritableError(
                        self.context.operator, batch.window, str(row), "`id` is negative", "leave it out"
                    )
                self.context.refused(batch, str(row), "`id` is negative")
                continue
            if self.wrong == "loses" and row["id"] == 13:
                continue
            self.connection.execute("insert into rows values (?, ?, ?, ?)", tuple(row.values()))

    def close(self) -> None:
        self.connection.close()


class TableOutput(PartitionedOutput):
    path: str
    wrong: str = ""

    def sink(self) -> Sink:
        return TableSink(self.path, self.wrong)


class Table(ConnectorTarget):
    count = 0

    def __init__(self, folder: Path, wrong: str = "") -> None:
        Table.count += 1
        self.path, self.wrong = folder / f"{Table.count}.db", wrong

    def output(self) -> PartitionedOutput:
        return TableOutput(path=str(self.path), wrong=self.wrong)

    def rows(self) -> Sequence[Any]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute("select * from rows").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    def poison(self) -> ConnectorRow | None:
        return ConnectorRow(-1, 0, None, 0.0)


def test_a_right_connector_is_shown_to_be_exactly_once(tmp_path: Path) -> None:
    report = connector_checks(lambda: Table(tmp_path))
    assert report.guarantee == "exactly once"
    assert len(report.outcomes) > 40


@pytest.mark.parametrize(
    ("wrong", "only", "what"),
    [
        ("no mark", ["driver killed, write: after"], "is older than the checkpoint"),
        ("no mark, slow", ["driver killed, write: after"], "is older than the checkpoint"),
        ("not compared", ["overtaken"], "at least once"),
        ("not one transaction", ["driver killed, write: in"], "at least once"),
        ("loses", ["2 partitions"], "1 rows are missing, such as (13,"),
    ],
)
def test_a_wrong_connector_is_found(tmp_path: Path, wrong: str, only: list[str], what: str) -> None:
    with pytest.raises(AssertionError) as raised:
        connector_checks(lambda: Table(tmp_path, wrong), only=only)
    assert what in str(raised.value)
