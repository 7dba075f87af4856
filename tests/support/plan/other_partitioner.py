"""A partitioner that an edit can name."""

from collections.abc import Sequence

from ridgeline.api import Partition, Partitioner, PortInfo
from ridgeline.api.partitioner import assign_keys


class Backwards(Partitioner):
    """The keys of the last partition go to the first one."""

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Sequence[Partition]:
        keyed = [port.name for port in ports if port.keyed]
        return [Partition(dict.fromkeys(keyed, keys)) for keys in reversed(assign_keys(count))]
