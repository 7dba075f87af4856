"""The conformance tests of outputs: they hold for a right connector, and find the faults of wrong ones."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ridgeline import Publisher, PublisherContext
from ridgeline.connect import Batch, Mark, PartitionedOutput, Sink, SinkContext, UnwritableError
from ridgeline.connect.window_output import WindowOutput
from ridgeline.testing import ConnectorRow, ConnectorTarget, connector_checks


class TableSink(Sink):
    """Appends to a table of SQLite; `wrong`: how the author has erred."""

    first_retry_seconds = 0.01

    def __init__(self, path: str, wrong: str) -> None:
        self.path, self.wrong = path, wrong
        self.prepares = wrong == "prepares too much"

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

    def prepare(self, batches: Sequence[Batch], mark: Mark) -> None:
        self.write(batches, mark)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        if self.wrong.endswith("slow"):
            threading.Event().wait(0.1)
        if self.wrong == "loses the last part":
            batches = batches[:-1] or batches
        self.connection.execute("begin immediate")
        try:
            found = None if self.wrong == "not compared" else self.mark()
            if self.wrong == "mark first":
                self._set(mark)
                self._commit()
            for batch in self.context.unwritten(batches, found):
                self._insert(batch)
                if self.wrong == "not one transaction":
                    self._commit()
            if self.wrong == "mark afterwards":
                self._commit()
            self._set(mark)
            self.connection.execute("commit")
        except BaseException:
            self.connection.execute("rollback")
            raise

    def _commit(self) -> None:
        self.connection.execute("commit")
        self.connection.execute("begin immediate")

    def _set(self, mark: Mark) -> None:
        self.connection.execute(
            "insert or replace into marks values (?, ?, ?)", (self.context.mark_name, *mark)
        )

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

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.wrong == "in the container":
            connection = sqlite3.connect(self.path, timeout=30)
            with connection:
                rows = [tuple(row.values()) for row in batch.to_pylist()]
                connection.executemany("insert into rows values (?, ?, ?, ?)", rows)
            connection.close()
            return batch.slice(0, 0)
        return batch


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
    assert not [one.check for one in report.outcomes if one.skipped and "down" not in one.check]


@pytest.mark.parametrize(
    ("wrong", "only", "what"),
    [
        ("no mark", ["driver killed, write: after"], "is older than the checkpoint"),
        ("no mark, slow", ["driver killed, write: after"], "is older than the checkpoint"),
        ("not compared", ["overtaken"], "at least once"),
        ("not one transaction", ["driver killed, write: in"], "at least once"),
        ("loses", ["2 partitions"], "1 row of window 2 is missing, such as (13,"),
        ("loses the last part", ["2 partitions"], "are missing, such as"),
        ("mark afterwards", ["line by line"], "at least once"),
        ("mark first", ["line by line"], "are missing, such as"),
        ("prepares too much", ["before its commit"], "before the commit of window 0 row 0 was there"),
        ("in the container", ["before its commit"], "before the commit of window 0 row 0 was there"),
        ("in the container", ["container killed, encode: after"], "at least once"),
    ],
)
def test_a_wrong_connector_is_found(tmp_path: Path, wrong: str, only: list[str], what: str) -> None:
    with pytest.raises(AssertionError) as raised:
        connector_checks(lambda: Table(tmp_path, wrong), only=only)
    assert what in str(raised.value)


class LinesOutput(WindowOutput):
    """Lines of a file that its publisher appends to; `wrong`: how the author has erred."""

    path: str
    wrong: str

    def write(self, rows: pa.Table) -> None:
        self.context.hand_over(rows.to_pylist())

    def publisher(self) -> Publisher:
        return LinesPublisher(Path(self.path), self.wrong)


class LinesPublisher(Publisher):
    def __init__(self, path: Path, wrong: str) -> None:
        self.path, self.wrong = path, wrong

    def open(self, context: PublisherContext, state: Any) -> None:
        self.staged: Any = state or {"window": -1, "rows": []}

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        parts = values[:-1] or values if self.wrong == "loses the last part" else values
        self.staged = {"window": window_id, "rows": [row for part in parts for row in part]}
        if self.wrong == "publishes before the commit":
            self._append()
        return self.staged

    def publish(self, window_id: int) -> None:
        if self.wrong == "publishes before the commit":
            return
        done = self.path.with_suffix(".done")
        if self.wrong != "repeats" and done.exists() and int(done.read_text()) >= window_id:
            return
        self._append()
        done.write_text(str(window_id))

    def _append(self) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in self.staged["rows"])


class Lines(ConnectorTarget):
    count = 0

    def __init__(self, folder: Path, wrong: str) -> None:
        Lines.count += 1
        self.path, self.wrong = folder / f"{Lines.count}.jsonl", wrong

    def output(self) -> WindowOutput:
        return LinesOutput(path=str(self.path), wrong=self.wrong)

    def rows(self) -> Sequence[Any]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [tuple(json.loads(line).values()) for line in lines]


@pytest.mark.parametrize(
    ("wrong", "only", "what"),
    [
        ("publishes before the commit", ["before its commit"], "before the commit of window 0 row 0"),
        ("publishes before the commit", ["commit: before, time 2"], "at least once"),
        ("loses the last part", ["3 partitions"], "are missing, such as"),
        ("repeats", ["publish: after, time 2"], "at least once"),
    ],
)
def test_a_wrong_publisher_is_found(tmp_path: Path, wrong: str, only: list[str], what: str) -> None:
    with pytest.raises(AssertionError) as raised:
        connector_checks(lambda: Lines(tmp_path, wrong), only=only)
    assert what in str(raised.value)
