"""Change a running application from Python: properties, partitions, the DAG. `payments.py` is the application."""

from typing import NamedTuple

from payments import Payment, app
from ridgeline import InputPort, Operator, OutputPort, State
from ridgeline.operators import FileOutput


class Volume(NamedTuple):
    payments: int
    cents: int


class Audit(Operator):
    """All payments so far: how many, and how much."""

    payments = InputPort(Payment)
    volumes = OutputPort(Volume)

    count = State(0)
    cents = State(0)

    @payments.process
    def add(self, payment: Payment) -> None:
        self.count += 1
        self.cents += payment.cents

    def end_window(self) -> None:
        self.volumes.emit(Volume(self.count, self.cents))


if __name__ == "__main__":
    with app.start("local[2]", checkpoint="state") as handle:
        handle.set_property("payments", "per_window", 500)  # returns once it is committed
        handle.repartition("balances", 4)
        with handle.plan_change(note="an audit for an hour") as plan:
            audit = plan.add_operator("audit", Audit())
            store = plan.add_operator("audit_store", FileOutput(path="audit", format="jsonl"))
            plan.add_sink("payments", audit.payments)  # one sink more on a stream that runs
            plan.add_stream("volumes", audit.volumes, store.input)
        for change in handle.changes().to_pylist():
            print(f"{change['state']} with window {change['window']}: {change['what']}. {change['note']}")
        handle.wait()  # until the last payment
