"""Where a commit waits for its sync: in the thread of windows, or beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from ridgeline.stram.control import ManifestWritten


class Committer:
    """Carries out one commit at a time. One thread calls it. This one waits for the sync in `begin`."""

    def __init__(self) -> None:
        self._result: ManifestWritten | BaseException | None = None
        self._begun = False

    @property
    def done(self) -> bool:
        """Whether `finished` has something to report."""
        return self._result is not None

    @property
    def under_way(self) -> bool:
        """Whether a commit has begun that `finished` has not reported: what it will be is not known."""
        return self._begun

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Begin a commit; none is under way."""
        self._begun = True
        self._result = commit()

    def finished(self) -> ManifestWritten | None:
        """The outcome of the commit under way, once; None while it lasts, or if there is none.

        Raises what the commit has raised.
        """
        if self._result is None:
            return None
        result, self._result, self._begun = self._result, None, False
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """Wait for a commit that is under way; what it raises is dropped."""


class CommitBeside(Committer):
    """It has a thread of its own. `wake`: called by that thread after each commit."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake = wake
        self._commits: SimpleQueue[Callable[[], ManifestWritten] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ridgeline-commit", daemon=True)
        self._thread.start()

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Have the thread commit."""
        self._begun = True
        self._commits.put(commit)

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
