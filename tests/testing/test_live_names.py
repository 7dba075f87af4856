"""What becomes of states and values when changes rename, remove and add operators, live and at a restart."""

from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    CheckpointError,
    InputOperator,
    InputPort,
    KeyedState,
    Module,
    Operator,
    OutputPort,
    State,
    Unifier,
)
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetProperty,
)
from ridgeline.testing import CollectorSink, Faults, LocalRun, run_local


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """Ten numbers a window."""

    output = OutputPort(Number)
    windows: int = 12

    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(10):
            self.output.emit(Number(number % 3, 1))
        self.window += 1
        if self.window == self.windows:
            self.finish()


class Sums(Operator):
    """Sums by key since its first window, `step` times."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    step: int = 1

    sums = KeyedState(int, key=int)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + self.step * number.value

    def end_window(self) -> None:
        for key, total in self.sums.items():
            self.output.emit(Number(key, total))


class Others(Sums):
    """Another class, with the same state."""

    limit: int = 5


class Greatest(Unifier):
    """Keeps the greatest values for good."""

    input = InputPort(Number)
    output = OutputPort(Number)

    seen = KeyedState(int, key=int)

    @input.process
    def take(self, number: Number) -> None:
        self.seen[number.key] = max(number.value, self.seen.get(number.key, 0))

    def end_window(self) -> None:
        for key, value in self.seen.items():
            self.output.emit(Number(key, value))


class Unified(Sums):
    """Sums whose partitions a unifier merges that keeps what it has seen."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number, unifier=Greatest)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + number.value


