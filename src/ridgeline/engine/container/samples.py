"""The last tuples of a stream, on demand: containers hand them over with the report of one window."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ridgeline.api.columns.arrow_stream import to_ipc
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import did_you_mean
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import WindowReport, WindowRequest

Port = tuple[int, str]
"""A physical operator's id and the name of one of its output ports."""


def ports_of_stream(plan: Plan, name: str) -> tuple[list[Port], Schema]:
    """The ports of all partitions that a stream, or a logical `"operator.port"`, comes from, and its schema.

    Raises KeyError.
    """
    for stream in plan.logical.streams:
        if name in {stream.name, str(stream.source)}:
            own = [op for op in plan.physical.operators if op.name == stream.source.operator]
            sliders = [op for op in own if op.slider and op.port == stream.source.port]
            found = [(op.id, port) for op in sliders for port in op.outputs]
            return found or [(op.id, stream.source.port) for op in own if not op.unifier], stream.schema
    known = [name for stream in plan.logical.streams for name in (stream.name, str(stream.source))]
    raise KeyError(
        f"there is no stream `{name}`, nor an output port of that name with one; {did_you_mean(name, known)}"
    )


def last_tuples(parts: Sequence[Tuples], count: int) -> bytes:
    """The last `count` tuples that a port emitted in a window, as an Arrow IPC stream; b"" for none."""
    batches: list[pa.RecordBatch] = []
    for part in reversed(parts):
        if count > 0 and len(part):
            batches.insert(0, part.last(count).batch)
            count -= batches[0].num_rows
    return to_ipc(batches)


@dataclass(eq=False)
class SampleRequest:
    """A request for last tuples: the first committed window in which a port of it emits sets `answered`."""

    ports: frozenset[Port]
    count: int
    answered: threading.Event = field(default_factory=threading.Event)
    found: list[bytes] = field(default_factory=list)


class StreamSamples:
    """The requests for samples that wait for a window that has some.

    Any thread asks; a window without requests costs nothing.
    """

    def __init__(self) -> None:
        self._requests: list[SampleRequest] = []
        self._lock = threading.Lock()

    def request(self, ports: Iterable[Port], count: int) -> SampleRequest:
        """From the next attempt at a window on."""
        sample_request = SampleRequest(frozenset(ports), count)
        with self._lock:
            self._requests = [*self._requests, sample_request]
        return sample_request

    def forget(self, sample_request: SampleRequest) -> None:
        """Drop a request: its reader waits no longer."""
        with self._lock:
            self._requests = [other for other in self._requests if other is not sample_request]

    def asked(self, request: WindowRequest) -> WindowRequest:
        """The request, with what is to be handed over."""
        waiting = self._requests
        if not waiting:
            return request
        wanted: dict[Port, int] = {}
        for one in waiting:
            for port in one.ports:
                wanted[port] = max(one.count, wanted.get(port, 0))
        return replace(request, samples=wanted)

    def take(self, reports: Iterable[WindowReport]) -> None:
        """A window is committed: answer with what its reports hold."""
        waiting = self._requests
        if not waiting:
            return
        found: Mapping[Port, bytes] = {
            (operator.window.operator, port): sample
            for report in reports
            for operator in report.operators
            for port, sample in operator.samples.items()
            if sample
        }
        for one in waiting:
            one.found = [found[port] for port in sorted(one.ports) if port in found]
            if one.found:
                self.forget(one)
                one.answered.set()
