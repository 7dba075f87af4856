"""Operators in turn, for what marks lines with their names."""

from ridgeline.api.clock import SystemClock
from ridgeline.api.context import OperatorContext
from ridgeline.engine.process.worker_output import CurrentOperator


def _operator(name, partition):
    context = OperatorContext(
        application="payments",
        name=name,
        operator_id=1,
        partition=partition,
        partitions=2,
        clock=SystemClock(),
        run_id="run",
    )
    return CurrentOperator(name, context)


BALANCES, CITIES = _operator("balances", 1), _operator("cities", 0)
