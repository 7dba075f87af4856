"""Random applications for properties of plans."""

from typing import Any

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from ridgeline.api import (
    Application,
    InputOperator,
    InputPort,
    KeyedPartitioner,
    Operator,
    OutputPort,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from ridgeline.plan import Plan, find_faults, plan_application
from support.depth import deep
from support.plan.parts import Payment

LOCALITIES = [None, None, None, None, "THREAD_LOCAL", "CONTAINER_LOCAL", "NODE_LOCAL", "RACK_LOCAL"]


class Root(InputOperator):
    out = OutputPort(Payment, optional=True)


class Step(Operator):
    keyed = InputPort(Payment, key="account", optional=True)
    also_keyed = InputPort(Payment, key=lambda payment: payment.account, optional=True)
    in_turn = InputPort(Payment, optional=True)
    followed = InputPort(Payment, parallel=True, optional=True)
    out = OutputPort(Payment, optional=True)

    @keyed.process
    @also_keyed.process
    @in_turn.process
    @followed.process
    def go(self, payment: Payment) -> None: ...


@st.composite
def applications(draw: st.DrawFn) -> Application:
    app = Application("random")
    outputs: list[Any] = []
    sinks: dict[int, list[Any]] = {}
    limits = st.sampled_from([None, 2, 3])
    for number in range(draw(st.integers(1, 3))):
        root = app.add_operator(
            f"root{number}", Root(), partitions=draw(st.integers(1, 3)), unifier_limit=draw(limits)
        )
        outputs.append(root.out)
    for number in range(draw(st.integers(0, 6))):
        attributes: dict[str, Any] = {"unifier_limit": draw(limits)}
        ports = draw(
            st.lists(
                st.sampled_from(["keyed", "also_keyed", "in_turn", "followed"]),
                min_size=1,
                max_size=4,
                unique=True,
            )
        )
        if "followed" not in ports:
            attributes["partitions"] = draw(st.sampled_from([1, 1, 1, 2, 3, 5]))
        if "keyed" in ports and draw(st.booleans()):
            attributes["partitioner"] = draw(
                st.sampled_from([KeyedPartitioner(), StickyPartitioner("keyed"), RoundRobinPartitioner()])
            )
        step = app.add_operator(f"step{number}", Step(), **attributes)
        for port in ports:
            sinks.setdefault(draw(st.integers(0, len(outputs) - 1)), []).append(getattr(step, port))
        outputs.append(step.out)
    for index, ports_of_stream in sinks.items():
        app.add_stream(
            f"stream{index}", outputs[index], *ports_of_stream, locality=draw(st.sampled_from(LOCALITIES))
        )
    return app


def plan_of(app: Application) -> Plan:
    """Its plan; localities that cannot be are what a random application may have wrong."""
    faults = find_faults(app)
    assert all("locality" in fault.what or "partitioner" in fault.what.lower() for fault in faults)
    assume(not faults)
    return plan_application(app)


many = settings(
    max_examples=deep(20),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
