"""The view that policies have of an application: metrics over a period, by operator and partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.measure.deciding.key_load import KeyLoad


@dataclass(frozen=True, slots=True)
class Spread:
    """How a duration was distributed over the windows of a period, in seconds.

    `count`: of how many; with none all is 0.
    """

    mean_seconds: float = 0.0
    p50_seconds: float = 0.0
    p90_seconds: float = 0.0
    p99_seconds: float = 0.0
    max_seconds: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """One partition of an operator over a period.

    `useful_seconds` is the time in which it alone of its container worked: callbacks, and what it does itself
    to move tuples and state. The time of tuples between containers is no part of it. `utilization` is its
    share of the period. `true_rate`: tuples in (inputs: out) for each useful second (DS2); None if it had
    none. `queue`: tuples that waited when its turn came, mean. `process`: its id, on `host`.
    """

    id: int
    partition: int
    host: str | None
    container: int
    process: int | None
    tuples_in: int
    tuples_out: int
    useful_seconds: float
    compute_seconds: float
    cpu_seconds: float
    transfer_seconds: float
    utilization: float
    true_rate: float | None
    queue: float | None
    errors: int
    late_records: int
    state_bytes: int
    critical_path_share: float


class OperatorFigures(ABC):
    """A logical operator over a period: since `at - seconds`, as far as there are windows.

    Latencies are those of its slowest partition with its slowest unifiers, window by window. Rates are per
    second. `busiest` is the partition with the highest utilization. `imbalance` is the most tuples of a
    partition as a multiple of the mean. `true_rate` is what the operator could do: that of the busiest
    partition times the number of partitions; under skew the mean would promise too much.
    `critical_path_share`: in which share of the windows it was on the critical path. `slack_seconds`: by how
    much it could have been slower, mean. `record_age` is over the last minute, whatever the period is.
    `metrics`: the last values of metrics that it declares. `cpu`: of `compute`, processor time; what is
    missing it slept, or others had the processor.
    """

    name: str
    at: float
    seconds: float
    windows: int
    partitions: int
    is_input: bool
    is_output: bool
    stateful: bool
    tuples_in: int
    tuples_out: int
    tuples_in_per_second: float
    tuples_out_per_second: float
    utilization: float
    true_rate: float | None
    imbalance: float
    latency: Spread
    compute: Spread
    wait: Spread
    transfer: Spread
    cpu: Spread
    record_age: Spread
    queue: float | None
    errors: int
    late_records: int
    critical_path_share: float
    slack_seconds: float | None
    metrics: Mapping[str, Any]
    by_partition: Sequence[PartitionFigures]
    unifier_seconds: float
    """Useful time of its unifiers in a window, mean: the cost of another partition."""
    slots: int | None = None
    """How many slots the application could have; None where containers do not live in slots."""

    @abstractmethod
    def for_seconds(self, seconds: float) -> OperatorFigures:
        """The same over another period, which ends at the same time; at most 15 minutes are kept."""

    @property
    def keys(self) -> KeyLoad | None:
        """How its tuples are spread over keys; None if it is not divided by key, or nothing is counted yet.

        Tuples are counted from the first request on, until a minute after the last one. At most 5 minutes are
        kept.
        """
        return None

    @property
    def busiest(self) -> PartitionFigures | None:
        """The partition that worked for the largest share of the period."""
        return max(self.by_partition, key=lambda one: one.utilization, default=None)


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """An input lately: what arrives and what is taken, a second, in its `unit`; None: not known.

    `backlog`: records that wait there. `grows_per_second`: by how much the backlog grows. `backlog_seconds`:
    the time to work it off, were nothing to arrive.
    """

    operator: str
    arriving_per_second: float | None
    taken_per_second: float
    backlog: float | None
    grows_per_second: float | None
    backlog_seconds: float | None
    verdict: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream between two logical operators, with the tuples that went over it in the period."""

    stream: str
    source: str
    sink: str
    tuples: int


@dataclass(frozen=True, slots=True)
class PromiseState:
    """A promise of the application: `kept` None until it can be said; `since`: STRAM's wall clock.

    `kind`: `latency`, `caught_up_within`, ... `figure` and `limit` in `unit`. `operator` "": the application.
    `budget`: which share of what may go wrong in the period is left; None for periods below an hour.
    """

    name: str
    kind: str
    operator: str
    kept: bool | None
    since: float | None
    figure: float | None
    limit: float
    unit: str
    budget: float | None = None


class ApplicationFigures(ABC):
    """An application over a period; `operators` by name, in topological order, without unifiers.

    `window_latency`: trigger to commit. `late_seconds`: how late the next window is by the schedule.
    `slots`: how many its containers could have; `slots_free`: without those that are taken. Both are None
    where they do not live in slots. `changing`: a change is under way.
    """

    name: str
    at: float
    seconds: float
    window_seconds: float
    windows: int
    plan_version: int
    committed: int | None
    operators: Mapping[str, OperatorFigures]
    edges: Sequence[Edge]
    sources: Sequence[SourceFigures]
    window_latency: Spread
    late_seconds: float
    caught_up_in_seconds: float | None
    verdict: str
    slots: int | None
    slots_free: int | None
    changing: bool
    cores: int | None = None
    """The processors that its slots share, where they are those of one host; None if that is not known."""
    blame: Mapping[str, float]
    """Seconds of the mean window by what they were spent on, as the blame chain names it."""
    held: Mapping[tuple[str, str], float]
    """Seconds of the mean window for which results of an output waited for an operator, by both names."""
    promises: Sequence[PromiseState]

    @abstractmethod
    def for_seconds(self, seconds: float) -> ApplicationFigures:
        """The same over another period, which ends at the same time; at most 15 minutes are kept."""
