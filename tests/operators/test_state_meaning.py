"""A property without which state means something else: refused at a start and live, with the way out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator
from ridgeline.api.errors import CheckpointError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import (
    AsOfJoin,
    Deduplicate,
    Detect,
    FillForward,
    Running,
    TableJoin,
    TopByKey,
    TopN,
    Windowed,
    WindowJoin,
    aggregate,
    hysteresis,
    tumbling,
)
from ridgeline.plan.edits import SetProperty
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Row(NamedTuple):
    key: str
    other: str
    number: int
    filled: int | None
    time: datetime


START = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = [
    one
    for n in range(20)
    for one in (
        Row(f"a{n % 3}", f"b{n % 5}", n, n if n % 2 else None, START + timedelta(seconds=n)),
        END_WINDOW,
    )
]
COUNT, SUM = aggregate.count(), aggregate.sum("number")


class Largest(Operator):
    """An operator of a user's own."""

    state_depends_on = ("smallest",)

    input = InputPort(Row, key="key")
    best = KeyedState(int, key=str)
    smallest: bool = False

    @input.process
    def note(self, row: Row) -> None:
        better = min if self.smallest else max
        self.best[row.key] = better(self.best.get(row.key, row.number), row.number)


CASES: list[tuple[type[Operator], dict[str, Any], str, Any]] = [
    (TopByKey, {"key": "key", "by": "number", "size": 3}, "smallest", True),
    (TopByKey, {"key": "key", "by": "number", "size": 3}, "size", 5),
    (TopN, {"by": "number", "cumulative": True, "schema": Row}, "size", 20),
    (Deduplicate, {"key": "key"}, "key", "other"),
    (Deduplicate, {"key": "key", "within": "5s"}, "by", "clock"),
    (Detect, {"pattern": hysteresis("number", above=8, below=3), "key": "key"}, "pattern",
     hysteresis("number", above=12, below=3)),
    (FillForward, {"columns": "filled", "key": "key"}, "columns", "number"),
    (Running, {"key": "key", "values": {"n": COUNT}}, "values", {"n": SUM}),
    (Windowed, {"key": "key", "windows": tumbling("1h"), "values": {"n": COUNT}}, "windows", tumbling("2h")),
    (Windowed, {"key": "key", "windows": tumbling("1h"), "values": {"n": COUNT}}, "early", "1s"),
    (WindowJoin, {"on": "key", "windows": tumbling("1h")}, "how", "left"),
    (AsOfJoin, {"on": "key"}, "on", "other"),
    (Largest, {}, "smallest", True),
]  # fmt: skip
MAY_CHANGE: list[tuple[type[Operator], dict[str, Any], str, Any]] = [
    (TopN, {"by": "number", "schema": Row}, "size", 20),
    (Deduplicate, {"key": "key"}, "within", "1h"),
    (FillForward, {"columns": "filled", "key": "key"}, "within", "1h"),
    (Windowed, {"key": "key", "windows": tumbling("1h"), "values": {"n": COUNT}}, "lateness", "1s"),
]
named = [f"{kind.__name__}.{name}" for kind, _, name, _ in CASES]


def application(kind: type[Operator], properties: dict[str, Any]) -> Application:
    app = Application("meaning")
    source = app.add_operator("source", ListInput(Row, ITEMS, "time", lateness="1s"))
    step: Any = app.add_operator("step", kind(**properties))
    app.add_stream("rows", source.output, *(getattr(step, port) for port in kind_ports(kind)))
    if kind is not Largest:
        output = step.top if kind is TopN else step.output
        app.add_stream("found", output, app.add_operator("sink", CollectorSink()).input)
    return app


def kind_ports(kind: type[Operator]) -> list[str]:
    both = {TableJoin: ["table", "input"], AsOfJoin: ["left", "right"], WindowJoin: ["left", "right"]}
    return both.get(kind, ["data"] if kind is TopN else ["input"])


@pytest.mark.parametrize(("kind", "properties", "name", "value"), CASES, ids=named)
def test_a_change_is_refused_at_a_start_and_live(
    kind: type[Operator], properties: dict[str, Any], name: str, value: Any
) -> None:
    storage = MemoryStorage()
    run_local(application(kind, properties), checkpoint=storage, windows=12)
    changed = application(kind, properties | {name: value})
    with pytest.raises(CheckpointError, match=r"`step`: its `\w+` was .*, and is .*--drop-state step"):
        run_local(changed, checkpoint=storage)
    run_local(changed, checkpoint=storage, drop_state=["step"])
    [asked] = run_local(
        application(kind, properties), changes={12: [SetProperty("step", name, value)]}
    ).changes
    why = "cannot be changed from outside" if name in ("key", "on") else "would mean something else"
    assert (asked.state, why in asked.reason) == ("REFUSED", True)


@pytest.mark.parametrize(("kind", "properties", "name", "value"), MAY_CHANGE)
def test_what_state_does_not_depend_on_may_change(
    kind: type[Operator], properties: dict[str, Any], name: str, value: Any
) -> None:
    storage = MemoryStorage()
    run_local(application(kind, properties), checkpoint=storage, windows=12)
    run_local(application(kind, properties | {name: value}), checkpoint=storage)
