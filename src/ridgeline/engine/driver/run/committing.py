"""Where a commit waits for its sync: in the thread of windows, or beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from ridgeline.stram.control import ManifestWritten


class Committer(Protocol):
    """Carries out one commit at a time. One thread calls it."""

    @property
    def done(self) -> bool:
        """Whether `finished` has something to report."""

    @property
    def under_way(self) -> bool:
        """Whether a commit has begun that `finished` has not reported: what it will be is not known."""

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Begin a commit; none is under way."""

    def finished(self) -> ManifestWritten | None:
        """The outcome of the commit under way, once; None while it lasts, or if there is none.

        Raises what the commit has raised.
        """

    def close(self) -> None:
        """Wait for a commit that is under way; what it raises is dropped."""


class CommitHere:
    """A `Committer` that waits for the sync in `begin`."""

    def __init__(self) -> None:
        self._written: ManifestWritten | None = None

    @property
    def done(self) -> bool:
        """Whether a commit was not reported yet."""
        return self._written is not None

    @property
    def under_way(self) -> bool:
        """The same: `begin` waits."""
        return self.done

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Commit."""
        self._written = commit()

    def finished(self) -> ManifestWritten | None:
        """Its outcome."""
        written, self._written = self._written, None
        return written

    def close(self) -> None:
        """Nothing is under way."""


class CommitBeside:
    """A `Committer` with a thread of its own. `wake`: called by that thread after each commit."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._commits: SimpleQueue[Callable[[], ManifestWritten] | None] = SimpleQueue()
        self._result: ManifestWritten | BaseException | None = None
        self._begun = False
        self._thread = threading.Thread(target=self._work, name="ridgeline-commit", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether the thread is done with a commit."""
        return self._result is not None

    @property
    def under_way(self) -> bool:
        """Whether the thread has a commit, or is done with one that was not reported."""
        return self._begun

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Have the thread commit."""
        self._begun = True
        self._commits.put(commit)

    def finished(self) -> ManifestWritten | None:
        """Its outcome, if it is done."""
        if self._result is None:
            return None
        result, self._result, self._begun = self._result, None, False
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """Wait for the thread."""
        self._commits.put(None)
        self._thread.join()

    def _work(self) -> None:
        """Carry out commits until `close`. Runs in the thread."""
        while (commit := self._commits.get()) is not None:
            try:
                self._result = commit()
            except BaseException as error:  # noqa: BLE001  raised by `finished`
                self._result = error
            # After the result is there: the thread that wakes looks for it.
            self._wake()
