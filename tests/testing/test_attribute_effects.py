"""Each attribute has an effect: what is seen without it, and what with it. No attribute is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    ProcessingMode,
    RoundRobinPartitioner,
    State,
)
from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.support.attribute import Scope
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.heartbeats import heartbeat_seconds
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.measure.events import StateCompacted, WindowCommitted, WindowStarted
from ridgeline.plan import describe, plan_application, to_dict
from ridgeline.plan.execution import Plan
from ridgeline.stram.budget import Budgets
from ridgeline.stram.lateness import Overdue
from ridgeline.stram.placement import most_slots, place
from ridgeline.stram.slot_resources import NEEDS, needs_of
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.paths import ROOT
from support.plan.parts import payments_app
from support.rows import in_a_row
from support.stram.attempts import attempts_of, send


class Number(NamedTuple):
    value: int


FAILED: list[int] = []


class Sum(Operator):
    """Adds up; fails on negative numbers, and notes in `FAILED` how often it saw one."""

    numbers = InputPort(Number)
    sums = OutputPort(Number)

    total = State(0)
    seen = KeyedState(int)

    @numbers.process
    def add(self, number: Number) -> None:
        if number.value < 0:
            FAILED.append(number.value)
            raise ValueError("negative")
        self.total += number.value
        self.seen[number.value] = self.total

    def end_window(self) -> None:
        self.sums.emit(Number(self.total))


def ran(attributes: Mapping[str, Any], numbers: list[Any], **options: Any) -> Any:
    """A run of numbers -> sum -> sink in windows of a second."""
    app = in_a_row(
        Application("sums", window="1s"),
        numbers=ListInput(Number, numbers),
        sum=Sum(),
        sink=CollectorSink(Number),
    )
    FAILED.clear()
    return run_local(app, attributes=attributes, **options)


ONES = [Number(1), END_WINDOW] * 12
NEGATIVE = [Number(1), END_WINDOW, Number(-1), Number(-2), Number(-3), Number(2), END_WINDOW, Number(3)]


def results(numbers: list[Any], attributes: Mapping[str, Any]) -> Any:
    """How many tuples the sink got; "failed" if the run did."""
    try:
        return len(ran(attributes, numbers).collected("sink"))
    except OperatorError:
        return "failed"


def tries(attributes: Mapping[str, Any]) -> int:
    """How often the operator saw the tuple on which it fails."""
    with pytest.raises(OperatorError):
        ran({"sum.on_error": "RETRY", **attributes}, NEGATIVE)
    return len(FAILED)


def error_tuples(attributes: Mapping[str, Any]) -> int:
    return len(ran({"sum.on_error": "SKIP", **attributes}, NEGATIVE).watch.summary()["errorTuples"])


def windows_kept(attributes: Mapping[str, Any]) -> bool:
    storage = MemoryStorage()
    ran(attributes, ONES * 3, checkpoint=storage)
    return len(list(Checkpoint(storage, "sums").kept())) >= 24


def compactions(attributes: Mapping[str, Any]) -> bool:
    return any(isinstance(event, StateCompacted) for event in ran(attributes, ONES).events)


def several_in_flight(attributes: Mapping[str, Any]) -> bool:
    """Whether several windows were under way at a time."""
    apart = {"stream.numbers.locality": "NODE_LOCAL"}
    for seed in range(3):
        running: set[int] = set()
        for event in ran({**apart, **attributes}, ONES, interleave=seed).events:
            if isinstance(event, WindowStarted):
                running.add(event.window_id)
            elif isinstance(event, WindowCommitted):
                running.discard(event.window_id)
            if len(running) > 1:
                return True
    return False


def rate(attributes: Mapping[str, Any]) -> float:
    """Tuples per second at the end: a hundred in the first window, and none in ten more."""
    many = [Number(1)] * 100 + [END_WINDOW] * 11
    return round(ran(attributes, many).watch.info()["stats"]["tuplesProcessedPSMA"])


def of_plan(see: Callable[[Plan], Any], attributes: Mapping[str, Any]) -> Any:
    return see(plan_application(payments_app(), {}, attributes))


def count(plan: Plan, name: str, *, unifier: bool = False) -> int:
    return sum(one.name == name and one.unifier is unifier for one in plan.physical.operators)


def need(plan: Plan) -> Any:
    needs = needs_of(plan, place(plan, most_slots(plan)), NEEDS)
    return max((one.memory_mb, one.vcores, one.gpus) for one in needs)


def link(name: str, plan: Plan) -> Any:
    logical: Any = to_dict(plan)["logical"]
    return logical["attributes"].get(name)


def late_seconds(plan: Plan) -> float:
    """The least limit of all containers."""
    attempts = attempts_of(plan)
    send(attempts, 0, 0.0)
    late = Overdue(plan).look(attempts, 10_000.0, 0.0)
    assert late is not None
    return late.limit_seconds


@dataclass(frozen=True)
class Effect:
    """What `see` gives without and with some attributes."""

    given: Mapping[str, Any]
    see: Callable[[Mapping[str, Any]], Any]
    without: Any
    seen: Any


def planned(given: Mapping[str, Any], see: Callable[[Plan], Any], without: Any, seen: Any) -> Effect:
    return Effect(given, partial(of_plan, see), without, seen)


EFFECTS: dict[str, Effect] = {
    "partitions": planned({"top.partitions": "4"}, lambda plan: count(plan, "top"), 2, 4),
    "partitioner": planned(
        {"balances.partitioner": RoundRobinPartitioner()},
        lambda plan: {
            port for one in plan.physical.operators if one.name == "balances" for port in one.round_robin
        },
        set(),
        {"payments"},
    ),
    "partition_parallel": planned(
        {"check.partition_parallel": "true"}, lambda plan: count(plan, "check"), 1, 2
    ),
    "unifier_limit": planned(
        {"balances.unifier_limit": "2"}, lambda plan: count(plan, "balances", unifier=True), 3, 4
    ),
    "unifier_single_final": planned(
        {"balances.port.balances.unifier_single_final": "true"},
        lambda plan: count(plan, "balances", unifier=True),
        3,
        1,
    ),
    "locality": planned(
        {"stream.rejected.locality": "NODE_LOCAL"},
        lambda plan: any(
            {"check", "rejected_store"}
            <= {one.name for one in plan.physical.operators if one.id in container.operators}
            for container in plan.execution.containers
        ),
        True,
        False,
    ),
    "memory_mb": planned({"check.memory_mb": "70"}, need, (0, 1, 0), (70, 1, 0)),
    "vcores": planned({"check.vcores": "3"}, need, (0, 1, 0), (0, 3, 0)),
    "gpus": planned({"check.gpus": "2"}, need, (0, 1, 0), (0, 1, 2)),
    "locality_host": planned(
        {"check.locality_host": "alpha"}, lambda plan: "to host `alpha`" in describe(plan), False, True
    ),
    "locality_rack": planned(
        {"check.locality_rack": "r1"}, lambda plan: "to rack `r1`" in describe(plan), False, True
    ),
    "containers_max_count": planned(
        {"containers_max_count": "2"}, lambda plan: most_slots(plan) <= 2, False, True
    ),
    "doc_link": planned({"doc_link": "https://docs"}, partial(link, "doc_link"), None, "https://docs"),
    "data_link": planned({"data_link": "https://data"}, partial(link, "data_link"), None, "https://data"),
    "heartbeat_interval": planned({"heartbeat_interval": "2s"}, heartbeat_seconds, 1.0, 2.0),
    "metrics_recording_level": planned({"metrics_recording_level": "OFF"}, heartbeat_seconds, 1.0, None),
    "timeout_window_count": planned(
        {"window": "1s", "timeout_window_count": "300"}, late_seconds, 120.0, 300.0
    ),
    "application_window_count": Effect({"sum.application_window_count": "4"}, partial(results, ONES), 12, 3),
    "application_window": Effect({"sum.application_window": "4s"}, partial(results, ONES), 12, 3),
    "slide_by_window_count": planned(
        {"balances.application_window_count": "6", "balances.slide_by_window_count": "2"},
        lambda plan: max(one.slides for one in plan.physical.operators),
        0,
        3,
    ),
    "window_work": planned(
        {"window_work": "2"}, lambda plan: Budgets(plan, {}, bounded=True).target, 0.5, 2.0
    ),
    "on_error": Effect({"sum.on_error": "SKIP"}, partial(results, NEGATIVE), "failed", 3),
    "processing_mode": Effect(
        {"sum.processing_mode": "AT_MOST_ONCE", "sink.processing_mode": "AT_MOST_ONCE"},
        partial(results, NEGATIVE),
        "failed",
        2,
    ),
    "recovery_attempts": Effect({"sum.recovery_attempts": "1"}, tries, 4, 2),
    "error_tuples_kept": Effect({"sum.error_tuples_kept": "3"}, error_tuples, 1, 3),
    "windows_kept": Effect({"windows_kept": "24"}, windows_kept, False, True),
    "snapshot_interval": Effect({"snapshot_interval": "3"}, compactions, False, True),
    "windows_in_flight": Effect({"windows_in_flight": "1"}, several_in_flight, True, False),
    "throughput_calculation_interval": Effect({"throughput_calculation_interval": "100s"}, rate, 1, 10),
}
ELSEWHERE = {
    "keep_state": "testing/test_keep_state.py",
    "time_ahead_limit": "testing/test_watermarks.py",
    "stream_codec": "engine/operator/test_stream_codecs.py",
    "queue_capacity": "stram/test_waiting.py",
    "buffer_memory_mb": "stram/test_waiting.py",
    "callback_timeout": "engine/driver/test_watchdog.py",
    "heartbeat_timeout": "engine/driver/test_watchdog.py",
    "stats_max_allowable_windows_lag": "measure/latency/test_fold.py",
    "ages_from_newest_record": "measure/age/test_record_age.py",
    "speculation": "engine/driver/slots/test_spare.py",
    "speculation_multiplier": "stram/test_speculation.py",
}
"""Effects that need a clock or messages by hand: the tests that show them."""


def test_each_attribute_has_a_row() -> None:
    assert sorted([*EFFECTS, *ELSEWHERE]) == sorted(ATTRIBUTES), "an attribute without effect, or a row twice"


@pytest.mark.guide("002", "Attributes")
@pytest.mark.guide("004", "Operator Attributes")
@pytest.mark.parametrize("name", EFFECTS)
def test_it_has_its_effect(name: str) -> None:
    effect = EFFECTS[name]
    assert any(key.rpartition(".")[2] == name for key in effect.given)
    others = {key: value for key, value in effect.given.items() if key == "window"}
    assert (effect.see(others), effect.see(effect.given)) == (effect.without, effect.seen)
    assert effect.without != effect.seen


def test_the_tests_that_show_their_effects_are_there() -> None:
    for name, where in ELSEWHERE.items():
        assert name in (ROOT / "tests" / where).read_text(), where


PLACES = {
    Scope.APPLICATION: "",
    Scope.OPERATOR: "balances.",
    Scope.INPUT_PORT: "balances.port.payments.",
    Scope.OUTPUT_PORT: "balances.port.balances.",
    Scope.UNIFIER: "balances.unifier.balances.",
}
TEXTS = {"stream_codec": None, "queue_capacity": "7", "buffer_memory_mb": "7", "callback_timeout": "5s"}
TEXTS |= {"time_ahead_limit": "1h", "heartbeat_timeout": "9s", "stats_max_allowable_windows_lag": "20"}
TEXTS |= {"speculation": "0.9", "speculation_multiplier": "2", "ages_from_newest_record": "true"}
TEXTS |= {"keep_state": "false"}


def given_from_outside() -> Iterator[tuple[Scope, str, Any]]:
    """A value for each attribute in each of its scopes."""
    for name, attribute in ATTRIBUTES.items():
        texts = (
            [value for key, value in EFFECTS[name].given.items() if key.endswith(name)]
            if (name in EFFECTS)
            else [TEXTS[name]]
        )
        for scope in PLACES:
            if texts[0] is not None and scope in attribute.scopes:
                yield scope, name, texts[0]


class Tell(Operator):
    data = InputPort(object)
    told = OutputPort(object)

    @data.process
    def tell(self, value: Any) -> None:
        context = self.context
        self.told.emit((context.attributes[value], context.port_attributes["data"]["queue_capacity"]))
        self.told.emit(context.processing_mode)


@pytest.mark.guide("002", "Attributes")
def test_an_operator_reads_its_attributes() -> None:
    app = Application("app", recovery_attempts=7)
    source = app.add_operator("source", ListInput(object, ["recovery_attempts"]))
    tell = app.add_operator("tell", Tell(), processing_mode="EXACTLY_ONCE")
    sink = app.add_operator("sink", CollectorSink(object))
    app.set_attribute(tell.data, queue_capacity=5)
    app.add_stream("asked", source.output, tell.data)
    app.add_stream("told", tell.told, sink.input)
    assert run_local(app).collected("sink") == [(7, 5), ProcessingMode.EXACTLY_ONCE]
