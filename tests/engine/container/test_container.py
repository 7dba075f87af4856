"""Containers by hand: state that is restored, attempts that leave no trace, windows that are dropped."""

from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OperatorError,
    OutputPort,
    State,
    StateError,
    Tuples,
)
from ridgeline.engine.container.container import Container
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state import state_files
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, SteppingClock
from support.engine.containers import ByHand, application


class Item(NamedTuple):
    key: str
    number: int


class Sums(Operator):
    """Emits the sums that the window changed; a negative number fails as long as `fails` says so."""

    data = InputPort(Item, key="key")
    out = OutputPort(object)

    sums = KeyedState(int, default=0)
    total = State(0)
    seen = ListState(int)
    fails = True

    @data.process
    def take(self, item: Item) -> None:
        self.sums[item.key] += item.number
        self.total += item.number
        self.seen.append(item.number)
        if item.number < 0 and type(self).fails:
            raise ValueError("negative")

    def end_window(self) -> None:
        self.out.emit((dict(self.sums.changed()), self.total, list(self.seen)))


def split(*windows: str) -> list[Any]:
    """`split("a1 b2", "a3")`: two windows of items."""
    items: list[Any] = []
    for window in windows:
        items += [Item(word[0], int(word[1:])) for word in window.split()]
        items.append(END_WINDOW)
    return items


WINDOWS = ("a1 b2", "a3", "", "b4 c5", "a6", "c7")
EXPECTED = [
    ({"a": 1, "b": 2}, 3, [1, 2]),
    ({"a": 4}, 6, [1, 2, 3]),
    ({}, 6, [1, 2, 3]),
    ({"b": 6, "c": 5}, 15, [1, 2, 3, 4, 5]),
    ({"a": 10}, 21, [1, 2, 3, 4, 5, 6]),
    ({"c": 12}, 28, [1, 2, 3, 4, 5, 6, 7]),
]


@pytest.mark.guide("002", "State of the Application")
@pytest.mark.parametrize("merged_after", [(), (0, 1, 2, 3, 4), (3,)])
@pytest.mark.parametrize("dies_before", [(), (1, 2, 3, 4, 5), (3,)])
def test_state_survives_the_death_of_its_container(merged_after, dies_before):
    hand = ByHand(application(Item, split(*WINDOWS), Sums()))
    got = []
    for window_id in range(len(WINDOWS)):
        if window_id in dies_before:
            hand.die()
        got += hand.window()
        if window_id in merged_after:
            hand.merge("step")
    assert got == EXPECTED


@pytest.mark.guide("002", "Stateful")
def test_only_what_changed_is_written():
    hand = ByHand(application(Item, split("a1", "", "b2"), Sums()))
    first = hand.attempt()
    hand.keep(first)
    written = hand.report(first, "step").window
    assert (written.state_bytes > 0, written.state_written >= written.ended) == (True, True)
    assert hand.report(first, "step").change
    second = hand.attempt()
    assert (hand.report(second, "step").change, hand.report(second, "step").window.state_written) == ("", 0.0)
    assert hand.report(second, "sink").change == ""


@pytest.mark.guide("004", "Checkpointing")
def test_a_version_is_a_delta_per_window_or_one_that_says_everything():
    hand = ByHand(application(Item, split(*["a1"] * 4), Sums()))
    for _ in range(4):
        hand.window()
    position, sums = hand.states[1], hand.states[2]
    assert ([name[:12] for name in position], [int(name[:12]) for name in sums]) == (
        [f"{3:012d}"],
        [0, 1, 2, 3],
    )


def test_a_container_at_the_end_of_what_was_merged_reads_only_what_came_later():
    hand = ByHand(application(Item, split(*WINDOWS), Sums()))
    for _ in range(3):
        hand.window()
    idle = hand.containers
    hand.die()
    hand.merge("step")
    hand.window()
    hand.storage.reads.clear()
    hand.containers = idle
    assert hand.window() == EXPECTED[4:5]
    assert set(hand.storage.reads) == hand.files(hand.states[2][-2:-1])


