"""Deciders are asked, their decisions are carried out, and what came is compared with what was said."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator
from ridgeline.api.errors import RidgelineError
from ridgeline.api.policy import Policy as PolicyBase
from ridgeline.measure.changes import PromiseFold
from ridgeline.measure.events import PromiseChanged
from ridgeline.plan import edits as plan_edits
from ridgeline.policies import Decision, Expectation, Repartition, SetAttribute, SetProperty
from ridgeline.policies.deciding import Deciders
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.plan.other_partitioner import HeaviestApart


class Figures(SimpleNamespace):
    """The figures of an application with the operators `parse` and `store`."""

    def __init__(self, committed: int, at: float, latency: float = 1.0) -> None:
        spread = SimpleNamespace(p50_seconds=latency, p99_seconds=latency, count=9)
        operators = {name: SimpleNamespace(name=name, latency=spread) for name in ("parse", "store")}
        super().__init__(committed=committed, at=at, window_latency=spread, operators=operators)

    def for_seconds(self, _seconds: float) -> Figures:
        return self


class Asked:
    def __init__(self, number: int, edits: Any, note: str, who: str) -> None:
        self.number = number
        self.edits, self.note, self.who = edits, note, who
        self.state, self.reason, self.done = "QUEUED", "", threading.Event()

    def settle(self, state: str, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self.done.set()


class World:
    def __init__(self, listeners: Any = None, policies: Any = ()) -> None:
        self.asked: list[Asked] = []
        self.events: list[Any] = []
        self.deciders = Deciders(listeners or {}, policies, self.ask, self.events.append)

    def ask(self, edits: Any, note: str, who: str) -> Asked:
        self.asked.append(Asked(len(self.asked) + 1, edits, note, who))
        return self.asked[-1]

    def states(self) -> list[str]:
        return [event.state for event in self.events]


class Listener:
    def __init__(self, *answers: Any) -> None:
        self.answers, self.seen, self.heard = list(answers), [], []

    def observe(self, figures: Any) -> Any:
        self.seen.append(figures)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def told(self, decision: Any, state: str) -> None:
        self.heard.append(state)


class Policy(Listener):
    decide = Listener.observe


def test_a_listener_sees_its_operator_and_is_asked_once_for_each_commit():
    listener = Listener()
    world = World({"parse": [listener]})
    for committed in (3, 3, 4):
        world.deciders.look(Figures(committed, 1.0))
    assert [figures.name for figures in listener.seen] == ["parse", "parse"]


@pytest.mark.parametrize(
    ("answer", "edit"),
    [
        (Repartition(3, note="why"), plan_edits.Repartition("parse", 3)),
        (SetProperty("size", 4, note="why"), plan_edits.SetProperty("parse", "size", 4)),
        (SetAttribute("memory_mb", 512, note="why"), plan_edits.SetAttribute("parse", "memory_mb", 512)),
    ],
)
def test_answers_are_changes_of_the_operator(answer, edit):
    world = World({"parse": [Listener([answer])]})
    world.deciders.look(Figures(0, 1.0))
    [asked] = world.asked
    assert (asked.edits, asked.note, asked.who) == ((edit,), "why", "listener Listener of parse")
    assert world.states() == ["ASKED"]
    assert world.events[0].by == "listener Listener of parse"


def test_nobody_is_asked_while_a_change_of_its_own_waits():
    listener = Listener(Repartition(2), Repartition(3))
    world = World({"parse": [listener]})
    for committed in range(3):
        world.deciders.look(Figures(committed, committed))
    assert len(listener.seen) == len(world.asked) == 1
    world.asked[0].settle("APPLIED")
    world.deciders.look(Figures(3, 3.0))
    assert len(world.asked) == 2
    assert world.states() == ["ASKED", "APPLIED", "ASKED"]
    assert listener.heard == ["APPLIED"]


def test_a_refusal_is_told_with_its_reason():
    listener = Listener(Repartition(2))
    world = World({"parse": [listener]})
    world.deciders.look(Figures(0, 0.0))
    world.asked[0].settle("REFUSED", "it has no key")
    world.deciders.look(Figures(1, 1.0))
    assert (world.events[-1].state, world.events[-1].found) == ("REFUSED", "it has no key")
    assert listener.heard == ["REFUSED"]


@pytest.mark.parametrize("answer", [ValueError("no"), "more", 7, Repartition(2)])
def test_who_fails_or_answers_nonsense_is_named_once_and_asked_again(answer):
    sound = Listener(Repartition(2))
    bad = Policy(*[answer] * 3)  # a policy names no operator, so a bare `Repartition` is nonsense of it
    world = World({"parse": [sound]}, [bad])
    for committed in range(3):
        world.deciders.look(Figures(committed, committed))
    assert len(bad.seen) == 3
    assert len(world.asked) == 1
    [failed] = [event for event in world.events if event.state == "FAILED"]
    assert failed.by == "policy Policy"
    assert failed.note in failed.found
    assert "Traceback" in failed.found


@pytest.mark.parametrize(
    "answer",
    [
        Decision((Repartition(2),), "an answer, no edit"),
        Decision(plan_edits.Repartition("parse", 2), "no tuple"),
        Decision((plan_edits.Repartition("parse", "two"),), "no number"),
        Decision((plan_edits.Repartition("parse", 2),), "undone by nonsense", undo=("back",)),
        itertools.repeat(Decision((plan_edits.Repartition("parse", 2),), "for ever")),
    ],
)
def test_nonsense_in_a_decision_never_gets_to_the_windows(answer):
    sound = Policy(Decision((plan_edits.Repartition("store", 2),), "why"))
    world = World(policies=[Policy(answer), sound])
    world.deciders.look(Figures(0, 1.0))
    assert [asked.note for asked in world.asked] == ["why"]


def decision(undo: bool = False) -> Decision:
    expects = (Expectation("latency_p99_seconds", 1.0, 0.5, "parse", seconds=5.0),)
    back = (plan_edits.Repartition("parse", 1),) if undo else ()
    return Decision((plan_edits.Repartition("parse", 2),), "p99 1 s", expects, back)


@pytest.mark.parametrize(("latency", "state"), [(0.4, "HELPED"), (0.74, "HELPED"), (0.9, "MISSED")])
def test_what_came_is_compared_with_what_was_expected(latency, state):
    world = World(policies=[Policy(decision())])
    world.deciders.look(Figures(0, 0.0))
    world.asked[0].settle("APPLIED")
    world.deciders.look(Figures(1, 1.0))
    world.deciders.look(Figures(2, 5.9, 0.1))
    assert world.states() == ["ASKED", "APPLIED"]
    world.deciders.look(Figures(3, 6.0, latency))
    assert world.states() == ["ASKED", "APPLIED", state]
    expected = "latency p99 of `parse` from 1.00 s to 500.0 ms"
    assert world.events[-1].found == f"{expected}, found {1000 * latency:.1f} ms"


def test_what_did_not_help_is_taken_back_once():
    policy = Policy(decision(undo=True))
    world = World(policies=[policy])
    world.deciders.look(Figures(0, 0.0))
    world.asked[0].settle("APPLIED")
    world.deciders.look(Figures(1, 1.0))
    world.deciders.look(Figures(2, 7.0))
    assert world.states() == ["ASKED", "APPLIED", "MISSED", "ASKED"]
    assert world.asked[1].edits == (plan_edits.Repartition("parse", 1),)
    assert world.events[-1].undoes == 1
    world.asked[1].settle("APPLIED")
    world.deciders.look(Figures(3, 8.0))
    assert world.states()[-1] == "APPLIED"
    assert policy.heard == ["APPLIED", "MISSED", "APPLIED"]


def test_an_operator_that_is_gone_has_no_listener_and_no_figure():
    gone = Listener(Repartition(2))
    world = World({"gone": [gone]}, [Policy(decision())])
    world.deciders.look(Figures(0, 0.0))
    assert not gone.seen
    world.asked[0].settle("APPLIED")
    world.deciders.look(Figures(1, 1.0))
    figures = Figures(2, 9.0)
    figures.operators = {}
    world.deciders.look(figures)
    assert world.events[-1].state == "MISSED"
    assert world.events[-1].found.endswith("found unknown")


def test_a_figure_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="there is no figure `latency`; there are latency_p50_seconds"):
        Expectation("latency", 1.0, 0.5)


class Number(NamedTuple):
    value: int


class Watching(Operator):
    """Observes itself: asks for a higher limit, and notes the one that it sees."""

    data = InputPort(Number)
    limit: int = 1

    @data.process
    def work(self, number: Number) -> None:
        pass

    def observe(self, figures: Any) -> Any:
        return SetProperty("limit", self.limit + 1, note=f"{self.limit}")


def test_an_operator_that_observes_itself_sees_its_properties_of_now() -> None:
    app = Application("watching")
    numbers = app.add_operator("numbers", ListInput(Number, [(1,), END_WINDOW, (2,), END_WINDOW, (3,)]))
    watching = app.add_operator("watching", Watching(limit=4))
    app.add_stream("numbers", numbers.output, watching.data)
    notes = [row["note"] for row in run_local(app, properties={"watching.limit": 7}).decisions().to_pylist()]
    assert len(notes) > 1
    assert notes == [str(limit) for limit in range(7, 7 + len(notes))]
    assert watching.limit == 4  # the author's is as it was


class Keyed(Operator):
    """Asks for partitions that are made of its load."""

    data = InputPort(Number, key=lambda number: number.value)

    @data.process
    def work(self, number: Number) -> None:
        pass

    def observe(self, figures: Any) -> Any:
        if figures.partitions == 2 and figures.keys is not None:
            return Repartition(3, note="uneven", partitioner=HeaviestApart())
        return None


def test_a_partitioner_of_a_listener_is_given_the_load_by_partition_and_key() -> None:
    app = Application("keyed", window="10ms")
    items = [item for _ in range(9) for item in [*[(4,)] * 6, *[(6,)] * 3, (8,), END_WINDOW]]
    numbers = app.add_operator("numbers", ListInput(Number, items))
    app.add_stream("numbers", numbers.output, app.add_operator("keyed", Keyed(), partitions=2).data)
    run = run_local(app)
    [decision] = run.decisions().to_pylist()
    assert decision["state"] == "APPLIED", decision
    load = run.plan.logical.operator("keyed").attributes["partitioner"].load
    assert sorted(load.by_cell)[-4:] == [0.0, *map(pytest.approx, (0.1, 0.3, 0.6))]
    assert sum(load.by_partition) == pytest.approx(1.0)


class Wrong(PolicyBase):
    def decide(self, figures: Any) -> Any:
        return 1 // 0


def test_a_policy_that_raises_ends_a_run_in_tests_and_is_the_reason_of_broken_promises_in_others():
    app = Application("numbers")
    source = app.add_operator("numbers", ListInput(Number, [(1,), END_WINDOW, (2,)]))
    app.add_stream("numbers", source.output, app.add_operator("sink", CollectorSink(Number)).input)
    app.add_policy(Wrong())
    with pytest.raises(RidgelineError, match="policy Wrong has failed: ZeroDivisionError"):
        run_local(app)

    world = World(policies=[Wrong()])
    world.deciders.look(Figures(0, 1.0))
    promises = PromiseFold()
    promises.add(PromiseChanged(0.0, "throughput:sink", "throughput", "sink", False, 1.0, 2.0, "tuples/s"))
    promises.add(PromiseChanged(0.0, "latency:sink", "latency", "sink", True, 1.0, 2.0, "s"))
    promises.decided(world.events[0])
    reasons = {row["kept"]: row["reason"] for row in promises.rows(1.0)}
    assert reasons[True] == ""
    assert reasons[False].startswith("policy Wrong has failed: ZeroDivisionError")
