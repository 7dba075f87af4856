"""Changes that cannot be: the application goes on as if nobody had asked; and deaths while one is made."""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple

import pytest

from ridgeline import (
    Application,
    CheckpointError,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    Publisher,
    PublisherContext,
    State,
)
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.planning import Planner, read_last
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import FileOutput
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    Repartition,
    ReplaceOperator,
    SetProperty,
)
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import EditPlan
from ridgeline.testing import CollectorSink, LocalRun, SteppingClock, run_local
from ridgeline.testing.local_executor import LocalExecutor
from support.depth import deeper
from support.engine.driven import publisher_context

WINDOWS = 14


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """Ten numbers a window, counted from 0."""

    output = OutputPort(Number)

    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + 10):
            self.output.emit(Number(number % 7, number))
        self.count += 10
        if self.count == 10 * WINDOWS:
            self.finish()


class Sums(Operator):
    """Running sums by key. Raises with a factor of 13, and in the last of three partitions."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    factor: int = 1

    sums = KeyedState(int, key=int)

    @input.process
    def add(self, number: Number) -> None:
        if self.factor == 13 or self.context.partitions == 3:
            raise ValueError("out of luck")
        self.sums[number.key] = self.sums.get(number.key, 0) + self.factor * number.value
        self.output.emit(Number(number.key, self.sums[number.key]))


class Broken(Operator):
    """Cannot be set up."""

    input = InputPort(Number)

    def setup(self, _context: Any) -> None:
        raise OSError("no such device")

    @input.process
    def take(self, _number: Number) -> None: ...


class Shut(Publisher):
    """Cannot be opened."""

    def open(self, _context: PublisherContext, _state: object) -> None:
        raise OSError("no such folder")

    def stage(self, _window_id: int, _values: Sequence[object]) -> None: ...

    def publish(self, _window_id: int) -> None: ...


class Closed(Operator):
    """Its publisher cannot be opened."""

    input = InputPort(Number)

    @input.process
    def take(self, _number: Number) -> None: ...

    def publisher(self) -> Publisher:
        return Shut()


class Choking(Publisher):
    """Cannot stage a window. Notes what is called that ends it."""

    ended: ClassVar[list[str]] = []

    def close(self) -> None:
        self.ended.append("close")

    def abandon(self) -> None:
        self.ended.append("abandon")

    def stage(self, _window_id: int, _values: Sequence[object]) -> None:
        raise OSError("disk full")

    def publish(self, _window_id: int) -> None: ...


class Choked(Closed):
    """Its publisher cannot stage a window."""

    def publisher(self) -> Publisher:
        return Choking()


def application(partitions: int = 1, folder: str = "") -> Application:
    app = Application("back", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sums(), partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input)
    inputs = [sink.input]
    if folder:
        output = FileOutput(path=folder, format="jsonl")
        inputs.append(app.add_operator("files", output, partitions=2).input)
    app.add_stream("sums", sums.output, *inputs)
    return app


def by_hand(factors: Any = None) -> list[list[Number]]:
    """What each window gives."""
    sums: dict[int, int] = {}
    found: list[list[Number]] = []
    for window in range(WINDOWS):
        found.append([])
        for number in range(10 * window, 10 * window + 10):
            factor = 1 if factors is None else factors(window)
            sums[number % 7] = sums.get(number % 7, 0) + factor * number
            found[-1].append(Number(number % 7, sums[number % 7]))
    return found


def flat(windows: list[list[Number]]) -> list[Number]:
    return sorted(number for window in windows for number in window)


def added(kind: type[Operator], name: str = "more") -> list[Edit]:
    spec = {"class": f"{__name__}.{kind.__name__}"}
    return [AddOperator(name, spec), AddSink("numbers", f"{name}.input")]


@pytest.mark.parametrize(
    ("edits", "why", "seed"),
    [
        pytest.param(edits, why, seed, marks=() if (seed is None) == number % 2 else deeper)
        for number, (edits, why) in enumerate(
            [
                (added(Broken), "no such device"),
                ([SetProperty("sums", "factor", 13)], "out of luck"),
                ([Repartition("sums", 3)], "out of luck"),
                ([Repartition("sums", 3), *added(Operator)[1:]], "more"),
                (added(Closed), "no such folder"),
                ([ReplaceOperator("sink", {"class": f"{__name__}.Closed"})], "no such folder"),
                ([Repartition("sums", 4), *added(Closed)], "no such folder"),
                (added(Choked), "disk full"),
                (
                    [ReplaceOperator("sink", {"class": f"{__name__}.Choked"}), Repartition("sums", 1)],
                    "disk full",
                ),
            ]
        )
        for seed in (None, 3)
    ],
)
def test_a_change_that_cannot_be_leaves_all_as_it_was(edits: list[Edit], why: str, seed: int | None) -> None:
    storage = MemoryStorage()
    run = run_local(application(2), changes={5: edits}, interleave=seed, checkpoint=storage)
    (asked,) = run.changes
    assert asked.state == "REFUSED"
    assert why in asked.reason
    assert run.window_ids == list(range(WINDOWS))
    assert sorted(run.collected("sink")) == flat(by_hand())
    last = read_last(storage, "back")
    assert last is not None
    assert (last.edits, last.properties.values) == ((), {})
    assert set(last.states) == {"numbers/0/1", "sums/0/2", "sums/1/2"}


def test_publishers_of_a_run_that_fails_let_go() -> None:
    app = Application("choked", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    seen = app.add_operator("seen", Choked())
    app.add_stream("numbers", numbers.output, seen.input)
    Choking.ended.clear()
    with pytest.raises(OperatorError, match="disk full"):
        run_local(app)
    assert Choking.ended == ["abandon"]


# Deaths -----------------------------------------------------------------------------------------------------


class Dying(MemoryStorage):
    """Dies at a file operation that changes something: it is done or not, and none after it."""

    def __init__(self, at: int, *, done: bool) -> None:
        super().__init__()
        self.left, self.done, self.armed = at, done, False

    def _step(self) -> bool:
        """True if this operation is the last."""
        if not self.armed:
            return False
        self.left -= 1
        if self.left < 0:
            raise OSError("dead")
        return self.left == 0

    def write(self, name: str, data: bytes) -> None:
        last = self._step()
        if not last or self.done:
            super().write(name, data)
        if last:
            self._step()

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        last = self._step()
        made = super().create(name, data, settled=settled) if not last or self.done else False
        if last:
            self._step()
        return made


CHANGES: dict[str, list[Edit]] = {
    "property": [SetProperty("sums", "factor", 3)],
    "partitions": [Repartition("sums", 4)],
    "all": [
        Repartition("sums", 1),
        SetProperty("sums", "factor", 3),
        AddOperator("seen", {"class": "ridgeline.testing.CollectorSink"}),
        AddSink("sums", "seen.input"),
    ],
}


def deaths() -> Iterator[Any]:
    """All of the largest change, every second one of the others.

    Nothing done of an operation leaves what the one before it has done leaves.
    """
    for kind, at, done in product(CHANGES, range(1, 13), (True, False)):
        usual = (kind == "all" or at % 2 == (kind == "property")) if done else at == 1
        yield pytest.param(kind, at, done, marks=() if usual else deeper)


@pytest.mark.parametrize(("kind", "at", "done"), [*deaths()])
def test_a_death_at_any_file_operation_leaves_the_change_there_or_not(kind: str, at: int, done: bool) -> None:
    storage = Dying(at, done=done)
    app = application(2)
    run_local(app, checkpoint=storage, windows=4)
    storage.armed = True
    with contextlib.suppress(CheckpointError):
        run_local(app, checkpoint=storage, windows=3, changes={5: CHANGES[kind]})
    storage.armed = False
    last = read_last(storage, "back")
    assert last is not None
    made = last.window_id >= 5
    assert bool(last.edits or last.properties.values) == made
    partitions = {"partitions": 4, "all": 1}.get(kind, 2) if made else 2
    assert {key for key in last.states if key.startswith("sums")} == {
        f"sums/{number}/{partitions}" for number in range(partitions)
    }
    rest = run_local(app, checkpoint=storage)
    times = 3 if made and kind != "partitions" else 1
    wanted = by_hand(lambda window: times if window >= 5 else 1)[rest.window_ids[0] :]
    assert sorted(rest.collected("sink")) == flat(wanted)
    assert ("seen" in rest.collectors) == (made and kind == "all")
    if "seen" in rest.collectors:
        assert sorted(Number(**one) for one in rest.collected("seen")) == flat(wanted)


def restarted(first: Application, second: Application, **given: Any) -> LocalRun:
    storage = MemoryStorage()
    run_local(first, checkpoint=storage, windows=4)
    return run_local(second, checkpoint=storage, **given)


def test_a_change_right_after_a_restart_with_other_partitions_loses_nothing() -> None:
    run = restarted(application(2), application(4), changes={4: [Repartition("sums", 5)]})
    (asked,) = run.changes
    assert (asked.state, asked.window) == ("APPLIED", 5), "first the states that have moved are committed"
    assert sorted(run.collected("sink")) == flat(by_hand()[4:])


class Guarded(Operator):
    """Has a secret."""

    input = InputPort(Number)
    output = OutputPort(Number)
    password: str
    limit: int = 1

    @input.process
    def take(self, number: Number) -> None:
        self.output.emit(Number(len(self.password), number.value))


def test_the_secrets_of_a_new_operator_stay_out_of_the_checkpoint(tmp_path: Any) -> None:
    spec = {"class": f"{__name__}.Guarded", "properties": {"password": "hush-hush", "limit": 5}}
    edits: list[Edit] = [
        AddOperator("more", spec),
        AddSink("numbers", "more.input"),
        AddOperator("seen", {"class": "ridgeline.testing.CollectorSink"}),
        AddStream("more", "more.output", ("seen.input",)),
    ]
    run_local(application(), checkpoint=tmp_path, windows=5, changes={2: edits})
    assert not any(b"hush" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    with pytest.raises(CheckpointError, match=r"`more\.password`: a secret"):
        run_local(application(), checkpoint=tmp_path)
    again = run_local(application(), checkpoint=tmp_path, windows=2, properties={"more.password": "abc"})
    assert {one["key"] for one in again.collected("seen")} == {3}
    run = run_local(application(), checkpoint=tmp_path, windows=1, reset_changes=True)
    assert "seen" not in run.collectors


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_whoever_waits_for_a_change_is_told_when_the_run_dies(at: int) -> None:
    storage = Dying(at, done=False)
    run_local(application(2), checkpoint=storage, windows=5)
    checkpoint = Checkpoint(storage, "back")
    planner = Planner(
        lambda values, kept, edits: plan_application(application(2), values, kept=kept, edits=edits), {}
    )
    plan = planner.settled(checkpoint.last())
    clock = SteppingClock()
    executor = LocalExecutor(plan, storage, clock, checkpoint.run_id)
    run = ApplicationRun(
        plan, checkpoint, executor, clock, lambda name: publisher_context(name, clock), planner=planner
    )
    asked = [run.changes.ask(EditPlan((Repartition("sums", count),)), "test") for count in (4, 5)]

    def go() -> None:
        for window in (5, 6, 7, 8):
            run.take_changes(wait=True)
            run.window(window)

    storage.armed = True
    with pytest.raises(CheckpointError):
        go()
    storage.armed = False
    with contextlib.suppress(CheckpointError):
        run.close(orderly=False)
    assert all(one.done.is_set() and one.state in {"REFUSED", "APPLIED"} for one in asked)
    assert asked[1].state == "REFUSED"
