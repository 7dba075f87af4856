"""The base of output connectors: what is at the other side, when, and what a restart makes of it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import FencedError
from ridgeline.connect import (
    Batch,
    Mark,
    PartitionedOutput,
    Sink,
    SinkContext,
    SinkUnavailableError,
    partitioned_output,
    shipper,
    sink_publisher,
)
from ridgeline.connect.output_files import Segment, SegmentStore
from ridgeline.connect.shipper import Shipper
from ridgeline.testing import END_WINDOW, Faults, ListInput, run_local
from support.testing.shares import share
from support.waiting import wait_until


class Number(NamedTuple):
    n: int


class TableSink(Sink):
    """Appends to a table of SQLite, with the mark in the same transaction."""

    first_retry_seconds = 0.01

    def __init__(self, path: str) -> None:
        self.path = path

    def place(self) -> str:
        return f"table of {self.path}"

    def open(self, context: SinkContext) -> None:
        self.context = context
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("create table if not exists rows (n int)")
        self.connection.execute("create table if not exists marks (name text primary key, w int, epoch int)")

    def mark(self) -> Mark | None:
        query = "select w, epoch from marks where name = ?"
        found = self.connection.execute(query, (self.context.mark_name,)).fetchone()
        return None if found is None else Mark(*found)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        self.connection.execute("begin immediate")
        try:
            for batch in self.context.unwritten(batches, self.mark()):
                values = batch.data.column("n").to_pylist()
                self.connection.executemany("insert into rows values (?)", [(value,) for value in values])
            row = (self.context.mark_name, *mark)
            self.connection.execute("insert or replace into marks values (?, ?, ?)", row)
            self.connection.execute("commit")
        except BaseException:
            self.connection.execute("rollback")
            raise

    def close(self) -> None:
        self.connection.close()


class TableOutput(PartitionedOutput):
    path: str

    def sink(self) -> Sink:
        return TableSink(self.path)


def application(output: PartitionedOutput, numbers: Sequence[Any], **attributes: Any) -> Application:
    app = Application("numbers")
    source = app.add_operator("source", ListInput(Number, numbers))
    sink = app.add_operator("out", output, **attributes)
    app.add_stream("numbers", source.output, sink.input)
    return app


def rows(path: Path) -> list[int]:
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute("select n from rows order by rowid")]


def windows(count: int, each: int = 3) -> list[Any]:
    found: list[Any] = []
    for window in range(count):
        found += [*((window * each + number,) for number in range(each)), END_WINDOW]
    return found


def test_a_run_continues_and_another_appends(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    output = TableOutput(path=str(table))
    run_local(application(output, windows(5)), checkpoint=tmp_path / "one", windows=2)
    assert rows(table) == list(range(6))
    run_local(application(output, windows(5)), checkpoint=tmp_path / "one")
    assert rows(table) == list(range(15))
    run_local(application(output, windows(1)), checkpoint=tmp_path / "two")
    assert rows(table) == [*range(15), 0, 1, 2]


def test_segments_are_deleted_once_they_are_written(tmp_path: Path) -> None:
    app = application(TableOutput(path=str(tmp_path / "table.db")), windows(5), partitions=2)
    run_local(app, checkpoint=tmp_path / "checkpoint")
    assert [file.name for file in (tmp_path / "checkpoint" / "staging" / "out").iterdir()] == ["written-4"]


class Gone(TableSink):
    """Is away for a number of attempts, and for seconds of the run's clock.

    `torn`: it commits, and then the connection is lost.
    """

    most_retry_seconds = 0.05
    asked_at: float | None = None

    def __init__(self, path: str, tries: list[int], torn: list[int], seconds: float) -> None:
        super().__init__(path)
        self.tries, self.torn, self.seconds = tries, torn, seconds

    def open(self, context: SinkContext) -> None:
        now = context.clock.wall()
        self.asked_at = now if self.asked_at is None else self.asked_at
        self.tries[0] -= 1
        if self.tries[0] >= 0 or now < self.asked_at + self.seconds:
            raise SinkUnavailableError("connection to postgresql://ann:hunter2@db refused")
        super().open(context)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        super().write(batches, mark)
        if self.torn[0] > 0:
            self.torn[0] -= 1
            raise ConnectionError("the connection was lost")


class GoneOutput(TableOutput):
    tries: list[int]
    torn: list[int]
    seconds: float = 0.0

    def sink(self) -> Sink:
        return Gone(self.path, self.tries, self.torn, self.seconds)


class Preparing(Gone):
    """Inserts rows while their commit is under way, in a transaction that `write` commits.

    `prepared`: how often it has, `torn_early`: so often the connection is lost then.
    """

    prepares = True
    torn_early, prepared, written = 2, 0, 0
    open_: Mark | None = None

    def open(self, context: SinkContext) -> None:
        super().open(context)
        self.connection.close()
        self.connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def prepare(self, batches: Sequence[Batch], mark: Mark) -> None:
        assert self.open_ is None
        self.connection.execute("begin immediate")
        self.open_ = mark
        for batch in self.context.unwritten(batches, self.mark()):
            values = batch.data.column("n").to_pylist()
            self.connection.executemany("insert into rows values (?)", [(value,) for value in values])
        row = (self.context.mark_name, *mark)
        self.connection.execute("insert or replace into marks values (?, ?, ?)", row)
        self.prepared += 1
        if self.torn_early:
            self.torn_early -= 1
            raise ConnectionError("the connection was lost")

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        self.written += 1
        if self.open_ is None:
            super().write(batches, mark)
            return
        assert self.open_ == mark
        assert batches[-1].window == mark.window
        self.connection.execute("commit")
        self.open_ = None

    def close(self) -> None:
        self.open_ = None
        super().close()


class PreparingOutput(GoneOutput):
    def sink(self) -> Sink:
        return Preparing(self.path, self.tries, self.torn, self.seconds)


KEPT = {
    "in the commit": {},
    "in files": {"_SMALL_BYTES": 0, "_SMALL_EACH": 0},
    "in files of several": {"_MOST_SMALL": 4000},
}
"""Where the segments are that wait, and the limits with which they are there."""


@pytest.mark.parametrize(
    ("kept", "partitions", "kind"), share(2, KEPT, [1, 2, 3, 5], [GoneOutput, PreparingOutput])
)
def test_rows_arrive_once_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, kept: str, kind: type[GoneOutput]
) -> None:
    for name, limit in KEPT[kept].items():
        module = sink_publisher if name == "_MOST_SMALL" else partitioned_output
        monkeypatch.setattr(module, name, limit)
    table = tmp_path / "table.db"
    output = kind(path=str(table), tries=[3], torn=[2])
    app = application(output, windows(20), partitions=partitions)
    faults = Faults(seed=partitions, rate=0.3, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    run_local(app, checkpoint=tmp_path / "checkpoint", faults=faults)
    assert faults.struck
    assert sorted(rows(table)) == list(range(60))
    if partitions == 1:
        assert rows(table) == list(range(60))


@pytest.mark.parametrize(("count", "files"), [(2, 0), (200, 9)])
def test_small_segments_that_wait_are_in_the_commit_or_a_few_files(
    tmp_path: Path, count: int, files: int
) -> None:
    table, checkpoint = tmp_path / "table.db", tmp_path / "checkpoint"
    output = GoneOutput(path=str(table), tries=[10**9], torn=[0], drain_seconds=0.0)
    with pytest.raises(RidgelineError, match=rf"{count} windows of {3 * count} rows wait"):
        run_local(application(output, windows(count)), checkpoint=checkpoint)
    found = list((checkpoint / "staging" / "out").glob("*.segment"))
    assert bool(found) == bool(files)
    assert len(found) <= files
    run_local(application(TableOutput(path=str(table)), windows(count)), checkpoint=checkpoint)
    assert rows(table) == list(range(3 * count))
    assert not list((checkpoint / "staging" / "out").glob("*.segment"))


def test_a_damaged_file_of_several_segments_is_named(tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table.db", tmp_path / "checkpoint"
    output = GoneOutput(path=str(table), tries=[10**9], torn=[0], drain_seconds=0.0)
    with pytest.raises(RidgelineError, match="200 windows"):
        run_local(application(output, windows(200)), checkpoint=checkpoint)
    file = min((checkpoint / "staging" / "out").glob("*.segment"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(RidgelineError, match=rf"{file.name}`, committed rows of window .*restore the file"):
        run_local(application(TableOutput(path=str(table)), windows(200)), checkpoint=checkpoint)


def test_a_server_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    app = application(GoneOutput(path=str(table), tries=[5], torn=[0], seconds=3.0), windows(20))
    run = run_local(app, checkpoint=tmp_path / "checkpoint")
    assert rows(table) == list(range(60))
    said = [event.text for event in run.events if hasattr(event, "text")]
    assert any("`out`: stuck: table of" in text and "attempts" in text for text in said)
    assert any("takes rows again" in text for text in said)
    assert not any("hunter2" in text for text in said)


class Silent(TableSink):
    """Its third write takes 15 seconds of the run's clock."""

    writes = 0

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        self.writes += 1
        began = self.context.clock.wall()
        while self.writes == 3 and self.context.clock.wall() < began + 15:
            time.sleep(0.001)
        super().write(batches, mark)


