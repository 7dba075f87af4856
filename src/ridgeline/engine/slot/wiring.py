"""Which containers of a slot wait for the same producers, and which slots wait for the same containers.

Where all partitions send to all, one count a window stands for all containers of a stage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.plan.container_spec import ContainerSpec


@dataclass(slots=True)
class Groups:
    """Sets of producers, each with what waits for all of them; sets are numbered.

    `sizes`: how many producers each has. `of`: the sets that a producer belongs to.
    """

    sizes: list[int] = field(default_factory=list)
    of: dict[int, list[int]] = field(default_factory=dict)

    def add(self, producers: Collection[int]) -> int:
        """Number a set of producers."""
        number = len(self.sizes)
        self.sizes.append(len(producers))
        for producer in producers:
            self.of.setdefault(producer, []).append(number)
        return number


class Wiring:
    """The streams of a slot's containers, within it and to and from other slots.

    `inputs`: the sets of producers that containers of the slot wait for. `waiting`: these containers, by the
    set's number. `input_of`: the number, by container. `outputs`: the sets of containers of this slot that
    containers of another one wait for. `slot_of`: that slot, by the set's number. `targets`: the other slots
    that a container sends to. `partners`: all slots that send here or are sent to.
    """

    def __init__(self, slot: int, specs: Mapping[int, ContainerSpec], slots: Mapping[int, int]) -> None:
        """`specs`: of the slot's containers. `slots`: the slot of all that they exchange blocks with."""
        self.inputs, self.waiting, self.input_of = Groups(), list[list[int]](), dict[int, int]()
        numbers: dict[frozenset[int], int] = {}
        for spec in specs.values():
            if spec.producers not in numbers:
                numbers[spec.producers] = self.inputs.add(spec.producers)
                self.waiting.append([])
            self.input_of[spec.id] = numbers[spec.producers]
            self.waiting[numbers[spec.producers]].append(spec.id)
        self.outputs, self.slot_of = Groups(), list[int]()
        self.targets: dict[int, Sequence[int]] = {}
        feeding: dict[int, list[int]] = {}
        for spec in specs.values():
            remote = [consumer for consumer in spec.consumers if slots[consumer] != slot]
            self.targets[spec.id] = sorted({slots[consumer] for consumer in remote})
            for consumer in remote:
                feeding.setdefault(consumer, []).append(spec.id)
        for target, producers in sorted({(slots[to], tuple(sorted(of))) for to, of in feeding.items()}):
            self.outputs.add(producers)
            self.slot_of.append(target)
        exchanged = {other for spec in specs.values() for other in spec.consumers | spec.producers}
        self.partners = {slots[container] for container in exchanged} - {slot}
