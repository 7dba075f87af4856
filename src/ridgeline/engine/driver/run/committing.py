"""Where a commit waits for its sync: in the thread of windows, or beside it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from ridgeline.engine.driver.checkpoint.compactions import AtOnce
from ridgeline.stram.control import ManifestWritten


class Commits:
    """Carries out one commit at a time. One thread calls it.

    `beside`: a thread for it; None: `begin` waits. `wake`: called by that thread after each commit.
    """

    def __init__(self, beside: Executor | None = None, wake: Callable[[], None] = lambda: None) -> None:
        self._threads = beside or AtOnce()
        self._wake = wake
        self._commit: Future[ManifestWritten] | None = None

    @property
    def done(self) -> bool:
        """Whether `finished` has something to report."""
        return self._commit is not None and self._commit.done()

    @property
    def under_way(self) -> bool:
        """Whether a commit has begun that `finished` has not reported: what it will be is not known."""
        return self._commit is not None

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Begin a commit; none is under way."""
        self._commit = self._threads.submit(commit)
        self._commit.add_done_callback(lambda _commit: self._wake())

    def finished(self) -> ManifestWritten | None:
        """The outcome of the commit under way, once; None while it lasts, or if there is none.

        Raises what the commit has raised.
        """
        commit = self._commit
        if commit is None or not commit.done():
            return None
        self._commit = None
        return commit.result()

    def close(self) -> None:
        """Wait for a commit that is under way; what it raises is dropped."""
        self._threads.shutdown()
