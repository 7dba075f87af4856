"""Says that a store does not answer, and that it does again, in a thread of its own.

The thread of windows may itself wait for the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from ridgeline.api.clock import Clock
from ridgeline.engine.files.patience import Patience, Trouble
from ridgeline.measure.slot_events import StoreSilent

_LOOK_SECONDS = 0.5
_FAILING_SECONDS = 2.0
"""A store that answers sooner again is not worth a word."""
_SILENT_SECONDS = 8.0
"""An operation that takes so long without an error may get no answer at all."""
OUTPUT_SILENT_SECONDS = 30.0
"""The same of an output, which may have much to write at once."""
_REMIND_SECONDS = 60.0


class StoreWatch:
    """Looks twice a second at what waits for a store, in `with`. `observe` gets the events."""

    def __init__(
        self,
        waits: Patience,
        clock: Clock,
        observe: Callable[[StoreSilent], None],
        silent_seconds: float = _SILENT_SECONDS,
    ) -> None:
        self._waits = waits
        self._clock = clock
        self._observe = observe
        self._silent_seconds = silent_seconds
        self._said_of: Trouble | None = None
        """The call that has no answer, and since when (monotonic), once that is said."""
        self._said = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ridgeline-store", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Say what has changed since the last look, and each minute what has not."""
        trouble, now = self._waits.trouble(self._silent_seconds), self._clock.monotonic()
        said = self._said_of
        if said is not None and (trouble is None or trouble.output != said.output):
            if trouble is None and self._waits.gave_up:
                return
            self._report(now, said._replace(tries=0, error=""), again=True)
            self._said_of = said = None
        if trouble is None or now - trouble.since < _FAILING_SECONDS:
            return
        if said is None or now - self._said >= _REMIND_SECONDS:
            self._said_of = trouble._replace(since=trouble.since if said is None else said.since)
            self._said = now
            self._report(now, trouble._replace(since=self._said_of.since))

    def _report(self, now: float, trouble: Trouble, *, again: bool = False) -> None:
        since, tries, error, place, output = trouble
        seconds = now - since
        event = StoreSilent(self._clock.wall(), place, seconds, tries, error, again=again, output=output)
        self._observe(event)
