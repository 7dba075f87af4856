"""The questions that can be asked of a running application, of one region or of several."""

# ruff: noqa: D102  as `Watch` documents them

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ridgeline.measure.answers.application import (
    InfoAnswer,
    OperatorTotalsAnswer,
    OverviewAnswer,
    PendingInfoAnswer,
    RunAnswer,
    RunSummaryAnswer,
)
from ridgeline.measure.answers.changes import ChangeFiguresAnswer, DecisionAnswer, MarkAnswer, PromiseAnswer
from ridgeline.measure.answers.history import ApplicationHistoryAnswer, OperatorHistoryAnswer
from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    LinesAnswer,
    MetricHistoryAnswer,
    MetricsAnswer,
    OperatorAnswer,
    RecordAgesAnswer,
    StreamAnswer,
)
from ridgeline.measure.answers.progress import OutputAnswer, ProgressAnswer, SourceDetailAnswer
from ridgeline.measure.answers.watermarks import WatermarksAnswer
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.measure.events import RunEvent
from ridgeline.measure.registry.scrape import Scrape
from ridgeline.measure.topology import Topology
from ridgeline.observe.watch import Subscriber


class Answers(Protocol):
    """The figures of a running application: `Watch` has those of one region, `JoinedWatch` of several.

    `Watch` says what each answer is. Unknown names, ids and windows raise KeyError.
    """

    @property
    def topology(self) -> Topology: ...

    def subscribe(
        self, callback: Subscriber, /, kinds: Collection[type[RunEvent]] | None = None
    ) -> Callable[[], None]: ...

    def info(self) -> InfoAnswer | PendingInfoAnswer: ...

    def run(self) -> RunAnswer: ...

    def summary(self) -> RunSummaryAnswer: ...

    def operators(self) -> list[OperatorAnswer]: ...

    def operator(self, operator_id: int, /) -> OperatorAnswer: ...

    def containers(self) -> list[ContainerAnswer]: ...

    def container(self, container_id: int, /) -> ContainerAnswer: ...

    def streams(self) -> list[StreamAnswer]: ...

    def latency(self, window_id: int | None = None, /) -> LatencyAnswer: ...

    def latencies(self, limit: int) -> list[LatencyAnswer]: ...

    def critical_path(self, window_id: int | None = None, /) -> CriticalPathAnswer: ...

    def record_age(self, operator: str | None = None, /) -> RecordAgesAnswer: ...

    def progress(self) -> ProgressAnswer: ...

    def source(self, name: str, /) -> SourceDetailAnswer: ...

    def watermarks(self) -> WatermarksAnswer: ...

    def lines(self, operator: str | None = None, /) -> LinesAnswer: ...

    def own_metrics(self, operator: str | None = None, /) -> MetricsAnswer: ...

    def metric_history(
        self, operator: str, metric: str, limit: int | None = None, /
    ) -> MetricHistoryAnswer: ...

    def changes(self, limit: int | None = None, /) -> list[ChangeFiguresAnswer]: ...

    def decisions(self, limit: int | None = None, /) -> list[DecisionAnswer]: ...

    def outputs(self) -> list[OutputAnswer]: ...

    def marks(self, limit: int | None = None, /) -> list[MarkAnswer]: ...

    def promises(self) -> list[PromiseAnswer]: ...

    def operator_totals(self) -> dict[str, OperatorTotalsAnswer]: ...

    def keep_figures(self) -> None: ...

    def operator_history(
        self, operator: str, begin: float | None = None, step: float | None = None, /
    ) -> OperatorHistoryAnswer: ...

    def application_history(
        self, begin: float | None = None, step: float | None = None, /
    ) -> ApplicationHistoryAnswer: ...

    def windows(self, limit: int | None = None, /) -> list[WindowSummaryAnswer]: ...

    def window(self, window_id: int, /) -> WindowAnswer: ...

    def trace_of(self, operator: str, window_id: int, /) -> str | None: ...

    def overview(self) -> OverviewAnswer: ...

    def scrapes(self) -> list[tuple[str, Scrape]]: ...
