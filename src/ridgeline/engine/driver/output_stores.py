"""Publishers wait for their files: a call that a store, a mount or a full disk has broken is made again.

Only calls that raise StoreAwayError are: it says that nothing of them was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.api.clock import Clock
from ridgeline.api.support.files import StoreAwayError, store_pause
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.files.patience import ENDING_SECONDS, STARTING_SECONDS, Trouble


class OutputStores:
    """Makes the calls of publishers. One thread calls; any thread asks for `trouble`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ending: Callable[[], bool] | None = None
        self._ends_at: float | None = None
        self._asked: Trouble | None = None
        """The call under way."""
        self.gave_up = False
        """Whether a call has failed since it was tried for too long, so that the run ends."""

    def be_patient(self, ending: Callable[[], bool]) -> None:
        """Wait without a limit from now on; some seconds only once `ending` says that the run is to end."""
        self._ending = ending

    @property
    def ending(self) -> bool:
        """Whether the run is to end, so that nothing is waited for without a limit."""
        return self._ending is not None and self._ending()

    def trouble(self, silent_seconds: float) -> Trouble | None:
        """The call that waits for its files: it has failed, or takes so long. Any thread.

        None if there is none.
        """
        asked = self._asked
        if asked is None or asked.tries or asked.since <= self._clock.monotonic() - silent_seconds:
            return asked and asked._replace(place=mask_text(asked.place))
        return None

    def call(
        self, output: str, place: str, function: Callable[..., Any], *arguments: Any, silent: bool, new: bool
    ) -> Any:
        """Make a call until it succeeds. Raises what it raises.

        `silent`: if it takes long it waits for its files. `new`: the output is added, so its address may be
        wrong: some seconds are enough. Its error refuses the change, and the run continues without it.
        """
        began = self._clock.monotonic()
        self._asked = Trouble(began if silent else float("inf"), 0, "", place, output)
        tries = 0
        try:
            while True:
                try:
                    return function(*arguments)
                except StoreAwayError as error:
                    now, tries = self._clock.monotonic(), tries + 1
                    if not new:
                        self._asked = Trouble(began, tries, error.why, error.place, output)
                    if not self._may_wait(now, now - began, new=new):
                        self.gave_up |= not new
                        raise
                self._clock.wait(store_pause(tries - 1))
        finally:
            self._asked = None

    def _may_wait(self, now: float, seconds: float, *, new: bool) -> bool:
        """Whether to try again, after so long."""
        if self._ending is None or new:
            return seconds < STARTING_SECONDS
        if self._ends_at is None and self.ending:
            self._ends_at = now + ENDING_SECONDS
        return self._ends_at is None or now < self._ends_at
