"""A source in memory that grows by a script: a step each time that it is asked for its ends."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from random import Random
from typing import Any, ClassVar, NamedTuple

from ridgeline import OutputPort
from ridgeline.connect import PartitionedInput, Records, Source, SourceContext, SourceRange, SourceReader

START = datetime(2026, 1, 1, tzinfo=UTC)


class Entry(NamedTuple):
    partition: str
    place: int
    at: datetime


class Log:
    """What the source has, and what is still to come. `steps`: by source partition how many records."""

    def __init__(self, steps: Iterable[Mapping[str, int]], *, ends: bool = True) -> None:
        self.records: dict[str, int] = {}
        self.steps = list(steps)
        self.ends = ends
        self.waits = False
        """It grows only once a first window is committed."""
        self.removed: set[str] = set()
        self.lock = threading.Lock()
        self.committed: dict[str, int] = {}
        self.reads = 0
        self.kept = 0
        """The first record that is not deleted."""
        self.failures: list[Exception] = []
        """Raised by the driver's half, one a call."""
        self.read_failures: list[Exception] = []
        self.bad: set[tuple[str, int]] = set()
        self.unknown: list[set[str]] = []
        """Source partitions whose end is not known yet, one set a call."""

    def step(self) -> None:
        with self.lock:
            if self.steps and (self.committed or not self.waits or not self.records):
                for name, count in self.steps.pop(0).items():
                    self.records[name] = self.records.get(name, 0) + count

    def all(self) -> list[Entry]:
        return [entry(name, place) for name, end in self.records.items() for place in range(end)]


def entry(name: str, place: int) -> Entry:
    return Entry(name, place, START + timedelta(seconds=place))


def steps(seed: int, *, names: int = 5, count: int = 12, most: int = 40) -> list[dict[str, int]]:
    """Random growth: source partitions appear one after the other."""
    random = Random(seed)
    found: list[dict[str, int]] = [{"p0": random.randint(0, most)}]
    for step in range(1, count):
        known = min(names, 1 + step // 2)
        found.append({f"p{random.randrange(known)}": random.randint(0, most) for _ in range(3)})
    return found


LOGS: dict[str, Log] = {}


class MemorySource(Source):
    poll_seconds: ClassVar[float] = 0.001

    def __init__(self, log: Log) -> None:
        self.log = log

    def open(self, context: SourceContext) -> None:
        if self.log.failures:
            raise self.log.failures.pop(0)

    def finished(self) -> bool:
        return self.log.ends and not self.log.steps

    def partitions(self) -> list[str]:
        return [name for name in self.log.records if name not in self.log.removed]

    def ends(self, wait: float) -> dict[str, int]:
        if self.log.failures:
            raise self.log.failures.pop(0)
        found = {name: end for name, end in self.log.records.items() if name not in self.log.removed}
        if self.log.unknown:
            lacking = self.log.unknown.pop(0)
            return {name: end for name, end in found.items() if name not in lacking}
        self.log.step()
        return found

    def start(self, partitions: Sequence[str], begin: Any) -> dict[str, int]:
        if begin == "earliest":
            return dict.fromkeys(partitions, 0)
        if begin == "latest":
            return {name: self.log.records[name] for name in partitions}
        seconds = (begin - START).total_seconds()
        return {name: min(self.log.records[name], max(0, ceil(seconds))) for name in partitions}

    def committed(self, positions: Mapping[str, int]) -> None:
        self.log.committed = dict(positions)


class MemoryReader(SourceReader):
    def __init__(self, log: Log) -> None:
        self.log = log

    def open(self, context: Any) -> None:
        self.context = context

    def read(self, part: SourceRange) -> Iterator[Records]:
        rows = []
        self.log.reads += 1
        for place in range(part.start, part.end):
            if self.log.read_failures and place % 3 == 2:
                raise self.log.read_failures.pop(0)
            if (part.partition, place) in self.log.bad:
                self.context.leave_out(part.partition, place, f"record {place}", "it is torn")
            else:
                rows.append(entry(part.partition, place))
            if len(rows) == 7:
                yield Records(rows)
                rows = []
        yield Records(rows)


class MemoryInput(PartitionedInput[Entry]):
    output = OutputPort(Entry)
    log: str

    def source(self) -> Source:
        return MemorySource(LOGS[self.log])

    def reader(self) -> SourceReader:
        return MemoryReader(LOGS[self.log])
