"""How soon windows are committed again after an exception, and after a killed worker, with many keys held.

In slots. From the moment of the exception or the kill to the commit of the window that it has cost.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.apps.held_keys import Count, Held, Keys
from benchmarks.frame import Benchmark, Figures, Round
from ridgeline import Application
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state.state_files import base_of
from ridgeline.measure.events import RunEvent, WindowCommitted
from ridgeline.measure.slot_events import SlotEvent

MANY = 1_000_000
SECONDS = "recovery seconds"
WARM = 40
"""Windows before the first failure."""
APART = 12
"""Windows from one failure to the next."""
TIMES = 8
SETTLING = 40
"""Windows until the states are compacted, as a rule."""
RAISES_IN_SECONDS, KILLED_IN_SECONDS = 0.2, 1.0


class Raising(Count):
    """Raises in the first attempt at every `APART`-th window of the run, and notes when."""

    first: int
    notes: str
    counting: bool

    def add(self, batch: pa.RecordBatch) -> None:
        """Count, or raise."""
        due = self.context.window_id - self.first
        if self.notes and due >= 0 and not due % APART and self.context.attempt == 0:
            with Path(self.notes).open("a", encoding="utf-8") as notes:
                notes.write(f"{self.context.window_id} {time.time()}\n")
            raise RuntimeError("a failure, as ordered")
        super().add(batch)

    def end_window(self) -> None:
        """Report how many keys are held, unless that would be the most of what a new process does."""
        if self.counting:
            super().end_window()


def application(held: int, first: int = 0, notes: str = "", *, counting: bool = False) -> Application:
    """As `apps/held_keys`, with a counter that raises."""
    app = Application("held-keys", window=0)
    keys = app.add_operator("keys", Keys(held=held), partitions=2)
    count = app.add_operator("count", Raising(first=first, notes=notes, counting=counting), partitions=2)
    app.add_stream("keys", keys.output, count.data)
    return app


def prepare(of_round: Round) -> None:
    """A checkpoint with many keys, whose states are compacted as in a long run."""
    from benchmarks import ours

    checkpoint = str(of_round.data / str(held(of_round)))
    app = application(held(of_round), counting=True)
    while True:
        ours.run(of_round, app, SETTLING, checkpoint=checkpoint)
        if Held.keys == held(of_round) and _compacted(Path(checkpoint)):
            return


def _compacted(checkpoint: Path) -> bool:
    """True once the states of all counters are compacted, or too small for segments."""
    last = _last(checkpoint)
    states = [version for key, version in last.states.items() if key.startswith("count/")] if last else []
    return bool(states) and all(base_of(version) for version in states)


def _times(of_round: Round) -> int:
    """How many failures there are."""
    return 2 if of_round.quick else TIMES


def held(of_round: Round) -> int:
    """How many keys are held; a trial is done with fewer."""
    return MANY // 100 if of_round.quick else MANY


def _run(of_round: Round, notes: str, observe: Callable[[RunEvent], None]) -> list[RunEvent]:
    """Go on from the checkpoint; its events."""
    from benchmarks.spark import MASTER
    from ridgeline.engine.driver.run.launch import Options
    from ridgeline.plan import plan_application
    from ridgeline.service.measured import ServiceOptions, run_measured

    checkpoint = of_round.folder / "checkpoint"
    shutil.copytree(of_round.data / str(held(of_round)), checkpoint)
    first = _first_window(checkpoint) + WARM
    events: list[RunEvent] = []

    def see(event: RunEvent) -> None:
        events.append(event)
        observe(event)

    plan = plan_application(application(held(of_round), first, notes))
    options = Options(MASTER, {}, str(checkpoint), WARM + APART * _times(of_round))
    run_measured(plan, options, ServiceOptions(port=None), observe=see)
    return events


def _first_window(checkpoint: Path) -> int:
    last = _last(checkpoint)
    return 0 if last is None else last.window_id + 1


def _last(checkpoint: Path) -> Manifest | None:
    """The last committed window of a checkpoint that no run has open."""
    found = Checkpoint(LocalStorage(str(checkpoint)), "held-keys")
    try:
        return found.last()
    finally:
        found.close()


def exception(of_round: Round) -> Figures:
    """An operator raises."""
    notes = of_round.folder / "raised.txt"
    events = _run(of_round, str(notes), lambda _event: None)
    committed = {event.window_id: event.committed for event in events if isinstance(event, WindowCommitted)}
    raised = [line.split() for line in notes.read_text(encoding="utf-8").splitlines()]
    first = {int(window): float(at) for window, at in reversed(raised)}
    return _figures(of_round, [committed[window] - at for window, at in sorted(first.items())])


def killed(of_round: Round) -> Figures:
    """A worker is killed."""
    joined: dict[int, int] = {}
    kills: list[float] = []
    commits: list[tuple[float, bool]] = []

    def kill(event: RunEvent) -> None:
        if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}:
            joined[event.slot] = event.pid
        elif isinstance(event, WindowCommitted):
            commits.append((event.committed, event.attempts > 1))
            due = len(commits) - WARM
            if due >= 0 and not due % APART and len(kills) < _times(of_round):
                kills.append(time.time())
                os.kill(joined[len(kills) % len(joined)], signal.SIGKILL)

    _run(of_round, "", kill)
    return _figures(
        of_round, [next(at for at, again in commits if again and at > since) - since for since in kills]
    )


def _figures(of_round: Round, seconds: list[float]) -> Figures:
    of_round.note(f"{len(seconds)} times, {statistics.median(seconds) * 1e3:.0f} ms at the median; in ms: "
                  + ", ".join(f"{one * 1e3:.0f}" for one in seconds))  # fmt: skip
    return {SECONDS: seconds}


BENCHMARKS = (
    Benchmark(
        name="recovery",
        title="from a failure to the next commit, with 1 million keys held, in slots on one host",
        contestants={"exception": exception, "killed worker": killed},
        goals=[],
        prepare=prepare,
        budget_seconds=120,
        part_of_all=False,
    ),
)
