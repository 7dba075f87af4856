"""The `logging` channel `ridgeline`: where its lines go, and how they are written.

Modules log to a logger of their own name (`ridgeline.observe.watch`), with `extra` fields such as `operator`,
`partition` and `window`. Nothing is written unless `open_channel` asks for it or the program configures
`logging` itself. Workers take the driver's settings from the environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import WatchedFileHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask, mask_text, printable
from ridgeline.engine.files.rotation import FULL_BYTES, put_away
from ridgeline.engine.process.worker_output import MarkedStream, current_operator, keep, not_kept
from ridgeline.measure.trace_ids import trace_text

CHANNEL = "ridgeline"
_CLOCK = SystemClock()
VARIABLE = "RIDGELINE_LOG"
"""The environment variable that carries the driver's `LogSettings` to the workers, as JSON."""
_TRACEBACKS = logging.Formatter()
_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


class LogLevel(StrEnum):
    """The least severe lines that are written."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class LogFormat(StrEnum):
    """`text`: a line for people. `json`: one JSON object a line."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The levels of loggers, and where they write: to `file`, an absolute path; None: standard error.

    `traced`: windows have traces, so that lines about them name these.
    """

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT
    file: str | None = None
    traced: bool = False

    def encode(self) -> str:
        """As text for `VARIABLE`."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> LogSettings:
        """What `encode` has made. Raises ValueError, TypeError or KeyError for any other text."""
        found = json.loads(text)
        level, form = LogLevel(found["level"]), LogFormat(found["format"])
        return cls(level, form, found["file"], bool(found.get("traced")))

    @property
    def handler(self) -> logging.Handler:
        """A handler that writes lines of this format there. Raises OSError if the file cannot be written."""
        handler = _StandardError() if self.file is None else _LogFile(self.file)
        handler.setFormatter(JsonLines(traced=self.traced) if self.format is LogFormat.JSON else TextLines())
        return handler


# Lines ------------------------------------------------------------------------------------------------------


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The record's extra fields without secrets; in a callback also the operator that logs."""
    fields: dict[str, Any] = {}
    current = current_operator()
    if current is not None:
        context = current.context
        fields = {
            "application": context.application,
            "operator": current.name,
            "partition": context.partition,
            "window": context.window_id,
        }
    fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: mask(name, value) for name, value in fields.items() if value is not None}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


class TextLines(logging.Formatter):
    """`2026-03-01T12:00:00.000Z WARNING [balances:1] ridgeline.x: text (window=7)`.

    Further lines of a message or traceback are indented, and control characters are escaped: no message can
    look like a line of its own. Secrets are masked.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, without a line break at its end."""
        fields = _fields(record)
        mark = ""
        if "operator" in fields:
            partition = f":{fields.pop('partition')}" if "partition" in fields else ""
            mark = f"[{fields.pop('operator')}{partition}] "
        text = f"{_time(record)} {record.levelname} {mark}{record.name}: {record.getMessage()}"
        if fields:
            text += f" ({', '.join(f'{name}={value}' for name, value in fields.items())})"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return printable(mask_text(text)).replace("\n", "\n    ")


class JsonLines(logging.Formatter):
    """One JSON object a line: `time` (ISO 8601, UTC), `level`, `logger`, `message`, then the extra fields.

    `exception` has a traceback. `traced`: a line within a window also has `trace_id`, that of its trace.
    Secrets are masked.
    """

    def __init__(self, *, traced: bool = False) -> None:
        super().__init__()
        self._traced = traced

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": mask_text(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = mask_text(self.formatException(record.exc_info))
        current = current_operator() if self._traced else None
        if current is not None and (context := current.context).window_id >= 0:
            line["trace_id"] = trace_text(context.run_id, context.window_id)
        return json.dumps({**_fields(record), **line}, default=str)