def test_a_container_that_missed_windows_reads_only_the_deltas_that_it_misses():
    hand = ByHand(application(Item, split(*WINDOWS), Sums()))
    hand.window()
    hand.window()
    idle = hand.containers
    hand.die()
    for _ in range(3):
        hand.window()
    hand.storage.reads.clear()
    hand.containers = idle
    assert hand.window() == EXPECTED[5:]
    assert set(hand.storage.reads) == hand.files(hand.states[2][2:-1])


def test_an_attempt_that_was_not_kept_leaves_no_trace():
    hand = ByHand(application(Item, split(*WINDOWS), Sums()))
    hand.window()
    for attempt in range(3):
        assert hand.collected(hand.attempt(attempt)) == EXPECTED[1:2]
    assert [hand.window(3), *(hand.window() for _ in range(4))] == [[expected] for expected in EXPECTED[1:]]


def test_an_attempt_that_failed_leaves_no_trace(monkeypatch):
    hand = ByHand(application(Item, split("a1", "a2 b-5 a3", "a4"), Sums()))
    hand.window()
    for attempt in range(2):
        with pytest.raises(
            OperatorError,
            match=r"`step` \(partition 0\) of application `app` failed in window 1 in `process of port data`",
        ):
            hand.attempt(attempt)
    monkeypatch.setattr(Sums, "fails", False)
    assert hand.window(2) == [({"a": 6, "b": -5}, 1, [1, 2, -5, 3])]
    assert hand.window() == [({"a": 10}, 5, [1, 2, -5, 3, 4])]


def test_state_files_of_other_attempts_are_not_mixed_up():
    hand = ByHand(application(Item, split("a1", "a2", "a3"), Sums()))
    hand.window()
    lost = hand.attempt(0)
    hand.die()
    assert hand.window(1) == [({"a": 3}, 3, [1, 2])]
    assert (hand.report(lost, "step").change,) not in hand.states.values()
    hand.die()
    assert hand.window() == [({"a": 6}, 6, [1, 2, 3])]


def test_a_state_file_that_is_gone_is_named():
    hand = ByHand(application(Item, split("a1", "a2"), Sums()))
    hand.window()
    hand.storage.delete(["journal/00000001"])
    assert hand.collected(hand.attempt()) == [({"a": 3}, 3, [1, 2])]
    hand.die()
    with pytest.raises(StateError, match=r"state file `memory:/journal/00000001, bytes 0 to \d+` is missing"):
        hand.attempt()


@pytest.mark.parametrize("small", [True, False])
def test_only_small_changes_travel_in_the_report(small):
    word = "x" * (state_files.SMALL_BYTES - 1_000 if small else state_files.SMALL_BYTES)
    hand = ByHand(application(Item, [Item(word, 1), END_WINDOW, Item(word, 2)], Sums()))
    [report] = reports = hand.attempt()
    changes = [operator.change for operator in report.operators if operator.change]
    if small:
        name, data = report.small_change
        assert set(changes) == {name}
        assert hand.storage.names("state") == []
        assert len(data) <= state_files.SMALL_BYTES
    else:
        assert report.small_change is None
        assert hand.storage.names("state") == [changes[0]]
    hand.keep(reports)
    hand.die()
    assert hand.window() == [({word: 3}, 3, [1, 2])]


# What it reports --------------------------------------------------------------------------------------------


class Ticking(SteppingClock):
    """Every look at it takes a second."""

    def monotonic(self) -> float:
        self.advance(1.0)
        return super().monotonic()


