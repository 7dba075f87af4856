"""A chain of three operators, and what its run reports window by window."""

import numpy as np

from ridgeline.measure.age.record_age import sample
from ridgeline.measure.events import (
    ApplicationPlanned,
    ContainerHeartbeat,
    ContainerWindow,
    OperatorWindow,
    RunningOperator,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.measurement import Measurement
from support.measure.partitioned import chain
from support.measure.reports import of_reports

WIDTH = 1.0
TOPOLOGY = chain("read", "sum", "write")


def planned(topology=TOPOLOGY, at=0.0, version=0, **attributes):
    info = {"user": "ann", "host": "driver", "version": "1", "master": "local", "checkpoint": "/c"}
    return ApplicationPlanned(at, "app", "app-1", version, WIDTH, topology, attributes, info)


def begin(window, attempt=0):
    first = [WindowPlanned(float(window), window, 0, float(window))] if not attempt else []
    return [*first, WindowStarted(window + 0.01, window, attempt)]


def burst(window, *, topology=TOPOLOGY, busy=0.1, host="driver", offset=0.0, ages=(), tuples=10):
    """A window's reports and commit: containers in sequence from 0.1 s on; `offset`: host minus driver."""
    reports = []
    for number, node in enumerate(topology.operators):
        start = window + 0.1 + number * busy + offset
        end = start + busy
        of, times = (window + 0.6, window, 0), (start, start, start, end, end, end - offset)
        reports.append(ContainerWindow(*of, node.container, host, 7, f"t{number}", *times, 5))
        inputs = {"input": tuples} if node.inputs else {}
        outputs = {"output": tuples} if node.outputs else {}
        found = ages if node.kind == "output" else ()
        spent = (start, end, busy, 0.0, 0.0)
        reports.append(
            OperatorWindow(*of, node.id, node.container, host, *spent, inputs, outputs, ages=found)
        )
    return [of_reports(*reports), committed(window)]


def committed(window):
    at = float(window)
    return WindowCommitted(
        at + 0.6, window, 1, at, at + 0.01, at + 0.1, at + 0.5, at + 0.51, at + 0.55, at + 0.6
    )


def measured(*events, **attributes):
    measurement = Measurement()
    for event in (planned(**attributes), *events):
        measurement.apply(event)
    return measurement


def windows(count, **more):
    return [event for window in range(count) for event in (*begin(window), *burst(window, **more))]


def heartbeat(at, container, operator, state, *, window=3, attempt=0, host="driver", sent=None, stack=""):
    sent, running = at if sent is None else sent, (RunningOperator(operator, state),)
    return ContainerHeartbeat(at, container, host, 7 + container, sent, window, attempt, 3.0, running, stack)


def age(place):
    """Two records, one and three seconds old."""
    return sample(place, [np.array([9_000_000, 7_000_000])], None, 10.0)
