"""The testing kit: an in-process runner, a stepping clock, a list input and a collecting sink."""

from ridgeline.testing.clock import SteppingClock
from ridgeline.testing.collector import CollectorSink
from ridgeline.testing.list_input import ABORT, END_WINDOW, EOF, ListInput
from ridgeline.testing.run_local import LocalRun, run_local

__all__ = [
    "ABORT",
    "END_WINDOW",
    "EOF",
    "CollectorSink",
    "ListInput",
    "LocalRun",
    "SteppingClock",
    "run_local",
]
