"""Applications of several regions for simulations: numbered rows of some keys go through queues to sinks.

Each operator checks that the rows of a key come in order on each path. The oracle is a plain loop (`wanted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    Publisher,
)
from ridgeline.api.attributes import RecordingLevel
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.region import QueueEdge, Region
from ridgeline.plan.regional import QueueEnds, RegionPlans
from ridgeline.regions.queues import queue_reader, queue_writer
from support.simulation.model import Emitting, Published
from support.simulation.queue_files import FOLDER

KEYS = 3
"""So many keys each partition of a source has."""
_PATHS = 5
"""More than there are regions: a path is a number with a digit for each."""


class Row(NamedTuple):
    """A row. `path`: the regions that it went through."""

    key: int
    number: int
    path: int


class Source(Emitting):
    """Emits rows."""

    out = OutputPort(Row)

    def row(self, place: int) -> Row:
        return Row(self.context.partition * KEYS + place % KEYS, place // KEYS, 0)


class Check(Operator):
    """Fails if a row does not follow the one before of its key and path; passes rows on."""

    rows = InputPort(Row, key="key")
    more = InputPort(Row, key="key", optional=True)
    out = OutputPort(Row)
    sums = KeyedState(tuple)
    region: int

    def begin_window(self, window_id: int) -> None:
        self.life.begun(self.context.name, self.context.operator_id, dict(self.sums.items()))

    @more.process
    @rows.process
    def take(self, row: Row) -> None:
        known = self.sums.get(row.key, ())
        due = dict(known).get(row.path, 0)
        if row.number != due:
            raise ValueError(f"key {row.key} on path {row.path}: {row.number} came, {due} was due")
        self.sums[row.key] = tuple(sorted({**dict(known), row.path: due + 1}.items()))
        self.out.emit(Row(row.key, row.number, row.path * _PATHS + self.region + 1))
        self.life.may_fail()

    def committed(self, window_id: int) -> None:
        self.life.committed(window_id)


class Sink(Operator):
    """Hands rows over."""

    rows = InputPort(Row, key="key")

    @rows.process
    def take(self, row: Row) -> None:
        self.context.hand_over(list(row))
        self.life.may_fail()

    def publisher(self) -> Publisher:
        """One whose world is set when it is opened."""
        return Published(in_order=True)


@dataclass(frozen=True)
class Shape:
    """An application. `reads`: the regions before that each one reads, none for one with a source.

    `sinks`: the regions that have a sink. `parts`: the partitions of each region's checks. `sources`: those
    of sources.
    """

    reads: tuple[tuple[int, ...], ...]
    sinks: frozenset[int]
    parts: tuple[int, ...]
    sources: int
    keep: float
    in_flight: int
    interval: int
    kept: int

    def wanted(self, region: int, total: int) -> dict[tuple[int, int], int]:
        """How many rows come to a region, by key and path."""
        found: dict[tuple[int, int], int] = {}
        if not self.reads[region]:
            for key in range(self.sources * KEYS):
                count = len(range(key % KEYS, total, KEYS))
                if count:
                    found[key, 0] = count
        for before in self.reads[region]:
            for (key, path), count in self.wanted(before, total).items():
                found[key, path * _PATHS + before + 1] = count
        return found


def application(shape: Shape) -> Application:
    app = Application(
        "app", snapshot_interval=shape.interval, windows_in_flight=shape.in_flight, window_work="1h",
        windows_kept=shape.kept, metrics_recording_level=RecordingLevel.OFF,
    )  # fmt: skip
    checks = [
        app.add_operator(f"check{region}", Check(region=region), partitions=parts, recovery_attempts=1000)
        for region, parts in enumerate(shape.parts)
    ]
    for region, reads in enumerate(shape.reads):
        if not reads:
            source = app.add_operator(
                f"source{region}", Source(), partitions=shape.sources, recovery_attempts=1000
            )
            app.add_stream(f"rows{region}", source.out, checks[region].rows)
    for region, check in enumerate(checks):
        later: list[Any] = [
            other.rows if reads[0] == region else other.more
            for other, reads in zip(checks, shape.reads, strict=True)
            if region in reads
        ]
        sinks = []
        if region in shape.sinks:
            sinks = [app.add_operator(f"sink{region}", Sink(), recovery_attempts=1000).rows]
        app.add_stream(f"s{region}", check.out, *sinks, *later, decoupled=set(later), keep=shape.keep)
    return app


class RegionLayout(NamedTuple):
    """What a region begins with."""

    region: Region
    plan: Plan
    specs: Mapping[int, ContainerSpec]
    sources: Mapping[int, int]


def _path(edge: QueueEdge) -> str:
    return f"{FOLDER}/{edge.stream}"


@cache
def regions_of(shape: Shape) -> tuple[tuple[Region, Application], ...]:
    """The regions, by number, and the application of each."""
    app = application(shape)
    whole = plan_application(app).logical
    if not whole.regions:
        every = tuple(one.name for one in whole.operators)
        return ((Region("all", every), app),)
    ends = QueueEnds(
        lambda edges: queue_writer(_path(edges[0]), edges[0].keep, [edge.reader for edge in edges], "app"),
        lambda edge, schema: queue_reader(_path(edge), schema),
    )
    made = RegionPlans(app, whole, ends)
    by_number: dict[int, Region] = {}
    for region in whole.regions:
        number = next(
            int(name.removeprefix("check")) for name in region.operators if name.startswith("check")
        )
        by_number[number] = region
    return tuple(
        (by_number[number], made.application(by_number[number], number)) for number in range(len(by_number))
    )


@cache
def planned(shape: Shape, region: int, kept: tuple[Edit, ...] = (), edits: tuple[Edit, ...] = ()) -> Plan:
    return plan_application(regions_of(shape)[region][1], kept=kept, edits=edits)


@cache
def specs_of(shape: Shape, region: int, kept: tuple[Edit, ...]) -> Mapping[int, ContainerSpec]:
    """The containers of a region, without changes in a run."""
    return {spec.id: spec for spec in container_specs(planned(shape, region, kept))}


@cache
def region_layout(shape: Shape, region: int) -> RegionLayout:
    """Of a region before any change."""
    plan = planned(shape, region)
    sources = {one.id: one.partition for one in plan.physical.operators if one.name.startswith("source")}
    return RegionLayout(regions_of(shape)[region][0], plan, specs_of(shape, region, ()), sources)


def with_parts(shape: Shape, region: int, parts: int) -> Shape:
    """With other partitions of a region's check."""
    found = list(shape.parts)
    found[region] = parts
    return replace(shape, parts=tuple(found))
