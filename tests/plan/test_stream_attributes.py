"""Attributes of streams, and of the ports of modules, in code and from outside."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline import Application, Locality
from ridgeline.plan import validate
from ridgeline.plan.spec.form import Form
from ridgeline.plan.validation import find_faults
from support.plan.faulty import are
from support.plan.module_parts import Checked, Totals, around
from support.plan.parts import payments_app
from support.plan.specifications import write_specification


def localities(app: Application, attributes: dict[str, Any]) -> dict[str, Locality | None]:
    return {stream.name: stream.locality for stream in validate(app, {}, attributes).streams}


def faults(app: Application, attributes: dict[str, Any] | None = None) -> list[str]:
    return [str(fault) for fault in find_faults(app, {}, attributes or {})]


@pytest.mark.guide("002", "Attributes")
def test_a_stream_has_its_locality_from_outside() -> None:
    app = around(Checked(limit=1))
    assert localities(app, {}) == {"in": None, "m.to0": None, "out": None}
    found = localities(app, {"stream.m.to0.locality": "container_local", "stream.in.locality": "NODE_LOCAL"})
    assert found == {"in": Locality.NODE_LOCAL, "m.to0": Locality.CONTAINER_LOCAL, "out": None}


def test_a_specification_has_what_was_set() -> None:
    app = payments_app()
    app.set_attribute("payments", locality="CONTAINER_LOCAL")
    assert [stream.locality for stream in app.streams] == ["CONTAINER_LOCAL", None, None, None, None]
    assert "locality: CONTAINER_LOCAL" in write_specification(app, Form.YAML)


def test_faults_of_streams() -> None:
    name = "payments"
    outside = {
        f"stream.{name}.locality": "EVERYWHERE",
        f"stream.{name}.partitions": "2",
        f"stream.{name}x.locality": "NODE_LOCAL",
    }
    found = faults(payments_app(), outside)
    assert found[0].startswith(f"`stream.{name}.locality`: attribute `locality` must be one of THREAD_LOCAL")
    assert found[1].startswith(f"`stream.{name}.partitions`: there is no attribute `partitions` of streams; ")
    assert found[2:] == [
        f"`stream.{name}x`: there is no stream `{name}x` to set an attribute of; did you mean `{name}`?"
    ]


def test_ports_of_modules_from_outside_are_those_that_they_lead_to() -> None:
    app = around(Totals())
    logical = validate(
        app,
        {},
        {
            "m.port.payments.queue_capacity": "7",
            "m.checked.port.payments.queue_capacity": "8",
            "m.port.balances.buffer_memory_mb": "3",
            "m.unifier.balances.vcores": "2",
        },
    )
    assert logical.operator("m.checked.check").ports["payments"]["queue_capacity"] == 8, "the inner one wins"
    assert logical.operator("m.log").ports["input"]["queue_capacity"] == 7
    assert logical.operator("m.balances").ports["balances"]["buffer_memory_mb"] == 3
    assert logical.operator("m.balances").unifiers["balances"]["vcores"] == 2
    own = {"m.port.payments.queue_capacity": "7", "m.checked.check.port.payments.queue_capacity": "9"}
    assert validate(app, {}, own).operator("m.checked.check").ports["payments"]["queue_capacity"] == 9, (
        "the operator's own wins"
    )


def test_faults_of_ports_of_modules() -> None:
    outside = {
        "m.port.paymnts.queue_capacity": "7",
        "m.unifier.payments.vcores": "2",
        "m.port.payments.unifier_limit": "2",
    }
    found = faults(around(Totals()), outside)
    assert are(
        found[:2],
        [
            "`m.port.paymnts`: module `m` has no port ... of; did you mean `payments`?",
            "`m.unifier.payments`: module `m` has no output ... of; known are `balances`",
        ],
    )
    assert [fault.partition(":")[0] for fault in found[2:]] == [
        "`m.checked.check.port.payments.unifier_limit`",
        "`m.log.port.input.unifier_limit`",
    ]
