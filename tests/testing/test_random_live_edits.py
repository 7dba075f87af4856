"""Random edits while a random application runs: each window is that of the application as it is by then."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.plan import validate
from ridgeline.plan.change.editing import edited
from ridgeline.plan.edits import Edit
from ridgeline.testing import CollectorSink, run_local
from support.depth import deep
from support.plan.parts import Payment
from support.plan.random_applications import Root, Step, applications
from support.plan.random_edits import edits

TIME = datetime(2026, 1, 1, tzinfo=UTC)
WINDOWS = (2, 4, 6)
COLLECTOR = "ridgeline.testing.CollectorSink"


class Feed(Root):
    """Some payments that depend on the window only."""

    def begin_window(self, window_id: int) -> None:
        for number in range(5):
            self.out.emit(Payment(number, 100 * window_id + number, TIME))

    def emit_tuples(self) -> None: ...


class Hop(Step):
    """Passes everything on."""

    def go(self, payment: Payment) -> None:
        self.out.emit(payment)


CLASSES = (f"{__name__}.Hop", f"{__name__}.Feed")


@st.composite
def running(draw: st.DrawFn) -> Application:
    """A random application that does something, with a sink for each stream."""
    planned = draw(applications())
    app = Application("random", window="10ms")
    made: dict[int, Any] = {}
    for added in planned.operators:
        kind: Any = Feed if isinstance(added.operator, Root) else Hop
        made[id(added.operator)] = app.add_operator(added.name, kind(), **added.attributes)
    for stream in planned.streams:
        ends = [getattr(made[id(end.operator)], end.name) for end in (stream.source, *stream.sinks)]
        sink = app.add_operator(f"{stream.name}_sink", CollectorSink(Payment))
        app.add_stream(stream.name, *ends, sink.input)
    return app


def pictures(app: Application, window: int) -> dict[str, Counter[Any]]:
    """What a fresh run of the application collects in a window, by sink."""
    run = run_local(app, windows=window + 1)
    return {name: counted(run.collected(name, window=window)) for name in collectors(app)}


def collectors(app: Application) -> list[str]:
    return [added.name for added in app.operators if isinstance(added.operator, CollectorSink)]


def counted(rows: list[Any]) -> Counter[Any]:
    return Counter((row["account"], row["cents"]) if isinstance(row, dict) else row[:2] for row in rows)


def is_valid(app: Application) -> bool:
    try:
        validate(app)
    except ValidationError:
        return False
    return True


@settings(
    max_examples=deep(8),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(running().filter(is_valid), st.data())
def test_each_window_is_that_of_the_application_by_then(app: Application, data: st.DataObject) -> None:
    current, changes, by_window = app, {}, {}
    for window in WINDOWS:
        wanted: list[Edit] = data.draw(edits(current, 2, CLASSES, (COLLECTOR,), wrong=False))
        if wanted:
            changes[window] = wanted
            try:
                made = edited(current, wanted)
                validate(made)
            except ValidationError:
                pass
            else:
                current = made
        by_window[window] = current
    seed = data.draw(st.sampled_from([None, 1]))
    run = run_local(app, windows=8, changes=changes, interleave=seed)
    before = app
    for asked, window in zip(run.changes, changes, strict=True):
        refused = by_window[window] is before
        assert asked.state == ("REFUSED" if refused else "APPLIED"), asked.reason
        assert refused or asked.window == window
        before = by_window[window]
    for window in (1, 3, 5, 7):
        expected = by_window[window - 1] if window > 1 else app
        for name, rows in pictures(expected, window).items():
            assert counted(run.collected(name, window=window)) == rows
