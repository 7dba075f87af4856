import pytest

from ridgeline.api import Application, InputPort, Operator, OutputPort, ProcessingMode
from ridgeline.api.attributes import APPLICATION_ATTRIBUTES
from ridgeline.api.operator import PassThroughUnifier
from ridgeline.plan import PortRef, validate
from support.plan.faulty_operators import chain
from support.plan.parts import Filter, Payment, Source, Store
from support.rows import in_a_row


@pytest.mark.guide("002", "Java API")
def test_a_valid_application() -> None:
    logical = validate(chain(Application("test", window="200ms", windows_kept="7"), partitions="3"))
    assert logical.application == "test"
    assert logical.window_seconds == 0.2
    defaults = {name: attribute.default for name, attribute in APPLICATION_ATTRIBUTES.items()}
    assert logical.attributes == {**defaults, "windows_kept": 7}
    assert [operator.name for operator in logical.operators] == ["source", "check", "balances", "store"]
    assert [operator.is_input for operator in logical.operators] == [True, False, False, False]
    assert [stream.name for stream in logical.streams] == ["payments", "valid", "balances"]
    assert logical.streams[1].source == PortRef("check", "valid")
    assert list(logical.streams[1].sinks) == [PortRef("balances", "payments")]
    assert logical.streams[1].schema.type is Payment
    balances = logical.operator("balances")
    assert balances.attributes["partitions"] == 3
    assert balances.attributes["processing_mode"] is ProcessingMode.AT_LEAST_ONCE
    with pytest.raises(KeyError):
        logical.operator("nobody")


def test_topological_order_with_ties_in_the_order_of_adding() -> None:
    app = Application("test")
    store = app.add_operator("store", Store())
    second = app.add_operator("second", Filter())
    first = app.add_operator("first", Filter())
    source = app.add_operator("source", Source())
    app.add_operator("lonely", Source())
    app.add_stream("lonely", app.operators[4].operator.payments, app.add_operator("end", Store()).input)
    app.add_stream("payments", source.payments, second.data, first.data)
    app.add_stream("kept", second.passed, store.input)
    app.add_stream("lost", first.passed, app.add_operator("other", Store()).input)
    names = [operator.name for operator in validate(app).operators]
    assert names == ["source", "second", "store", "first", "lonely", "end", "other"]


def test_schemas_flow_through_any() -> None:
    app = in_a_row(
        Application("test"), source=Source(), keep=Filter(), merge=PassThroughUnifier(), store=Store()
    )
    logical = validate(app)
    assert {stream.schema.type for stream in logical.streams} == {Payment}
    assert logical.operator("store").inputs["input"].type is Payment
    assert logical.operator("keep").outputs["passed"].type is Payment


class Sink(Operator):
    input = InputPort(Payment)
    errors = OutputPort(Payment, error=True)

    @input.process
    def write(self, payment: Payment) -> None: ...


@pytest.mark.guide("004", "Port Declarations")
def test_error_ports_need_not_be_connected() -> None:
    app = in_a_row(Application("test"), source=Source(), sink=Sink())
    validate(app)
