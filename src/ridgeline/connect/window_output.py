"""The base of output operators that write whole windows."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import Operator
from ridgeline.api.ports import InputPort
from ridgeline.api.state import ListState
from ridgeline.api.support.files import StoreAwayError, UnavailableError, may_recover, waiting_for_store
from ridgeline.api.support.masking import mask_text

_Result = TypeVar("_Result")
GONE = "its folder is not there any more: is it mounted?"
"""Why an output waits for a folder that it had found."""


class WindowOutput(Operator):
    """An output operator that writes the rows of each of its windows at once, in `write`.

    Rows are kept in state until then, so they survive the streaming windows within an application window.
    With application windows of one streaming window nothing is left at the window's end, and nothing is
    checkpointed.
    """

    input = InputPort(Any)

    waiting = ListState(pa.RecordBatch)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Keep the rows until the window ends.

        Raises RidgelineError for a stream of `object`, which has no columns.
        """
        self.refuse_objects(batch)
        if batch.num_rows:
            self.waiting.append(batch)

    def refuse_objects(self, batch: pa.RecordBatch) -> None:
        """Raise RidgelineError for a stream of `object`, which has no columns."""
        if holds_pickles(batch):
            raise RidgelineError(
                f"`{self.context.name}` cannot write a stream of `object`: it has no columns; "
                "give the output port upstream a schema (a NamedTuple, a dataclass or a `pyarrow.Schema`)"
            )

    def end_window(self) -> None:
        """Write the window's rows, if there are any."""
        if self.waiting:
            table = pa.Table.from_batches(list(self.waiting)).replace_schema_metadata(None)
            del self.waiting[:]
            self.write(table)

    def write(self, rows: pa.Table) -> None:
        """Write the rows of one window (at least one) to a hidden file, and hand its description over.

        The publisher gets what is handed over after all partitions have ended the window.
        """
        raise NotImplementedError

    def until_there(self, write: Callable[[], _Result], place: str | Path, lasting: str = "") -> _Result:
        """Write to a store, and wait while it is away or full. Raises RidgelineError if it refuses.

        `place`: where, for people. `lasting`: a file that is always there, see `waiting_for_store`.
        """
        with explaining(lambda error: write_failure(self.context.name, str(place), error)):
            return waiting_for_store(write, self.context.clock, lasting=lasting)

    @property
    def file_stem(self) -> str:
        """A file name without ending, unique to attempt, window and partition: `w0000000012-p0-3f2a`."""
        attempt = safe_name(self.context.container_attempt or str(self.context.attempt))
        return f"w{self.context.window_id:010d}-p{self.context.partition}-{attempt}"


@contextmanager
def explaining(failure: Callable[[OSError], Exception]) -> Iterator[None]:
    """Turn errors of the file system into those that say what could not be written, and the remedy."""
    try:
        yield
    except OSError as error:
        raise failure(error) from error


def safe_name(text: str) -> str:
    """Escape characters that a file name may not contain.

    A `.` or `_` in front, which would hide the file from readers, gets an `o` before it.

    >>> safe_name("daily volume"), safe_name("_late")
    ('daily%20volume', 'o_late')
    """
    name = re.sub(
        r"[^A-Za-z0-9_.-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text
    )
    return f"o{name}" if name.startswith((".", "_")) else name


def write_failure(operator: str, path: str, error: Exception) -> RidgelineError:
    """Turn an error of the file system into one that says why an operator could not write and what to do."""
    if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
        again = "" if isinstance(error, UnavailableError) else ", then start it again"
        what, remedy = "no space is left on the device", f"free some space{again}"
    elif isinstance(error.__cause__ if isinstance(error, UnavailableError) else error, FileNotFoundError):
        what = "its folder, or a file that a container wrote, is missing"
        remedy = (
            "mount it again, or give a `path` on a file system that all hosts share, "
            "and do not touch its `.ridgeline` folder"
        )
    elif isinstance(error, UnavailableError):
        what, remedy = "its store does not answer", "see whether it runs and can be reached"
    elif (
        isinstance(error, PermissionError)
        or "ermission denied" in str(error)
        or "Read-only file system" in str(error)
    ):
        what, remedy = "permission is denied", "let the user that runs it write there, or give another `path`"
    elif isinstance(error, (FileExistsError, NotADirectoryError)):
        what, remedy = "a file is where a folder should be", "remove it, or give another `path`"
    else:
        what, remedy = "the file system refused", "fix that, then start it again"
    return RidgelineError(
        f"`{operator}` cannot write to `{mask_text(path)}`: {what} ({mask_text(str(error))}); {remedy}; "
        "nothing that was committed is lost"
    )


def publish_failure(operator: str, path: str, error: OSError) -> RidgelineError:
    """As `write_failure`, of a publisher: StoreAwayError if its call may be made again, and may succeed."""
    failure = write_failure(operator, path, error)
    if not may_recover(error):
        return failure
    return StoreAwayError(str(failure), mask_text(path), " ".join(mask_text(str(error)).split()))


def other_copy(operator: str, what: str, newer: str, place: str = " and place") -> RidgelineError:
    """The error where a checkpoint and what its run has written are copies of different times.

    `newer`: which of them is to be brought back. `place`: what else is given for a run on a fresh checkpoint.
    """
    remedy = f"restore the newer {newer} and start again, or start anew with another `--checkpoint`{place}"
    return RidgelineError(f"`{operator}`: {what}; {remedy}")
