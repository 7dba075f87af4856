"""Both ends of the queue between two regions of an application."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.api.columns.schema import Schema
from ridgeline.operators._queue_files import QueueFolder, reader_name
from ridgeline.operators._queue_log import LogReader
from ridgeline.operators._queue_objects import folder_of
from ridgeline.operators.queue_input import QueueInput
from ridgeline.operators.queue_output import QueueOutput


def queue_writer(path: str, keep: float | str, readers: Sequence[str], application: str) -> QueueOutput:
    """The writer of a queue that these operators of the application read, each in a run of its own.

    Rows wait for each of them, also for one that has not started yet.
    """
    names = tuple(reader_name(application, reader) for reader in readers)
    return QueueOutput(path=path, keep=keep, readers=names)


def queue_reader(path: str, schema: Schema) -> QueueInput[object]:
    """A reader that waits for its queue until the writer has made it."""
    return QueueInput(path=path, schema=schema.type, when_missing="wait")


def is_read(path: str, application: str, reader: str) -> bool:
    """Whether an operator has committed all that is in a queue. Raises OSError."""
    folder = folder_of(path)
    positions = [folder.registered(one).next for one in folder.runs_of(reader_name(application, reader))]
    return not _holds_rows(folder, max(positions, default=None))


def is_read_by_all(path: str) -> bool:
    """Whether all operators that have registered have committed all that is in a queue. Raises OSError."""
    folder = folder_of(path)
    positions = [folder.registered(one).next for one in folder.readers_known()]
    return not _holds_rows(folder, min(positions, default=None))


def _holds_rows(folder: QueueFolder, position: int | None) -> bool:
    """Whether there is anything from a position on; None: from the first entry on."""
    return bool(folder.logs()) if position is None else bool(LogReader(folder, position).read(1))
