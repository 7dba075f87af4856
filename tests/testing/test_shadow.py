"""A version that runs beside another one sees what that one sees, says what differs, and leaves no trace."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from rich.console import Console

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    OnError,
    Operator,
    OutputPort,
    PushInput,
    Schema,
    State,
)
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.upkeep.copying import copy
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.operators import FileInput, FileOutput
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import StartExactRecording, StopRecording
from ridgeline.testing import SteppingClock
from ridgeline.testing.matching import Tolerance
from ridgeline.testing.run_local import InProcessRun, finished
from ridgeline.testing.shadow.beside import Beside, Job, Progress
from ridgeline.testing.shadow.judging import judge
from ridgeline.testing.shadow.moved_classes import moved_batch
from ridgeline.testing.shadow.recorded import ExactWindows
from ridgeline.testing.shadow.standing_in import stand_in

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    key: int
    n: int
    time: datetime


class Out(NamedTuple):
    key: int
    total: float
    watermark: datetime
    told: int


class Events(InputOperator):
    """Events that come out of order, each with its time; a control tuple in every third window."""

    output = OutputPort(Event)
    pos = State(0)

    def timestamp_of(self, port: str) -> str:
        return "time"

    def lateness_of(self, port: str) -> float:
        return 2.0

    def emit_tuples(self) -> None:
        for n in range(self.pos, self.pos + 12):
            if n % self.context.partitions == self.context.partition:
                self.output.emit(Event(n % 5, n, START + timedelta(seconds=n ^ 3)))
        self.pos += 12
        if self.context.window_id % 3 == 0:
            self.output.emit_control(self.context.window_id)


class Pushed(PushInput):
    """Anything picklable, from a thread of its own: nobody can read it twice."""

    output = OutputPort(object)
    taken = State(0)

    def setup(self, context: Any) -> None:
        self.queue: Queue[int] = Queue(3)
        Thread(target=self._push, daemon=True).start()

    def _push(self) -> None:
        for n in range(1_000_000):
            self.queue.put(n)
            self.wake()

    def emit_tuples(self) -> None:
        try:
            self.output.emit({"n": self.queue.get_nowait(), "at": self.context.window_id})
        except Empty:
            pass
        else:
            self.taken += 1


class Sums(Operator):
    data = InputPort(Event, key="key")
    more = InputPort(object)
    output = OutputPort(Out)
    sums = KeyedState(float, key=int)
    told = State(0, moves=lambda values, partitions: [max(values)] * partitions)
    extra: float = 0.0
    drifts: bool = False

    @data.process
    def add(self, event: Event) -> None:
        total = self.sums.get(event.key, 0.0) + event.n / 7 + self.extra * (event.n == 90)
        self.sums[event.key] = total
        chance = id(object()) if self.drifts else 0
        self.output.emit(Out(event.key, total + chance, self.context.watermark, self.told))

    @data.control
    def tell(self, value: int) -> None:
        self.told = value

    @more.process
    def look(self, value: dict[str, int]) -> None:
        if self.context.partition == 0:  # all partitions get it
            self.output.emit(Out(-1, float(value["n"]), self.context.watermark, value["at"]))


class WritesItself(Operator):
    """An output without a publisher: it writes at once."""

    data = InputPort(Out)
    path: str

    @data.process
    def write(self, out: Out) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{out}\n")


def sums_app(folder: Path, partitions: int = 1, **properties: Any) -> Application:
    app = Application("sums", window="50ms")
    events = app.add_operator("events", Events(), partitions=2)
    pushed = app.add_operator("pushed", Pushed())
    sums = app.add_operator("sums", Sums(**properties), partitions=partitions)
    store = app.add_operator("store", FileOutput(path=str(folder / "out"), format="jsonl", roll_seconds=0))
    own = app.add_operator("own", WritesItself(path=str(folder / "own.txt")))
    app.add_stream("events", events.output, sums.data)
    app.add_stream("pushed", pushed.output, sums.more)
    app.add_stream("sums", sums.output, store.input, own.data)
    return app


def planner(
    app: Application, change: Callable[[Any], Any] = lambda plan: plan, drop: tuple[str, ...] = ()
) -> Planner:
    def make(_values: Any, kept: Any, edits: Any) -> Any:
        return change(plan_application(app, kept=kept, edits=edits))

    return Planner(make, {}, resume={"drop_state": drop})


def record(
    app: Application,
    folder: Path,
    seed: int | None = None,
    windows: int = 9,
    limit_bytes: int = 2**30,
    enough: Callable[[], bool] = lambda: True,
) -> str:
    """Run an application, record some of its windows exactly, and copy its checkpoint meanwhile.

    `enough` is asked once the copy is there.
    """
    state = str(folder / "state")
    run = InProcessRun(planner(app), LocalStorage(state), SteppingClock(), Console(), None, None, seed, {})
    asked: dict[str, Any] = {}

    def look(_result: Any) -> bool:
        assert run.current is not None
        if run.current.master.committed >= 3 and not asked:
            asked["it"] = run.current.changes.ask(StartExactRecording(10_000, limit_bytes), "test")
        elif asked and asked["it"].window is not None:
            begun, committed = asked["it"].window, run.current.master.committed
            if committed >= begun and "copied" not in asked:
                copy(state, str(folder / "copy"), without=("recordings",))
                asked["copied"] = True
            if committed >= begun + windows and "stop" not in asked and enough():
                asked["stop"] = run.current.changes.ask(StopRecording(asked["it"].result), "test")
            return "stop" in asked and asked["stop"].done.is_set() and committed >= begun + windows + 6
        return False

    run.until = look
    finished(run.steps(app.name, None, capture=False))
    assert (asked["it"].state, asked["stop"].state) in {("APPLIED", "APPLIED"), ("APPLIED", "REFUSED")}
    return str(asked["it"].result)


def beside(
    app: Application, folder: Path, recording: str, drop: tuple[str, ...] = (), **more: Any
) -> Progress:
    """Run a version beside what was recorded."""
    place = folder / "beside"
    place.mkdir(exist_ok=True)
    copy(str(folder / "copy"), str(place / "state"))
    job = Job(str(place), str(place / "state"), str(folder / "state"), recording, str(place), **more)
    Beside(job, app.name, lambda stage: planner(app, lambda plan: stand_in(plan, stage), drop)).run()
    return Progress.read(str(place))


def written(folder: Path) -> list[tuple[str, int]]:
    return [(str(file), file.stat().st_size) for file in sorted(folder.rglob("*")) if file.is_file()]


@pytest.mark.parametrize("seed", [None, 1])
def test_the_same_version_makes_the_same_rows_and_leaves_no_trace(tmp_path: Path, seed: int | None) -> None:
    recording = record(sums_app(tmp_path), tmp_path, seed)
    before = written(tmp_path / "state"), written(tmp_path / "out"), (tmp_path / "own.txt").read_text()
    found = beside(sums_app(tmp_path, partitions=3), tmp_path, recording)
    assert (found.error, found.over, found.missing, found.new) == ("", True, [], {})
    assert found.windows >= 8
    for name in ("store.input", "own.data"):
        output = found.outputs[name]
        assert output.before >= 8 * 12, "the events"
        assert (output.windows, output.first, output.columns) == ([], [], "")
    after = written(tmp_path / "state"), written(tmp_path / "out"), (tmp_path / "own.txt").read_text()
    assert after == before
    windows = ExactWindows(str(tmp_path / "state"), recording)
    windows.remove_all()
    assert not [name for name, _ in written(tmp_path / "state" / "recordings")]


def test_a_version_that_differs_is_found_in_its_window(tmp_path: Path) -> None:
    recording = record(sums_app(tmp_path), tmp_path)
    found = beside(sums_app(tmp_path, extra=0.5), tmp_path, recording, leave_out=("own",))
    assert list(found.outputs) == ["store.input"]
    output = found.outputs["store.input"]
    assert output.windows[0] == 90 // 12
    assert (output.only_before, output.only_after) == (0, 0)
    assert all("total" in text and "by the new version" in text for text in output.first)
    near = beside_again(tmp_path, sums_app(tmp_path, extra=0.5), recording, tolerance=1.0)
    assert near.outputs["store.input"].windows == []


def beside_again(folder: Path, app: Application, recording: str, **more: Any) -> Progress:
    """As `beside`, in a folder of its own."""
    (folder / "beside").rename(folder / "before")
    return beside(app, folder, recording, **more)


def test_outputs_that_are_new_or_gone_are_named(tmp_path: Path) -> None:
    recording = record(sums_app(tmp_path), tmp_path)
    app = Application("sums", window="50ms")
    events = app.add_operator("events", Events(), partitions=2)
    pushed = app.add_operator("pushed", Pushed())
    sums = app.add_operator("sums", Sums())
    store = app.add_operator("store", FileOutput(path=str(tmp_path / "out"), format="jsonl"))
    audit = app.add_operator("audit", WritesItself(path=str(tmp_path / "audit.txt")))
    app.add_stream("events", events.output, sums.data)
    app.add_stream("pushed", pushed.output, sums.more)
    app.add_stream("sums", sums.output, store.input, audit.data)
    found = beside(app, tmp_path, recording, drop=("own",))
    assert (found.error, found.missing, list(found.new)) == ("", ["own.data"], ["audit.data"])
    assert found.new["audit.data"] == found.outputs["store.input"].after
    assert not (tmp_path / "audit.txt").exists()


class Line(NamedTuple):
    n: int


def lines_app(folder: Path) -> Application:
    app = Application("lines", window="50ms")
    read = FileInput(str(folder / "in"), Line, format="jsonl", window_records=3, settle=0)
    files = app.add_operator("files", read, on_error=OnError.SKIP)
    out = app.add_operator("out", FileOutput(path=str(folder / "out"), format="jsonl", roll_seconds=0))
    app.add_stream("lines", files.output, out.input)
    app.dead_letters(FileOutput(path=str(folder / "dead"), format="jsonl", roll_seconds=0))
    return app


def test_files_are_not_read_again_and_records_that_were_left_out_are_there(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [f'{{"n": {n}}}\n' if n % 7 else "no line\n" for n in range(2_000)]
    file = tmp_path / "in" / "a.jsonl"

    def is_read() -> bool:
        if not file.exists():
            file.write_text("".join(lines))
        return any((tmp_path / "out").glob("*.jsonl"))

    recording = record(lines_app(tmp_path), tmp_path, enough=is_read)
    file.unlink()
    before = written(tmp_path / "out"), written(tmp_path / "dead")
    found = beside(lines_app(tmp_path), tmp_path, recording)
    assert (found.error, found.missing, found.new) == ("", [], {})
    assert [(one.windows, one.first) for one in found.outputs.values()] == [([], []), ([], [])]
    assert sorted(one.before > 0 for one in found.outputs.values()) == [True, True]
    assert (written(tmp_path / "out"), written(tmp_path / "dead")) == before


def test_a_version_that_fails_says_why(tmp_path: Path) -> None:
    recording = record(sums_app(tmp_path), tmp_path)

    class Fails(Sums):
        def end_window(self) -> None:
            self.this_version_is_broken()

    app = sums_app(tmp_path)
    next(one for one in app.operators if one.name == "sums").operator.__class__ = Fails
    with pytest.raises(Exception, match="this_version_is_broken"):
        beside(app, tmp_path, recording)
    assert "this_version_is_broken" in Progress.read(str(tmp_path / "beside")).error


def test_objects_of_the_version_before_are_those_of_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "class Held:\n    def __init__(self, n):\n        self.n = n\n"
    modules = {name: ModuleType(name) for name in ("held_one", "held_two")}
    for name, module in modules.items():
        exec(source, vars(module))
        monkeypatch.setitem(sys.modules, name, module)
    before: Any = modules["held_one"]
    batch = Schema(object).encode([before.Held(1), "held_one is only a text", before.Held(2)])
    found = Schema(object).decode(moved_batch(batch, {"held_one": "held_two"}))
    assert [type(one).__module__ for one in found] == ["held_two", "builtins", "held_two"]
    assert (found[0].n, found[1]) == (1, "held_one is only a text")
    assert judge([batch], [moved_batch(batch, {"held_one": "held_two"})], EXACT).equal


def test_a_recording_that_would_be_too_large_ends_and_the_application_does_not(tmp_path: Path) -> None:
    recording = record(sums_app(tmp_path), tmp_path, limit_bytes=12_000)
    windows = ExactWindows(str(tmp_path / "state"), recording)
    ended = windows.ended()
    assert ended is not None
    assert "it would exceed 12,000 bytes in window" in ended["reason"]
    found = beside(sums_app(tmp_path), tmp_path, recording)
    assert (found.error, found.last, found.windows > 0) == ("", ended["endWindow"] - 1, True)


def rows(*values: tuple[Any, ...], kind: pa.DataType | None = None) -> list[pa.RecordBatch]:
    schema = pa.schema([("key", pa.int64()), ("total", kind or pa.int64())])
    return [pa.RecordBatch.from_pylist([{"key": k, "total": t} for k, t in values], schema=schema)]


EXACT = Tolerance()


def test_order_and_batches_do_not_count_but_repetitions_do() -> None:
    one = rows((1, 1), (2, 2), (2, 2))
    assert judge(one, [*rows((2, 2)), *rows((1, 1), (2, 2))], EXACT).equal
    found = judge(one, rows((1, 1), (2, 2), (1, 1)), EXACT)
    assert (found.differ, found.only_before, found.only_after) == (0, 1, 1)
    assert judge([], [], EXACT).equal
    assert judge(one, [], EXACT).only_before == 3


def test_columns_of_other_types_are_named_and_their_values_compared() -> None:
    found = judge(rows((1, 1), (2, 2)), rows((1, 1.0), (2, 2.5), kind=pa.float64()), EXACT)
    assert found.columns == "`total` is double in the place of int64"
    assert (found.differ, found.only_before, found.only_after) == (1, 0, 0)


def test_many_rows_are_compared_by_digests() -> None:
    schema = pa.schema([("key", pa.int64()), ("total", pa.float64())])
    values = pa.array(range(40_000), pa.int64())
    one = [pa.RecordBatch.from_arrays([values, values.cast(pa.float64())], schema=schema)]
    other = [one[0].slice(20_000), one[0].slice(0, 20_000)]
    assert judge(one, other, EXACT).equal
    found = judge(one, [other[0], other[1].slice(5)], EXACT)
    assert (found.only_before, found.shown[0]) == (5, "only published: key=0, total=0.0")
