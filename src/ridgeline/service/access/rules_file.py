"""The tokens file: read again when it changes; `ridgeline token add` appends to it."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.service.access.rules import Rule, Rules, read_rules

LOOK_SECONDS = 0.5
"""Seconds between two looks at the file, while requests come."""
_LARGEST = 20_000_000
_TRIES = 5
HEAD = "# Who may do what with applications of Ridgeline: `ridgeline token add` adds a line.\n"
_REMEDY = "give another `--tokens`"
_State = tuple[int, ...]


class RulesFile:
    """The rules of a file, which is read again when it changes. Thread-safe.

    A version that is broken, that others could have written, or that is gone, is reported once and changes
    nothing: the rules of before stay. So is one that may have been cut. `say`: called with the text.

    Raises RidgelineError if the first version cannot be read.
    """

    def __init__(self, path: str, say: Callable[[str], None], clock: Clock | None = None) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  links on the way are checked, not resolved
        self._say = say
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._looked = self._clock.monotonic()
        self._seen = _state(self.path)
        self._rules = read_rules_file(self.path)

    @property
    def rules(self) -> Rules:
        """The rules as of now, or of `LOOK_SECONDS` ago."""
        now = self._clock.monotonic()
        if now - self._looked >= LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looked = now
                self._lock.release()
        return self._rules

    def _look(self) -> None:
        """Read the file again if it is another version; a broken one is reported and left out."""
        state = _state(self.path)
        if state == self._seen:
            return
        self._seen = state  # before the reading: a later change is seen the next time
        try:
            found = read_rules_file(self.path)
        except RidgelineError as error:
            self._say(f"the tokens of before still count: {error}")
            return
        self._rules = found
        self._say(f"`{self.path}` was read again: {len(found.rules):,} lines")


def _state(path: str) -> _State:
    """The marks by which versions of a file differ; empty: it cannot be seen."""
    try:
        return _version(os.stat(path))  # noqa: PTH116  as `trust` does
    except OSError:
        return ()


def _version(found: os.stat_result) -> _State:
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_uid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def read_rules_file(path: str) -> Rules:
    """The rules of a file that its owner alone can read and write. Raises RidgelineError."""
    try:
        return read_rules(_text(path))
    except FileNotFoundError:
        raise RidgelineError(
            f"there is no file `{path}`; `ridgeline token add NAME --role ROLE --file {path}` makes it"
        ) from None
    except OSError as error:
        raise RidgelineError(
            f"the tokens file `{path}` cannot be read: {error.strerror}; {_REMEDY}"
        ) from None
    except ValueError as error:
        raise RidgelineError(f"the tokens file `{path}` is broken, {error}") from None


def _text(path: str) -> str:
    """The text of a file of which no part changes while it is read. Raises RidgelineError, OSError."""
    purpose = f"the tokens file `{path}`"
    for _ in range(_TRIES):
        trust.check(path, purpose, _REMEDY)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            trust.check_found(before, path, purpose, _REMEDY)  # of what was opened, not of the path
            _check_form(before, path)
            data = file.read(_LARGEST + 1)
            if _version(before) == _version(os.fstat(descriptor)):
                break
    else:
        raise RidgelineError(f"{purpose} changes while it is read; it is read again later")
    if len(data) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST:,} bytes")
    if data.strip() and not data.endswith(b"\n"):  # a cut line may have lost its limits
        raise ValueError(
            "its last line has no newline, so it may have been cut while it was written; check that line, "
            f"and end it with `echo >> {path}`"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def _check_form(found: os.stat_result, path: str) -> None:
    """Raise RidgelineError for what is no file, or can be read by others."""
    if not stat.S_ISREG(found.st_mode):
        raise RidgelineError(f"`{path}` is no file; {_REMEDY}")
    if stat.S_IMODE(found.st_mode) & 0o077 and not trust.is_exempt(path):
        mode = stat.S_IMODE(found.st_mode)
        raise RidgelineError(
            f"the tokens file `{path}` can be read by others (mode {mode:04o}); run `chmod 600 {path}`"
        )


# Writing ----------------------------------------------------------------------------------------------------


def new_token() -> str:
    """A token of 256 random bits; its beginning says that it is one."""
    return f"ridgeline_{secrets.token_urlsafe(32)}"


def add_rule(path: str, rule: Rule) -> None:
    """Append a line. Raises RidgelineError, also if the name has a token already."""
    target = Path(os.path.realpath(path))
    try:
        is_new = not target.exists()
        if is_new:
            trust.check(str(target.parent), f"the tokens file `{path}`", "give another `--file`")
        elif rule.digest and any(one.subject == rule.subject for one in read_rules_file(str(target)).rules):
            raise RidgelineError(
                f"`{path}` has a token `{rule.subject}` already; remove its line first, or use another name"
            )
        with open(target, "a", encoding="utf-8", opener=trust.private_opener) as file:
            file.write(f"{HEAD if is_new else ''}{rule.line()}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RidgelineError(
            f"the tokens file `{path}` cannot be written: {error.strerror}; give another `--file`"
        ) from None


def token_rule(name: str, token: str, rule: Rule) -> Rule:
    """The rule of a token, of which only the hash is kept."""
    return Rule(name, rule.role, hashlib.sha256(token.encode()).digest(), rule.applications, rule.expires)
