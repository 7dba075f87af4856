"""The testing kit: an in-process runner, faults, comparisons, a stepping clock, inputs and sinks."""

from ridgeline.testing.checks import (
    assert_independent_of_order,
    assert_independent_of_partitions,
    assert_recovers,
    compare_runs,
)
from ridgeline.testing.clock import SteppingClock
from ridgeline.testing.comparing import Comparison, Difference
from ridgeline.testing.connectors.outputs import connector_checks
from ridgeline.testing.connectors.target import ConnectorReport, ConnectorRow, ConnectorTarget
from ridgeline.testing.faults import Fault, Faults
from ridgeline.testing.list_input import ABORT, END_WINDOW, EOF, ListInput, recorded
from ridgeline.testing.local_run import LocalRun
from ridgeline.testing.run_local import run_local
from ridgeline.testing.sinks import (
    CollectorSink,
    CountSink,
    FirstLastSink,
    HashSink,
    NullSink,
)

__all__ = [
    "ABORT",
    "END_WINDOW",
    "EOF",
    "CollectorSink",
    "Comparison",
    "ConnectorReport",
    "ConnectorRow",
    "ConnectorTarget",
    "CountSink",
    "Difference",
    "Fault",
    "Faults",
    "FirstLastSink",
    "HashSink",
    "ListInput",
    "LocalRun",
    "NullSink",
    "SteppingClock",
    "assert_independent_of_order",
    "assert_independent_of_partitions",
    "assert_recovers",
    "compare_runs",
    "connector_checks",
    "recorded",
    "run_local",
]