def test_a_container_fills_in_the_events_themselves():
    hand = ByHand(application(Item, split("a1", "a2"), Sums()))
    hand.clock = Ticking()
    hand.die()
    reports = hand.attempt(2)
    for report in reports:
        window = report.window
        assert (window.window_id, window.attempt, window.task) == (0, 2, "t2")
        assert window.began <= window.restored <= window.ran <= window.written
        for own in [operator.window for operator in report.operators]:
            assert (own.window_id, own.attempt, own.container, own.host) == (
                0,
                2,
                window.container,
                window.host,
            )
            assert own.wait_seconds == own.began - window.restored
            assert own.transfer_seconds == own.ended - own.began - own.compute_seconds
            assert own.compute_seconds > 0
            assert own.transfer_seconds >= own.state_seconds


# At most once -----------------------------------------------------------------------------------------------


@pytest.mark.guide("002", "At Most Once")
@pytest.mark.guide("004", "At-Most-Once")
@pytest.mark.parametrize("dies", [False, True])
def test_at_most_once_drops_the_window_and_nothing_else(dies):
    hand = ByHand(application(Item, split("a1", "a2 b-5 a3", "a4"), Sums(), processing_mode="AT_MOST_ONCE"))
    hand.window()
    reports = hand.attempt()
    report = hand.report(reports, "step").window
    assert report.dropped.startswith("operator `step` (partition 0) of application ")
    assert " failed in window 1 " in report.dropped
    assert report.dropped.endswith("the tuple was Item(key='b', number=-5)")
    assert (report.tuples_in, report.tuples_out) == ({"data": 3}, {})
    assert hand.report(reports, "source").window.tuples_out == {"output": 3}
    assert hand.collected(reports) == []
    hand.keep(reports)
    if dies:
        hand.die()
    assert hand.window() == [({"a": 5}, 5, [1, 4])]


@pytest.mark.parametrize("dies", [False, True])
def test_a_dropped_window_forgets_nothing_of_its_application_window(dies):
    app = application(
        Item, split("a1", "b-5", "c2"), Sums(), processing_mode="AT_MOST_ONCE", application_window_count=3
    )
    hand = ByHand(app)
    assert hand.window() == hand.window() == []
    if dies:
        hand.die()
    assert hand.window() == [({"a": 1, "c": 2}, 3, [1, 2])]


class HandOver(Operator):
    data = InputPort(Item)

    @data.process
    def take(self, item: Item) -> None:
        self.context.hand_over(item.number)
        if item.number < 0 and Sums.fails:
            raise ValueError("negative")


def handing_over(**attributes: Any) -> ByHand:
    app = Application("app")
    source = app.add_operator("source", ListInput(Item, split("a1 a-1", "a2")))
    sink = app.add_operator("sink", HandOver(), **attributes)
    app.add_stream("in", source.output, sink.data)
    return ByHand(app)


def test_what_a_failed_attempt_handed_over_is_forgotten(monkeypatch):
    hand = handing_over()
    with pytest.raises(OperatorError):
        hand.attempt()
    monkeypatch.setattr(Sums, "fails", False)
    assert hand.report(hand.attempt(1), "sink").handed_over == [1, -1]


def test_what_a_dropped_window_handed_over_is_forgotten():
    hand = handing_over(processing_mode="AT_MOST_ONCE")
    first = hand.attempt()
    assert hand.report(first, "sink").handed_over == []
    hand.keep(first)
    assert hand.report(hand.attempt(), "sink").handed_over == [2]


# What is not declared ---------------------------------------------------------------------------------------


class Remembering(Operator):
    data = InputPort(Item)
    out = OutputPort(object)

    limit: int = 5

    def setup(self, context: Any) -> None:
        self.opened = ["connection"]

    def begin_window(self, window_id: int) -> None:
        self.of_this_window = 0

    @data.process
    def take(self, item: Item) -> None:
        self.of_this_window += item.number
        self.opened.append(item.key)

    def end_window(self) -> None:
        self.out.emit((self.of_this_window, self.limit, len(self.opened)))


def test_attributes_that_are_not_declared_live_until_the_end_of_the_window():
    hand = ByHand(application(Item, split("a1 a2", "a3"), Remembering()))
    assert hand.window() == [(3, 5, 3)]
    operator = hand.operator("step")
    with pytest.raises(StateError, match=r"`Remembering\.of_this_window` was set in window 0 and is gone"):
        operator.of_this_window  # noqa: B018
    assert hand.window() == [(3, 5, 4)]


