"""Who gets which tuples when an operator has several partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """A partition takes the tuples of a port with `hash & mask` in `keys`."""

    mask: int
    keys: frozenset[int]


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input port as a partitioner sees it: `keyed` if it has a key or codec, `connected` if a stream leads to it."""

    name: str
    keyed: bool
    connected: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """What one partition gets of each input port.

    Ports in `keys` are sticky; ports in `round_robin` are dealt out tuple by tuple; all others are broadcast:
    every partition gets all.
    """

    keys: Mapping[str, PartitionKeys] = field(default_factory=dict)
    round_robin: frozenset[str] = frozenset()


class Partitioner(ABC):
    """Defines the partitions of an operator. Pure: the same arguments always give the same partitions."""

    @abstractmethod
    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Sequence[Partition]:
        """`count` partitions for an operator with these input ports, in declaration order.

        Raises ValueError if it cannot; the text becomes a fault of the application.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(vars(self).items()))})"

    def merge_state(self, states: Sequence[Any]) -> Any:
        """What becomes of state that has no key when partitions change.

        Repartitioning while running is not there yet.
        """
        msg = "repartitioning while running is not available yet"
        raise NotImplementedError(msg)


def assign_keys(count: int) -> list[PartitionKeys]:
    """Keys of `count` partitions: mask = 2^ceil(log2 count) - 1, key k goes to partition k mod count (Apex, DefaultPartition)."""
    mask = (1 << (count - 1).bit_length()) - 1
    return [PartitionKeys(mask, frozenset(range(partition, mask + 1, count))) for partition in range(count)]


class StickyPartitioner(Partitioner):
    """Sticky by key on the named ports, round robin on those of them without a key; the rest is broadcast.

    Without names, the default of operators: sticky on every connected port that has a key, so that equal keys
    meet. If none has one, the first connected port is divided round robin.
    """

    def __init__(self, *ports: str) -> None:
        self.ports = ports

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """The same keys on all sticky ports."""
        unknown = [name for name in self.ports if name not in {port.name for port in ports}]
        if unknown:
            msg = f"there is no input port `{unknown[0]}`"
            raise ValueError(msg)
        connected = [port for port in ports if port.connected]
        if self.ports:
            chosen = [port for port in connected if port.name in self.ports]
        else:
            chosen = [port for port in connected if port.keyed] or connected[:1]
        in_turn = frozenset(port.name for port in chosen if not port.keyed)
        return [
            Partition({port.name: keys for port in chosen if port.keyed}, in_turn)
            for keys in assign_keys(count)
        ]


class KeyedPartitioner(Partitioner):
    """Sticky by key on every port that has a key, as the default, but refuses an operator none of whose ports has one.

    Given for an operator, it also says that its ports' keys need not be of one type.
    """

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """The same keys on all keyed ports, so that equal keys meet."""
        if not any(port.keyed for port in ports):
            msg = "no input port has a key"
            raise ValueError(msg)
        return [Partition({port.name: keys for port in ports if port.keyed}) for keys in assign_keys(count)]


class RoundRobinPartitioner(Partitioner):
    """Deal the tuples of the first connected port out in turn, whatever its key; the rest is broadcast.

    Needs a unifier that merges.
    """

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """Round robin on the first connected port."""
        connected = [port.name for port in ports if port.connected][:1]
        return [Partition({}, frozenset(connected)) for _ in range(count)]
