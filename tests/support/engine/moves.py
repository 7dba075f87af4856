"""States of partitions in files, moved from plan to plan by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    Partition,
    Partitioner,
    PartitionKeys,
    State,
    Timers,
)
from ridgeline.api.cells.cell import StateCell
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import CompactionTask, StateCompactor, cells_of
from ridgeline.engine.state.moving import MoveSource, move
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import load
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import StateVersion
from ridgeline.testing import ListInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    key: int
    value: int


class Accounts(Operator):
    input = InputPort(Event, key="key")

    totals = KeyedState(int)
    names = KeyedState(list, ttl="1h")
    alarms = Timers(by="clock")
    seen = State(0, moves="sum")
    recent = ListState(int, moves="sum")
    unsaid = State(0)

    @input.process
    def add(self, event: Event) -> None: ...

    @alarms.expired
    def ring(self, key: object, when: datetime) -> None: ...


class Uneven(Partitioner):
    """By the second and fourth bit of the hash: the first partition has all that the others do not take."""

    def define_partitions(self, count, ports):
        mask = 0b1010
        values = [0b0000, 0b0010, 0b1000, 0b1010]
        owners = [min(number, count - 1) if count < 4 else number for number in range(4)]
        return [
            Partition(
                {
                    "input": PartitionKeys(
                        mask, frozenset(v for v, o in zip(values, owners, strict=True) if o == n)
                    )
                }
            )
            for n in range(min(count, 4))
        ]


@cache
def partitions_of(number: int, partitioner: Partitioner | None = None) -> Sequence[PhysicalOperator]:
    app = Application("moves")
    more = {} if partitioner is None else {"partitioner": partitioner}
    events = app.add_operator("events", ListInput(Event, []))
    accounts = app.add_operator("accounts", Accounts(), partitions=number, **more)
    app.add_stream("events", events.output, accounts.input)
    plan = plan_application(app)
    return [one for one in plan.physical.operators if one.name == "accounts"]


class Moved:
    """The partitions of one operator, with their states in a storage."""

    def __init__(self, storage: Any, partitions: Sequence[PhysicalOperator]) -> None:
        self.storage = storage
        self.files = SegmentFiles(storage, "run")
        self.partitions = partitions
        self.versions: dict[str, StateVersion] = {}
        self.window = 0
        self.known = True
        """Whether it is known which keys the partitions have."""
        self._numbers = count(1)

    def cells(self, partition: int) -> dict[str, StateCell]:
        """What a partition holds, as whoever begins with it has it."""
        operator = self.partitions[partition]
        cells = cells_of(operator)
        load(self.files, operator.state_key, cells, self.versions.get(operator.state_key, ()))
        return cells

    def commit(self, partition: int, cells: Mapping[str, StateCell]) -> None:
        key = self.partitions[partition].state_key
        changes = {name: change for name, cell in cells.items() if (change := cell.changes()) is not None}
        name = state_files.file_name(self.window, partition, 1, 0, f"t{next(self._numbers)}")
        state_files.write(self.storage, name, state_files.encode(name, {key: changes})[0])
        self.versions[key] = (*self.versions.get(key, ()), name)

    def compact(self, partition: int) -> None:
        operator = self.partitions[partition]
        version = self.versions.get(operator.state_key, ())
        if version:
            stem = state_files.compacted_stem(version, operator.id, 1, next(self._numbers))
            compactor = StateCompactor(self.files, self.partitions)
            self.versions[operator.state_key] = compactor.compact(
                CompactionTask(operator.id, version, stem)
            ).names

    def repartition(self, partitions: Sequence[PhysicalOperator]) -> None:
        sources = [MoveSource(key, version) for key, version in self.versions.items()]
        sources.sort(key=lambda source: source.place)

        def stem(operator: PhysicalOperator) -> str:
            return state_files.moved_stem(self.window, operator.id, 1, next(self._numbers))

        if not sources:
            self.partitions = partitions
            return
        before = tuple(one.keys["input"] for one in self.partitions if one.keys and self.known) or None
        versions = move(self.files, sources, partitions, stem, before)
        self.partitions = partitions
        self.versions = {one.state_key: versions[one.id] for one in partitions if one.id in versions}


def at(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)