@pytest.mark.parametrize("name", ["opened", "made"])
def test_what_a_window_replaces_is_missed_in_the_next(name):
    class Replacing(Remembering):
        def __init__(self, **properties: Any) -> None:
            super().__init__(**properties)
            self.made = 1

        def end_window(self) -> None:
            setattr(self, name, getattr(self, name) * 2)

    hand = ByHand(application(Item, split("a1", "a2"), Replacing()))
    hand.window()
    with pytest.raises(
        OperatorError,
        match=rf"StateError: `Replacing\.{name}` was set in window 0 and is gone: .*; declare it, `{name} = ",
    ):
        hand.attempt()


def test_what_each_window_sets_anew_may_have_been_set_before():
    class Resetting(Remembering):
        def setup(self, context: Any) -> None:
            super().setup(context)
            self.of_this_window = 0

    hand = ByHand(application(Item, split("a1", "a2"), Resetting()))
    assert [hand.window(), hand.window()] == [[(1, 5, 2)], [(2, 5, 3)]]


# Committed --------------------------------------------------------------------------------------------------


class Told(Sums):
    told: list[Any] = []  # noqa: RUF012

    def committed(self, window_id: int) -> None:
        type(self).told.append((window_id, self.total, dict(self.sums)))


@pytest.mark.guide("004", "Interface CheckpointListener")
@pytest.mark.parametrize("dies", [False, True])
def test_operators_are_told_of_commits_with_the_state_after_it(dies):
    Told.told.clear()
    hand = ByHand(application(Item, split("a1", "b2"), Told()))
    for window_id in range(2):
        hand.window()
        if dies:
            hand.die()
        (container,) = hand.containers
        assert container.spec.wants_commit
        container.committed(window_id, hand.states)
    assert Told.told == [(0, 1, {"a": 1}), (1, 3, {"a": 1, "b": 2})]


def test_the_window_after_a_commit_sees_the_changes_of_its_application_window():
    hand = ByHand(application(Item, split("a1", "b2"), Told(), application_window_count=2))
    hand.window()
    hand.containers[0].committed(0, hand.states)
    assert hand.window() == [({"a": 1, "b": 2}, 3, [1, 2])]


def test_state_cannot_be_changed_in_committed():
    class Changing(Sums):
        def committed(self, window_id: int) -> None:
            self.total += 1_000

    hand = ByHand(application(Item, split("a1", "b2"), Changing()))
    hand.window()
    with pytest.raises(
        OperatorError, match=r"in `committed`: StateError: `total` was changed after the window's commit"
    ):
        hand.containers[0].committed(0, hand.states)
    assert hand.window() == [({"b": 2}, 3, [1, 2])]


# Between containers -----------------------------------------------------------------------------------------


def test_only_consumers_that_get_something_get_a_message():
    hand = ByHand(application(Item, split("a1", ""), Sums(), partitions=2))
    [(consumer, message)] = hand.containers[0].run(WindowRequest(0, 0, 1), [], (), "t")[0].items()
    assert consumer in hand.containers[0].spec.consumers
    assert (message.producer, len(message.blocks)) == (0, 1)
    assert hand.containers[0].run(WindowRequest(1, 0, 1, states=None), [], (), "t")[0] == {}


def test_messages_are_taken_in_the_order_of_their_producers():
    app = Application("app")
    source = app.add_operator("source", ListInput(Item, [Item("a", n) for n in range(6)]), partitions=3)
    sums = app.add_operator("step", Sums())
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("in", source.output, sums.data)
    app.add_stream("out", sums.out, sink.input)
    hand = ByHand(app)
    last = hand.containers[-1]
    messages = [
        container.run(WindowRequest(0, 0, 1), [], (), "t")[0][last.spec.id]
        for container in hand.containers[:-1]
    ]
    assert len(messages) == 3
    outcomes = []
    for order in (messages, messages[::-1]):
        hand.die()
        copies = [message.copied() for message in order]
        _, report = hand.containers[-1].run(WindowRequest(0, 0, 1), copies, (), "t")
        outcomes.append(hand.collected([report]))
    assert outcomes[0] == outcomes[1] == [({"a": 15}, 15, [0, 3, 1, 4, 2, 5])]


