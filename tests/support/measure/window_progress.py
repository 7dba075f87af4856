"""The progress of a window by operator, from what operators say and what is known of earlier windows."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from ridgeline.measure.progress.columns import Histories, Reports, WindowProgress
from ridgeline.measure.progress.estimated import Estimates
from ridgeline.measure.progress.shape import ProgressShape
from ridgeline.measure.topology import StreamEdge


@dataclass(frozen=True)
class History:
    """Averages of an operator's earlier windows; None where nothing is known."""

    seconds_per_element: float | None = None
    outputs_per_element: dict[str, float] = field(default_factory=dict)
    elements: float | None = None
    seconds: float | None = None
    end_seconds: float | None = None
    work: float | None = None
    work_before: float | None = None


def _parts(shape):
    """By stream, its place in the shape."""
    places = {number: port for port, number in shape.ports.items()}
    readers = list(shape.readers)
    ends = zip(shape.sources, shape.reader_of, strict=True)
    return {(places[source], readers[reader]): part for part, (source, reader) in enumerate(ends)}


def even_shares(topology):
    """The share of each stream before any window."""
    shape = ProgressShape(topology)
    return {
        StreamEdge(f"{source}-{sink}", source, out, sink, into): shape.even.one(part)
        for ((source, out), (sink, into)), part in _parts(shape).items()
    }


def window_progress(topology, running, history=None, shares=None, ages=None, finished=()):
    """The figures of a window as `WindowProgress` has them, by operator."""
    shape, history = ProgressShape(topology), history or {}
    reports = Reports(shape, running)
    past = [history.get(node.id, History()) for node in topology.operators]

    def column(name):
        return np.array(
            [getattr(one, name) if getattr(one, name) is not None else np.nan for one in past], float
        )

    outputs = [
        past[shape.owners[number]].outputs_per_element.get(port, np.nan)
        for (_, port), number in shape.ports.items()
    ]
    histories = Histories(
        column("seconds_per_element"),
        np.array(outputs, float),
        *map(column, ("elements", "seconds", "end_seconds", "work", "work_before")),
    )
    value, rank = shape.even.value.copy(), shape.even.rank.copy()
    parts = _parts(shape)
    for edge, share in (shares or {}).items():
        value[parts[(edge.source, edge.source_port), (edge.sink, edge.sink_port)]] = share.value
    found = WindowProgress(shape, reports, histories, Estimates(value, rank), ages or {}, finished)
    operators = {}
    for place, node in enumerate(topology.operators):
        ports = {port: number for (operator, port), number in shape.ports.items() if operator == node.id}
        ports = {port: number for port, number in ports.items() if found.present[number]}
        operators[node.id] = SimpleNamespace(
            state=found.reports.names[found.states[place]],
            input_remaining=found.input_remaining.one(place),
            buffered=found.buffered.one(place),
            remaining_seconds=found.remaining_seconds.one(place),
            seconds_spent=found.spent[place],
            output_remaining={port: found.output_remaining.one(number) for port, number in ports.items()},
            oldest_in_flight={p: found.oldest[n] for p, n in ports.items() if not np.isnan(found.oldest[n])},
        )
    containers = {one: found.by_container.one(row) for row, one in enumerate(topology.containers)}
    return SimpleNamespace(
        operators=operators,
        containers=containers,
        cpu_seconds=found.cpu_seconds,
        wall_seconds=found.wall_seconds,
    )