class _Lines(logging.StreamHandler[Any]):
    """Writes each line at once, so that lines of several processes do not mix.

    A failure is said once, until a line can be written again. Raises nothing: a full disk must not end what
    is logged.
    """

    _failed = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        before = self._failed
        try:
            super().emit(record)
        except Exception:  # noqa: BLE001  no file can be made in the place of one that was renamed
            self.handleError(record)
        if before and before == self._failed:
            self._say(f"log lines can be written again; up to {before} are missing")
            self._failed = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's own name
        """Say what has just been raised, the first time."""
        self._failed += 1
        if self._failed == 1:
            error = sys.exc_info()[1]
            what = f"{type(error).__name__}: {error}"
            self._say(f"a log line cannot be written: {what}; further ones are not reported")

    def _say(self, text: str) -> None:
        with contextlib.suppress(Exception):
            sys.stderr.write(f"{mask_text(text)}\n")


class _StandardError(_Lines):
    """Writes to what is standard error by then, without the marks of operators."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        """The stream."""
        return sys.stderr.stream if isinstance(sys.stderr, MarkedStream) else sys.stderr


class _LogFile(_Lines, WatchedFileHandler):
    """A file that several processes append whole lines to, and that is begun again once it was renamed.

    A process that finds it full renames it. Raises OSError if it cannot be made.
    """

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=_private)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. Rename a full file, unless another process does; else it grows."""
        super().emit(record)
        if self.stream is None:  # it could not be opened again
            return
        with contextlib.suppress(OSError):
            file = self.stream.fileno()
            if os.fstat(file).st_size >= FULL_BYTES:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samefile(self.baseFilename, file):  # noqa: PTH121  a descriptor
                    put_away(Path(self.baseFilename))
                fcntl.flock(file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, with what cannot be written any more."""
        with contextlib.suppress(OSError):
            super().close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Keeping(logging.Handler):
    """Keeps lines for the driver, with their levels. Raises nothing."""

    only_keeps = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        with contextlib.suppress(Exception):  # wrong arguments: the handler beside this one has said so
            text = record.getMessage()
            if record.exc_info:
                text += f"\n{_TRACEBACKS.formatException(record.exc_info)}"
            keep("log", text, record.levelname, record.name)


class _LastResort(_Keeping):
    """Python's handler of last resort, whose lines are kept with their levels."""

    only_keeps = False

    def __init__(self, before: logging.Handler, level: int) -> None:
        super().__init__(level)
        self._before = before

    def of_all_levels(self) -> _LastResort:
        """The same for lines of each level."""
        return _LastResort(self._before, logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as before, and keep it."""
        with not_kept():
            self._before.handle(record)
        super().emit(record)


def writing_handler() -> logging.Handler:
    """A handler for a logger whose lines nothing else writes: as lines of text, on standard error.

    In a worker they are written as those of other loggers are, and kept for the driver.
    """
    last = logging.lastResort
    return last.of_all_levels() if isinstance(last, _LastResort) else LogSettings().handler


# Processes --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_channel(
    settings: LogSettings | None, environment: MutableMapping[str, str] = os.environ
) -> Iterator[None]:
    """While the block runs, write what is logged under `ridgeline`; workers started meanwhile do so too.

    None: write nothing. Raises RidgelineError if the file cannot be written.
    """
    if settings is None:
        yield
        return
    if settings.file is not None:
        settings = replace(settings, file=str(Path(settings.file).absolute()))
    try:
        handler = settings.handler
    except OSError as error:
        remedy = "give `--log-file` a path in a folder that exists and that you may write to"
        raise RidgelineError(
            f"log file `{settings.file}` cannot be written: {error.strerror or error}; {remedy}"
        ) from error
    channel = logging.getLogger(CHANNEL)
    level = channel.level
    channel.setLevel(settings.level)
    channel.addHandler(handler)
    environment[VARIABLE] = settings.encode()
    try:
        yield
    finally:
        del environment[VARIABLE]
        channel.removeHandler(handler)
        channel.setLevel(level)
        handler.close()


def _given(environment: Mapping[str, str]) -> LogSettings | None:
    """The settings in `VARIABLE`; None for none, and for a text that no driver has written."""
    try:
        return LogSettings.decode(environment.get(VARIABLE, "null"))
    except (ValueError, TypeError, KeyError):
        return None


def for_executors(*, same_host: bool, environment: Mapping[str, str] = os.environ) -> str:
    """The value of `VARIABLE` for executors, "" for none.

    On other hosts they write to their own standard error.
    """
    settings = _given(environment)
    if settings is None:
        return ""
    return (settings if same_host else replace(settings, file=None)).encode()


def open_worker_channel(environment: Mapping[str, str] = os.environ) -> None:
    """In a worker: write what is logged, by Ridgeline and by operators, as the driver's settings say.

    A file that cannot be written is replaced by standard error. Without settings all stays as Python does it.
    In both cases the lines are kept for the driver, with their levels.
    """
    settings = _given(environment)
    if settings is None:
        if logging.lastResort is not None and not isinstance(logging.lastResort, _LastResort):
            logging.lastResort = _LastResort(logging.lastResort, logging.lastResort.level)
        return
    try:
        handler = settings.handler
    except OSError:
        handler = replace(settings, file=None).handler
    root = logging.getLogger()
    root.setLevel(settings.level)
    root.addHandler(handler)
    root.addHandler(_Keeping())


# Levels of loggers that are set while an application runs: in its driver, and from there in its slots.
#
# They belong to the process, as `logging` does. A slot gets all that are set, whenever they change.

DEFAULT = "DEFAULT"
"""In the place of a level: that which the logger had before."""
LEVELS = (*map(str, LogLevel), DEFAULT)
ROOT = "root"
"""The name of the logger above all others."""
MOST_LOGGERS = 100
_NAME = re.compile(r"[^\s.*\x00-\x1f\x7f]+(\.[^\s.*\x00-\x1f\x7f]+)*")
_LONGEST_NAME = 200
_busy = threading.Lock()
_before: dict[str, int] = {}
"""The levels of loggers before they were set."""
_handlers: dict[str, logging.Handler] = {}
"""Handlers of loggers whose lines nothing else writes."""
_set: Mapping[str, str] = MappingProxyType({})


def check(name: str, level: str) -> None:
    """Raise ValueError, with the remedy, for a name that no logger has, or a level that is none."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a logger has parts with points between them; `accounts` stands for "
            f"`accounts.rules`, too, and `{ROOT}` for all"
        )
    if level not in LEVELS:
        raise ValueError(f"a level is one of {', '.join(LEVELS)}")


def levels() -> Mapping[str, str]:
    """The levels that are set, by logger. Another mapping whenever they change."""
    return _set


def change(given: Mapping[str, str]) -> Mapping[str, str]:
    """Set levels of loggers beside those that are set; returns all. From any thread.

    Raises ValueError as `check`, and if there would be more than `MOST_LOGGERS`.
    """
    for name, level in given.items():
        check(name, level)
    with _busy:
        wanted = {name: level for name, level in {**_set, **given}.items() if level != DEFAULT}
        if len(wanted) > MOST_LOGGERS:
            raise ValueError(
                f"{MOST_LOGGERS} loggers have levels of their own at most; set some to `{DEFAULT}`"
            )
        return _apply(wanted)


def follow(wanted: Mapping[str, str]) -> None:
    """Set these levels, and give all other loggers those that they had before."""
    with _busy:
        _apply(wanted)


def _apply(wanted: Mapping[str, str]) -> Mapping[str, str]:
    """Set these levels and give back all others; the caller has the lock. Returns what is set."""
    global _set  # noqa: PLW0603  of the process, as `logging` itself
    for name, handler in _handlers.items():
        _logger(name).removeHandler(handler)
    _handlers.clear()
    for name in [name for name in _before if name not in wanted]:
        _logger(name).setLevel(_before.pop(name))
    for name in sorted(wanted, key=lambda name: (name != ROOT, name.count("."))):  # those above first
        logger = _logger(name)
        _before.setdefault(name, logger.level)
        logger.setLevel(wanted[name])
        if not _is_written(logger):
            _handlers[name] = handler = writing_handler()
            logger.addHandler(handler)
    _set = MappingProxyType(dict(wanted))
    return _set


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _is_written(logger: logging.Logger) -> bool:
    """Whether a handler writes the lines of a logger."""
    one: Any = logger
    while one is not None:
        if not all(isinstance(handler, logging.NullHandler) or _keeps(handler) for handler in one.handlers):
            return True
        one = one.parent if one.propagate else None
    return False


def _keeps(handler: logging.Handler) -> bool:
    """Whether a handler is one of Ridgeline's own that writes nothing, in the driver or in a worker."""
    return bool(getattr(handler, "only_keeps", False))
