"""Log records that a thread makes in libraries, kept from the log: others say the reason in their words."""

from __future__ import annotations

import logging
import re
import threading

_SYSTEM_ERROR = re.compile(r"\[Errno \d+\] [\w ]+")
_END_OF_TRIES = re.compile("due to timeout|[Ss]hutdown|Retrying")
_LONGEST = 300


class QuietThread(logging.Filter):
    """A filter of loggers that leaves out what `thread` logs, and keeps the last text of it in `last`."""

    def __init__(self, thread: threading.Thread, *loggers: str) -> None:
        super().__init__()
        self.last = ""
        self._thread = thread
        self._loggers = [logging.getLogger(name) for name in loggers]
        for logger in self._loggers:
            logger.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a record of the thread."""
        if record.thread != self._thread.ident:
            return True
        text = record.getMessage().strip()
        if text.startswith("Transient error") and isinstance(record.args, tuple):
            text = str(record.args[0])
        if _END_OF_TRIES.search(text):  # that says less than the line before
            self.last = self.last or "it does not answer in time"
        else:
            self.last = reason_of(text)
        return False

    def close(self) -> None:
        """Let everything through again."""
        for logger in self._loggers:
            logger.removeFilter(self)


def reason_of(text: str) -> str:
    """The reason in the text of an error: that of the system, if there is one, else its beginning.

    >>> reason_of(
    ...     "HTTPConnectionPool(host='h', port=1): (NewConnectionError('[Errno 111] Connection refused'))"
    ... )
    '[Errno 111] Connection refused'
    """
    found = _SYSTEM_ERROR.search(text)
    return (text if found is None else found[0])[:_LONGEST]
