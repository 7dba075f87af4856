"""The driver's half of an output operator: what it does once a window is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import Clock

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class PublisherContext:
    """What a publisher may use.

    `spark` returns the SparkSession (RidgelineError in process). `console` takes text for the user. `run_id`
    is the same for all runs on one checkpoint. `staging` is the URI of a folder in the checkpoint, for files
    that wait. `epoch` is the number of this driver: each driver that opens the checkpoint gets a greater one.
    `check_owner` raises FencedError if a later driver has opened the checkpoint; call it before anything that
    others see, or that deletes.
    """

    application: str
    operator: str
    run_id: str
    clock: Clock
    console: Console
    staging: str
    spark: Callable[[], Any]
    epoch: int
    check_owner: Callable[[], None]


class Publisher:
    """Makes an output operator's results official, exactly once, on the driver, in the order of windows.

    One thread.

    The protocol of window w: `stage` (before the commit; its result is written into the manifest with the
    window), the commit, `publish`. A crash between commit and publish is repaired: at the next start `open`
    gets the state of the last committed window and `publish` is called for it again, so `publish` must be
    idempotent. A window that fails is never staged, or staged again.
    """

    def open(self, context: PublisherContext, state: Any) -> None:
        """The driver starts; `state` is what `stage` returned for the last committed window, None before the first."""

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """What the partitions handed over in window `window_id`, in the order of partitions.

        Must not yet show anything to anybody. Returns the publisher's state after this window:
        JSON-serialisable, small, or None.
        """

    def publish(self, window_id: int) -> None:
        """The window is committed: show its results.

        May be called again for the same window after a crash.
        """

    def idle(self) -> None:
        """Publish what has waited long enough.

        Called between windows, at least once a second, in the thread or under the lock of windows.

        A micro-batch that arrives meanwhile waits, so return at once when nothing is due.
        """

    @property
    def visible(self) -> int | None:
        """The last window whose results readers may see; None: the last one that `publish` was called for."""
        return None

    def close(self) -> None:
        """Orderly end (finish, `--windows`, Ctrl-C), after the last `publish`: show what is still held back.

        Not called after a failure.
        """
