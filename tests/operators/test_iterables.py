"""Items of Python, standard input and sockets: each row once, whatever fails."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ridgeline import Application, RidgelineError, SchemaError
from ridgeline.api.clock import SystemClock
from ridgeline.connect import SourceContext
from ridgeline.operators import IterableInput, Line, SocketInput, from_frame, from_iterable
from ridgeline.operators._staged_source import RowStore, StagedSource, Streams
from ridgeline.plan.edits import Repartition
from ridgeline.testing import CollectorSink, Faults, run_local
from support.testing.shares import share


class Number(NamedTuple):
    value: int


NUMBERS = [Number(value) for value in range(500)]


def function() -> Iterator[Number]:
    yield from NUMBERS


async def async_function() -> AsyncIterator[Number]:
    for number in NUMBERS:
        yield number


def application(source: Any, kind: Any = Number, partitions: int = 1) -> Application:
    app = Application("items", window="50ms")
    app.read("source", source, partitions=partitions).write("sink", CollectorSink(kind))
    return app


@pytest.mark.parametrize(
    ("seed", "items"),
    share(
        2,
        [None, 1, 2],
        [
            lambda: NUMBERS,
            lambda: [(number.value,) for number in NUMBERS],
            lambda: function,
            lambda: (number for number in NUMBERS),
            lambda: async_function,
            lambda: aiter(async_function()),
            lambda: iter(NUMBERS),
            lambda: map(Number, itertools.islice(itertools.count(), 500)),
        ],
    ),
)
def test_each_item_once_and_in_order(items: Callable[[], Any], seed: int | None, tmp_path: Path) -> None:
    app = application(from_iterable(items(), Number), partitions=2)
    faults = None if seed is None else Faults(seed=seed, rate=0.3, kinds=["exception", "kill", "repeat"])
    run = run_local(app, faults=faults, checkpoint=None if seed == 1 else tmp_path)
    assert run.collected("sink") == NUMBERS


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_frames(make: Callable[[Any], Any]) -> None:
    rows = [
        {"n": n, "text": f"t{n}", "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(n)} for n in range(100)
    ]
    frame = make({name: [row[name] for row in rows] for name in rows[0]})
    found = run_local(application(from_frame(frame, timestamp="at", lateness="1s"), Any)).collected("sink")
    assert found == rows


def test_the_index_of_pandas() -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["a", "b"], name="key"))
    assert run_local(application(from_frame(frame), Any)).collected("sink") == [
        {"n": 1, "key": "a"},
        {"n": 2, "key": "b"},
    ]
    with pytest.raises(SchemaError, match="takes a frame of pandas, polars or Arrow"):
        from_frame([1, 2])


@dataclass
class Price:
    cents: int

    def __post_init__(self) -> None:
        if self.cents < 0:
            raise ValueError(f"{self.cents} is no price")


def test_the_type_of_items() -> None:
    assert from_iterable(NUMBERS).output.schema.describe() == "Number(value: int64)"
    assert from_iterable(function).output.schema.describe() == "object"
    assert run_local(application(from_iterable([1, "a", None]), object)).collected("sink") == [1, "a", None]
    with pytest.raises(RidgelineError, match=r"(?s)source.*value"):
        run_local(application(from_iterable([("a",)], Number)))
    with pytest.raises(SchemaError, match=r"item \(\) has 0 values, but the list has tuples of Number"):
        run_local(application(from_iterable([()], Number)))
    with pytest.raises(RidgelineError, match=r"`source`: its items have failed: ValueError: -1 is no price"):
        run_local(application(from_iterable([(1,), (-1,)], Price), Price))


def until_told(count: int, told: threading.Event) -> Callable[[], Iterator[Number]]:
    """The numbers, of which those after so many wait."""

    def numbers() -> Iterator[Number]:
        yield from NUMBERS[:count]
        assert told.wait(60)
        yield from NUMBERS[count:]

    return numbers


def first_window(count: int, checkpoint: Path) -> list[Number]:
    told = threading.Event()
    app = application(from_iterable(until_told(count, told), Number))
    found = run_local(app, windows=1, checkpoint=checkpoint).collected("sink")
    told.set()
    return found


def test_a_restart_passes_over_what_was_processed(tmp_path: Path) -> None:
    first = first_window(250, tmp_path)
    assert 0 < len(first) < 500
    rest = run_local(application(from_iterable(function, Number)), checkpoint=tmp_path)
    assert first + rest.collected("sink") == NUMBERS


def test_items_that_are_taken_come_once_though_a_run_dies_before_its_first_commit(tmp_path: Path) -> None:
    """What is written to the checkpoint is processed, in order, before what comes later."""

    def mapped(items: Iterator[Number], change: Callable[[Number], Number]) -> Application:
        app = Application("items", window="50ms")
        numbers = app.read("source", from_iterable(items, Number))
        numbers.map("change", change, Number).write("sink", CollectorSink(Number))
        return app

    with pytest.raises(RidgelineError, match="ZeroDivisionError"):
        run_local(mapped(iter(NUMBERS), lambda number: Number(1 // 0)), checkpoint=tmp_path)
    found = run_local(mapped(iter([Number(-1)]), lambda number: number), checkpoint=tmp_path).collected(
        "sink"
    )
    assert len(found) > 1
    assert found == [*NUMBERS[: len(found) - 1], Number(-1)]


def test_fewer_items_than_before(tmp_path: Path) -> None:
    first_window(100, tmp_path)
    with pytest.raises(RidgelineError, match=r"`source`: the items have ended .* before the place"):
        run_local(application(from_iterable(NUMBERS[:7], Number)), checkpoint=tmp_path)


def test_rows_that_were_taken_are_there_after_a_full_disk_and_told_if_they_are_gone(tmp_path: Path) -> None:
    def source() -> StagedSource:
        tables = (pa.table({"value": list(range(first, first + 10))}) for first in (0, 10, 20))
        made = StagedSource(lambda _stop: tables, pa.table, keeps=True)
        made.open(SourceContext("items", "source", "run", SystemClock(), bool, print, str(tmp_path)))
        return made

    first = source()
    begin = first.start(first.partitions(), "earliest")["rows"]
    while not first.finished():
        end = first.ends(1.0)["rows"]
    first.stop()
    last = max(tmp_path.glob("inputs/*/*/*.rows"))
    position = {"rows": first.cut("rows", begin, end, 0.4)}
    second = source()
    with (
        mock.patch.object(RowStore, "add", side_effect=OSError(28, "full")),
        pytest.raises(OSError, match="full"),
    ):
        second.resume(position)
    second.resume(position)
    assert second.ends(1.0)["rows"][0] >= 30
    second.stop()
    shutil.rmtree(tmp_path / "inputs/source-run" / second.ends(0.0)["rows"][1])
    last.unlink()
    with pytest.raises(RidgelineError, match=r"`source`: rows 20 to 29, .* are gone.*; restore it"):
        source().resume(position)


def test_an_iterator_that_waits_holds_nothing_back() -> None:
    told = threading.Event()
    app = application(from_iterable(until_told(1, told), Number))
    assert run_local(app, windows=3, clock=SystemClock()).collected("sink") == NUMBERS[:1]
    told.set()


def test_an_iterator_that_fails() -> None:
    def numbers() -> Iterator[Number]:
        yield Number(1)
        yield Number(1 // 0)

    with pytest.raises(RidgelineError, match="`source`: its items have failed: ZeroDivisionError"):
        run_local(application(from_iterable(numbers, Number)))


def test_no_items_in_another_process() -> None:
    with pytest.raises(RidgelineError):
        run_local(application(IterableInput(token="gone")))


def test_a_place_to_begin_at_that_is_none_of_the_source() -> None:
    source = from_iterable(NUMBERS, Number)
    source.begin = {"elsewhere": 5}
    with pytest.raises(RidgelineError, match="a position of `elsewhere`, which the source does not have"):
        run_local(application(source))


def test_partitions_that_change() -> None:
    def numbers() -> Iterator[Number]:
        for number in NUMBERS:
            if number.value % 100 == 0:
                time.sleep(0.1)
            yield number

    app = application(from_iterable(numbers, Number), partitions=2)
    run = run_local(app, changes={1: [Repartition("source", 3)]}, clock=SystemClock())
    assert run.collected("sink") == NUMBERS


def test_lines_of_a_server(tmp_path: Path) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def serve() -> None:
        for number in range(3):
            connection, _ = server.accept()
            connection.sendall(f"a{number}\r\nb{number}\nö".encode())
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    app = application(SocketInput(port=port), Line)
    run = run_local(app, windows=40, clock=SystemClock(), checkpoint=tmp_path)
    thread.join()
    server.close()
    assert " ".join(line.text for line in run.collected("sink")) == "a0 b0 ö a1 b1 ö a2 b2 ö"


def test_lines_of_those_that_connect(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]

    def send() -> None:
        for number in range(5):
            for _ in range(600):
                try:
                    with socket.create_connection(("127.0.0.1", port)) as to:
                        to.sendall("".join(f"{number}-{line}\n" for line in range(100)).encode())
                        break
                except OSError:
                    time.sleep(0.05)

    app = application(SocketInput(port=port, listen=True), Line)
    thread = threading.Thread(target=send)
    thread.start()
    found = run_local(app, windows=60, clock=SystemClock(), checkpoint=tmp_path)
    run = [line.text for line in found.collected("sink")]
    thread.join()
    assert sorted(run) == sorted(f"{number}-{line}" for number in range(5) for line in range(100))


PROGRAM = """
from ridgeline import Application
from ridgeline.operators import Line, StdinInput
from ridgeline.testing import CollectorSink, run_local
app = Application("echo", window="50ms")
app.read("lines", StdinInput()).write("sink", CollectorSink(Line))
for line in run_local(app).collected("sink"):
    print(line.text)
"""


@pytest.mark.parametrize(
    ("piped", "text"), share(2, [False, True], ["", "a\nb\n", "ä\r\n\nlast", "x\n" * 20_000])
)
def test_standard_input(text: str, piped: bool, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(text.encode())
    command = [sys.executable, "-c", PROGRAM]
    with (tmp_path / "in").open("rb") as file:
        given: dict[str, Any] = {"input": text.encode()} if piped else {"stdin": file}
        done = subprocess.run(command, capture_output=True, check=False, timeout=60, **given)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == "".join(f"{line}\n" for line in text.replace("\r\n", "\n").splitlines())


def test_what_cannot_be_read_to_its_end_has_not_ended() -> None:
    streams = Streams()
    with Path("/proc/self/mem").open("rb", buffering=0) as file:
        streams.add(file.fileno())
        with pytest.raises(OSError, match="Input/output"):
            list(streams.received())
