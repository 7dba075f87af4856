"""The cost of a run: core seconds by operator, and money once a price is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned, OperatorWindow, RunEvent
from ridgeline.measure.slot_events import SlotJoined, SlotLost, SlotsReduced, SlotsSized

HOUR = 3600.0
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """The part of an operator, or of its unifiers, over all partitions.

    `cpu_seconds`: processor time of its callbacks. `core_seconds`: its share of all cores that were held, by
    that time. `records`: in, of inputs: out. `money`: of `core_seconds`, None without a price.
    """

    operator: str
    cpu_seconds: float
    core_seconds: float
    records: float
    money: float | None

    @property
    def per_million(self) -> float | None:
        """Core seconds for a million records; None without records."""
        return self.core_seconds / self.records * MILLION if self.records else None

    @property
    def money_per_million(self) -> float | None:
        """Money for a million records; None without records or a price."""
        return self.money / self.records * MILLION if self.records and self.money is not None else None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run of `seconds`.

    `core_seconds`: of all cores that were held. `money`: None without a price.
    """

    application: str
    seconds: float
    core_seconds: float
    cpu_seconds: float
    money: float | None
    operators: tuple[OperatorCost, ...]


@dataclass(slots=True)
class Usage:
    """A fold over the events of a run, or figures that are set.

    `slot_seconds`: of all slots, each of which holds a core. `cpu`, `records`: by the operator's name.
    """

    application: str = ""
    seconds: float = 0.0
    slot_seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    records: dict[str, float] = field(default_factory=dict)
    _labels: dict[int, str] = field(default_factory=dict)
    _inputs: frozenset[int] = frozenset()
    _began: float | None = None
    _since: float = 0.0
    _slots: int = 0
    _joined: set[int] = field(default_factory=set)

    def apply(self, event: RunEvent) -> None:
        """Take an event in. Windows that were not committed have none."""
        match event:
            case ApplicationPlanned():
                if self._began is None:
                    self._began = self._since = event.at
                self.application = event.application
                self._labels |= {node.id: node.label for node in event.topology.operators}
                self._inputs = frozenset(event.topology.inputs)
            case OperatorWindow() if event.operator in self._labels:
                label = self._labels[event.operator]
                seconds = event.compute_seconds if event.cpu_seconds is None else event.cpu_seconds
                counts = event.tuples_out if event.operator in self._inputs else event.tuples_in
                self.cpu[label] = self.cpu.get(label, 0.0) + seconds
                self.records[label] = self.records.get(label, 0.0) + sum(counts.values())
            case SlotsSized() | SlotsReduced():
                self._hold(event.at, event.slots)
            case SlotJoined():
                self._joined.add(event.slot)
                self._hold(event.at, max(self._slots, len(self._joined)))
            case SlotLost():
                self._joined.discard(event.slot)
            case ApplicationEnded():
                self._hold(event.at, 0)
            case _:
                pass
        if self._began is not None:
            self.seconds = max(self.seconds, event.at - self._began)

    def _hold(self, at: float, slots: int) -> None:
        """This number of slots holds cores from now on."""
        self.slot_seconds += self._slots * max(0.0, at - self._since)
        self._since, self._slots = max(at, self._since), slots

    def close(self) -> None:
        """A run that has not ended, or was killed: count up to its last event."""
        if self._began is not None:
            self._hold(self._began + self.seconds, self._slots)

    def cost(self, extra_cores: float, per_core_hour: float | None) -> Cost:
        """The cost of the run. `extra_cores`: held beside the slots, by the driver and by Spark."""
        held = self.slot_seconds + extra_cores * self.seconds
        cpu = sum(self.cpu.values())

        def money(core_seconds: float) -> float | None:
            return None if per_core_hour is None else core_seconds / HOUR * per_core_hour

        rows = []
        for name, seconds in self.cpu.items():
            share = held * seconds / cpu if cpu else 0.0
            rows.append(OperatorCost(name, seconds, share, self.records.get(name, 0.0), money(share)))
        rows.sort(key=lambda row: -row.core_seconds)
        return Cost(self.application, self.seconds, held, cpu, money(held), tuple(rows))


def of_metrics(samples: Iterable[tuple[str, Mapping[str, str], float]], now: float) -> Usage:
    """The usage as of the metrics of a running application: name, labels and value of each.

    The slots are taken to have been as many as now since the run began.
    """
    usage = Usage()
    sent: dict[str, float] = {}
    slots = 0.0
    for name, labels, value in samples:
        operator = labels.get("operator", "")
        match name.removeprefix("ridgeline_"):
            case "operator_cpu_seconds_total":
                usage.cpu[operator] = usage.cpu.get(operator, 0.0) + value
            case "operator_records_in_total":
                usage.records[operator] = usage.records.get(operator, 0.0) + value
            case "operator_records_out_total":
                sent[operator] = sent.get(operator, 0.0) + value
            case "slots":
                slots += value
            case "application_start_timestamp_seconds":
                usage.application = labels.get("application", "")
                usage.seconds = max(usage.seconds, now - value)
            case _:
                pass
    usage.records |= {name: count for name, count in sent.items() if not usage.records.get(name)}
    usage.slot_seconds = slots * usage.seconds
    return usage
