"""Levels of loggers that are set while an application runs: in its driver, and from there in its slots.

They belong to the process, as `logging` does. A slot gets all that are set, whenever they change.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ridgeline.engine.process.log_channel import LogLevel, writing_handler

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
    """Whether a handler is one of Ridgeline's own that writes nothing."""
    return bool(getattr(handler, "only_keeps", False))


__all__ = ["DEFAULT", "LEVELS", "MOST_LOGGERS", "ROOT", "change", "check", "follow", "levels"]