class SilentOutput(PartitionedOutput):
    path: str

    def sink(self) -> Sink:
        return Silent(self.path)


def test_a_server_that_does_not_answer_is_said(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    run = run_local(
        application(SilentOutput(path=str(table)), windows(60)), checkpoint=tmp_path / "checkpoint"
    )
    assert rows(table) == list(range(180))
    said = [event.text for event in run.events if hasattr(event, "text")]
    assert any("`out`: stuck: table of" in text and "has not answered since" in text for text in said)
    assert any("takes rows again" in text for text in said)


def test_a_commit_in_doubt_is_asked_for(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    app = application(GoneOutput(path=str(table), tries=[0], torn=[3]), windows(20))
    run_local(app, checkpoint=tmp_path / "checkpoint")
    assert rows(table) == list(range(60))


def test_what_is_not_written_at_the_end_is_written_at_the_next_start(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    output = GoneOutput(path=str(table), tries=[10**9], torn=[0], drain_seconds=0.05)
    with pytest.raises(RidgelineError, match=r"3 windows of 9 rows wait .* nothing is lost; start it again"):
        run_local(application(output, windows(3)), checkpoint=tmp_path / "checkpoint")
    run_local(application(TableOutput(path=str(table)), windows(3)), checkpoint=tmp_path / "checkpoint")
    assert rows(table) == list(range(9))


def test_no_window_begins_while_as_much_waits_as_may(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    output = GoneOutput(path=str(table), tries=[8], torn=[0], max_pending_bytes=2000)
    run = run_local(application(output, windows(20)), checkpoint=tmp_path / "checkpoint")
    assert rows(table) == list(range(60))
    said = [event.text for event in run.events if hasattr(event, "text")]
    assert any("no window begins: `out`: stuck:" in text for text in said)
    assert "windows begin again" in said


def test_a_rewind_past_rows_that_stay_is_refused(tmp_path: Path) -> None:
    output = TableOutput(path=str(tmp_path / "table.db"))
    run_local(application(output, windows(5)), checkpoint=tmp_path / "checkpoint")
    with pytest.raises(RidgelineError, match=r"cannot take back .* to table of .*; rewind to window 4 or l"):
        run_local(application(output, windows(5)), checkpoint=tmp_path / "checkpoint", from_window=2)


def test_a_later_driver_fences_an_earlier_one(tmp_path: Path) -> None:
    context = SinkContext(
        application="a",
        operator="out",
        run_id="r",
        mark_name="a/out/r",
        epoch=1,
        clock=None,  # type: ignore[arg-type]
        schema=None,
        skips=False,
        refused=lambda *_: None,
    )
    with pytest.raises(FencedError, match="driver 2 has written the mark"):
        context.unwritten((), Mark(3, 2))


class Hung(TableSink):
    """Its second write hangs until it is free."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.reached, self.free = threading.Event(), threading.Event()

    def open(self, context: SinkContext) -> None:
        super().open(context)
        self.connection.close()
        self.connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        if batches[0].window == 1:
            self.reached.set()
            self.free.wait()
        super().write(batches, mark)


def shipping(run: str, committed: int) -> tuple[list[Segment], Callable[[Sink, int], Shipper]]:
    """The segments of four windows of a row, and what begins the thread that writes them."""
    store = SegmentStore("memory:", run)
    store.prepare("out")
    segments = []
    for window in range(4):
        table, name = pa.table({"n": [window]}), f"out/w{window}.segment"
        segments.append(Segment(window, 0, name, 1, *store.write(name, table, table.schema)))
    context = SinkContext(
        application="a",
        operator="out",
        run_id="r",
        mark_name="a/out/r",
        epoch=1,
        clock=SystemClock(),
        schema=None,
        skips=False,
        refused=lambda *_: None,
    )

    def begin(sink: Sink, written: int) -> Shipper:
        made = Shipper(sink, context, store, lambda: None, written, committed, "out")
        made.start()
        return made

    return segments, begin


def preparing(table: Path) -> Preparing:
    """A sink that is there."""
    sink = Preparing(str(table), [0], [0], 0.0)
    sink.torn_early = 0
    return sink


def test_what_is_prepared_is_seen_with_its_commit_and_written_once(tmp_path: Path) -> None:
    segments, begin = shipping("prepared", committed=-1)
    table = tmp_path / "table.db"
    sink = preparing(table)
    thread = begin(sink, -1)
    thread.stage(0, segments[:2])
    thread.offer()
    wait_until(lambda: sink.prepared == 1, "the rows to be prepared")
    assert rows(table) == []
    thread.stage(2, segments[2:3])
    thread.release(2)  # a third window was committed meanwhile
    thread.drain(10)
    assert not thread.waiting
    assert rows(table) == [0, 1, 2]
    assert sink.written == 2
    thread.stage(3, segments[3:])
    thread.release(3)  # it was not offered
    thread.drain(10)
    assert not thread.waiting
    thread.stop()
    assert rows(table) == [0, 1, 2, 3]
    assert sink.prepared == 1


def test_what_is_prepared_and_never_committed_is_never_seen(tmp_path: Path) -> None:
    segments, begin = shipping("never", committed=-1)
    table = tmp_path / "table.db"
    sink = preparing(table)
    thread = begin(sink, -1)
    thread.stage(0, segments[:2])
    thread.offer()
    wait_until(lambda: sink.prepared == 1, "the rows to be prepared")
    thread.stop()
    assert rows(table) == []
    again = begin(preparing(table), -1)
    again.stage(0, segments)
    again.release(3)
    again.drain(10)
    assert not again.waiting
    again.stop()
    assert rows(table) == [0, 1, 2, 3]


def test_nothing_is_prepared_while_committed_windows_wait(tmp_path: Path) -> None:
    segments, begin = shipping("behind", committed=-1)
    table = tmp_path / "table.db"
    sink = preparing(table)
    sink.tries[0] = 3  # it is away at first
    thread = begin(sink, -1)
    thread.stage(0, segments[:1])
    thread.release(0)
    thread.stage(1, segments[1:])
    thread.offer()
    thread.release(3)
    thread.drain(10)
    assert not thread.waiting
    thread.stop()
    assert rows(table) == [0, 1, 2, 3]


def test_a_thread_that_hung_does_not_set_the_mark_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "_JOIN_SECONDS", 0.05)
    segments, begin = shipping("hung", committed=1)
    table = tmp_path / "table.db"
    hung = Hung(str(table))
    first = begin(hung, -1)
    first.stage(0, segments[:1])
    first.release(0)
    first.drain(10)
    assert not first.waiting
    first.stage(1, segments[1:2])
    first.release(1)
    assert hung.reached.wait(10)
    first.stop()
    second = begin(TableSink(str(table)), 0)
    second.stage(1, segments[1:])
    second.release(3)
    second.drain(10)
    assert not second.waiting
    second.stop()
    hung.free.set()
    first._thread.join(10)
    assert rows(table) == [0, 1, 2, 3]
    with sqlite3.connect(table) as connection:
        assert connection.execute("select w, epoch from marks").fetchall() == [(3, 1)]


class Halved(TableOutput):
    """Takes even numbers only."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if odd := [value for value in batch.column("n").to_pylist() if value % 2]:
            raise ValueError(f"{odd[0]} is odd; leave it out upstream")
        return batch


def test_a_row_that_cannot_be_encoded_is_named_or_left_out(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    with pytest.raises(RidgelineError, match="1 is odd; leave it out upstream"):
        run_local(application(Halved(path=str(table)), windows(2)), checkpoint=tmp_path / "fails")
    assert not table.exists() or rows(table) == []
    table.unlink(missing_ok=True)
    app = application(Halved(path=str(table)), windows(4), on_error=OnError.SKIP)
    run = run_local(app, checkpoint=tmp_path / "skips")
    assert rows(table) == list(range(0, 12, 2))
    assert run.errors("out") == 6
