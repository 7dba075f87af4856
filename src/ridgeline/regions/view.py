"""The figures of one region, which say that they are of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.observe.watch import Watch
from ridgeline.regions.region_run import RegionRun

_ROWS = ("operators", "logical", "containers", "sources", "partitions", "path")
"""The fields of answers that are lists of rows."""
_PARTS = ("latency", "criticalPath", "recordAge", "progress", "window", "change")
"""The fields of an overview that are answers, or rows."""
_OF_ONE = {"operator", "container", "window", "change"}
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
            return [self._labelled("", {**one, "region": self.name}) for one in answer]
        if not isinstance(answer, dict):
            return answer
        found = {**answer, "region": self.name} if question in _OF_ONE else {**answer}
        for name in _ROWS:
            if isinstance(found.get(name), list):
                found[name] = [
                    {**one, "region": self.name} if isinstance(one, dict) else one for one in found[name]
                ]
        for name in _PARTS:
            if isinstance(found.get(name), dict):
                found[name] = self._labelled(name, found[name])
        return found
