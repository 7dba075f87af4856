"""A region of an application as data, and the queues between regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

IDS = 1_000_000
"""Ids of operators, containers, changes and decisions of a region begin with its number times this."""


@dataclass(frozen=True, slots=True)
class PortRef:
    """A port of a logical operator, or of a module that is not expanded.

    `through`: while an application is read, the ports of modules that lead to it, (module, port) each, in the
    tuples' direction.
    """

    operator: str
    port: str
    through: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.operator}.{self.port}"


@dataclass(frozen=True, slots=True)
class QueueEdge:
    """A decoupled stream from one region into another: the writer of its queue, and one reader.

    `writer` and `reader`: operators that are added to the regions. All edges of a stream have one writer.
    `sinks`: the ports that the reader feeds. `keep`: how long rows stay that were read. `letters`: it has the
    dead letters of all operators of the writer's region; `source` is the port of one.
    """

    stream: str
    source: PortRef
    writer: str
    writer_region: str
    reader: str
    reader_region: str
    sinks: tuple[PortRef, ...]
    keep: float | str
    letters: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """Operators that are joined by streams which are not decoupled: they share windows and commits.

    `operators`: those of the author, in topological order. `window`: None for that of the application;
    `attributes`: those of the application that have another value here. `reads` and `writes`: its queues.
    """

    name: str
    operators: tuple[str, ...]
    window: float | str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[QueueEdge, ...] = ()
    writes: tuple[QueueEdge, ...] = ()

    @property
    def every_operator(self) -> tuple[str, ...]:
        """Its operators, with the readers and writers of its queues."""
        readers = [edge.reader for edge in self.reads]
        writers = dict.fromkeys(edge.writer for edge in self.writes)
        return (*readers, *self.operators, *writers)


def renamed(regions: Sequence[Region], names: Mapping[str, str]) -> tuple[Region, ...]:
    """Regions with other names, and their queues with them. `names`: the new ones, by the old ones."""

    def edge(one: QueueEdge) -> QueueEdge:
        writer, reader = (names.get(name, name) for name in (one.writer_region, one.reader_region))
        if one.letters:
            stream, at, entry = (
                text.replace(f"_of_{one.writer_region}", f"_of_{writer}", 1)
                for text in (one.stream, one.writer, one.reader)
            )
        else:
            stream, at = one.stream, one.writer
            entry = one.reader.replace(f"_to_{one.reader_region}", f"_to_{reader}", 1)
        return replace(
            one, stream=stream, writer=at, writer_region=writer, reader=entry, reader_region=reader
        )

    return tuple(
        replace(
            region,
            name=names.get(region.name, region.name),
            reads=tuple(map(edge, region.reads)),
            writes=tuple(map(edge, region.writes)),
        )
        for region in regions
    )
