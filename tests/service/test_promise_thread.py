"""The thread that judges promises: windows in, changes of promises out."""

from ridgeline.api.clock import SystemClock
from ridgeline.measure.events import ApplicationChanged, PromiseChanged, WindowPlanned
from ridgeline.observe import judging
from ridgeline.observe.watch import Watch
from ridgeline.service import promise_thread
from ridgeline.service.promise_thread import PromiseThread
from ridgeline.sla import caught_up_within, error_share, latency, throughput, window_latency
from support.measure.changing import run
from support.waiting import wait_until


class Judged:
    """Promises that are judged over a watch of its own."""

    def __init__(self, *promises):
        self.clock = SystemClock()
        self.watch = Watch(self.clock.wall)
        self.changes = []
        self.watch.subscribe(self._hear)
        self.promises = promises

    def _hear(self, event):
        if isinstance(event, PromiseChanged):
            self.changes.append((event.promise, event.kept))

    def __enter__(self):
        self.thread = PromiseThread(self.promises, self.watch, self.watch.observe, self.clock)
        return self

    def __exit__(self, *_):
        self.thread.close()


def test_verdicts_of_a_run_whose_plan_changes():
    promises = (
        latency("count", p99="1h"),
        window_latency(p50="1ms"),
        error_share("count", at_most=0.5),
        latency("gone", p99="1s"),
        caught_up_within("1m"),
    )
    with Judged(*promises) as judged:
        for event in run():
            judged.watch.observe(event)
        expected = {"latency_p99:count": True, "window_latency_p50": False, "error_share:count": True}
        wait_until(lambda: expected.items() <= dict(judged.changes).items(), "verdicts")
        assert judged.changes[:5] == [(promise.name, None) for promise in promises]
        rows = {row["promise"]: row for row in judged.watch.promises()}
    assert rows["latency_p99:gone"]["kept"] is None
    assert rows["window_latency_p50"]["timesBroken"] == 1


def test_a_window_that_hangs_is_seen_and_a_pause_is_not_judged(monkeypatch):
    monkeypatch.setattr(judging, "_HELD_SECONDS", 0.0)
    monkeypatch.setattr(promise_thread, "_TICK_SECONDS", 0.01)
    with Judged(window_latency(p99="1h"), throughput("count", at_least=1, over="100ms")) as judged:
        events = list(run())
        for event in events:
            judged.watch.observe(event)
        wait_until(lambda: ("throughput:count", False) in judged.changes, "silence to be seen")
        before = len(judged.changes)
        judged.watch.observe(ApplicationChanged(events[-1].at, 9, "ann", "", "pause", "APPLIED"))
        wait_until(lambda: judged.thread._judge._paused, "the pause")
        judged.watch.observe(WindowPlanned(events[-1].at, 10**6, 1, events[-1].at))
        assert len(judged.changes) == before
    with Judged(window_latency(p99="50ms", over="1m")) as judged:
        judged.thread._judge._keeping._kept[
            0
        ]._began = 0.0  # a window has come, and has gone out of the period
        judged.watch.observe(WindowPlanned(0.0, 1, 1, 0.0))
        wait_until(lambda: judged.changes[-1] == ("window_latency_p99", False), "the hang")


def test_a_stall_breaks_the_promise_to_catch_up_while_it_lasts(monkeypatch):
    monkeypatch.setattr(promise_thread, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(judging, "_LOOK_SECONDS", 0.0)
    said = {"verdict": "keeping up", "caughtUpAt": None}
    with Judged(caught_up_within("1m")) as judged:
        monkeypatch.setattr(judged.watch, "progress", lambda **_: {"application": said})
        for event in run():
            judged.watch.observe(event)
        wait_until(lambda: ("caught_up_within", True) in judged.changes, "the promise to be kept")
        said["verdict"] = "stuck"  # and no window is committed
        wait_until(lambda: judged.changes[-1] == ("caught_up_within", False), "the stall to be seen")


def test_a_judgement_that_fails_ends_nothing(monkeypatch):
    with Judged(window_latency(p50="1ms"), latency("count", p99="1h")) as judged:
        failing = iter([RuntimeError("no figures")])

        def latencies(_window):
            for error in failing:
                raise error
            return {"count": 1.0}

        monkeypatch.setattr(judged.watch, "window_latencies", latencies)
        for event in run():
            judged.watch.observe(event)
        wait_until(lambda: ("latency_p99:count", True) in judged.changes, "verdicts after the failure")
