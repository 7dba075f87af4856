"""What containers and operators did in windows: one by one, as they report it, and as events."""

from dataclasses import fields

import numpy as np

from ridgeline.measure.events import ContainerWindow, OperatorWindow, WindowReported
from ridgeline.measure.progress.estimate import Basis, Estimate


def _rows(table):
    return [dict(zip(table.dtype.names, row.item(), strict=True)) for row in table]


def _of(kind, event, row, **more):
    known = {field.name: row[field.name] for field in fields(kind) if field.name in row}
    of_window = {"at": event.at, "window_id": event.window_id, "attempt": 0}
    return kind(**{**known, **of_window, "host": event.hosts[row["host"]], **more})


def _containers(event):
    for row in _rows(event.containers):
        busy = event.busy.get(row["container"], ())
        yield _of(ContainerWindow, event, row, task=event.tasks[row["task"]], busy=busy)


def _operators(event):
    tuples = {row["operator"]: {"input": {}, "output": {}} for row in _rows(event.operators)}
    for (operator, kind, port), count in zip(event.ports, event.tuples, strict=True):
        tuples[operator][kind][port] = count
    for row in _rows(event.operators):
        own = row["operator"]
        yield _of(
            OperatorWindow,
            event,
            row,
            tuples_in=tuples[own]["input"],
            tuples_out=tuples[own]["output"],
            cpu_seconds=None if np.isnan(row["cpu_seconds"]) else row["cpu_seconds"],
            dropped=event.dropped.get(own, ""),
            error_tuples=event.error_tuples.get(own, ()),
            ages=event.ages.get(own, ()),
            watermark=event.watermarks.get(own),
        )


def container_windows(events):
    """What each container did, window by window."""
    return [one for event in events if isinstance(event, WindowReported) for one in _containers(event)]


def operator_windows(events):
    """What each operator did, window by window."""
    return [one for event in events if isinstance(event, WindowReported) for one in _operators(event)]


def of_reports(*reports, at=None):
    """The event of reports of one window."""
    containers = [one for one in reports if isinstance(one, ContainerWindow)]
    operators = [one for one in reports if isinstance(one, OperatorWindow)]
    first = reports[0]
    return WindowReported.of(first.at if at is None else at, first.window_id, containers, operators)


def changed(event, change):
    """The event with what `change` makes of its operators."""
    containers, operators = list(_containers(event)), list(map(change, _operators(event)))
    return WindowReported.of(event.at, event.window_id, containers, operators)


def add(source, at, consumed, remaining, basis=Basis.EXACT, **more):
    """Add a sample to the backlog of a source."""
    source.add(at, consumed, Estimate(remaining, basis), **more)
