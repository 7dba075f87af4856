"""The figures of one region, with ids that are unique over the application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.changes import ChangeFiguresAnswer, DecisionAnswer, MarkAnswer
from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    LinesAnswer,
    OperatorAnswer,
    RecordAgesAnswer,
    StreamAnswer,
    ThroughputAnswer,
)
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.watermarks import WatermarksAnswer
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.observe.watch import Watch
from ridgeline.regions.region_run import RegionRun

IDS = 1_000_000
"""Ids of operators, containers and changes of a region begin with its number times this."""


def region_of_id(number: int) -> tuple[int, int]:
    """The number of the region that an id of the application is of, and the id there.

    >>> region_of_id(2_000_017)
    (2, 17)
    """
    return divmod(number, IDS)


class RegionView:
    """Answers about one region as those of `Watch`, with ids of the application.

    Unknown names, ids and windows raise KeyError.
    """

    def __init__(self, region: RegionRun) -> None:
        self.region = region
        self._first = region.number * IDS

    @property
    def name(self) -> str:
        """The name of the region."""
        return self.region.name

    @property
    def watch(self) -> Watch:
        """Its figures, with ids of its own."""
        return self.region.watch

    def id(self, number: int) -> int:
        """The id in the application of an operator, a container or a change."""
        return self._first + number

    def own_id(self, number: int) -> int:
        """The id in the region. Raises KeyError if it is of another region."""
        of, own = region_of_id(number)
        if of != self.region.number:
            raise KeyError(f"region `{self.name}` has no id {number}")
        return own

    def _rows(self, rows: Iterable[Mapping[str, Any]], *names: str) -> Any:
        """Rows with ids of the application in fields of these names, and with the region."""
        return [self._row(row, *names) for row in rows]

    def _row(self, row: Mapping[str, Any], *names: str) -> Any:
        ids = {name: self.id(row[name]) for name in names if row[name] is not None}
        return {**row, **ids, "region": self.name}

    def operators(self) -> list[OperatorAnswer]:
        """All physical operators."""
        rows: list[OperatorAnswer] = self._rows(self.watch.operators(), "id", "container")
        return rows

    def operator(self, number: int) -> OperatorAnswer:
        """One physical operator, by its id in the application."""
        row: OperatorAnswer = self._row(self.watch.operator(self.own_id(number)), "id", "container")
        return row

    def containers(self) -> list[ContainerAnswer]:
        """All containers."""
        return [self._container(one) for one in self.watch.containers()]

    def container(self, number: int) -> ContainerAnswer:
        """One container, by its id in the application."""
        return self._container(self.watch.container(self.own_id(number)))

    def _container(self, one: ContainerAnswer) -> ContainerAnswer:
        operators = {str(self.id(int(number))): title for number, title in one["operators"].items()}
        row: ContainerAnswer = self._row({**one, "operators": operators}, "id")
        return row

    def streams(self) -> list[StreamAnswer]:
        """The physical streams."""
        return [
            {
                "logicalName": one["logicalName"],
                "source": {**one["source"], "operatorId": self.id(one["source"]["operatorId"])},
                "sinks": [{**sink, "operatorId": self.id(sink["operatorId"])} for sink in one["sinks"]],
            }
            for one in self.watch.streams()
        ]

    def latency(self, window_id: int | None = None) -> LatencyAnswer:
        """The latencies of all operators in a window (default: the last)."""
        return self._latency(self.watch.latency(window_id))

    def latencies(self, limit: int) -> list[LatencyAnswer]:
        """The latencies of all operators in each of the last windows."""
        return [self._latency(answer) for answer in self.watch.latencies(limit)]

    def _latency(self, answer: LatencyAnswer) -> LatencyAnswer:
        return {
            **answer,
            "operators": self._rows(answer["operators"], "id"),
            "logical": self._rows(answer["logical"]),
        }

    def critical_path(self, window_id: int | None = None) -> CriticalPathAnswer:
        """Critical path, slack and blame chain of a window (default: the last)."""
        return self._critical_path(self.watch.critical_path(window_id))

    def _critical_path(self, answer: CriticalPathAnswer) -> CriticalPathAnswer:
        return {**answer, "path": self._rows(answer["path"], "id")}

    def record_age(self, operator: str | None = None) -> RecordAgesAnswer:
        """The record ages of the last minute, of all operators or of one."""
        return self._record_age(self.watch.record_age(operator))

    def _record_age(self, answer: RecordAgesAnswer) -> RecordAgesAnswer:
        return {**answer, "operators": self._rows(answer["operators"], "id")}

    def progress(self) -> ProgressAnswer:
        """The progress of the window that runs, and of the inputs; readers of queues are among them."""
        return self._progress(self.watch.progress())

    def _progress(self, answer: ProgressAnswer) -> ProgressAnswer:
        return {
            **answer,
            "operators": self._rows(answer["operators"], "id"),
            "containers": self._rows(answer["containers"], "id"),
            "sources": self._rows(answer["sources"]),
        }

    def lines(self, operator: str | None = None) -> LinesAnswer:
        """Where the Python time of the region's operators goes. Raises KeyError for an unknown name."""
        answer = self.watch.lines(operator)
        return {**answer, "operators": [{**one, "region": self.name} for one in answer["operators"]]}

    def watermarks(self) -> WatermarksAnswer:
        """How far event time has come at each operator, and who holds it back."""
        return {"operators": self._rows(self.watch.watermarks()["operators"], "id")}

    def throughput(self) -> ThroughputAnswer:
        """The tuples of all operators and ports, in sum and per second."""
        return {"operators": self._rows(self.watch.throughput()["operators"], "id")}

    def windows(self, limit: int | None = None) -> list[WindowSummaryAnswer]:
        """Summaries of the last windows, the newest last."""
        rows: list[WindowSummaryAnswer] = self._rows(self.watch.windows(limit))
        return rows

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window."""
        answer = self.watch.window(window_id)
        row: WindowAnswer = self._row({**answer, "operators": self._rows(answer["operators"], "id")})
        return row

    def changes(self, limit: int | None = None) -> list[ChangeFiguresAnswer]:
        """The last changes that were requested, by their numbers."""
        rows: list[ChangeFiguresAnswer] = self._rows(self.watch.changes(limit), "id")
        return rows

    def decisions(self, limit: int | None = None) -> list[DecisionAnswer]:
        """The last decisions of policies and listeners, by their numbers."""
        rows: list[DecisionAnswer] = self._rows(self.watch.decisions(limit), "id", "change", "undoes")
        return rows

    def marks(self, limit: int | None = None) -> list[MarkAnswer]:
        """The last things that happened, the newest last."""
        rows: list[MarkAnswer] = self._rows(self.watch.marks(limit), "number")
        return rows

    def overview(self) -> OverviewAnswer:
        """All that a view shows of the region, of one moment."""
        answer = self.watch.overview()
        window, change = answer["window"], answer["change"]
        return {
            **answer,
            "window": None if window is None else self._row(window),
            "latency": self._latency(answer["latency"]),
            "criticalPath": self._critical_path(answer["criticalPath"]),
            "change": None if change is None else self._row(change, "id"),
            "recordAge": self._record_age(answer["recordAge"]),
            "progress": self._progress(answer["progress"]),
            "operators": self._rows(answer["operators"], "id", "container"),
        }
