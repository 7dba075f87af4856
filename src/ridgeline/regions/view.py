"""The figures of one region, which say that they are of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.observe.watch import Watch
from ridgeline.regions.region_run import RegionRun

_ROWS = "operators", "logical", "containers", "sources", "partitions", "path"
_PARTS = (*_ROWS, "latency", "criticalPath", "recordAge", "progress", "window", "change")
"""The fields of answers that are answers, rows, or lists of rows."""
_ROW = "operator"
_OF_ONE = {_ROW, "container", "window", "change"}
"""Questions and fields of which the answer is a row."""
_OF_ALL = {"summary", "promises"}
"""Questions whose rows are of the application: those of regions are joined."""


class RegionView:
    """Answers about one region as those of `Watch`, rows with the region.

    All questions to `Watch` can be asked. Unknown names, ids and windows raise KeyError.
    """

    def __init__(self, region: RegionRun) -> None:
        self.region = region

    def __getattr__(self, question: str) -> Callable[..., Any]:
        """A question to the region's watch."""
        ask = getattr(self.watch, question)
        return lambda *given, **named: self._labelled(question, ask(*given, **named))

    @property
    def name(self) -> str:
        """The name of the region."""
        return self.region.name

    @property
    def watch(self) -> Watch:
        """Its figures, without the region."""
        return self.region.watch

    def _labelled(self, question: str, answer: Any) -> Any:
        """An answer of the watch: a row, rows, or what has rows in it."""
        if question in _OF_ALL:
            return answer
        if isinstance(answer, list):
            return [self._labelled(_ROW, one) for one in answer]
        if not isinstance(answer, dict):
            return answer
        parts = {name: self._labelled(name, answer[name]) for name in _PARTS if name in answer}
        return {**answer, **parts, **({"region": self.name} if question in _OF_ONE else {})}
