"""Control tuples and rows of `object` in a durable queue: each once, in order, from folders of one's own."""

import contextlib
from typing import NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    ListState,
    Operator,
    OutputPort,
    RidgelineError,
    State,
)
from ridgeline.operators import QueueInput, QueueOutput
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.testing.shares import share


class Row(NamedTuple):
    key: int
    number: int


class Mark(NamedTuple):
    """A control tuple of a user's class."""

    name: str


class Rows(InputOperator):
    """Ten rows in two windows of three; every third window has none; control tuples before and after."""

    output = OutputPort(Row)
    windows: int = 12
    window = State(0)

    def emit_tuples(self):
        window = self.window
        self.window += 1
        if window % 2 == 0:
            self.output.emit_control(Mark(f"before {window}"))
        if window % 3:
            for number in range(window * 10, window * 10 + 10):
                self.output.emit(Row(number % 4, number))
        if window % 4 == 0:
            self.output.emit_control(Mark(f"after {window}"), at_end=True)
            self.output.emit_control(Mark(f"after {window} too"), at_end=True)
        if self.window == self.windows:
            self.finish()


class Pass(Operator):
    rows = InputPort(Row, key="key")
    passed = OutputPort(Row)

    @rows.process
    def on(self, row):
        self.passed.emit(row)


class Seen(NamedTuple):
    partition: int
    what: str


class Log(Operator):
    """Each partition says in which order it gets rows and control tuples."""

    rows = InputPort(Row, key="key")
    seen = OutputPort(Seen)
    lines = ListState(str, scope="window")

    @rows.control
    def mark(self, mark):
        self.lines.append(mark.name)

    @rows.process
    def on(self, row):
        self.lines.append(str(row.number))

    def end_window(self):
        for line in self.lines:
            self.seen.emit(Seen(self.context.partition, line))


def writer(path, partitions=1):
    app = Application("shop")
    divided = app.read("source", Rows()).process("divide", Pass(), partitions=partitions)
    divided.write("queue", QueueOutput(path=path))
    return app


def log_of(app, stream):
    stream.process("log", Log(), partitions=2).write("sink", CollectorSink(Seen))
    return app


def reader(path, partitions=1):
    app = Application("board")
    return log_of(app, app.read("queue", QueueInput(path=path, schema=Row), partitions=partitions))


def by_partition(found):
    """What each partition of the log has seen, rows between two control tuples without their order."""
    lists = {0: [set()], 1: [set()]}
    for partition, what in found:
        if what.isdigit():
            lists[partition][-1].add(int(what))
        else:
            lists[partition] += [what, set()]
    return lists


@pytest.fixture(scope="module")
def plain():
    app = Application("plain")
    return by_partition(run_local(log_of(app, app.read("source", Rows()))).collected("sink"))


@pytest.mark.parametrize(
    ("written_by", "read_by"), [(1, 1), (1, 3), (2, 2), (2, 5), (3, 1), (3, 5), (5, 2), (5, 3)]
)
def test_control_tuples_come_once_before_or_after_their_windows_rows(tmp_path, plain, written_by, read_by):
    run_local(writer(tmp_path, written_by))

    assert by_partition(run_local(reader(tmp_path, read_by)).collected("sink")) == plain


# `object` ---------------------------------------------------------------------------------------------------


class Thing:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Thing) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __lt__(self, other):
        return self.value < other.value


THINGS = [Thing(number) for number in range(20)]


def things(path):
    app = Application("shop")
    app.read("source", ListInput(object, THINGS)).write("queue", QueueOutput(path=path))
    return app


def read_things(path):
    app = Application("board")
    app.read("queue", QueueInput(path=path)).write("sink", CollectorSink(object))
    return run_local(app).collected("sink")


# Where others can write -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "what"),
    share(2, [".", "segments", "log", "segments/*", "log/*"], ["rows of `object`", "control tuples"]),
)
def test_a_reader_takes_no_pickles_from_where_others_can_write(tmp_path, what, where):
    path = tmp_path / "queue"
    run_local(things(path) if what.startswith("rows") else writer(path))
    for found in path.glob(where) if where != "." else [path]:
        found.chmod(0o666 if found.is_file() else 0o777)
    relevant = "segments" if what.startswith("rows") else "log"
    harmless = where.endswith("*") and not where.startswith(relevant)

    with (
        contextlib.nullcontext()
        if harmless
        else pytest.raises(RidgelineError, match=f"with {what} is refused")
    ):
        read_things(path) if what.startswith("rows") else run_local(reader(path))
