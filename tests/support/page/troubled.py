"""A shop that has troubles: a backlog, a window that fails once, a promise that is broken, a slow change."""

import time
from contextlib import contextmanager

from ridgeline.api.clock import SystemClock
from ridgeline.plan.edits import SetProperty
from ridgeline.service.origin import origin_of
from ridgeline.service.promise_thread import PromiseThread
from ridgeline.sla import window_latency
from ridgeline.stram.changes import EditPlan
from support.page.shop import Orders, Totals, shop
from support.service.living import living
from support.waiting import PATIENCE_SECONDS

FAILED = 12
"""The window that fails once."""


class Backlog(Orders):
    """It has a backlog at the start, which gets smaller."""

    waiting: int = 1_000_000

    def progress(self) -> tuple[float, float | None]:
        return self.count, float(max(0, self.waiting - self.count))


class Once(Totals):
    """Fails in one window, the first time."""

    failed = False

    def begin_window(self, window_id: int) -> None:
        if window_id == FAILED and not Once.failed:
            Once.failed = True
            raise ConnectionResetError("the ledger's connection was reset")


@contextmanager
def troubled():
    """It runs; 30 windows after the start ann makes its parser slower. `slowed`: that change."""
    Once.failed = False
    app = shop(orders=Backlog, totals=Once)
    app.promise(window_latency(p99="1ms"))
    with living(app) as found:
        found.web.state.origin = origin_of(app, found.planner, {"parse.pause": 0.0002}, {})
        promises = PromiseThread(
            found.run.plan.logical.promises, found.watch, found.watch.observe, SystemClock()
        )
        try:
            committed(found, 30)
            edit = SetProperty("parse", "pause", 0.01)
            found.slowed = found.run.changes.ask(EditPlan((edit,), "a new supplier"), "ann")
            assert found.slowed.done.wait(PATIENCE_SECONDS)
            committed(found, found.slowed.window + 12)
            yield found
        finally:
            promises.close()


def committed(app, window):
    """Wait until a window is committed."""
    end = time.monotonic() + PATIENCE_SECONDS
    while app.watch.run()["windows"] <= window:
        assert time.monotonic() < end, f"window {window} is not committed"
        assert app.failure is None, app.failure
        time.sleep(0.05)
