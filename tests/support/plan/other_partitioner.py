"""Partitioners that an edit can name."""

from collections.abc import Sequence

from ridgeline.api import Partition, Partitioner, PartitionKeys, PortInfo
from ridgeline.api.partitioner import assign_keys


class Backwards(Partitioner):
    """The keys of the last partition go to the first one."""

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Sequence[Partition]:
        keyed = [port.name for port in ports if port.keyed]
        return [Partition(dict.fromkeys(keyed, keys)) for keys in reversed(assign_keys(count))]


class HeaviestApart(Partitioner):
    """Each of the fullest cells gets a partition, all others get the last one."""

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Sequence[Partition]:
        [cells] = [port.load.by_cell for port in ports if port.keyed]
        order = sorted(range(len(cells)), key=lambda cell: -cells[cell])
        groups = [*([cell] for cell in order[: count - 1]), order[count - 1 :]]
        return [Partition({"data": PartitionKeys(len(cells) - 1, frozenset(group))}) for group in groups]
