"""Times given within an application: windows are those of times given at the input."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ridgeline import Application
from ridgeline.operators import Windowed, aggregate, tumbling
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Click(NamedTuple):
    user: str
    time: datetime | None
    other: datetime


def click(user: str, second: int | None) -> Click:
    time = None if second is None else START + timedelta(seconds=second)
    return Click(user, time, START + timedelta(days=second or 0))


def results(
    items: Any, windows: Any, *, within: bool, lateness: str = "3s", partitions: int = 1, **given: Any
) -> Any:
    """Counts by window, and late clicks; `within`: times are given by a step after the input."""
    app = Application("clicks", window="1s")
    if within:
        clicks = app.read("clicks", ListInput(Click, items, *given.pop("upstream", ())))
        clicks = clicks.with_times("time", lateness=lateness, partitions=partitions, **given)
    else:
        clicks = app.read("clicks", ListInput(Click, items, "time", lateness=lateness))
    values = {"start": aggregate.window_start(), "end": aggregate.window_end(), "n": aggregate.count()}
    counts = Windowed(windows, key="user", values=values)
    clicks.process("counts", counts).write("sink", CollectorSink())
    app.stream(counts.late).write("late", CollectorSink())
    run = run_local(app)
    rows = [tuple(row.values()) for row in run.collected("sink")]
    late = sorted((row["user"], row["time"]) for row in run.collected("late"))
    return rows, late, run


def test_times_and_watermark_of_the_input_end_there() -> None:
    items = [click("a", 1), click("a", 70), END_WINDOW, click("a", 5), END_WINDOW, click("a", 90)]
    upstream = ("other", "100d")
    assert (
        results(items, tumbling("1m"), within=True, upstream=upstream)[0]
        == results(items, tumbling("1m"), within=False)[0]
    )


def test_a_null_is_no_time() -> None:
    rows, late, _ = results([click("a", 1), click("a", None)], tumbling("1m"), within=True)
    assert [row[-1] for row in rows] == [1]
    assert late == [("a", None)]
