"""The shape of a plan as arrays, for the progress of many operators at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.progress.estimated import ESTIMATED, EXACT, Estimates, Places
from ridgeline.measure.topology import Topology, for_neighbours


class Level(NamedTuple):
    """Operators that read from those of earlier levels only.

    `operators`, `readers`, `streams`: places in the shape's arrays. A reader is an input port with streams.
    `operator_of`: of each reader, where its operator stands in `operators`. `reader_of`: of each stream,
    where its reader stands in `readers`. `sources`: its output port.
    """

    operators: Places
    readers: Places
    operator_of: Places
    streams: Places
    reader_of: Places
    sources: Places


class ProgressShape:
    """Operators, ports and streams of a plan, numbered.

    `ports`: the number of each output port, by operator's id and name. Ports that only reports name are
    added. `owners`: of each, its operator's place in the topology; `always`: it is connected, or declared.
    `depths`: of each operator, the number of its level.
    `readers`: the number of each input port that has streams, by operator's id and name.
    """

    def __init__(self, topology: Topology) -> None:
        nodes = topology.operators
        self.topology = topology
        self.inputs = np.array([node.kind == "input" for node in nodes], np.bool_)
        self.containers = topology.rows_of_containers
        stage_of = topology.stage_of
        self.stage_of_containers = np.array([stage_of[one] for one in topology.containers], np.intp)
        self.ports: dict[tuple[int, str], int] = {}
        self.owners: list[int] = []
        self.always: list[bool] = []
        for node in nodes:
            for port in (*node.outputs, *node.error_outputs):
                self.port(node.id, port, always=True)
        for stream in topology.streams:
            self.port(stream.source, stream.source_port)
        self.readers: dict[tuple[int, str], int] = {}
        self.depths = np.zeros(len(nodes), np.intp)
        for depth, rank in enumerate(topology.ranks):
            self.depths[rank] = depth
        self._streams()
        self.levels = tuple(self._levels())

    def port(self, operator: int, name: str, *, always: bool = False) -> None:
        """Number an output port, if it is new."""
        if (operator, name) not in self.ports:
            self.ports[operator, name] = len(self.owners)
            self.owners.append(self.topology.places[operator])
            self.always.append(always)

    def _streams(self) -> None:
        """Number input ports. Note the ends of streams, and their shares as long as nothing else is known."""
        topology = self.topology
        streams, places = topology.streams, topology.places
        self.sources: Places = np.array([self.ports[one.source, one.source_port] for one in streams], np.intp)
        numbers = [self.readers.setdefault((one.sink, one.sink_port), len(self.readers)) for one in streams]
        self.reader_of: Places = np.array(numbers, np.intp)
        self.operator_of = np.array([places[operator] for operator, _ in self.readers], np.intp)
        count = _sharers(topology, self.sources, self.reader_of, self.readers).astype(np.float64)
        self.exact: npt.NDArray[np.bool_] = count == 1
        self.even = Estimates(1.0 / count, np.where(self.exact, EXACT, ESTIMATED).astype(np.int8))

    def _levels(self) -> list[Level]:
        """The levels, that of the inputs first."""
        of_readers = self.depths[self.operator_of]
        of_streams = of_readers[self.reader_of]
        operator_at, reader_at = np.zeros(len(self.depths), np.intp), np.zeros(len(of_readers), np.intp)
        found = []
        for level, operators in enumerate(self.topology.ranks):
            readers, streams = np.flatnonzero(of_readers == level), np.flatnonzero(of_streams == level)
            operator_at[operators], reader_at[readers] = np.arange(len(operators)), np.arange(len(readers))
            own = operator_at[self.operator_of[readers]]
            reader_of = reader_at[self.reader_of[streams]]
            found.append(Level(operators, readers, own, streams, reader_of, self.sources[streams]))
        return found


def _sharers(
    topology: Topology,
    sources: Places,
    readers: Places,
    named: Mapping[tuple[int, str], int],
) -> Places:
    """Of each stream, how many divide the tuples of its output port with it, itself among them.

    These are the streams to partitions of one operator, or to the unifiers before them, at one port.
    """
    behind: dict[int, frozenset[str]] = {}
    union = for_neighbours(
        topology.downstream, lambda sinks: frozenset[str]().union(*map(behind.__getitem__, sinks))
    )
    for node in reversed(topology.operators):
        behind[node.id] = union(node.id) if node.unifier else frozenset({node.name})
    numbers: dict[tuple[frozenset[str], str], int] = {}
    kinds = np.array([numbers.setdefault((behind[one], port), len(numbers)) for one, port in named], np.intp)
    alike = sources * max(1, len(numbers)) + kinds[readers]
    _, which, counts = np.unique(alike, return_inverse=True, return_counts=True)
    return counts[which].astype(np.intp)