def application(*names: str, kind: type[Sums] = Sums, **attributes: Any) -> Application:
    """Numbers -> sums -> sink, for each name."""
    app = Application("names", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    chosen = [app.add_operator(name, kind(), **attributes) for name in names]
    app.add_stream("numbers", numbers.output, *(one.input for one in chosen))
    for name, one in zip(names, chosen, strict=True):
        sink = app.add_operator(f"{name}_sink", CollectorSink(Number))
        app.add_stream(f"{name}_out", one.output, sink.input)
    return app


def totals(run: LocalRun, sink: str, window: int) -> dict[int, int]:
    return {row[0]: row[1] for row in map(tuple, run.collected(sink, window=window))}


def after(windows: int, step: int = 1) -> dict[int, int]:
    """The sums of so many windows."""
    return {0: 4 * step * windows, 1: 3 * step * windows, 2: 3 * step * windows}


def applied(run: LocalRun) -> bool:
    assert [(one.state, one.reason) for one in run.changes] == [("APPLIED", "")] * len(run.changes)
    return bool(run.changes)


SUMS = {"class": f"{__name__}.Sums"}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_renamed_operator_keeps_its_state(partitions: int) -> None:
    changes = {4: [RenameOperator("a", "b")], 6: [RenameOperator("b", "c"), RenameOperator("c", "d")]}
    run = run_local(application("a", partitions=partitions), changes=changes)
    assert applied(run)
    assert totals(run, "a_sink", 11) == after(12)
    assert "d" in {one.name for one in run.plan.logical.operators}


def test_two_operators_that_swap_their_names_keep_each_its_own_state() -> None:
    app = application("a", "b")
    app.operators[2].operator.step = 10
    swap = [RenameOperator("a", "x"), RenameOperator("b", "a"), RenameOperator("x", "b")]
    run = run_local(app, changes={5: swap})
    assert applied(run)
    assert totals(run, "a_sink", 11) == after(12)
    assert totals(run, "b_sink", 11) == after(12, step=10)


def test_an_operator_that_is_removed_and_added_under_its_name_begins_anew() -> None:
    again: list[Edit] = [
        RemoveOperator("a"),
        AddOperator("a", SUMS),
        AddSink("numbers", "a.input"),
        AddStream("a_out", "a.output", ("a_sink.input",)),
    ]
    run = run_local(application("a", "b"), changes={5: again})
    assert applied(run)
    assert totals(run, "a_sink", 4) == after(5)
    assert totals(run, "a_sink", 11) == after(7)
    assert totals(run, "b_sink", 11) == after(12)


def test_a_new_operator_that_takes_an_old_name_begins_anew() -> None:
    edits: list[Edit] = [
        RenameOperator("a", "old"),
        AddOperator("a", SUMS),
        AddSink("numbers", "a.input"),
        AddOperator("seen", {"class": "ridgeline.testing.CollectorSink"}),
        AddStream("seen", "a.output", ("seen.input",)),
    ]
    run = run_local(application("a"), changes={5: edits})
    assert applied(run)
    assert totals(run, "a_sink", 11) == after(12)
    assert {row["key"]: row["value"] for row in run.collected("seen", window=11)} == after(7)


def test_a_replaced_operator_goes_on_with_the_state() -> None:
    run = run_local(application("a"), changes={5: [ReplaceOperator("a", {"class": f"{__name__}.Others"})]})
    assert applied(run)
    assert totals(run, "a_sink", 11) == after(12)


def test_what_is_removed_is_gone_and_what_stays_goes_on() -> None:
    edits: list[Edit] = [RemoveOperator("a"), RemoveOperator("a_sink")]
    run = run_local(application("a", "b"), changes={5: edits})
    assert applied(run)
    assert totals(run, "a_sink", 4) == after(5)
    assert totals(run, "a_sink", 6) == {}
    assert totals(run, "b_sink", 11) == after(12)


def test_a_sink_may_be_taken_away_and_given_to_another_one() -> None:
    edits: list[Edit] = [
        RemoveSink("b_out", "b_sink.input"),
        RemoveOperator("b"),
        AddSink("a_out", "b_sink.input"),
    ]
    run = run_local(application("a", "b"), changes={5: edits})
    assert applied(run)
    assert totals(run, "a_sink", 11) == totals(run, "b_sink", 11) == after(12)


class Pair(Module):
    """`count` sums one after the other."""

    input = InputPort(Number)
    output = OutputPort(Number)
    count: int = 2

    def populate(self, app: Application) -> None:
        sums = [app.add_operator(f"sums{number}", Sums()) for number in range(self.count)]
        self.input.connect(sums[0].input)
        for number in range(1, self.count):
            app.add_stream(f"to{number}", sums[number - 1].output, sums[number].input)
        self.output.connect(sums[-1].output)


def with_module() -> Application:
    app = Application("module", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    pair = app.add_module("pair", Pair())
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, pair.input)
    app.add_stream("sums", pair.output, sink.input)
    return app


def test_what_is_in_a_module_changes_by_its_full_name_and_by_the_modules_properties() -> None:
    changes: dict[int, list[Edit]] = {
        2: [SetProperty("pair.sums0", "step", 0)],
        4: [Repartition("pair.sums0", 3)],
        6: [SetProperty("pair", "count", 1)],
        8: [SetProperty("pair.sums0", "step", 1)],
    }
    run = run_local(with_module(), changes=changes)
    assert applied(run)
    assert totals(run, "sink", 7) == after(2)
    assert totals(run, "sink", 11) == after(6)
    assert [one.name for one in run.plan.logical.operators] == ["numbers", "pair.sums0", "sink"]


def test_a_unifier_that_keeps_state_for_good_refuses_other_partitions() -> None:
    app = application("a", kind=Unified, partitions=2)
    run = run_local(app, changes={3: [Repartition("a", 1)], 5: [Repartition("a", 3)]})
    assert [one.state for one in run.changes] == ["REFUSED", "APPLIED"]
    assert (
        "`a.output`: its unifier keeps `seen` for longer than an application window" in run.changes[0].reason
    )
    assert totals(run, "a_sink", 11) == after(12)


# A restart with another version of the application ----------------------------------------------------------


def test_a_restart_drops_the_state_of_an_operator_that_is_still_there() -> None:
    storage = MemoryStorage()
    run_local(application("a", "b"), windows=5, checkpoint=storage)
    run = run_local(application("a", "b"), checkpoint=storage, drop_state=["a"])
    assert totals(run, "a_sink", 11) == after(7)
    assert totals(run, "b_sink", 11) == after(12)


def test_what_is_dropped_is_dropped_once_whoever_goes_on() -> None:
    """A driver that takes over in the same run goes on from windows without what was dropped."""
    storage = MemoryStorage()
    run_local(application("a", "b"), windows=5, checkpoint=storage)
    faults = Faults(seed=3, rate=0.3, kinds=["restart"], quiet=True)
    run = run_local(application("a", "b"), checkpoint=storage, drop_state=["a"], faults=faults)
    assert faults.struck
    assert totals(run, "a_sink", 11) == after(7)
    assert totals(run, "b_sink", 11) == after(12)


@pytest.mark.parametrize("name", ["aa", "a.outptu", "module.a"])
def test_a_state_that_is_to_be_dropped_and_that_nothing_has_is_a_fault(name: str) -> None:
    storage = MemoryStorage()
    run_local(application("aaa", "bbb"), windows=5, checkpoint=storage)
    with pytest.raises(CheckpointError, match=f"`{name}`: its state is to be dropped, but the checkpoint"):
        run_local(application("aaa", "bbb"), checkpoint=storage, drop_state=[name])
    with pytest.raises(CheckpointError, match=r"did you mean `aaa`\?"):
        run_local(application("aaa", "bbb"), checkpoint=storage, drop_state=["aaab"])
    for known in ("numbers", "aaa_sink", "aaa.output"):
        run_local(application("aaa", "bbb"), windows=1, checkpoint=storage, drop_state=[known])


def test_a_restart_goes_on_under_another_name_with_other_partitions() -> None:
    storage = MemoryStorage()
    run_local(application("a", partitions=2), windows=5, checkpoint=storage)
    with pytest.raises(CheckpointError, match="no operator `a` any more, but the checkpoint has its state"):
        run_local(application("b", partitions=3), checkpoint=storage)
    run = run_local(application("b", partitions=3), checkpoint=storage, rename={"a": "b"})
    rows = run.collected("b_sink", window=11)
    assert {row.key: row.value for row in rows} == after(12)


def test_a_restart_does_not_divide_what_an_open_application_window_holds() -> None:
    def app(partitions: int) -> Application:
        return application("a", partitions=partitions, application_window_count=4)

    storage = MemoryStorage()
    run_local(app(2), windows=5, checkpoint=storage)
    with pytest.raises(CheckpointError, match="application window of 4 windows is open at window 5"):
        run_local(app(3), checkpoint=storage)
    run_local(app(2), windows=3, checkpoint=storage)
    run = run_local(app(3), checkpoint=storage)
    assert totals(run, "a_sink", 11) == after(12)


def test_kept_values_go_with_their_operators() -> None:
    """What was set of an operator that was replaced, renamed or removed keeps no restart from going on."""
    storage = MemoryStorage()
    changes: dict[int, list[Edit]] = {
        1: [SetProperty("a", "step", 2), SetProperty("b", "step", 3)],
        2: [AddOperator("c", SUMS), AddOperator("d", {"class": "ridgeline.testing.CollectorSink"}),
            AddSink("numbers", "c.input"), AddStream("c", "c.output", ("d.input",)),
            SetProperty("c", "step", 4)],
        3: [RenameOperator("b", "e"), RemoveOperator("c"), RemoveOperator("d")],
        4: [ReplaceOperator("a", {"class": f"{__name__}.Others", "properties": {"step": 5}})],
    }  # fmt: skip
    run = run_local(application("a", "b"), windows=6, checkpoint=storage, changes=changes)
    assert applied(run)
    run = run_local(application("a", "b"), checkpoint=storage)
    steps = {one.name: getattr(one.operator, "step", None) for one in run.plan.logical.operators}
    assert steps == {"numbers": None, "a": 5, "e": 3, "a_sink": None, "b_sink": None}
    assert totals(run, "b_sink", 11)[0] == 4 * (1 + 3 * 11)


def test_values_of_an_operator_that_was_added_and_renamed_are_kept() -> None:
    storage = MemoryStorage()
    changes: dict[int, list[Edit]] = {
        1: [AddOperator("c", SUMS), AddSink("numbers", "c.input"), AddSink("a_out", "c_sink.input")],
        2: [AddOperator("c", SUMS), AddOperator("c_sink", {"class": "ridgeline.testing.CollectorSink"}),
            AddSink("numbers", "c.input"), AddStream("c", "c.output", ("c_sink.input",))],
        3: [SetProperty("c", "step", 7)],
        4: [RenameOperator("c", "n"), RenameOperator("a", "c")],
        5: [SetProperty("c", "step", 8)],
    }  # fmt: skip
    run = run_local(application("a", "b"), windows=6, checkpoint=storage, changes=changes)
    assert [one.state for one in run.changes] == ["REFUSED", *["APPLIED"] * 4]
    for given in ({}, {"c.step": 8}):
        run = run_local(application("a", "b"), windows=1, checkpoint=storage, properties=given)
        steps = {one.name: getattr(one.operator, "step", None) for one in run.plan.logical.operators}
        assert (steps["n"], steps["c"], steps["b"]) == (7, 8, 1)
