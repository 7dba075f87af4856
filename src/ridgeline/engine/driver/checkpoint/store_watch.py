"""Says that the checkpoint's store does not answer, and that it does again, in a thread of its own.

The thread of windows may itself wait for the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from ridgeline.api.clock import Clock
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.files.patience import PatientStorage, Trouble
from ridgeline.measure.slot_events import StoreSilent

_LOOK_SECONDS = 0.5
_FAILING_SECONDS = 2.0
"""A store that answers sooner again is not worth a word."""
_SILENT_SECONDS = 8.0
"""An operation that takes so long without an error may get no answer at all."""
_REMIND_SECONDS = 60.0


class StoreWatch:
    """Looks at a storage twice a second, in `with`. `observe` gets the events."""

    def __init__(self, storage: PatientStorage, clock: Clock, observe: Callable[[StoreSilent], None]) -> None:
        self._storage = storage
        self._clock = clock
        self._observe = observe
        self._since: float | None = None
        """Since when the store does not answer (monotonic), once that is said."""
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
        trouble, now = self._storage.trouble(_SILENT_SECONDS), self._clock.monotonic()
        if trouble is None:
            if self._since is not None and not self._storage.gave_up:
                self._report(now - self._since, again=True)
                self._since = None
        elif now - trouble.since >= _FAILING_SECONDS and (
            self._since is None or now - self._said >= _REMIND_SECONDS
        ):
            self._since = trouble.since if self._since is None else self._since
            self._said = now
            self._report(now - self._since, trouble)

    def _report(self, seconds: float, trouble: Trouble | None = None, *, again: bool = False) -> None:
        tries, error = (trouble.tries, trouble.error) if trouble else (0, "")
        place = mask_text(self._storage.uri)
        self._observe(StoreSilent(self._clock.wall(), place, seconds, tries, error, again=again))
