"""The lines that Ridgeline itself logs of a run, beside those of the operators that they are about."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator

from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.process.log_channel import CHANNEL


class _Keeping(logging.Handler):
    """Keeps the lines that are about one application. Raises nothing."""

    only_keeps = True

    def __init__(self, log: OperatorLog, application: str) -> None:
        super().__init__()
        self._log = log
        self._application = application
        self._here = socket.gethostname(), os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record that names the application."""
        fields = vars(record)
        if fields.get("application") != self._application:
            return
        with contextlib.suppress(Exception):
            name, partition = str(fields.get("operator", "")), fields.get("partition", 0)
            window = fields.get("window", -1)
            line = record.created, window, "log", record.levelname, record.name, record.getMessage()
            self._log.add(name, partition if name else -1, [line], *self._here)


@contextlib.contextmanager
def driver_lines(log: OperatorLog, application: str) -> Iterator[None]:
    """While the block runs, keep what the channel `ridgeline` says of an application.

    Levels stay as they are: warnings and errors, unless more is asked for.
    """
    handler = _Keeping(log, application)
    channel = logging.getLogger(CHANNEL)
    channel.addHandler(handler)
    try:
        yield
    finally:
        channel.removeHandler(handler)
