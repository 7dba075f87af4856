"""The runtime of one operator alone, which the test runs window by window."""

from ridgeline import Application, OperatorContext
from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.operator import operator_type
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, ListInput, SteppingClock


def planned(operator, *, clock=None, **attributes):
    """What a runtime, a part or an instance needs: its plan, with a stream at each port, and context."""
    app = Application("app")
    step = app.add_operator("step", operator, **attributes)
    declared = operator_type(type(operator))
    for port, of in declared.inputs.items():
        source = app.add_operator(port, ListInput(of.declared, []))
        app.add_stream(port, source.output, getattr(step, port))
    for port in declared.outputs:
        app.add_stream(f"{port}_", getattr(step, port), app.add_operator(f"{port}_", CollectorSink()).input)
    spec = next(one for one in plan_application(app).physical.operators if one.name == "step")
    context = OperatorContext(
        application="app",
        name="step",
        operator_id=spec.id,
        partition=0,
        partitions=1,
        clock=clock or SteppingClock(),
        run_id="r",
    )
    return spec, context


def runtime(operator, *, level=RecordingLevel.INFO, **options):
    return OperatorRuntime(*planned(operator, **options), level)
