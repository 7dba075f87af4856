"""Format plans as aligned plain text for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ridgeline.api.partitioner import PartitionKeys
from ridgeline.measure.wording.units import plural
from ridgeline.plan.execution import ExecutionPlan, Plan
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, LogicalStream, locality_name
from ridgeline.plan.physical import PhysicalPlan, PhysicalStream, RoundRobin
from ridgeline.plan.region import QueueEdge, Region
from ridgeline.plan.show.notes import find_notes
from ridgeline.plan.show.to_json import set_attributes, set_sections
from ridgeline.plan.shown_properties import chosen_properties

_SHOWN = 4
_MANY_KEYS = 8


def describe(plan: Plan, regions: Sequence[Plan] = ()) -> str:
    r"""Format the logical, the physical and the execution plan, and the notes on them.

    `regions`: the plans of an application of several. They are formatted in place of the physical and the
    execution plan of the whole, which does not run.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.plan import plan_application
        >>> from ridgeline.testing import CollectorSink, ListInput
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,)]), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> print("\n".join(describe(plan_application(app)).split("\n")[10:15]))
        physical plan: 4 operators, 3 streams
          id  operator                gets
           1  numbers[0]
           2  numbers[1]
           3  numbers.output#unifier  input: all of numbers[0], numbers[1]
    """
    logical = plan.logical
    width = logical.window_seconds
    window = f"window {width:g} s" if width else "windows as fast as they get"
    settings = _settings(set_attributes(logical))
    title = [f"application {logical.application}", window, f"plan version {plan.version}", settings]
    lines = [", ".join(filter(None, title))]
    lines += ["", *_describe_logical(logical)]
    if regions:
        lines += ["", *_describe_regions([one.logical for one in regions], logical.regions)]
    for part in regions or [plan]:
        if regions:
            lines += ["", f"region {part.logical.region}:"]
        physical = _describe_physical(part.physical, part.execution.homes)
        lines += ["", *physical, "", *_describe_execution(part.physical, part.execution)]
    notes = [note for part in regions or [plan] for note in find_notes(part.logical, part.physical)]
    if notes:
        lines += ["", "notes:", *(f"  {note}" for note in notes)]
    return "\n".join(lines)


def _describe_logical(logical: LogicalPlan) -> list[str]:
    """The lines of the logical plan: its operators, then its streams."""
    streams = [
        (
            stream.name,
            f"{stream.source} -> {', '.join(map(str, stream.sinks))}",
            _localities(stream),
            stream.schema.describe(),
        )
        for stream in logical.streams
    ]
    counts = [_count(logical.operators, "operator"), _count(streams, "stream")]
    return [
        f"logical plan: {', '.join(counts)}",
        *_aligned(("operator", "class", "attributes", "properties"), map(_row, logical.operators)),
        "",
        *_aligned(("stream", "from, to", "locality", "schema"), streams),
    ]


def _describe_regions(plans: Sequence[LogicalPlan], regions: Sequence[Region]) -> list[str]:
    """The lines about the regions of an application, and the queues between them."""
    rows = [
        (
            region.name,
            f"{logical.window_seconds:g} s" if logical.window_seconds else "none",
            ", ".join(region.operators),
            _settings(dict(region.attributes)),
        )
        for logical, region in zip(plans, regions, strict=True)
    ]
    queues = [
        (edge.stream, f"{edge.writer_region} -> {edge.reader_region}", edge.writer, edge.reader, _keep(edge))
        for region in regions
        for edge in region.reads
    ]
    return [
        f"regions: {len(rows)}, {_count(queues, 'queue')} between them",
        *_aligned(("region", "window", "operators", "attributes"), rows),
        "",
        *_aligned(("queue", "regions", "writer", "reader", "keep"), queues),
    ]


def _keep(edge: QueueEdge) -> str:
    return f"{edge.keep:g} s" if isinstance(edge.keep, int | float) else edge.keep


def _row(operator: LogicalOperator) -> tuple[str, ...]:
    """Name, class, attributes and properties of an operator."""
    attributes = {"partitions": operator.attributes["partitions"]}
    for (kind, port), values in set_sections(operator).items():
        prefix = f"{kind}.{port}." if port else ""
        attributes |= {f"{prefix}{name}": value for name, value in values.items()}
    properties = _settings(chosen_properties(operator.operator))
    return operator.name, type(operator.operator).__name__, _settings(attributes), properties


def _localities(stream: LogicalStream) -> str:
    """The locality of a stream; of each sink that has one, if they differ."""
    found = {end: locality_name(sink.locality) for end, sink in stream.sinks.items()}
    if len({*found.values()}) == 1:
        return next(iter(found.values())) or ""
    return ", ".join(f"{end}: {locality}" for end, locality in found.items() if locality is not None)


def _describe_physical(physical: PhysicalPlan, homes: Mapping[int, int]) -> list[str]:
    """The lines of the physical plan: each operator with its sources. `homes`: the container of each."""
    rows = []
    for operator in physical.operators:
        ports: dict[str, list[PhysicalStream]] = {}
        for stream in physical.entering.get(operator.id, ()):
            ports.setdefault(stream.sink_port, []).append(stream)
        gets = [
            f"{port}: {_share(streams[0])}{', combined,' if _combines(streams, homes) else ''}"
            f" of {_titles(physical, streams)}"
            for port, streams in ports.items()
        ]
        rows.append((str(operator.id), operator.title, "; ".join(gets)))
    return [
        f"physical plan: {_count(physical.operators, 'operator')}, {_count(physical.streams, 'stream')}",
        *_aligned(("id", "operator", "gets"), rows),
    ]


def _share(stream: PhysicalStream) -> str:
    if isinstance(stream.route, PartitionKeys):
        keys = f"hash & {stream.route.mask} in {_some(stream.route.keys)}"
        return f"{keys} and a part of {_some(stream.route.shared)}" if stream.route.shared else keys
    if isinstance(stream.route, RoundRobin):
        return f"one tuple in {stream.route.of}, from number {stream.route.index},"
    return "all"


def _some(keys: Collection[int]) -> str:
    """Keys as a set; of many the first, the last and how many."""
    if len(keys) > _MANY_KEYS:
        return f"{{{min(keys)}, ..., {max(keys)}: {len(keys):,} keys}}"
    return f"{{{', '.join(map(str, sorted(keys)))}}}"


def _combines(streams: Sequence[PhysicalStream], homes: Mapping[int, int]) -> bool:
    """True if partial results may come: within a container tuples stay as they are."""
    return any(one.combiner is not None and homes[one.source] != homes[one.sink] for one in streams)


def _titles(physical: PhysicalPlan, streams: Sequence[PhysicalStream]) -> str:
    titles = [physical.operator(stream.source).title for stream in streams]
    more = [f"{len(titles) - _SHOWN} more"] if len(titles) > _SHOWN + 1 else []
    return ", ".join(titles[:_SHOWN] + more if more else titles)


def _describe_execution(physical: PhysicalPlan, execution: ExecutionPlan) -> list[str]:
    """The lines of the execution plan: the operators of each container, by stage."""
    rows = [
        (
            str(container.stage),
            str(container.id),
            ", ".join(physical.operator(operator).title for operator in container.operators),
        )
        for container in execution.containers
    ]
    return [
        f"execution plan: {_count(execution.stages, 'stage')}, {_count(execution.containers, 'container')}",
        *_aligned(("stage", "container", "operators"), rows),
    ]


def _settings(values: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _count(things: Sequence[object], noun: str) -> str:
    return plural(len(things), noun)


def _aligned(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """An indented table without empty columns; numbers are right-aligned."""
    table = list(rows)
    kept = [column for column in range(len(head)) if any(row[column] for row in table)]
    lines = [[line[column] for column in kept] for line in (head, *table)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(kept))]
    numbers = [all(line[column].isdigit() for line in lines[1:]) for column in range(len(kept))]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in lines
    ]
