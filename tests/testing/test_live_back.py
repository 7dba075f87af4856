"""Changes that cannot be: the application goes on as if nobody had asked; and deaths while one is made."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import pytest

from ridgeline import (
    Application,
    CheckpointError,
    InputPort,
    Operator,
    OperatorError,
    OutputPort,
    Publisher,
    PublisherContext,
)
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.planning import Planner, read_last
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import MemoryStorage
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
from ridgeline.testing import CollectorSink, SteppingClock, run_local
from ridgeline.testing.local_executor import LocalExecutor
from support.depth import deeper
from support.engine.driven import publisher_context
from support.rows import in_a_row
from support.testing.dying import Dying
from support.testing.edited import KEYS, Node, Number, Numbers, Sums

WINDOWS = 14


class Unlucky(Sums):
    """Raises with a factor of 13, and in partitions of three."""

    def begin_window(self, window_id: int) -> None:
        if self.factor == 13 or self.context.partitions == 3:
            raise ValueError("out of luck")


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


def application(partitions: int = 1) -> Application:
    return in_a_row(
        Application("back", window="10ms"),
        numbers=Numbers(windows=WINDOWS),
        sums=(Unlucky(), {"partitions": partitions}),
        sink=CollectorSink(Number),
    )


def by_hand(factor: Callable[[int], int] = lambda _window: 1) -> list[list[Number]]:
    """What each window gives."""
    node, found = Node("Sums", 1, "numbers", "sums"), []
    for window in range(WINDOWS):
        node.factor = factor(window)
        given = [(number % KEYS, number) for number in range(10 * window + 1, 10 * window + 11)]
        found.append([Number(*row) for row in node.run(window, given, last=False)])
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
                (added(Choked), "disk full"),
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
    assert (last.edits, last.properties) == ((), {})
    assert set(last.states) == {"numbers/0/1", "sums/0/2", "sums/1/2"}


def test_publishers_of_a_run_that_fails_let_go() -> None:
    Choking.ended.clear()
    with pytest.raises(OperatorError, match="disk full"):
        run_local(in_a_row(Application("choked"), numbers=Numbers(windows=1), seen=Choked()))
    assert Choking.ended == ["abandon"]


# Deaths -----------------------------------------------------------------------------------------------------


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
    assert bool(last.edits or last.properties) == made
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
