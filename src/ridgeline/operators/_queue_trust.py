"""Whether pickles may be read from a queue: control tuples, and rows of a stream of `object`."""

from __future__ import annotations

from ridgeline.api.errors import UntrustedError
from ridgeline.api.support import trust
from ridgeline.api.support.files import is_local, local_path
from ridgeline.operators._queue_files import QueueFolder

CONTROLS = "control tuples", "let none pass: a method for them at the writer keeps what it returns True for"
OBJECTS = "rows of `object`", "give the port at the writer a schema (a NamedTuple, a dataclass)"


class QueueTrust:
    """The check of one queue's files, each once in a process. A folder in the own checkpoint is trusted."""

    def __init__(self, path: str, staging: str) -> None:
        """`staging`: a folder in the checkpoint, as of `OperatorContext`."""
        self._path = path
        self._own = bool(staging) and _within(path, staging.rpartition("/")[0])
        self._checked: set[str] = set()

    def check(self, what: tuple[str, str], *files: str) -> None:
        """Raise UntrustedError if others could have written the queue, or these files of it."""
        if self._own or all(file in self._checked for file in files or ("",)):
            return
        purpose, remedy = f"queue `{self._path}` with {what[0]}", what[1]
        if not is_local(self._path):
            why = "who may write there cannot be seen, and what lies there is run as code"
            raise UntrustedError(f"{purpose} is refused: {why}; {remedy}")
        folder = QueueFolder(local_path(self._path))
        trust.check(str(folder.root), purpose, remedy)
        for path in (folder.log, folder.segments, *files):
            trust.check_entry(str(path), purpose, remedy)
        self._checked.update(files, [""])


def _within(path: str, folder: str) -> bool:
    if is_local(path) and is_local(folder):
        path, folder = local_path(path), local_path(folder)
    return path.startswith(f"{folder}/")
