"""What a window with timers costs, by how many are held: `python -m benchmarks.timers [HELD ...]`.

One operator holds 10,000, 100,000 and 1,000,000 timers. In each window 10,000 of them expire, and as many are
set again. CPU time counts, of the callbacks and of the whole window with its checkpoint, and the bytes that
are written down. So a busy machine does little harm. The goal: all follow what is due, not what is held.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State, Timers
from ridgeline.measure.events import WindowReported
from ridgeline.testing import run_local

DUE, WINDOWS, WARM_UP = 10_000, 20, 5
START = datetime(2026, 1, 1, tzinfo=UTC)


class Ticks(InputOperator):
    """All keys in the first window; then the time of each window."""

    ticks = OutputPort(object)
    position = State(0)

    def emit_tuples(self) -> None:
        """Emit the window's number."""
        self.ticks.emit(self.position)
        self.position += 1


class Alarms(Operator):
    """Holds so many timers; as many expire in each window, and are set again for the far end."""

    ticks = InputPort(object)
    alarm = Timers(key=str, by="clock")
    held: int

    def begin_window(self, window_id: int) -> None:
        """Take the CPU time."""
        self.began = time.process_time()

    @ticks.process
    def fill(self, number: int) -> None:
        """Set all timers in the first window: `DUE` for each second from the fifth on."""
        if number == 0:
            for place in range(self.held):
                self.alarm.set(f"user{place}", self.time(place // DUE + WARM_UP))

    @alarm.expired
    def ring(self, key: str, when: datetime) -> None:
        """Set it again, as the last one."""
        self.alarm.set(key, when + timedelta(seconds=self.held // DUE))
        RUNG.append(key)

    def end_window(self) -> None:
        """Note the CPU time."""
        ENDED.append(time.process_time())
        SPENT.append(ENDED[-1] - self.began)

    def time(self, second: int) -> datetime:
        """A time after the start."""
        return START + timedelta(seconds=second)


SPENT: list[float] = []
ENDED: list[float] = []
RUNG: list[str] = []


def measure(held: int) -> tuple[float, float, int]:
    """CPU milliseconds of the callbacks of a window and of a whole window, and bytes that it writes down."""
    SPENT.clear()
    ENDED.clear()
    RUNG.clear()
    app = Application("alarms", window="1s")
    ticks = app.add_operator("ticks", Ticks())
    alarms = app.add_operator("alarms", Alarms(held=held))
    app.add_stream("ticks", ticks.ticks, alarms.ticks)
    run = run_local(app, windows=WARM_UP + WINDOWS)
    if len(RUNG) != DUE * WINDOWS:
        sys.exit(f"{len(RUNG):,} timers have expired, not {DUE * WINDOWS:,}")
    written = [
        int(one.operators["state_bytes"][one.operators["tuples_in"] > 0].sum())
        for one in run.events
        if isinstance(one, WindowReported) and one.window_id > WARM_UP
    ]
    whole = [after - before for before, after in pairwise(ENDED[WARM_UP:])]
    callbacks = statistics.median(SPENT[WARM_UP + 1 :])
    return callbacks * 1e3, statistics.median(whole) * 1e3, int(statistics.median(written))


def main() -> int:
    """Print a table; 1 if a window costs more than four times as much with the most timers."""
    sizes = [int(text) for text in sys.argv[1:]] or [10_000, 100_000, 1_000_000]
    print(f"{DUE:,} timers expire in each of {WINDOWS} windows, and are set again; CPU time, medians")
    print(f"{'held':>10} {'callbacks ms':>13} {'window ms':>10} {'bytes written':>14} {'peak MB':>8}")
    windows = []
    for held in sizes:
        callbacks, window, written = measure(held)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        windows.append(window)
        print(f"{held:>10,} {callbacks:>13.1f} {window:>10.1f} {written:>14,} {peak:>8,}", flush=True)
    return 0 if windows[-1] <= 4 * windows[0] else 1


if __name__ == "__main__":
    sys.exit(main())
