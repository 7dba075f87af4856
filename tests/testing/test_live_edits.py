"""Each attribute and each kind of edit, asked for live: it takes effect, or is refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.testing.test_attribute_effects import given_from_outside

from ridgeline import Application, StickyPartitioner
from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.edits import SetAttribute
from ridgeline.plan.planner import plan_application
from ridgeline.plan.same_values import same_value
from ridgeline.plan.transition import transition
from ridgeline.testing import CollectorSink, run_local
from support.rows import in_a_row
from support.testing.edited import Number, Numbers, Sums

OTHER: dict[str, Any] = {
    "processing_mode": "EXACTLY_ONCE",
    "partition_parallel": False,
    "partitioner": {"class": "ridgeline.StickyPartitioner", "arguments": ["input"]},
    "application_window": "40ms",
}
"""Values that fit this application."""
REFUSED = {
    "containers_max_count",
    "gpus",
    "heartbeat_interval",
    "locality_host",
    "locality_rack",
    "memory_mb",
    "speculation",
    "stats_max_allowable_windows_lag",
    "throughput_calculation_interval",
    "vcores",
}


def application() -> Application:
    return in_a_row(
        Application("live", window="10ms"),
        numbers=Numbers(),
        sums=(Sums(), {"partitions": 2}),
        sink=CollectorSink(Number),
    )


def asked_for() -> Iterator[tuple[Scope, str, Any]]:
    """A value for each attribute in each of its scopes, and those that options cannot give."""
    yield from given_from_outside()
    yield Scope.STREAM, "locality", "NODE_LOCAL"


@pytest.mark.parametrize(("scope", "name", "value"), [*asked_for()])
def test_an_attribute_takes_effect_or_is_refused(scope: Scope, name: str, value: Any) -> None:
    owner = {Scope.APPLICATION: "", Scope.STREAM: "stream.sums"}.get(scope, "sums")
    port = {Scope.INPUT_PORT: "input", Scope.OUTPUT_PORT: "output", Scope.UNIFIER: "output"}.get(scope, "")
    value = OTHER.get(name, value)
    if scope is Scope.APPLICATION and name == "on_error":
        value = "RETRY"  # the source has no tuples to leave out
    edits = [SetAttribute(owner, name, value, port, unifier=scope is Scope.UNIFIER)]
    if name == "error_tuples_kept" and scope is Scope.OPERATOR:
        edits.append(SetAttribute("sums", "on_error", "SKIP"))
    if name == "slide_by_window_count":
        edits.append(SetAttribute("sums", "application_window_count", 6))
    before = plan_application(application())
    run = run_local(application(), windows=9, changes={6: edits})
    [asked] = run.changes
    if asked.state != "APPLIED":
        assert asked.state == "REFUSED"
        assert name in asked.reason
        assert run.plan.version == 0
        return
    assert name not in REFUSED
    if name == "partition_parallel":
        return  # it was so before
    expected = StickyPartitioner("input") if name == "partitioner" else ATTRIBUTES[name].check(value)[0]
    logical = run.plan.logical
    if scope is Scope.STREAM:
        assert [one.locality for one in logical.streams[1].sinks.values()] == [expected]
        return
    operator = logical.operator("sums")
    found = {
        Scope.APPLICATION: logical.attributes,
        Scope.OPERATOR: operator.attributes,
        Scope.INPUT_PORT: operator.ports.get("input", {}),
        Scope.OUTPUT_PORT: operator.ports.get("output", {}),
        Scope.UNIFIER: operator.unifiers.get("output", {}),
    }[scope]
    assert same_value(found[name], expected)
    altered = transition(before, plan_application(application(), edits=edits), edits)
    assert any(name in line or name == "partitions" for line in altered.difference.lines)


def test_a_value_that_no_checkpoint_can_keep_is_refused() -> None:
    edit = SetAttribute("sums", "partitioner", StickyPartitioner("input"))
    run = run_local(application(), changes={5: [edit]})
    [asked] = run.changes
    assert asked.state == "REFUSED"
    assert "`sums.partitioner`: no checkpoint can keep" in asked.reason
    assert run.window_ids == list(range(20))
