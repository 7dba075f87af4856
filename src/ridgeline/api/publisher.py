"""The driver's half of an output operator: it publishes results once their window is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ridgeline.api.clock import Clock
from ridgeline.api.columns.schema import Schema

if TYPE_CHECKING:
    from rich.console import Console


def _unheard(text: str) -> None:
    """Drop a warning: nothing shows them here."""


@dataclass(frozen=True)
class PublisherContext:
    """The environment of a publisher.

    Attributes:
        application: The name of the application.
        operator: The name of the output operator.
        run_id: The same for all runs on one checkpoint.
        clock: The source of all times.
        console: Prints text for the user.
        staging: The URI of a folder in the checkpoint, for files that wait for the commit.
        spark: Returns the SparkSession. Raises RidgelineError in an in-process run.
        epoch: The number of this driver; each driver that opens the checkpoint gets a greater one.
        check_owner: Raises FencedError if a later driver has opened the checkpoint. Call it before anything
            that others see, or that deletes.
        committed: The last window that is committed, -1 before the first.
        warn: Shows a text to the user: on the terminal, in the log, as an event. In the thread of windows.
        attributes: The operator's attributes by name, defaults filled in.
        schemas: Those of its connected input ports.

    Example:
        >>> from ridgeline import Publisher, PublisherContext
        >>> class Named(Publisher):
        ...     def open(self, context: PublisherContext, state: str | None) -> None:
        ...         self.folder = f"{context.staging}/{context.run_id}"
        ...         self.check_owner = context.check_owner
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
    committed: int = -1
    warn: Callable[[str], None] = _unheard
    attributes: Mapping[str, Any] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)


class Publisher:
    """Publishes an output operator's results, exactly once, on the driver, in the order of windows.

    Its methods are never called concurrently.

    The protocol of a window: `stage`, the commit, `publish`; `committing` says that the commit begins. The
    result of `stage` is written into the manifest with the window. After a crash between commit and publish,
    the next start calls `open` with the state of the last committed window, then `publish` for it again. So
    `publish` must be idempotent. A window that fails is not staged, or staged again when it is replayed.

    Example:
        >>> from ridgeline import Application, InputPort, Operator, Publisher
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Printed(Publisher):
        ...     def stage(self, window_id, values):
        ...         self.staged = values
        ...
        ...     def publish(self, window_id):
        ...         print(f"window {window_id}:", *self.staged)
        >>> class Print(Operator):
        ...     words = InputPort(object)
        ...
        ...     @words.process
        ...     def show(self, word: str) -> None:
        ...         self.context.hand_over(word)
        ...
        ...     def publisher(self) -> Publisher:
        ...         return Printed()
        >>> app = Application("words")
        >>> words = app.add_operator("words", ListInput(object, ["a", "b"]))
        >>> output = app.add_operator("output", Print())
        >>> app.add_stream("words", words.output, output.words)
        >>> run = run_local(app)
        window 0: a b
    """

    groups_windows: ClassVar[bool] = False
    """True: `stage` may be called for several windows, then `publish` once, for the last and all before it.

    Then one commit may cover several windows. Else each has one of its own, however slow the disk is.
    """

    only_files: ClassVar[bool] = False
    """True: its calls do nothing but read and write files, so one that takes long waits for their store."""

    lasting: ClassVar[bool] = True
    """False: published values cannot be seen later, so there is never anything to take back."""

    def place(self) -> str | None:
        """Say where results appear, as a text for people. Called before `open`.

        Each window keeps it. A run is not rewound over windows of another place: what was published there
        would stay. None: that depends on all properties of the operator.
        """
        return None

    def open(self, context: PublisherContext, state: Any) -> None:
        """Start on a driver.

        `state`: what `stage` returned for the last committed window; None before the first.
        """

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Prepare the results of a window, before its commit. Must not make them visible yet.

        `values`: what the partitions passed to `hand_over` in the window, in the order of partitions. Returns
        the publisher's state after this window: JSON-serialisable, small, or None.
        """

    def committing(self) -> None:
        """The commit of the windows that are staged begins.

        A publisher may send their results meanwhile to where no reader sees them before `publish`. The commit
        may fail: then comes `abandon`, and nothing of it may ever be seen. Must return at once.
        """

    def publish(self, window_id: int) -> None:
        """Make the results of a committed window visible.

        Called again for the last committed window at every start, after `open` and without a `stage`: the
        driver before may have died in between.
        """

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Prepare to take back what was published after a window: the run is started again from it.

        Called after `open` and `publish` for the last committed window. Must not change what is visible yet.
        `state`: what `stage` returned for the window to go back to; None if there is none. `at`: the number
        under which that window is committed once more; the next windows follow it. Returns the state that
        goes with it. `open` is called with that state next, perhaps more than once, and takes back then.

        Raises RidgelineError if it cannot; nothing is rewound then. NotImplementedError: it never can.
        """
        raise NotImplementedError

    def plan_changed(self) -> None:
        """Another plan is in force from the next window on: keys may be in other partitions.

        Called between windows, after all that are committed were published. Not called of a publisher that
        the new plan opens.
        """

    def idle(self) -> None:
        """Publish results that are due by time.

        Called between windows, at least once a second, in the thread or under the lock of windows. A
        micro-batch that arrives meanwhile waits, so return at once if nothing is due.
        """

    @property
    def visible(self) -> int | None:
        """The last window whose results are visible; None: the last one that `publish` was called for."""
        return None

    @property
    def full(self) -> str | None:
        """Why no further window may begin, for people; None: one may. Asked often, so answer at once.

        Windows under way continue. It is back pressure from an output whose readers do not keep up.
        """
        return None

    @property
    def trouble(self) -> str | None:
        """Why committed results are not visible, such as a server that is away; None: all is well.

        `ridgeline status` shows it. Asked often, so answer at once.
        """
        return None

    def close(self) -> None:
        """Publish what is still held back, at an orderly end (finish, `--windows`, Ctrl-C).

        Called after the last `publish`. Not called after a failure.
        """

    def abandon(self) -> None:
        """Let go of connections and the like, and publish nothing.

        Called in place of `close` if the run fails, or if a window that was staged will never be committed.
        Another publisher is opened then, with the state of the last committed window. Errors are ignored.
        """
