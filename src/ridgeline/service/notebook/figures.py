"""The figures of a cell: the state of the page, less what a cell has no room for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ridgeline.service.http.bodies import to_json
from ridgeline.service.page.state import PageState, merge_patch

if TYPE_CHECKING:
    from ridgeline.observe.answers import Answers
    from ridgeline.plan.execution import Plan

_ROW: Final = frozenset(
    {
        *("id", "operator", "logicalName", "className", "unifierClass", "kind", "status", "container"),
        *("tuplesProcessedPSMA", "tuplesEmittedPSMA", "queueSizeMA", "stateBytes", "heldBytes", "computeMs"),
        *("errors", "lateRecords", "failureCount", "droppedWindows", "windowsBehind"),
    }
)
"""Of an operator."""
_PORT: Final = frozenset({"name", "type", "tuplesPSMA"})
_PATH: Final = frozenset({"path", "latencyMs", "logicalShare"})
_INFO: Final = frozenset({"state", "windowSeconds"})
_WINDOW: Final = frozenset({"windowId", "committedAt", "latencyMs"})


class Shown(Protocol):
    """The content of a widget: `whole` is all of it, as the text of a JSON object."""

    def whole(self) -> str:
        """`{"version": 3, "over": false, "state": {...}}`."""
        ...


class Followed(Protocol):
    """A running application, as `Handle` is one."""

    name: str

    @property
    def watch(self) -> Answers:
        """The figures as plain data."""
        ...

    @property
    def url(self) -> str | None:
        """Where its web service answers."""
        ...

    @property
    def is_running(self) -> bool:
        """True until the run has ended."""
        ...


class FixedFigures:
    """Content that never changes, such as a plan that does not run."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._text = to_json({"version": 1, "over": True, "state": state}).decode()

    def whole(self) -> str:
        """All of it."""
        return self._text


class CellFigures:
    """The figures of an application as its cells get them: the whole, then differences. Thread-safe.

    `version` counts the states. A difference leads from the version before it to its own.
    """

    def __init__(self, handle: Followed, plan: Callable[[], Plan]) -> None:
        self.watch = handle.watch
        self.over = False
        """Nothing will change any more."""
        self.is_followed = False
        """Differences are sent: newcomers get the state that the next one starts from."""
        self._handle = handle
        self._plan = plan
        self._maker = PageState(handle.watch)
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {}
        self._version = 0

    def whole(self) -> str:
        """The state as of now; while differences are sent, that of the last one."""
        with self._lock:
            if not self.is_followed or not self._version:
                self._renew()
            return self._text({"state": self._state})

    def difference(self) -> str:
        """Take the newest state; returns what has changed, as text."""
        with self._lock:
            before = self._state
            self._renew()
            return self._text({"patch": merge_patch(before, self._state)})

    def _renew(self) -> None:
        self.over = not self._handle.is_running  # before the reading, which has all of it then
        state = self._maker.of(self._plan())
        self._state = {"name": self._handle.name, "page": self._handle.url, **shown(state)}
        self._state["watermarks"] = {
            "operators": [
                {"id": row["id"], "lagSeconds": row["lagSeconds"]}
                for row in self.watch.watermarks()["operators"]
            ]
        }
        self._version += 1

    def _text(self, rest: Mapping[str, Any]) -> str:
        return to_json({"version": self._version, "over": self.over, **rest}).decode()


def shown(state: Mapping[str, Any]) -> dict[str, Any]:
    """Of the page's state what a cell draws; values of properties, hosts and users are not in it."""
    overview = state["overview"]
    window = overview.get("window")
    return {
        "plan": state["plan"],
        "sentence": state["sentence"],
        "overview": {
            "at": overview["at"],
            "windowId": overview.get("windowId"),
            "info": _kept(overview["info"], _INFO),
            "operators": {name: _row(row) for name, row in overview["operators"].items()},
            "latency": overview["latency"],
            "criticalPath": _kept(overview["criticalPath"], _PATH),
            "recordAge": {"operators": overview["recordAge"]["operators"]},
            "progress": {"queues": overview["progress"].get("queues", [])},
            "window": _kept(window, _WINDOW) if window else None,
        },
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**_kept(row, _ROW), "ports": [_kept(port, _PORT) for port in row.get("ports", ())]}


def _kept(row: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}