def test_all_operators_are_torn_down_even_if_one_fails():
    torn = []

    class Tearing(Sums):
        def teardown(self) -> None:
            torn.append(type(self).__name__)
            raise ValueError("no")

    hand = ByHand(application(Item, split("a1"), Tearing()))
    hand.window()
    with pytest.raises(OperatorError, match="in `teardown`: ValueError: no"):
        hand.containers[0].close()
    hand.containers[0].close()
    assert torn == ["Tearing"]


class Source(InputOperator):
    output = OutputPort(Item)

    def emit_tuples(self) -> None:
        self.output.emit_batch(pa.record_batch([["a", "b"], [1, 2]], names=Item._fields))
        self.output.emit(Item("c", 3))


class Taken(Operator):
    data = InputPort(Item)

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        self.context.hand_over((batch.column(1).buffers()[1].address, batch.to_pylist()))


@pytest.mark.parametrize("near", [True, False])
def test_tuples_for_a_container_of_the_same_process_stay_as_they_are(tmp_path, near):
    app = Application("app")
    source = app.add_operator("source", Source())
    taken = app.add_operator("taken", Taken())
    app.add_stream("items", source.output, taken.data, locality="NODE_LOCAL")
    storage = LocalStorage(str(tmp_path))
    producer, consumer = (
        Container(spec, storage, SteppingClock(), "run") for spec in container_specs(plan_application(app))
    )
    producer.near = {consumer.spec.id} if near else ()

    request = WindowRequest(0, 0, 1)
    messages, report = producer.run(request, (), (), "t")
    [message] = messages.values()
    _, found = consumer.run(request, [message], (), "t")

    handed_over = found.operators[-1].handed_over
    assert [row for _, rows in handed_over for row in rows] == [
        {"key": "a", "number": 1},
        {"key": "b", "number": 2},
        {"key": "c", "number": 3},
    ]
    assert (report.window.bytes_out == 0) is near
    if near:
        first = message.blocks[0].payload
        assert isinstance(first, Tuples)
        assert first.batch.column(1).buffers()[1].address == handed_over[0][0]


class Numbers(InputOperator):
    """Two records a window; when asked it knows of ten."""

    output = OutputPort(Item)
    count = State(0)

    def emit_tuples(self) -> None:
        for _ in range(2):
            self.count += 1
            self.output.emit(Item("a", self.count))

    def progress(self) -> tuple[float, float | None]:
        return self.count, 10 - self.count


def test_what_an_input_has_taken_is_told_between_windows_and_from_where_it_went_on():
    app = Application("app")
    source = app.add_operator("source", Numbers())
    step = app.add_operator("step", Sums())
    app.add_stream("in", source.output, step.data)
    app.add_stream("out", step.out, app.add_operator("sink", CollectorSink()).input)
    hand = ByHand(app)
    container = next(one for one in hand.containers if one.spec.operators[0].name == "source")
    assert list(container.taken()) == []  # nobody knows yet what its state is
    for window_id, attempt in enumerate((0, 0, 2)):
        if window_id == 2:
            hand.die()
            container = next(one for one in hand.containers if one.spec.operators[0].name == "source")
        reports = hand.attempt(attempt)
        hand.keep(reports)
        (said,) = container.taken()
        count = 2.0 * (window_id + 1)
        assert (said.window_id, said.attempt) == (window_id, attempt)
        assert (said.before, said.consumed, said.remaining) == (count - 2, count, 10 - count)
        (source_report,) = [one.source for one in hand.operators(reports) if one.source is not None]
        assert source_report.before == count - 2
