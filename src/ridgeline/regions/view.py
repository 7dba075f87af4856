"""The figures of one region, with ids that are unique over the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    OperatorAnswer,
    PortRefAnswer,
    StreamAnswer,
)
from ridgeline.measure.answers.windows import LatencyAnswer, WindowAnswer
from ridgeline.observe.watch import Watch
from ridgeline.regions.region_run import RegionRun

IDS = 1_000_000
"""Ids of operators, containers and changes of a region begin with its number times this."""
_IDS = ("id", "container", "change", "undoes", "number")
"""The fields of rows that are ids, where they are numbers."""
_ROWS = ("operators", "logical", "containers", "sources", "path")
"""The fields of answers that are lists of rows."""
_PARTS = ("latency", "criticalPath", "recordAge", "progress")
"""The fields of an overview that are answers; `window` and `change` are rows."""


def region_of_id(number: int) -> tuple[int, int]:
    """The number of the region that an id of the application is of, and the id there.

    >>> region_of_id(2_000_017)
    (2, 17)
    """
    return divmod(number, IDS)


class RegionView:
    """Answers about one region as those of `Watch`, with ids of the application, and rows with the region.

    All questions to `Watch` can be asked. Unknown names, ids and windows raise KeyError.
    """

    def __init__(self, region: RegionRun) -> None:
        self.region = region
        self._first = region.number * IDS

    def __getattr__(self, question: str) -> Callable[..., Any]:
        """A question to the region's watch."""
        ask = getattr(self.watch, question)
        return lambda *given: self._answer(ask(*given))

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

    def operator(self, number: int) -> OperatorAnswer:
        """One physical operator, by its id in the application."""
        row: OperatorAnswer = self._row(self.watch.operator(self.own_id(number)))
        return row

    def container(self, number: int) -> ContainerAnswer:
        """One container, by its id in the application."""
        row: ContainerAnswer = self._row(self.watch.container(self.own_id(number)))
        return row

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window."""
        row: WindowAnswer = self._row(self._answer(self.watch.window(window_id)))
        return row

    def latencies(self, limit: int) -> list[LatencyAnswer]:
        """The latencies of all operators in each of the last windows."""
        return [self._answer(one) for one in self.watch.latencies(limit)]

    def streams(self) -> list[StreamAnswer]:
        """The physical streams."""
        return [
            {**one, "source": self._port(one["source"]), "sinks": list(map(self._port, one["sinks"]))}
            for one in self.watch.streams()
        ]

    def _port(self, port: PortRefAnswer) -> PortRefAnswer:
        return {**port, "operatorId": self.id(port["operatorId"])}

    def _answer(self, answer: Any) -> Any:
        """An answer of the watch: rows, or what has rows in it."""
        if isinstance(answer, list):
            return [self._row(one) for one in answer]
        found = {**answer}
        for name in _ROWS:
            if isinstance(found.get(name), list):
                found[name] = [self._row(one) if isinstance(one, dict) else one for one in found[name]]
        for name in _PARTS:
            if isinstance(found.get(name), dict):
                found[name] = self._answer(found[name])
        for name in ("window", "change"):
            if isinstance(found.get(name), dict):
                found[name] = self._row(found[name])
        return found

    def _row(self, row: Mapping[str, Any]) -> Any:
        found = {**row, "region": self.name}
        for name in _IDS:
            if isinstance(row.get(name), int):
                found[name] = self.id(row[name])
        if isinstance(row.get("operators"), dict):  # of a container, by id
            found["operators"] = {str(self.id(int(one))): title for one, title in row["operators"].items()}
        return found
