"""Attributes of ports and unifiers: given in code or from outside, seen in plans."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline.api import Application, ValidationError
from ridgeline.api.errors import StructureError
from ridgeline.plan import plan_application, validate
from support.plan.faulty import are
from support.plan.parts import Balances, Store, payments_app


def faults_of(app: Application, attributes: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        validate(app, {}, attributes)
    return [str(fault) for fault in caught.value.faults]


def operator(app: Application, name: str) -> Any:
    return next(added.operator for added in app.operators if added.name == name)


@pytest.mark.guide("002", "Attributes")
@pytest.mark.guide("004", "Operator Attributes")
@pytest.mark.guide("002", "Dynamic Application Modifications")
def test_code_gives_attributes_and_the_outside_wins() -> None:
    app = payments_app()
    balances = operator(app, "balances")
    app.set_attribute(balances, recovery_attempts=1, on_error="SKIP")
    app.set_attribute(balances.balances, unifier_limit=2)
    app.set_attribute(balances.balances, unifier=True, memory_mb=100, vcores=2)
    outside = {
        "balances.unifier.balances.memory_mb": "300",
        "balances.on_error": "RETRY",
        "recovery_attempts": "9",
    }
    logical = validate(app, {}, outside)
    found = logical.operator("balances")
    assert (found.attributes["recovery_attempts"], found.attributes["on_error"]) == (1, "RETRY")
    assert found.ports["balances"]["unifier_limit"] == 2
    assert (
        found.unifiers["balances"]["memory_mb"],
        found.unifiers["balances"]["vcores"],
    ) == (300, 2)
    assert found.unifiers["balances"]["recovery_attempts"] == 1, "from the operator"
    assert logical.operator("top").attributes["recovery_attempts"] == 9, "from the application"


def test_physical_unifiers_have_attributes_of_their_own() -> None:
    plan = plan_application(
        payments_app(), {}, {"top.unifier.top.gpus": 1, "top.processing_mode": "EXACTLY_ONCE"}
    )
    (unifier,) = [one for one in plan.physical.operators if one.unifier and one.name == "top"]
    assert unifier.attributes["gpus"] == 1
    assert unifier.attributes["processing_mode"] == "EXACTLY_ONCE"
    assert unifier.attributes["application_window_count"] == 5


def test_all_faults_of_ports_at_once() -> None:
    app = payments_app()
    top = operator(app, "top")
    app.set_attribute(top.top, partition_parallel=True)  # type: ignore[call-overload]
    for end in (top, top.balances):
        with pytest.raises(StructureError, match="such as `balances"):
            app.set_attribute(end, unifier=True, memory_mb=1)
    for none in ("tip", Balances.payments):
        with pytest.raises(StructureError, match="or a stream's name"):
            app.set_attribute(none, partitions=3)
    with pytest.raises(StructureError, match=r"a `Store` that was not added; did you mean"):
        app.set_attribute(Store().input, partition_parallel=True)
    with pytest.raises(StructureError, match=r"is a `Store` that was not added; add it by"):
        app.set_attribute(Store(), partitions=2)
    outside = {
        "top.port.tip.unifier_limit": 4,
        "top.unifier.balances.memory_mb": 4,
        "top.port.top.unifier_limit": "many",
        "top.port.top": 4,
        "top.prot.top.unifier_limit": 4,
        "tip.port.top.unifier_limit": 4,
    }
    assert are(
        faults_of(app, outside),
        [
            "`tip.port.top.unifier_limit`: there is no ... attribute of; did you mean `top`?",
            "`top.port.top`: there is no attribute ... --attributes` shows all",
            "`top.prot.top.unifier_limit`: there is no ... did you mean `unifier_limit`?",
            "`top.port.top.partition_parallel`: there is no ... partition_parallel=...)`",
            "`top.port.top.unifier_limit`: attribute ... numbers: one for each level)",
            "`top.port.tip`: `top` has no port `tip` to set an attribute of; did you mean `top`?",
            "`top.unifier.balances`: `top` has no output ... an attribute of; known are `top`",
        ],
    )
