"""The spans of a traced window, from its events: all times on STRAM's clock."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import without_tuple
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.measure.clocks import Line
from ridgeline.measure.events import (
    RunEvent,
    Table,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.latency.blame import blame_chains, since_trigger, spark_phases
from ridgeline.measure.latency.critical_path import CriticalPath, critical_paths, slot_paths
from ridgeline.measure.latency.operator_latency import Latencies, latencies
from ridgeline.measure.latency.window import Windows, WindowTimes, assemble
from ridgeline.measure.topology import OperatorNode, Topology
from ridgeline.measure.trace_ids import span_id
from ridgeline.service.export.traces import ChosenWindow

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

MOST_SPANS = 1000
"""Operators of a window. Of more the critical path and the slowest are shown."""
MOST_SPANS_BY_CHANCE = 250
"""Of a window that nothing is wrong with: traces of large plans would cost the driver too much."""
_NANOSECONDS = 1_000_000_000
_LONGEST_TEXT = 2000
_TEXTS_KEPT = 8192  # most are the same in the next window
Attributes = Mapping[str, str | bool | int | float]


@dataclass(slots=True)
class PlainSpan:
    """A span before it is OpenTelemetry's. Times: seconds since 1970. `fault`: why its status is an error.

    `parent`: the place of its parent among the window's spans, -1 for the first one.
    """

    name: str
    began: float
    ended: float
    parent: int = 0
    attributes: Attributes = field(default_factory=dict)
    fault: str | None = None


def window_spans(chosen: ChosenWindow, clocks: Mapping[str, Line]) -> list[PlainSpan]:
    """Build the spans of a window, its own first: as a tree in which parents come before children."""
    if chosen.failure:
        return _failed(chosen)
    topology = chosen.plan.topology
    times = assemble(topology, chosen.events, clocks)
    windows = Windows(topology, [times])
    found = latencies(windows)
    path = CriticalPath.of(topology, found.own[0], critical_paths(topology, found.own)[0])
    [(entered, left)] = windows.tuples()
    first = PlainSpan(
        f"window {chosen.plan.application}",
        times.triggered,
        times.commit.published,
        -1,
        {
            **_of_window(chosen),
            "ridgeline.attempts": times.commit.attempts,
            "ridgeline.latency_seconds": times.latency_seconds,
            "ridgeline.late_seconds": times.late_seconds,
            "ridgeline.critical_path_seconds": path.latency_seconds,
            "ridgeline.critical_path": " > ".join(topology.by_id[one].title for one in path.path),
            "ridgeline.tuples_in": entered,
            "ridgeline.tuples_out": left,
            **_blame(windows),
        },
        "an operator lost its window" if times.reported.dropped else None,
    )
    spans = [first, *_attempts(chosen.events, times.commit.planned), *_phases(times)]
    ran = next(place for place, span in enumerate(spans) if span.name == "run")
    most = MOST_SPANS_BY_CHANCE if chosen.why == "ratio" else MOST_SPANS
    shown = _shown(times, found, topology, path.path, most)
    if left_out := len(times.reported.operators) - len(shown):
        first.attributes = {**first.attributes, "ridgeline.operators_left_out": left_out}
    return [*spans, *(_one(node, windows, found, path.path, ran) for node in shown)]


def _of_window(chosen: ChosenWindow) -> Attributes:
    """The attributes that the span of a window has in any case."""
    found: dict[str, str | bool | int | float] = {
        "ridgeline.window_id": chosen.window_id,
        "ridgeline.plan_version": chosen.plan.plan_version,
        "ridgeline.sampled_by": chosen.why,
    }
    if chosen.median:
        found["ridgeline.median_seconds"] = chosen.median
    return found


def _blame(windows: Windows) -> Attributes:
    """The causes that the window waited for: seconds by cause."""
    found: dict[str, float] = {}
    chain = blame_chains(windows, slot_paths(windows))[0]
    for step in since_trigger(windows.times[0], chain):
        name = f"ridgeline.blame.{step.what}_seconds"
        found[name] = found.get(name, 0.0) + step.seconds
    return found


def _attempts(events: Iterable[RunEvent], counted: float) -> Iterator[PlainSpan]:
    """A span for each attempt that did not count. `counted`: when the one that counts began."""
    events = tuple(events)
    retries = {event.attempt: event for event in events if isinstance(event, WindowRetried)}
    starts = sorted((event.attempt, event.at) for event in events if isinstance(event, WindowStarted))
    for (attempt, began), after in zip(starts, [*(at for _, at in starts[1:]), counted], strict=False):
        retried = retries.get(attempt + 1)
        if retried is None and (attempt, began) == starts[-1]:
            continue
        reason = "it began again, since another window or slot had failed"
        if retried is not None:
            reason = "run again to be closed" if retried.final else retried.reason
        fault = None if retried is not None and retried.final else reason
        ended = after if retried is None else retried.at
        yield PlainSpan(
            "attempt",
            began,
            max(began, ended),
            0,
            {"ridgeline.attempt": attempt, "ridgeline.reason": _text(reason)},
            fault,
        )


def _phases(times: WindowTimes) -> Iterator[PlainSpan]:
    """The steps of the driver in the attempt that counts."""
    position = times.triggered
    commit = times.commit
    for what, seconds in spark_phases(times).items():
        if seconds > 0:
            yield PlainSpan(f"spark {what}", position, position + seconds)
        position += seconds
    yield PlainSpan("plan", commit.planned, commit.launched)
    yield PlainSpan("run", commit.launched, commit.returned, 0, {"ridgeline.attempt": commit.attempts - 1})
    yield PlainSpan("stage outputs", commit.returned, commit.staged)
    yield PlainSpan("commit", commit.staged, commit.committed)
    yield PlainSpan("publish", commit.committed, commit.published)


def _shown(
    times: WindowTimes, latencies: Latencies, topology: Topology, path: Container[int], most: int
) -> list[OperatorNode]:
    """The operators that have spans, in the order of the plan: of too many the path and the slowest."""
    own: list[float] = latencies.own[0].tolist()
    places = topology.places
    reported = [topology.by_id[one] for one in times.reported.operators["operator"].tolist()]
    ranked = sorted(reported, key=lambda node: (node.id not in path, -own[places[node.id]]))
    return sorted(ranked[:most], key=lambda node: places[node.id])


def _one(
    node: OperatorNode,
    windows: Windows,
    latencies: Latencies,
    path: Container[int],
    parent: int,
) -> PlainSpan:
    """The span of an operator, or of one partition of it: its turn in its container."""
    [times], place = windows.times, windows.topology.places[node.id]
    reported = times.reported
    turn = _row(reported.operators, "operator", node.id)
    latency, compute, wait, transfer, *_ = latencies.figures[0, :, place].tolist()
    ended = float(windows.ended[0, place])
    found: dict[str, str | bool | int | float] = {
        "ridgeline.operator": node.name,
        "ridgeline.operator_id": node.id,
        "ridgeline.operator_class": node.class_name,
        "ridgeline.partition": node.partition,
        "ridgeline.container": node.container,
        "host.name": reported.hosts[turn["host"]],
        "ridgeline.on_critical_path": node.id in path,
        "ridgeline.latency_seconds": latency,
        "ridgeline.compute_seconds": compute,
        "ridgeline.wait_seconds": wait,
        "ridgeline.transfer_seconds": transfer,
        "ridgeline.tuples_in": turn["tuples_in"],
        "ridgeline.tuples_out": turn["tuples_out"],
        "ridgeline.queued_tuples": turn["tuples_in"],
    }
    if node.container in reported.containers["container"]:
        found["process.pid"] = _row(reported.containers, "container", node.container)["pid"]
    if latencies.clamped[0, place]:
        found["ridgeline.clocks_disagree"] = True
    if not math.isnan(turn["cpu_seconds"]):
        found["ridgeline.cpu_seconds"] = turn["cpu_seconds"]
    rest = {"errors": turn["errors"], "late_records": turn["late"], "state_bytes": turn["state_bytes"]}
    found |= {f"ridgeline.{name}": value for name, value in rest.items() if value}
    return PlainSpan(
        node.title,
        min(float(windows.began[0, place]), ended),
        ended,
        parent,
        found,
        reported.dropped.get(node.id),
    )


def _row(table: Table, name: str, number: int) -> dict[str, Any]:
    """The row of an operator or a container of a window."""
    row = table[table[name] == number][0]
    return dict(zip(table.dtype.names or (), row.item(), strict=True))


def _failed(chosen: ChosenWindow) -> list[PlainSpan]:
    """The spans of a window that was never committed: what the driver knows of it."""
    events = chosen.events
    starts = [event for event in events if isinstance(event, WindowStarted)]
    planned = next((event.at for event in events if isinstance(event, WindowPlanned)), starts[0].at)
    last = starts[-1]
    reason = _text(chosen.failure)
    first = PlainSpan(
        f"window {chosen.plan.application}",
        planned,
        max(planned, chosen.at),
        -1,
        {**_of_window(chosen), "ridgeline.attempts": len(starts), "ridgeline.reason": reason},
        chosen.failure,
    )
    given_up = PlainSpan(
        "attempt",
        last.at,
        max(last.at, chosen.at),
        0,
        {"ridgeline.attempt": last.attempt, "ridgeline.reason": reason},
        chosen.failure,
    )
    return [first, *_attempts(events, chosen.at), given_up]


@lru_cache(_TEXTS_KEPT)
def _text(text: str) -> str:
    """A text that may be sent: without secrets, tuples and control characters."""
    masked = printable(mask_text(without_tuple(text)))
    return masked if len(masked) <= _LONGEST_TEXT else f"{masked[: _LONGEST_TEXT - 1]}…"


def otel_spans(
    chosen: ChosenWindow, clocks: Mapping[str, Line], resource: Resource, version: str
) -> list[ReadableSpan]:
    """The spans of a window in OpenTelemetry's model. `version`: of Ridgeline."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    spans = window_spans(chosen, clocks)
    scope = InstrumentationScope("ridgeline", version)
    flags = TraceFlags(TraceFlags.SAMPLED)
    run = chosen.plan.application_id
    contexts = [
        SpanContext(chosen.trace, span_id(run, chosen.window_id, place), is_remote=False, trace_flags=flags)
        for place in range(len(spans))
    ]
    found: list[ReadableSpan] = []
    for place, span in enumerate(spans):
        status = Status(StatusCode.UNSET)
        if span.fault is not None:
            status = Status(StatusCode.ERROR, _text(span.fault))
        found.append(
            ReadableSpan(
                _text(span.name),
                contexts[place],
                contexts[span.parent] if span.parent >= 0 else None,
                resource,
                {name: _text(one) if isinstance(one, str) else one for name, one in span.attributes.items()},
                kind=SpanKind.INTERNAL,
                status=status,
                start_time=round(span.began * _NANOSECONDS),
                end_time=round(max(span.began, span.ended) * _NANOSECONDS),
                instrumentation_scope=scope,
            )
        )
    return found
