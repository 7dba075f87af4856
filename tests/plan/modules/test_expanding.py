"""Modules: operators that are made of operators."""

from typing import Any

import pytest

from ridgeline.api import Application, InputPort, Module, OutputPort
from ridgeline.plan import describe, plan_application, to_dict, validate
from support.plan.module_parts import Checked, Totals, around
from support.plan.parts import Check, Payment, Store


@pytest.mark.guide("004", "Hierarchical Operators")
def test_a_module_becomes_its_operators_with_names_of_its_own() -> None:
    plan = validate(around(Checked()))
    assert [operator.name for operator in plan.operators] == ["source", "m.check", "m.filter0", "store"]
    assert [(one.name, str(one.source), *map(str, one.sinks)) for one in plan.streams] == [
        ("in", "source.payments", "m.check.payments"),
        ("out", "m.filter0.passed", "store.input"),
        ("m.to0", "m.check.valid", "m.filter0.data"),
    ]
    (module,) = plan.modules
    assert module.kind == "Checked"
    assert {port: list(map(str, ends)) for port, ends in (module.ends or {}).items()} == {
        "payments": ["m.check.payments"],
        "valid": ["m.filter0.passed"],
        "rejected": ["m.check.rejected"],
    }


def test_properties_reach_the_module_before_it_is_populated_and_the_operators_inside() -> None:
    overrides = {"m.limit": "2", "m.filters": "2", "store.path": "a", "source.count": 5}
    plan = validate(around(Checked()), overrides)
    assert [operator.name for operator in plan.operators][1:4] == ["m.check", "m.filter0", "m.filter1"]
    assert plan.operator("m.check").attributes["partitions"] == 2
    assert validate(around(Totals()), {"m.log.path": "b"}).operator("m.log").operator.path == "b"  # type: ignore[attr-defined]
    deep = validate(around(Totals()), {"m.checked.filters": "3"})
    assert [one.name for one in deep.operators if "filter" in one.name] == [
        f"m.checked.filter{number}" for number in range(3)
    ]


def test_attributes_of_a_module_are_those_of_its_operators_that_say_nothing_else() -> None:
    plan = validate(around(Totals(), recovery_attempts=7, application_window_count=2))
    assert plan.operator("m.checked.check").attributes["recovery_attempts"] == 7
    assert plan.operator("m.checked.check").attributes["partitions"] == 1
    assert plan.operator("store").attributes["recovery_attempts"] == 3
    given = {"m.recovery_attempts": "5", "m.checked.recovery_attempts": "4", "m.log.recovery_attempts": "1"}
    plan = validate(around(Totals(), recovery_attempts=7), {}, given)
    attempts = {one.name: one.attributes["recovery_attempts"] for one in plan.operators}
    assert attempts == {
        "source": 3, "m.checked.check": 4, "m.checked.filter0": 4, "m.balances": 5, "m.log": 1, "store": 3,
    }  # fmt: skip


def test_validating_changes_nothing_and_populates_each_time_anew() -> None:
    seen = []

    class Counted(Checked):
        names: list[str] = []  # noqa: RUF012  a property

        def populate(self, app: Application) -> None:
            self.names.append("x")
            seen.append((id(self), id(app), len(self.names)))
            super().populate(app)

    app = around(module := Counted())
    plan_application(app)
    validate(app, {"m.limit": "1"})
    assert len(seen) == len(set(seen)) == 2
    assert [count for _, _, count in seen] == [1, 1]
    assert module.limit == 3
    assert not module.names
    assert [added.name for added in app.operators] == ["source", "store"]


class Tapped(Module):
    """An output port that also feeds an operator inside."""

    payments = InputPort(Payment)
    out = OutputPort(Payment)

    def populate(self, app: Application) -> None:
        check = app.add_operator("check", Check())
        log = app.add_operator("log", Store())
        app.add_stream("log", check.valid, log.input, locality="NODE_LOCAL")
        self.payments.connect(check.payments)
        self.out.connect(check.valid)


def test_a_port_that_feeds_operators_inside_and_outside_begins_one_stream() -> None:
    plan = validate(around(Tapped()))
    (stream,) = [stream for stream in plan.streams if str(stream.source) == "m.check.valid"]
    assert (stream.name, list(map(str, stream.sinks))) == ("m.log", ["m.log.input", "store.input"])
    assert [sink.locality and sink.locality.name for sink in stream.sinks.values()] == ["NODE_LOCAL", None]


def test_the_plan_shows_what_modules_are_made_of() -> None:
    plan = plan_application(around(Totals()))
    shown_lines = describe(plan).splitlines()
    assert shown_lines[2] == "logical plan: 6 operators, 4 streams"
    assert [line for line in shown_lines if line.startswith("  m.checked.check ")]
    shown: Any = to_dict(plan)["logical"]
    assert [(one["name"], one["module"]) for one in shown["operators"]][2:4] == [
        ("m.checked.check", "m.checked"),
        ("m.checked.filter0", "m.checked"),
    ] or shown
    assert [(one["name"], one["module"]) for one in shown["modules"]] == [("m", None), ("m.checked", "m")]


def test_a_secret_of_a_module_is_shown_nowhere() -> None:
    class Guarded(Checked):
        password: str = "none"

    plan = plan_application(around(Guarded(password="open sesame")))
    assert "sesame" not in f"{describe(plan)}{to_dict(plan)}{plan.logical.modules}"


def test_attributes_of_ports_reach_the_ports_inside() -> None:
    app = around(module := Totals())
    app.set_attribute(module.payments, partition_parallel=True)
    app.set_attribute(module, recovery_attempts=9)
    plan = validate(app, {}, {"m.log.port.input.partition_parallel": "false"})
    assert plan.operator("m.checked.check").ports["payments"]["partition_parallel"] is True
    assert plan.operator("m.log").ports["input"]["partition_parallel"] is False
    assert plan.operator("m.log").attributes["recovery_attempts"] == 9
