"""Where a running application comes from: how it is started again, and what configured it."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.process.log_channel import CHANNEL
from ridgeline.plan.validation import validate

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.settings.listing import Row
    from ridgeline.settings.resolving import Resolved


class Origin:
    """Where a running application comes from. Thread-safe."""

    def __init__(self, command: Callable[[str], str] | None, rows: Callable[[], Sequence[Row]]) -> None:
        """`command`: gives the command that continues on a checkpoint folder, secrets masked; None: unknown.

        `rows`: works out all values of the application by their layers; called at the first question.
        """
        self._command = command
        self.rows = cache(rows)
        """All values of the application as it was started. Raises RidgelineError."""

    def command(self, folder: str) -> str:
        """The command that continues on a checkpoint folder."""
        if self._command is None:
            return f"ridgeline run APP --checkpoint {shlex.quote(folder)}"
        return self._command(folder)


def effective(app: Application, resolved: Resolved, source: str = "code") -> list[Row]:
    """All values of an application by their layers. `source`: the layer of its own.

    Raises ValidationError.
    """
    from ridgeline.settings.listing import rows

    with resolved.reporting():
        logical = validate(app, resolved.properties, resolved.attributes)
    return list(rows(app, resolved, logical, source))


def origin_of(
    app: Application, planner: Planner, properties: Mapping[str, object], attributes: Mapping[str, object]
) -> Origin:
    """The origin of an application that a program starts, which gives these values."""

    def rows() -> list[Row]:
        from ridgeline.settings.layers import Layer
        from ridgeline.settings.resolving import resolve

        kept = {f"operator.{key}": value for key, value in planner.found.items()}
        given = {f"operator.{key}": value for key, value in properties.items()}
        said = {
            f"{'operator' if '.' in key else 'application'}.{key}": value for key, value in attributes.items()
        }
        layers = [
            Layer("checkpoint", "checkpoint", kept, strict=False, only="property"),
            Layer("program", "properties of start()", given, only="property"),
            Layer("program", "attributes of start()", said, only="attribute"),
        ]
        return effective(app, resolve(app, layers))

    return Origin(None, rows)


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
